from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.text.words import bigrams, count, search_words, spelled, stem, terms


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("painted", "She is painting"),
        ("camping trips", "a camp trip"),
        ("adoption agency", "adoption agencies"),
        ("checkPassword", "def check_password(user):"),
        ("check_password", "checkPassword()"),
        ("openhands", "You are OpenHands"),
        ("HTTPServer", "class http_server"),
        ("login.py", "/home/x/src/auth/login.py"),
        ("auth/login.py", "C:\\work\\auth\\login.py"),
        ("数据库", "请看数据库迁移"),
        ("データ", "このデータは"),
        ("한국", "저는 한국 사람"),
        ("café", "the cafe"),
        ("42917", "error 42917 at"),
        ("v2.31.0", "released v2.31.0 today"),
        ("a1b2c3d", "commit a1b2c3d4 and a1b2c3d"),
    ],
)
def test_both_sides_meet(question: str, text: str) -> None:
    assert set(terms(question)) & set(count(text))


def test_whole_identifiers_are_terms_besides_their_pieces() -> None:
    assert {"get_user_name", "user", "name"} <= set(terms("get_user_name"))
    assert {"src/app/main.py", "app/main.py", "main.py", "main"} <= set(terms("src/app/main.py"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("get_userName", "user name get_username"),
        ("src/app/main.py", "src app main py src/app/main.py app/main.py main.py"),
        (r"C:\work\auth\login.py", "c work auth login py c:/work/auth/login.py auth/login.py login.py"),
        (r"x\y", "x y x/y"),
        ("a/a/a/b", "b a/a/a/b a/b"),
        ("running/jumps", "run jump running/jumps"),
        ("tests/running", "test run tests/running"),
        ("well-known", "well known well-known"),
        ("HTTPServer2", "http serv 2 httpserver2"),
        ("BIG CAPS", "big cap"),
        ("The_End", "end the_end"),
        ("A B Is ab", "b ab"),
        ("42 X", "42 x"),
        ("café.Über", "cafe uber café.über"),
        ("ＦＵＬＬwidth", "ful lwidth fullwidth"),
        ("ÀÉ é Ж ß9", "ae e ж ß 9 ß9"),
        ("请看数据库v2", "请看 看数 数据 据库 v 2"),
        ("OpenHands数据 字", "openhand 数据 字"),
        ("データ_base", "デー ータ base"),
        ("x" * 70, "x" * 64),
        ("X" * 70, "x" * 64),
        ("à" * 70, "a" * 64),
        (f"{'x' * 70}_Y", f"{'x' * 64} y {'x' * 70}_y"),
        (f"x{'B' * 70}", f"x {'b' * 64} x{'b' * 70}"),
        (f"{'x' * 230}/y/{'z' * 20}", f"{'x' * 64} y {'z' * 7} {'x' * 230}/y/{'z' * 7} y/{'z' * 7}"),
        ("1a" * 13, "1 1a1a1a1a1a1a1a1a1a1a1a1a1a"),
        ("_".join("bcefghjklnopqruvwxyz01234"), f"{' '.join('bcefghjklnopqruvwxyz0123')} {'_'.join('bcefghjklnopqruvwxyz01234')}"),
    ],
)  # fmt: skip
def test_what_a_text_is_found_by(text: str, found: str) -> None:
    assert terms(text) == found.split()


def test_terms_are_counted_and_words_are_listed() -> None:
    assert count("run runs b.c b.c Running") == {"run": 3, "b": 2, "c": 2, "b.c": 2}
    assert spelled("A b! c_d A") == ["a", "b", "c_d", "a"]
    assert search_words("What is the Login of the login Page?") == ["login", "page"]
    assert [bigrams(run) for run in ("a", "ab", "abc")] == [["a"], ["ab"], ["ab", "bc"]]


def test_function_words_ask_for_nothing() -> None:
    assert terms("What did you do with it?") == []


@given(st.text(max_size=300))
def test_any_text_is_read_and_no_term_is_huge(text: str) -> None:
    found = count(text)
    assert all(term and len(term) <= 240 and times > 0 for term, times in found.items())
    assert set(terms(text)) == set(found)


@given(st.from_regex(r"[a-z]{1,20}", fullmatch=True))
def test_a_stem_is_no_longer_than_the_word(word: str) -> None:
    assert 0 < len(stem(word)) <= len(word)


STEMS = {
    "cat": "cat cats",
    "pie": "pie pies",
    "citi": "city cities",
    "class": "class classes",
    "box": "box boxes",
    "hero": "hero heroes",
    "hous": "house houses",
    "status": "status statuses",
    "toe": "toe toes",
    "axe": "axe axes",
    "axis": "axis",
    "this": "this",
    "thesis": "thesis",
    "run": "run runs running",
    "fall": "fall falls falling",
    "miss": "miss missing missed",
    "buzz": "buzz buzzing",
    "fix": "fix fixed fixing",
    "fish": "fish fishes fishing fished",
    "edit": "edit edits edited editing",
    "sing": "sing",
    "bring": "bring",
    "bred": "bred",
    "used": "used",
    "help": "help helps helpfulness helpful",
    "read": "read reader readable",
    "form": "form formal formation",
    "quick": "quick quickly",
    "imag": "image images",
    "happi": "happy happily happiness",
    "try": "try",
    "yoke": "yoke",
    "ment": "ment",
    "able": "able",
    "tabl": "table tables",
    "usual": "usual",
    "tape": "tape tapes",
    "tie": "tie ties",
    "tied": "tied",
    "ladi": "lady ladies",
    "dish": "dish dishes",
    "echo": "echo echoes",
    "gas": "gas gases",
    "maz": "mazes",
    "plan": "plan planned planning",
    "being": "being",
    "stai": "stay stays",
    "appli": "apply applies applied",
    "oper": "operator operators",
    "modern": "modern modernization modernity",
    "graci": "graciousness",
    "nativ": "native natives",
    "abil": "ability abilities",
}
"""What is found by the same stem."""


@pytest.mark.parametrize(("found_by", "spellings"), STEMS.items())
def test_what_a_question_and_its_answer_write_differently_has_one_stem(found_by: str, spellings: str) -> None:
    assert {word: stem(word) for word in spellings.split()} == dict.fromkeys(spellings.split(), found_by)


@pytest.mark.parametrize("word", ["ans", "gas", "été", "x86s", "r2d2ing"])
def test_short_and_foreign_words_are_their_own_stem(word: str) -> None:
    assert stem(word) == word
