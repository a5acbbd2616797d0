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

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, Protocol, TypeAlias

from refold.protocols import Steps
from refold.shrink.clip import LEVELS, WORTH

STEP = 1.06
GRID: tuple[float, ...] = tuple(40 * STEP**n for n in range(260))
"""Scales, in tokens."""
_AHEAD = 3
"""How many grid points beyond one that does not fit are looked at: a view may cost a little less where an
item
comes back into its place and leaves the record."""
_STALE = 0.1
"""What a result that a later call of the same kind has superseded may have of the usual."""
_PIECE, _MADE = 64, 8
"""Items that are looked at, and clips that are made, between two breaths."""


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
    cap: int | None = None
    """The level it is clipped to at every scale; 0: it stays as it is. None: its age decides."""
    stale: bool = False
    """A later result of the same call says it anew."""
    sealed: int = 0
    """Tokens of thinking that may not be taken off: the item stays as it is, or is quoted without it."""
    typed: int = 0
    """Tokens that stay at every scale, the user's words among others': age decides about the rest."""


class Pieces(Protocol):
    """The pieces of a view, read from its end: what no scale reaches is never counted."""

    total: int
    newest: list[Piece]
    """Those that were read, the newest first."""

    def read(self) -> None:
        """Read some more, unless all are."""
        ...


class Grades(NamedTuple):
    """Items from `place` on stay in their place, those from `first` on are quoted in the record, each within
    its cap; those before are lines."""

    scale: float
    first: int
    place: int
    caps: tuple[int, ...]
    """For each item from `first` on the level it is clipped to; 0: as it is in the view now."""


Size: TypeAlias = Callable[[int, int, int], int]
"""Tokens of an item: its index, its size in the view now, the level it is clipped to (0: not at all)."""

Known: TypeAlias = Callable[[int, int, int], int | None]
"""The same, where it is known without making anything."""

Take: TypeAlias = Callable[[int, int, int], bool]
"""Is handed an item (index, size now, level) and says whether it wants more."""


def about(_: int, now: int, cap: int) -> int:
    """By estimate, an item clipped to a level has that many tokens."""
    return min(cap, now) if cap else now


def grade(
    pieces: Pieces,
    goal: int,
    record: Callable[[int, float], int],
    known: Known,
    size: Size,
    curve: Curve,
    last: int,
) -> Steps[Grades]:
    """The largest view that fits `goal`. `record(first, scale)`: tokens of what stands for the items before
    `first`. Items from `last` on (the newest step) always stay. Costs what fits: a scale is left as soon as
    it is seen to be too large, and what has to be made to know its size is made last, the largest first."""

    def left(index: int, known: Known) -> Steps[int]:
        room, unknown = goal, list[tuple[int, int, int]]()

        def take(index: int, now: int, cap: int) -> bool:
            nonlocal room
            tokens = known(index, now, cap)
            if tokens is None:
                unknown.append((cap, index, now))
            else:
                room -= tokens
            return room >= 0

        first, _ = yield from _walk(pieces, GRID[index], curve, last, take)
        room -= record(first, GRID[index]) if room >= 0 else 0
        unknown.sort(reverse=True)
        for number, (cap, index, now) in enumerate(unknown, 1):
            if room < 0:
                break
            room -= size(index, now, cap)
            if number % _MADE == 0:
                yield
        return room

    low, high = 0, len(GRID) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if (yield from left(middle, about)) >= 0 else (low, middle - 1)
    while (room := (yield from left(low, known))) < 0 and low > 0:
        low -= 1
    ahead = low
    while ahead < min(low + _AHEAD, len(GRID) - 1):
        ahead += 1
        if (more := (yield from left(ahead, known))) >= 0:
            low, room = ahead, more
    caps: list[int] = []
    first, place = yield from _walk(pieces, GRID[low], curve, last, lambda _, __, cap: not caps.append(cap))
    if low < len(GRID) - 1:
        taker = _Adding(pieces, caps, room, size)
        yield from _walk(pieces, GRID[low + 1], curve, last, taker.take)
    return Grades(GRID[low], first, place, tuple(reversed(caps)))


@dataclass
class _Adding:
    """What the next scale would show more of the items that are in their place, newest first, until one does
    not fit."""

    pieces: Pieces
    caps: list[int]
    """Of the items in their place, newest first; they grow."""
    room: int
    size: Size

    def take(self, index: int, now: int, cap: int) -> bool:
        place = self.pieces.total - 1 - index
        if place == len(self.caps):
            return False
        if cap != self.caps[place]:
            more = self.size(index, now, cap) - self.size(index, now, self.caps[place])
            if more > self.room:
                self.caps[place] = self._between(index, now, self.caps[place], cap or now)
                return False
            self.room, self.caps[place] = self.room - more, cap
        return True

    def _between(self, index: int, now: int, low: int, high: int) -> int:
        """The largest level below `high` for which there is room."""
        room = self.room + self.size(index, now, low)
        levels = (level for level in reversed(LEVELS) if low < level < high)
        return next((level for level in levels if self.size(index, now, level) <= room), low)


def _walk(pieces: Pieces, scale: float, curve: Curve, last: int, take: Take) -> Steps[tuple[int, int]]:
    """Hands every item that is no line at a scale to `take`, newest first, until that has enough; the index
    of the oldest one, and of the oldest one in its place."""
    said, said_decay, result, result_decay, bend, weight, most_sealed = curve
    depth = scale * bend * max(result * scale / LEVELS[0], 1.0) ** (1 / result_decay)
    most, start = weight * scale, bend * scale
    caps = {
        (kind, stale): _Caps(scale, share, decay, start, stale)
        for kind, share, decay in ((True, said, said_decay), (False, result, result_decay))
        for stale in (False, True)
    }
    newest, age, number, index, place, thought = pieces.newest, 0.0, 0, pieces.total, 0, 0
    while index > 0 and (age <= depth or index > last):
        if number == len(newest):
            pieces.read()
        whole, now, kind, cap, stale, sealed, typed = newest[number]
        index, number = index - 1, number + 1
        if sealed and not place:
            thought += sealed
            if thought > most_sealed * scale and index < last:
                place = index + 1
        if place:
            sealed = 0
        if cap is None or sealed:
            cap = 0 if sealed else caps[kind, stale].of(now - typed, age)
            cap += typed if cap else 0
        if not take(index, now + sealed, cap):
            break
        age += min(whole, most)
        if number % _PIECE == 0:
            yield
    return index, max(place, index)


class _Caps:
    """The levels of one kind of items at one scale, asked for with growing age."""

    __slots__ = ("_bound", "_cap", "_decay", "_next", "_scale", "_share", "_stale", "_start")

    def __init__(self, scale: float, share: float, decay: float, start: float, stale: bool) -> None:
        self._scale, self._share, self._decay, self._start = scale, share, decay, start
        self._stale = _STALE if stale else 1.0
        self._cap, self._next, self._bound = 0, 0.0, -1.0

    def of(self, now: int, age: float) -> int:
        """The level an item of `now` tokens is clipped to; 0 where that is not worth it."""
        if age > self._bound:
            self._lower(age)
        if now <= self._cap + WORTH or (now < self._next and now <= self._allowed(age)):
            return 0
        return self._cap

    def _allowed(self, age: float) -> float:
        return self._scale * (self._share * max(age / self._start, 1.0) ** -self._decay) * self._stale

    def _lower(self, age: float) -> None:
        """The level at an age, and up to which age it is that for sure: a power for each item and scale would
        be a third of what a fold costs."""
        place = bisect_right(LEVELS, self._allowed(age))
        self._cap = LEVELS[max(place - 1, 0)]
        self._next = LEVELS[place] if place < len(LEVELS) else inf
        if place <= 1:
            self._bound = inf
        else:
            most = self._scale * self._share * self._stale / self._cap
            self._bound = self._start * most ** (1 / self._decay) * (1 - 1e-9)
