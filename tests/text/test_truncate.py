"""A15: cutting by characters and by tokens, never inside a character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import tokens
from refold.text.truncate import (
    boundary,
    head,
    in_short,
    level,
    middle,
    one_line,
    tail,
    text_window,
)
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


@pytest.mark.parametrize(
    ("before", "char", "together"),
    [
        ("\r", "\n", True),
        ("a", "\n", False),
        ("\r", "a", False),
        ("\n", "\n", False),
        ("\u200d", "a", True),  # whatever follows a joiner
        ("\u200d", "字", True),
        ("a", "\u200d", True),
        ("a", "\u02ff", False),
        ("a", "\u0300", True),  # the first of the combining marks
        ("a", "\u0903", True),  # one that takes space
        ("a", "\u20dd", True),  # one that encloses
        ("\ud800", "\udc00", True),
        ("\udbff", "\udfff", True),
        ("\ud7ff", "\udc00", False),
        ("\udc00", "\udc00", False),
        ("a", "\ufdff", False),
        ("a", "\ufe00", True),
        ("a", "\ufe0f", True),
        ("a", "\ufe10", False),
        ("a", "\U0001f3fa", False),
        ("a", "\U0001f3fb", True),
        ("a", "\U0001f3ff", True),
        ("a", "\U0001f400", False),
        ("a", "\U000e001f", False),
        ("a", "\U000e0020", True),
        ("a", "\U000e007f", True),
        ("a", "\U000e0080", False),
        ("\U0001f1e6", "\U0001f1ff", True),  # two halves of a flag, the first and the last there is
        ("\U0001f1ff", "\U0001f1e6", True),
        ("\U0001f1e5", "\U0001f1e6", False),
        ("\U0001f200", "\U0001f1ff", False),
        ("\U0001f1e6", "\U0001f200", False),
        ("\U0001f1e6", "\U0001f1e5", False),
    ],
)
def test_A15_which_signs_belong_to_the_one_before(before: str, char: str, together: bool) -> None:
    assert boundary(f"{before}{char}y", 1) == (0 if together else 1)


def test_A15_flags_are_pairs_from_where_they_begin() -> None:
    flags = "🇩🇪🇫🇷🇮🇹"
    assert [boundary(f"{flags}.", at) for at in range(8)] == [0, 0, 2, 2, 4, 4, 6, 7]


def test_A15_a_cluster_without_end_is_cut_all_the_same() -> None:
    text = "a" + "\u0301" * 100
    assert boundary(text, 60) == 60 - 32, "it looks so far for a boundary, and no farther"
    assert boundary(text, 20) == 0
    assert len(tail(text, 60)) == 60 - 32
    assert [boundary("abc", at) for at in (-1, 0, 3, 4)] == [0, 0, 3, 3]
    assert (tail("abc", 0), tail("abc", -1), tail("abc", 3), head("abc", 3)) == ("", "", "abc", "abc")


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
    assert middle(text, 1_000) == text and middle(text, 999) != text
    assert middle(text, 5, "<{cut}>") == "aaaaa", "no room beside the marker"
    assert middle(text, 7, "<{cut}>") == "a<999>"


def test_one_line_has_no_breaks_and_an_ellipsis_where_it_is_cut() -> None:
    assert one_line("  a\n\tb  ", 10) == "a b"
    assert one_line(" " * 1_000 + "word", 10) == "word"
    assert one_line("a b c d e f", 6) == "a b c…"
    assert one_line("a b c", 5) == "a b c"
    assert one_line("it was rejected since the new_string differs", 32) == "it was rejected since the …"
    assert one_line("in src/a_folder_with_a_long_name/of_a_file.py", 32) == "in src/a_folder_with_a_long_nam…"
    assert one_line("a" + " " * 80 + "b", 10) == "a", "so much is looked at: eight times what is shown"


@given(st.text(max_size=200), st.integers(0, 200), st.integers(1, 80))
def test_a_window_is_a_piece_of_the_text_between_ellipses(text: str, start: int, size: int) -> None:
    shown = text_window(text, min(start, len(text)), size)
    assert shown.removeprefix("…").removesuffix("…") in text
    assert len(shown) <= size + 2


def test_a_window_starts_and_ends_between_words() -> None:
    assert text_window("one two three four five", 5, 12) == "…three…"
    assert text_window("one two three", 0, 50) == "one two three"
    assert text_window("one two three", 0, 13) == "one two three"
    assert text_window("one two three", 3, 50) == "…two three", "a blank at the very start"
    assert text_window("one two three", 0, 7) == "one…", "the blank must stand inside"
    assert text_window("onetwothree", 3, 4) == "…twot…"
    assert text_window(f"{'x' * 30} three", 1, 10, reach=5) == f"…{'x' * 10}…"
    assert text_window("a b", 1, 1) == "……", "nothing but the blank"
    assert text_window("x  yyyy", 1, 2) == "… …", "a blank at the start is no place to end"


@given(st.text(max_size=300), st.integers(0, 60))
def test_A15_fit_keeps_within_the_tokens(text: str, budget: int) -> None:
    assert COUNTER.text(fit(text, budget, COUNTER)) <= budget


@given(st.integers(-2, 300), st.integers(-2, 300))
def test_the_largest_that_fits_is_found(limit: int, most: int) -> None:
    assert largest(limit, lambda n: n <= most) == max(0, min(limit, most))


def test_the_newest_blocks_are_taken_until_one_does_not_fit() -> None:
    assert newest_within(["a", "bbbbbb", "cc", "d"], 4, len) == 2
    assert newest_within(["a"], 4, len) == 1


_KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.mark.parametrize(
    "around",
    ["see {} there", "{} there", "see {}", "one two\nsee {} there\nthree", "é\n{}\nthree", "a key={}; b", f"{'x ' * 300}see {{}} there"],
)  # fmt: skip
def test_a_cut_through_a_secret_leaves_it_out_as_a_whole(around: str) -> None:
    text = around.format(_KEY)
    begin = text.index(_KEY)
    end = begin + len(_KEY)
    for at in range(max(0, begin - 20), min(len(text), end + 20) + 1):
        inside = begin < at < end
        assert head(text, at) == text[: begin if inside else at]
        assert tail(text, len(text) - at) == text[end if inside else at :]


def test_of_two_secrets_in_a_line_a_cut_leaves_the_other_one() -> None:
    text = f"first {_KEY} then {_KEY} end"
    first, then = (at + 20 for at in (text.index(_KEY), text.rindex(_KEY)))
    assert head(text, first) == "first " and head(text, then) == f"first {_KEY} then "
    assert tail(text, len(text) - first) == f" then {_KEY} end"
    assert tail(text, len(text) - then) == " end"


@pytest.mark.parametrize(
    ("text", "limit", "first", "last"),
    [
        ("pw: aB3xY9q8 end", 8, "pw: ", " end"),  # eight characters may be a secret
        ("pw: aB3xY9q end", 8, "pw: aB3x", "xY9q end"),
        ("pw: aB3xY9q8", 8, "pw: ", ""),  # alone it could not be told
        ("pw: abcdefghijkl end", 8, "pw: abcd", "ijkl end"),  # no word
        ("word word word", 7, "word wo", "rd word"),
        ("pw: aB3xY9q8\nend", 12, "pw: aB3xY9q8", "\nend"),
        ("x\npw: aB3xY9q8", 12, "x\npw: ", "pw: aB3xY9q8"),
    ],
)
def test_what_may_be_a_secret_is_looked_at(text: str, limit: int, first: str, last: str) -> None:
    assert (head(text, limit), tail(text, limit)) == (first, last)


def test_a_window_does_not_begin_or_end_in_a_secret() -> None:
    text = f"one two {_KEY} three four"
    assert text_window(text, 20, 100) == "… three four"
    assert text_window(text, 0, 20) == "one two…"
    assert text_window(f"{_KEY},{_KEY} x", 5, 60) == "…,…"
    assert text_window(f"{_KEY} x", 0, 20) == "…"


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(0, 40))
def test_the_level_is_the_largest_at_which_all_fit(sizes: list[int], total: int) -> None:
    fits = [size for size in range(max(sizes, default=0) + 1) if sum(min(size, x) for x in sizes) <= total]
    assert level(sizes, total) == max(fits, default=0)


def test_a_text_in_short_loses_its_secrets_before_it_is_cut() -> None:
    assert in_short("a\n b", 3) == "a b"
    assert in_short(f"key {_KEY}", 44) == f"key {_KEY}"
    assert in_short(f"key {_KEY}", 43) == "key [redacted:github-token]"
    assert in_short(f"key {_KEY}", 10) == "key [reda…"
    assert in_short("x" * 4_001, 5_000) == "x" * 3_999 + "…"
