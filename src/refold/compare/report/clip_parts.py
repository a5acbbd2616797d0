"""How a clip was made from its source: which stretches remain, and what is between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from os.path import commonprefix
from typing import TypeAlias

ClipPiece: TypeAlias = tuple[int, int] | str
"""A stretch of the source (from, to), or text that is not from the source: a mark of a cut."""

SEED = 16
"""Number of characters that must agree for a stretch; fewer at the end of a line, if they are near."""
SEARCH_AHEAD = 60
MIN_OVERLAP = 4
"""Minimum length of a matching beginning or end."""
MAX_MISSES = 400
"""Number of failed searches after which the rest is taken as it is."""
_STEP = re.compile(r"\\.|\w+|\W")
_END = re.compile(r"\n|\\[nrt\"]")
ESCAPES = re.compile(r"(?:\\[nrt\"\\]|\s)+")
"""JSON escapes of characters, which are not marks."""


def clip_pieces(source: str, clip: str) -> list[ClipPiece]:
    """The pieces in order; joined, they are the clip."""
    if source == clip:
        return [(0, len(source))]
    first = _agree(source, clip)
    last = _agree(source[first:][::-1], clip[first:][::-1])
    first, last = (size if size >= MIN_OVERLAP else 0 for size in (first, last))
    found: list[ClipPiece] = [(0, first)] if first else []
    found += _between(source, first, len(source) - last, clip, first, len(clip) - last)
    return [*found, (len(source) - last, len(source))] if last else found


def _agree(a: str, b: str) -> int:
    """Number of equal characters at the beginning."""
    return len(commonprefix((a, b)))  # noqa: RUF071  (characters, not paths)


def _between(source: str, low: int, high: int, clip: str, at: int, end: int) -> Iterator[ClipPiece]:
    """Stretches of `source[low:high]` in `clip[at:end]`, in the same order."""
    mark, tries = at, MAX_MISSES
    while at < end and tries:
        place = _found(source, low, high, clip, at, end)
        if place < 0:
            tries -= 1
            step = _STEP.match(clip, at, end)
            at = step.end() if step else end
            continue
        if mark < at:
            yield clip[mark:at]
        size = _agree(clip[at:end], source[place:high])
        yield place, place + size
        at = mark = at + size
        low = place + size
    if mark < end:
        yield clip[mark:end]


def _found(source: str, low: int, high: int, clip: str, at: int, end: int) -> int:
    """Where the source continues with the clip's text at this place; -1: nowhere."""
    line = _END.search(clip, at, min(at + SEED, end))
    seed = clip[at : max(line.start(), at + 1) if line else min(at + SEED, end)]
    near = high if len(seed) == SEED else min(high, low + SEARCH_AHEAD + len(seed))
    return source.find(seed, low, near)
