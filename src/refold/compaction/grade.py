"""Fidelity falls with age (R19): how much of each item of the view a fold shows.

One number, the *scale*, gives every item its form: the newest whole, older ones clipped harder and harder,
the oldest not in their place any more. A larger scale never gives an item a lower form. A fold takes the
largest scale of a fixed grid whose view fits the goal, and of the next one as much, from the newest item on,
as still fits. So the goal is used, and a larger goal never shows less (R20).

The *age* of an item is what came after it, in units of the scale; one huge message counts as `weight` at
most, so that it does not push everything before it out of sight.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
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
item comes back into its place and leaves the record."""
_NEAR = 7
"""How many grid points a smaller record may be worth: half as much again."""
_CALL = 2 * LEVELS[0]
"""Tokens of a call for whose result there is room."""
_STALE = 0.1
"""What a result that a later call of the same kind has superseded may have of the usual."""
_PIECE, _MADE = 128, 8
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
    """The level that it has at any scale at least; 0: it stays as it is. None: its age decides alone."""
    stale: bool = False
    """A later result of the same call says it anew."""
    sealed: int = 0
    """Tokens of thinking that may not be taken off: the item stays as it is, or is quoted without it."""
    typed: int = 0
    """Tokens that stay at every scale, the user's words among others': age decides about the rest."""

    def bare(self) -> Row:
        return self.whole, self.now, self.said, self.cap, self.stale, self.sealed, self.typed


Row: TypeAlias = tuple[int, int, bool, int | None, bool, int, int]
"""A piece as a bare tuple: the collector looks at thousands of them once, and never again."""


class Pieces(Protocol):
    """The pieces of a view, read from its end: what no scale reaches is never counted."""

    total: int
    newest: list[Row]
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


class Estimate(NamedTuple):
    scale: int
    """Index of a scale."""
    first: int
    """Index of the oldest item that is no line there."""


Size: TypeAlias = Callable[[int, int, int], int]
"""Tokens of an item: its index, its size in the view now, the level it is clipped to (0: not at all)."""

Known: TypeAlias = Callable[[int, int], int | None]
"""Tokens of an item clipped to a level, where that is known without making anything."""

Before: TypeAlias = Callable[[int, float], Steps[int]]
"""Tokens of what stands for the items before an index at a scale."""

Block: TypeAlias = list[tuple[int, int, int]]
"""Some items, newest first: index, size now, level."""


def estimate(
    pieces: Pieces, goal: int, record: Before, curve: Curve, last: int, known: Estimate | None = None
) -> Steps[Estimate]:
    """The largest scale that fits `goal` where an item clipped to a level has that many tokens; not far above
    the one that is known to fit."""
    low, first = known or (0, pieces.total)
    high = min(low + _NEAR, len(GRID) - 1) if known else len(GRID) - 1
    while low < high:
        middle = (low + high + 1) // 2
        room, walk = goal, _Walk(pieces, GRID[middle], curve, last)
        for block in walk.blocks():
            room -= sum([cap if 0 < cap < now else now for _, now, cap in block])
            if room < 0:
                break
            yield
        if room >= 0 and room >= (yield from record(walk.first, GRID[middle])):
            low, first = middle, walk.first
        else:
            high = middle - 1
    return Estimate(low, first)


def grade(
    pieces: Pieces,
    goal: int,
    record: Before,
    known: Known,
    size: Size,
    curve: Curve,
    last: int,
    low: int,
) -> Steps[Grades]:
    """The largest view that fits `goal`; `low` is the scale to begin with (`estimate`). Items from `last` on
    (the newest step) always stay. Costs what fits: a scale is left as soon as it is seen to be too large, and
    what has to be made to know its size is made last, the largest first."""

    def left(index: int) -> Steps[int]:
        """What a scale leaves of the goal, exactly; less than nothing where it does not fit."""
        room, walk, unknown = goal, _Walk(pieces, GRID[index], curve, last), list[tuple[int, int, int]]()
        for block in walk.blocks():
            for index_, now, cap in block:
                tokens = known(index_, cap) if cap else now
                if tokens is None:
                    unknown.append((cap, index_, now))
                else:
                    room -= tokens
            if room < 0:
                return room
            yield
        room -= yield from record(walk.first, GRID[index])
        unknown.sort(reverse=True)
        for number, (cap, index_, now) in enumerate(unknown, 1):
            if room < 0:
                break
            room -= size(index_, now, cap)
            if number % _MADE == 0:
                yield
        return room

    while (room := (yield from left(low))) < 0 and low > 0:
        low -= 1
    ahead = low
    while ahead < min(low + _AHEAD, len(GRID) - 1):
        ahead += 1
        if (more := (yield from left(ahead))) >= 0:
            low, room = ahead, more
    walk = _Walk(pieces, GRID[low], curve, last)
    caps = [cap for block in walk.blocks() for _, _, cap in block]
    quoted = walk.place - walk.first
    if low < len(GRID) - 1:
        adding = _Adding(pieces, caps, room, size, further=not walk.quotes)
        more = _Walk(pieces, GRID[low + 1], curve, last)
        for block in more.blocks():
            adding.further = adding.further and not more.quotes
            if not all(adding.take(*item) for item in block):
                break
            yield
    first = pieces.total - len(caps)
    return Grades(GRID[low], first, first + quoted, tuple(reversed(caps)))


@dataclass
class _Adding:
    """What the next scale would show more, newest first, until something does not fit."""

    pieces: Pieces
    caps: list[int]
    """Of the items that are no lines, newest first; they grow."""
    room: int
    size: Size
    further: bool
    """May items come that are lines at this scale? The record only gets smaller then."""

    def take(self, index: int, now: int, cap: int) -> bool:
        place = self.pieces.total - 1 - index
        new = place == len(self.caps)
        if new:
            if not self.further:
                return False
            self.caps.append(cap)
        elif cap == self.caps[place]:
            return True
        shown = 0 if new else self.size(index, now, self.caps[place])
        if (more := self.size(index, now, cap) - shown) > self.room:
            return self._part(index, now, cap, shown, new=new)
        self.room, self.caps[place] = self.room - more, cap
        return True

    def _part(self, index: int, now: int, cap: int, shown: int, *, new: bool) -> bool:
        """As much of the item as there is room for, to the token. One that comes new leaves room for the call
        before it, which it cannot be without."""
        place, room = self.pieces.total - 1 - index, self.room + shown - (_CALL if new else 0)
        low, found = 0 if new else self.caps[place], min(room, (cap or now) - 1)
        least = max(low + 1, LEVELS[0])
        while found >= least and (over := self.size(index, now, found) - room) > 0:
            found -= over
        found = found if found >= least else low
        if new and (not found or not cap or self.pieces.newest[place][-1]):
            self.caps.pop()
            return False
        self.caps[place], self.room = found, _CALL if new else 0
        return new


class _Walk:
    """The items that are no lines at a scale, newest first. At the end `first` is the index of the oldest of
    them, `place` that of the oldest one in its place; where these differ, it `quotes`."""

    def __init__(self, pieces: Pieces, scale: float, curve: Curve, last: int) -> None:
        self.pieces, self.scale, self.curve, self.last = pieces, scale, curve, last
        self.first = self.place = pieces.total
        self.quotes = False

    def blocks(self) -> Iterator[Block]:
        """(In most words: every item passes here a dozen times a fold.)"""
        pieces, scale, last, newest = self.pieces, self.scale, self.last, self.pieces.newest
        said, said_decay, result, result_decay, bend, weight, most_sealed = self.curve
        depth = scale * bend * max(result * scale / LEVELS[0], 1.0) ** (1 / result_decay)
        most, start, most_sealed = weight * scale, bend * scale, most_sealed * scale
        caps = [
            [_Caps(scale, share, decay, start, stale) for stale in (False, True)]
            for share, decay in ((result, result_decay), (said, said_decay))
        ]
        age, number, index, place, thought, block = 0.0, 0, pieces.total, 0, 0, Block()
        while index > 0 and (age <= depth or index > last):
            if number == len(newest):
                pieces.read()
            whole, now, kind, cap, stale, sealed, typed = newest[number]
            index, number = index - 1, number + 1
            if sealed:
                if not place:
                    thought += sealed
                    if thought > most_sealed and index < last:
                        place, self.quotes = index + 1, True
                if place:
                    sealed = 0
            if sealed:
                cap = 0
            elif cap != 0:
                least, allowed = cap, caps[kind][stale]
                if age > allowed.bound:
                    allowed.lower(age)
                cap, rest = allowed.cap, now - typed
                if rest <= cap + WORTH or (rest < allowed.next and rest <= allowed.at(age)):
                    cap = 0
                elif typed:
                    cap += typed
                elif least is not None and least > cap:
                    cap = least
            block.append((index, now + sealed, cap))
            age += whole if whole < most else most
            if number % _PIECE == 0:
                yield block
                block = []
        self.first, self.place = index, max(place, index)
        yield block


class _Caps:
    """The levels of one kind of items at one scale, asked for with growing age. An item of at most `cap` and
    `WORTH` tokens is not worth clipping; one of less than `next` may be allowed as it is."""

    __slots__ = ("_decay", "_most", "_start", "bound", "cap", "next")

    def __init__(self, scale: float, share: float, decay: float, start: float, stale: bool) -> None:
        self._most, self._decay, self._start = (scale, share, _STALE if stale else 1.0), decay, start
        self.cap, self.next, self.bound = 0, 0.0, -1.0

    def at(self, age: float) -> float:
        """Tokens an item may have at an age."""
        scale, share, stale = self._most
        return scale * (share * max(age / self._start, 1.0) ** -self._decay) * stale

    def lower(self, age: float) -> None:
        """The level at an age, and up to which age it is that for sure: a power for each item and scale would
        be a third of what a fold costs."""
        place = bisect_right(LEVELS, self.at(age))
        self.cap = LEVELS[max(place - 1, 0)]
        self.next = LEVELS[place] if place < len(LEVELS) else inf
        if place <= 1:
            self.bound = inf
        else:
            scale, share, stale = self._most
            most = scale * share * stale / self.cap
            self.bound = self._start * most ** (1 / self._decay) * (1 - 1e-9)
