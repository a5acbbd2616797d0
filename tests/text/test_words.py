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
