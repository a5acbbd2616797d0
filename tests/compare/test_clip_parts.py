"""How a clip is made of its source."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from refold.compare.report.clip_parts import ClipPiece, clip_pieces
from refold.compare.report.message_details import ShownText, level
from refold.text.truncate import middle

LINES = st.lists(st.text('ab c\\n"中', max_size=30), max_size=20).map("\n".join)


def joined(source: str, found: list[ClipPiece]) -> str:
    return "".join(piece if isinstance(piece, str) else source[slice(*piece)] for piece in found)


@given(LINES, LINES)
def test_pieces_joined_are_the_clip_and_stand_in_the_order_of_the_source(source: str, clip: str) -> None:
    found = clip_pieces(source, clip)
    assert joined(source, found) == clip
    stretches = [piece for piece in found if not isinstance(piece, str)]
    assert all(first < last for first, last in stretches) or source == clip
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(stretches))


def test_what_was_cut_out_of_the_middle_is_the_only_mark() -> None:
    source = "\n".join(f"line {number} of a long file" for number in range(100))
    clip = middle(source, 300, "\n[… {cut} characters …]\n")
    marks = [piece for piece in clip_pieces(source, clip) if isinstance(piece, str)]
    assert len(marks) == 1 and "characters …]" in marks[0]


def test_lines_that_lost_their_numbers_are_recognised() -> None:
    rows = [f"def function_{number}(value):" for number in range(20)]
    source = "\n".join(f"{number:6}→{row}" for number, row in enumerate(rows))
    clip = "\n".join([*rows[:5], "[… 90 tokens, #7 …]", *rows[-3:]])
    marks = [piece.strip() for piece in clip_pieces(source, clip) if isinstance(piece, str)]
    assert [mark for mark in marks if mark] == ["[… 90 tokens, #7 …]"]


def test_a_text_of_nothing_but_new_words_costs_little() -> None:
    assert joined("a" * 200_000, clip_pieces("a" * 200_000, "b " * 50_000)) == "b " * 50_000


@given(st.lists(st.integers(0, 5_000), max_size=40), st.integers(10_000, 50_000))
def test_short_texts_stay_whole_and_all_have_room(sizes: list[int], room: int) -> None:
    limit = level(sizes, room)
    assert sum(min(size, limit) for size in sizes) <= max(room, 200 * len(sizes))
    if sum(sizes) <= room:
        assert limit == max(sizes, default=0)


@given(
    st.text("abc ", min_size=0, max_size=600), st.integers(200, 700), st.integers(0, 600), st.integers(0, 600)
)
def test_a_stretch_of_a_shortened_text_is_found_there_or_brought_along(
    text: str, limit: int, a: int, b: int
) -> None:
    shown = ShownText.of(text, limit)
    first, last = sorted((min(a, len(text)), min(b, len(text))))
    placed = shown.placed(text, first, last)
    there = "".join(piece[0] if len(piece) == 1 else shown.text[slice(*piece)] for piece in placed)
    assert there == text[first:last]
