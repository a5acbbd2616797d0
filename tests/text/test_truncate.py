"""A15: cutting by characters and by tokens, never inside a character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import tokens
from refold.text.truncate import head, middle, one_line, tail, window
from refold.tokens.fitting import fit, largest, newest_within

COUNTER = tokens.get("o200k")
FAMILY = "👩‍👩‍👧"


@pytest.mark.parametrize("piece", [FAMILY, "e\u0301", "🇩🇪", "\ud83d\ude00", "👍🏽", "字"])
def test_A15_never_inside_a_character(piece: str) -> None:
    text = piece * 40
    for limit in range(len(text)):
        for cut in (head(text, limit), tail(text, limit)):
            assert cut == piece * (len(cut) // len(piece))
            assert len(cut) <= limit


@given(st.text(max_size=400), st.integers(0, 400), st.sampled_from([0.0, 1 / 2, 2 / 3, 1.0]))
def test_A15_middle_cut_keeps_within_the_limit(text: str, limit: int, start: float) -> None:
    cut = middle(text, limit, start=start)
    assert len(cut) <= limit or (cut == text and len(text) <= limit)
    if len(text) <= limit:
        assert cut == text


def test_A15_the_middle_says_how_much_is_missing_and_shares_by_start() -> None:
    text = "a" * 500 + "b" * 500
    assert middle(text, 30, "<{cut}>") == "a" * 12 + "<976>" + "b" * 12
    assert middle(text, 31, "|", 2 / 3) == "a" * 20 + "|" + "b" * 10


def test_one_line_has_no_breaks_and_an_ellipsis_where_it_is_cut() -> None:
    assert one_line("  a\n\tb  ", 10) == "a b"
    assert one_line(" " * 1_000 + "word", 10) == "word"
    assert one_line("a b c d e f", 6) == "a b c…"


@given(st.text(max_size=200), st.integers(0, 200), st.integers(1, 80))
def test_a_window_is_a_piece_of_the_text_between_ellipses(text: str, start: int, size: int) -> None:
    shown = window(text, min(start, len(text)), size)
    assert shown.removeprefix("…").removesuffix("…") in text
    assert len(shown) <= size + 2


def test_a_window_starts_and_ends_between_words() -> None:
    assert window("one two three four five", 5, 12) == "…three…"
    assert window("one two three", 0, 50) == "one two three"


@given(st.text(max_size=300), st.integers(0, 60))
def test_A15_fit_keeps_within_the_tokens(text: str, budget: int) -> None:
    assert COUNTER.text(fit(text, budget, COUNTER)) <= budget


@given(st.integers(-2, 300), st.integers(-2, 300))
def test_the_largest_that_fits_is_found(limit: int, most: int) -> None:
    assert largest(limit, lambda n: n <= most) == max(0, min(limit, most))


def test_the_newest_blocks_are_taken_until_one_does_not_fit() -> None:
    assert newest_within(["a", "bbbbbb", "cc", "d"], 4, len) == 2
    assert newest_within(["a"], 4, len) == 1
