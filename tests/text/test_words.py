from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.text.words import count, stem, terms


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
}
"""What is found by the same stem."""


@pytest.mark.parametrize(("found_by", "spellings"), STEMS.items())
def test_what_a_question_and_its_answer_write_differently_has_one_stem(found_by: str, spellings: str) -> None:
    assert {word: stem(word) for word in spellings.split()} == dict.fromkeys(spellings.split(), found_by)


@pytest.mark.parametrize("word", ["ans", "gas", "été", "x86s", "r2d2ing"])
def test_short_and_foreign_words_are_their_own_stem(word: str) -> None:
    assert stem(word) == word
