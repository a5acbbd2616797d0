"""The dense form keeps what a reader could not put back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.digest.facts import dense


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (
            "I don't want you to ever touch the migrations, Maria!",
            "don't want you ever touch migrations, Maria",
        ),
        (
            "She said that he hasn't been to the US since 2019.",
            "She said that he hasn't been to the US since 2019",
        ),
        ("I gave Maria 3 of the 12 books.", "gave Maria 3 of the 12 books"),
        ('Did you read "A Dance with Dragons"?', 'Did you read "A Dance with Dragons"?'),
        ("Run `make test` in src/app.py, please.", "Run `make test` in src/app.py, please."),
        ("Wow, yeah, so we met in a small bar!", "we met small bar"),
        ("其实我们不要用 MySQL 呢。", "其实我们不要用 MySQL 呢。"),
    ],
)
def test_dense_keeps_facts_and_drops_small_words(sentence: str, expected: str) -> None:
    assert dense(sentence) == expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("I'm really proud of you for taking part!", "proud you for taking part"),
        ("We went to a museum.", "We went museum"),
        ("Anna and I went to a charity thing.", "Anna and I went charity thing"),
        ('I watched "The Lord of the Rings", all three.', 'watched "The Lord of the Rings", all three'),
        ("I watched The Lord of the Rings in Oslo.", "watched The Lord of the Rings in Oslo"),
    ],
)
def test_R22_dense_keeps_who_is_meant_and_names_as_they_are(sentence: str, expected: str) -> None:
    assert dense(sentence) == expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("This is not just a prototype.", "This not just prototype"),
        ("The parser isn't very slow, it's just old.", "parser isn't very slow, it's just old"),
        ("It doesn't run as fast as make.", "It doesn't run as fast as make"),
        ("It is too early to release.", "It too early release"),
        ("Is it ready?", "it ready?"),
        ("You can be root there, and it'll be quiet.", "You can be root there, it'll be quiet"),
        ("The build is blocked by the linter.", "build blocked by linter"),
        ("I have a few tests, with a little time.", "have a few tests, with a little time"),
        ("I don't like it at all.", "don't like it at all"),
        ("So far I like it.", "So far like it"),
        ("I think so.", "think so"),
        ("Please turn it on.", "turn it on"),
        ("It grew from 3 to 5 servers.", "It grew from 3 to 5 servers"),
    ],
)
def test_R22_dense_drops_nothing_without_which_something_else_is_said(sentence: str, expected: str) -> None:
    assert dense(sentence) == expected


_PLAIN = [
    "the",
    "went",
    "to",
    "Oslo",
    "not",
    "never",
    "no",
    "42",
    "isn't",
    "can't",
    "US",
    "IT",
    "2023",
    "Anna",
    "without",
    "nor",
    "won't",
    "is",
    "very",
    "3rd",
    "none",
]
_SACRED = re.compile(r"\d|n't$|^(?:not|never|no|without|nor|none)$|^[A-Z]")


@given(st.lists(st.sampled_from(_PLAIN), min_size=1, max_size=12))
def test_negations_numbers_and_names_are_never_dropped(tokens: list[str]) -> None:
    kept = dense("we " + " ".join(tokens)).split()
    for token in tokens:
        if _SACRED.search(token):
            assert tokens.count(token) == kept.count(token)


@given(st.text(max_size=300))
def test_any_text_becomes_no_longer(text: str) -> None:
    assert len(dense(text)) <= len(text)
