"""Fidelity falls with age (R19): how much of each item of the view a fold shows.

One number, the *scale*, gives every item its form: the newest whole, older ones clipped harder and harder,
the
oldest not in their place any more. A larger scale never gives an item a lower form. A fold takes the
largest scale
of a fixed grid whose view fits the goal, and of the next one as much, from the newest item on, as still
fits. So
the goal is used, and a larger goal never shows less (R20).

The *age* of an item is what came after it, in units of the scale; one huge message counts as `weight` at
most,
so that it does not push everything before it out of sight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from refold.shrink.clip import LEVELS, WORTH, level

STEP = 1.06
GRID: tuple[float, ...] = tuple(40 * STEP**n for n in range(260))
"""Scales, in tokens."""
_AHEAD = 3
"""How many grid points beyond one that does not fit are looked at: a view may cost a little less where an
item
comes back into its place and leaves the record."""
_STALE = 0.1
"""What a result that a later call of the same kind has superseded may have of the usual."""


class Curve(NamedTuple):
    """Tokens an item may have at age x: scale × share × (x / bend)^−decay, for x beyond the bend."""

    said: float = 0.45
    said_decay: float = 0.3
    result: float = 0.08
    result_decay: float = 1.04
    bend: float = 0.5
    weight: float = 0.2
    sealed: float = 0.8
    """Signed thinking of the turn that is going on may have so much of the scale; steps before are quoted."""


class Piece(NamedTuple):
    """What grading needs to know of one item of the view."""

    whole: int
    """Tokens of what the entry says."""
    now: int
    """Tokens it has in the view."""
    said: bool = False
    """The agent's own words and calls: they fade slowest."""
    fixed: bool = False
    """Stays as it is, or leaves."""
    stale: bool = False
    """A later result of the same call says it anew."""
    sealed: int = 0
    """Tokens of thinking that may not be taken off: the item stays as it is, or is quoted without it."""

    @property
    def loose(self) -> Piece:
        """The same where nothing has to stay in its place."""
        return self._replace(fixed=False, sealed=0)


class Grades(NamedTuple):
    """Items from `place` on stay in their place, those from `first` on are quoted in the record, each within
    its cap; those before are lines."""

    scale: float
    first: int
    place: int
    caps: tuple[int, ...]
    """For each item from `first` on the level it is clipped to; 0: as it is in the view now."""


def grade(
    pieces: Sequence[Piece],
    goal: int,
    record: Callable[[int, float], int],
    size_at: Callable[[int, int], int],
    curve: Curve,
    last: int,
) -> Grades:
    """The largest view that fits `goal`. `record(first, scale)`: tokens of what stands for the items before
    `first`; `size_at(index, level)`: tokens of an item clipped to a level. Items from `last` on (the newest
    step) always stay."""

    def at(index: int) -> Grades:
        return graded(pieces, GRID[index], curve, last)

    def left(grades: Grades, size: Callable[[int, int], int]) -> int:
        room = goal - record(grades.first, grades.scale)
        for index, cap in enumerate(grades.caps, grades.first):
            room -= size(index, cap) if cap else pieces[index].now
        return room - sum(piece.sealed for piece in pieces[grades.place :])

    def about(index: int, cap: int) -> int:
        return min(cap, pieces[index].now)

    low, high = 0, len(GRID) - 1
    while low < high:  # by estimate: an item clipped to a level has that many tokens
        middle = (low + high + 1) // 2
        low, high = (middle, high) if left(at(middle), about) >= 0 else (low, middle - 1)
    while low > 0 and left(at(low), size_at) < 0:
        low -= 1
    ahead = low
    while ahead < min(low + _AHEAD, len(GRID) - 1):
        ahead += 1
        if left(at(ahead), size_at) >= 0:
            low = ahead
    if low == len(GRID) - 1:
        return at(low)
    return _more(
        at(low), at(low + 1), left(at(low), size_at), lambda i, cap: size_at(i, cap) if cap else pieces[i].now
    )


def _more(grades: Grades, next_grades: Grades, room: int, size: Callable[[int, int], int]) -> Grades:
    """What the next scale would show more of the items that are in their place, newest first, until one does
    not fit."""
    caps = list(grades.caps)
    offset = grades.first - next_grades.first
    for place in range(len(caps) - 1, -1, -1):
        cap = next_grades.caps[place + offset]
        if cap != caps[place]:
            index = grades.first + place
            room -= size(index, cap) - size(index, caps[place])
            if room < 0:
                break
            caps[place] = cap
    return grades._replace(caps=tuple(caps))


def graded(pieces: Sequence[Piece], scale: float, curve: Curve, last: int) -> Grades:
    """The forms of all items at one scale."""
    said, said_decay, result, result_decay, bend, weight, sealed = curve
    depth = scale * bend * max(result * scale / LEVELS[0], 1.0) ** (1 / result_decay)
    most, start = weight * scale, bend * scale
    age, caps, index, place, thought = 0.0, list[int](), len(pieces), 0, 0
    while index > 0 and (age <= depth or index > last):
        piece = pieces[index - 1]
        thought += piece.sealed
        if piece.sealed and thought > sealed * scale and index <= last:
            place = max(place, index)
        if piece.fixed or (piece.sealed and index > place):
            cap = 0
        else:
            x = max(age / start, 1.0)
            allowed = scale * (said * x**-said_decay if piece.said else result * x**-result_decay)
            allowed = allowed * _STALE if piece.stale else allowed
            cap = max(level(allowed), LEVELS[0])
            cap = 0 if piece.now <= max(allowed, cap + WORTH) else cap
        caps.append(cap)
        age += min(piece.whole, most)
        index -= 1
    caps.reverse()
    return Grades(scale, index, max(place, index), tuple(caps))
