"""Fidelity falls with age (R19): how much of each item of the view a fold shows.

One number, the *scale*, gives every item its form: the newest whole, older ones clipped harder and harder,
the oldest not in their place any more. A step whose calls are too large for the scale leaves its place: it is
quoted in the record. A larger scale never gives an item a lower form. A fold takes the largest scale of a
fixed grid whose view fits the goal (up to the first that does not), and of the next one as much, from the
newest item on, as still fits. So the goal is used, and a larger one never shows less (R20).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, TypeAlias

from refold.compaction.clips import Chunk, Pieces, Row
from refold.shrink.clip import LEVELS, WORTH

STEP = 1.06
GRID: tuple[float, ...] = tuple(40 * STEP**n for n in range(260))
"""Scales, in tokens."""
SMALL = 64
"""Calls of at most so many tokens stand at every scale."""
_CALL = SMALL + LEVELS[0]
"""Tokens of a small call for whose result there is room."""
QUOTE, QUOTED = 48, 8
"""Tokens of a step that left, at least, and of its number and who said it beside it."""


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
    call: float = 0.45
    """Calls of one reply may have so much of the scale; a step with larger ones is quoted."""


class Grades(NamedTuple):
    """Items from `place` on stay in their place, except those that `left`; these, and the ones from `first`
    on, are quoted in the record, each within its cap; those before are lines."""

    scale: float
    first: int
    place: int
    caps: tuple[int, ...]
    """For each item from `first` on the level it is clipped to; 0: as it is in the view now."""
    left: frozenset[int] = frozenset()
    """Indexes of items of steps whose calls are too large to stand."""


class Estimate(NamedTuple):
    scale: int
    """Index of a scale."""
    first: int
    """Index of the oldest item that is no line there."""


Size: TypeAlias = Callable[[int, int, int], int]
"""Tokens of an item: its place, its size in the view now, the level it is clipped to (0: not at all)."""

Known: TypeAlias = Callable[[Sequence[int], int], Sequence[int | None]]
"""Tokens of items, by their places, clipped to a level, where that is known without making anything."""

RecordSize: TypeAlias = Callable[[int, float], int]
"""Tokens of what stands for the items before an index at a scale."""


Looks: TypeAlias = dict[int, tuple[int, int]]
"""By scale: what its items leave of the goal by estimate, and the oldest of them."""


def estimate(
    pieces: Pieces,
    goal: int,
    record: RecordSize,
    curve: Curve,
    last: int,
    looks: Looks,
) -> Estimate:
    """The largest scale that fits `goal` where an item clipped to a level has that many tokens. `looks`: what
    was seen before with another record."""
    low, high, first = 0, len(GRID) - 1, pieces.total
    while low < high:
        middle = (low + high + 1) // 2
        if middle not in looks:
            room, walk = goal, ScaleSearch(pieces, GRID[middle], curve, last)
            while room >= 0 and (part := walk.part()) is not None:
                room -= part.whole + sum([cap * len(places) for cap, places in part.clipped])
            looks[middle] = room, walk.begins
        room, begins = looks[middle]
        if room >= 0 and room >= record(begins, GRID[middle]):
            low, first = middle, begins
        else:
            high = middle - 1
    return Estimate(low, first)


def grade(
    pieces: Pieces,
    goal: int,
    record: RecordSize,
    known: Known,
    size: Size,
    curve: Curve,
    last: int,
    low: int,
) -> Grades:
    """The largest view that fits `goal`; `low` is the scale to begin with (`estimate`). Items from `last` on
    (the newest step) always stay. Costs what fits: a scale is left as soon as it is seen to be too large, and
    what has to be made to know its size is made last, the largest first."""

    def left(index: int) -> int:
        """What a scale leaves of the goal, exactly; less than nothing where it does not fit."""
        room, walk, unknown = goal, ScaleSearch(pieces, GRID[index], curve, last), list[tuple[int, int]]()
        while (part := walk.part()) is not None:
            room -= part.whole
            for cap, places in part.clipped:
                sizes = known(places, cap)
                room -= sum([tokens for tokens in sizes if tokens is not None])
                if None in sizes:
                    unknown += [(cap, -at) for at, size in zip(places, sizes, strict=True) if size is None]
            if room < 0:
                return room
        room -= record(walk.begins, GRID[index])
        unknown.sort(reverse=True)
        for cap, place in unknown:
            if room < 0:
                break
            room -= size(-place, pieces.sizes[-place], cap)
        return room

    room = left(low)
    if room >= 0:
        while low < len(GRID) - 1 and (more := left(low + 1)) >= 0:
            low, room = low + 1, more
    while room < 0 and low > 0:
        low -= 1
        room = left(low)
    return _filled(pieces, low, room, size, curve, last)


def _filled(pieces: Pieces, low: int, room: int, size: Size, curve: Curve, last: int) -> Grades:
    """The items at a scale, and as much of what the next one would add as there is room for. No step that
    left comes back so: a batch stands or leaves as a whole."""
    walk, caps, left = ScaleSearch(pieces, GRID[low], curve, last), list[int](), set[int]()
    while (part := walk.part()) is not None:
        caps += part.caps()
        left.update(*(places for _, places in part.quoted))
    quoted = walk.place - walk.first
    if low < len(GRID) - 1:
        adding = _Adding(pieces, caps, left, room, size, further=not walk.quotes)
        more = ScaleSearch(pieces, GRID[low + 1], curve, last, calls=GRID[low])
        fits = True
        while fits and (part := more.part()) is not None:
            adding.further = adding.further and not more.quotes
            adding.placed = pieces.total - more.place
            left.update(*(places for _, places in part.quoted))
            for place, cap in enumerate(part.caps(), part.first):
                fits = adding.take(place, cap)
                if not fits:
                    break
    first, newest = pieces.total - len(caps), pieces.total - 1
    gone = frozenset(newest - place for place in left if place < len(caps))
    return Grades(GRID[low], first, first + quoted, tuple(reversed(caps)), gone)


@dataclass
class _Adding:
    """What the next scale would show more, newest first, until something does not fit."""

    pieces: Pieces
    caps: list[int]
    """Of the items that are no lines, newest first; they grow."""
    left: set[int]
    """Places of those that are quoted."""
    room: int
    size: Size
    further: bool
    """May items come that are lines at this scale? The record only gets smaller then."""
    placed: int = 0
    """How many stay in their place at the next scale, as far as that is known."""

    def take(self, place: int, cap: int) -> bool:
        new = place == len(self.caps)
        if new:
            if not self.further:
                return False
            self.caps.append(cap)
        elif cap == self.caps[place]:
            return True
        now = self.pieces.sizes[place] + (self.pieces.piece(place).sealed if place < self.placed else 0)
        shown = 0 if new else self._size(place, now, self.caps[place])
        if (more := self._size(place, now, cap) - shown) > self.room:
            return self._part(place, now, cap, shown, new=new)
        self.room, self.caps[place] = self.room - more, cap
        return True

    def _size(self, place: int, now: int, cap: int) -> int:
        if place in self.left:
            return QUOTED + (cap or now)
        return self.size(place, now, cap)

    def _part(self, place: int, now: int, cap: int, shown: int, *, new: bool) -> bool:
        """As much of the item as there is room for, to the token. One that comes new leaves room for the call
        before it, which it cannot be without."""
        piece, quoted = self.pieces.piece(place), place in self.left
        call = (_CALL if quoted else max(_CALL, LEVELS[0] + piece.call)) if new else 0
        room = self.room + shown - call
        low, found = 0 if new else self.caps[place], min(room, (cap or now) - 1)
        least = max(low + 1, LEVELS[0])
        while found >= least and (over := self._size(place, now, found) - room) > 0:
            found -= over
        found = found if found >= least else low
        if new and (not found or (not quoted and (not cap or piece.kept))):
            self.caps.pop()
            return False
        self.caps[place], self.room = found, call
        return new


# ── the items of a view at one scale ────────────────────────────────────────────────────────────
#
# The *age* of an item is what came after it, in units of the scale; one huge message counts as `weight` at
# most, so that it does not push everything before it out of sight. Numbers only: nothing is read or made.


class Part(NamedTuple):
    """Some items that are no lines at a scale, by their places."""

    first: int
    length: int
    whole: int
    """Tokens of those that stay as they are, and of quotations."""
    clipped: list[tuple[int, list[int]]]
    """Those that are clipped in their place, by level."""
    quoted: list[tuple[int, list[int]]]
    """Those that are quoted in the record, by level."""

    def caps(self) -> list[int]:
        """For each item, newest first, the level it is clipped to; 0: not at all."""
        caps = [0] * self.length
        for cap, places in (*self.clipped, *self.quoted):
            for place in places:
                caps[place - self.first] = cap
        return caps


class ScaleSearch:
    """The items that are no lines at a scale, newest first. At the end `first` is the index of the oldest of
    them, `place` that of the oldest one in its place; where these differ, it `quotes`. `calls`: the scale
    that says which calls may stand, where that is another one."""

    def __init__(
        self, pieces: Pieces, scale: float, curve: Curve, last: int, calls: float | None = None
    ) -> None:
        said, said_decay, result, result_decay, bend, weight, sealed, call = curve
        self.pieces, self.last = pieces, last
        self.first = self.place = pieces.total
        self.quotes = False
        self._depth = scale * bend * max(result * scale / LEVELS[0], 1.0) ** (1 / result_decay)
        self._most, start = weight * scale, bend * scale
        self._caps = [
            _Caps(scale, share, decay, start, stale)
            for share, decay in ((result, result_decay), (said, said_decay))
            for stale in (False, True)
        ]
        self._age, self._read, self._ended = 0.0, 0, pieces.total == 0
        self._thought, self._most_thought = 0, sealed * scale
        self._left, self._largest_call = False, call * (calls or scale)

    @property
    def begins(self) -> int:
        """Where the record ends: as soon as anything is quoted, it takes at least the first item's place."""
        return max(self.first, int(self._left or self.quotes))

    def part(self) -> Part | None:
        """The next items; None where no more are reached."""
        if self._ended:
            return None
        pieces, age = self.pieces, self._age
        if self._read == len(pieces.chunks):
            pieces.read()
        chunk = pieces.chunks[self._read]
        ages, first = chunk.ages(self._most), chunk.first
        length = self._length(chunk, ages)
        whole, clipped, quoted = 0, list[tuple[int, list[int]]](), list[tuple[int, list[int]]]()
        for kind, places, sums in chunk.plain:
            end = bisect_left(places, first + length) if length < chunk.length else len(places)
            whole += sums[end] - self._clip(kind, places, end, first, ages, clipped)
        for place, piece in chunk.odd:
            if place < first + length:
                tokens, cap, cut = self._odd(place, piece, age + ages[place - first])
                if cut:
                    quoted.append((cap, [place]))
                elif cap:
                    clipped.append((cap, [place]))
                whole += tokens if cut or not cap else 0
        self._age, self._read = age + ages[length], self._read + 1
        self.first = pieces.total - first - length
        self._ended = length < chunk.length or self.first == 0
        self.place = self.place if self.quotes else self.first
        return Part(first, length, whole, clipped, quoted)

    def _length(self, chunk: Chunk, ages: Sequence[float]) -> int:
        """How many pieces of a chunk are reached; the newest step always is."""
        if self._age + ages[chunk.length - 1] <= self._depth:
            return chunk.length
        reached = bisect_right(ages, self._depth - self._age, 0, chunk.length)
        return min(max(reached, self.pieces.total - self.last - chunk.first), chunk.length)

    def _clip(
        self,
        kind: int,
        places: list[int],
        end: int,
        first: int,
        ages: Sequence[float],
        clipped: list[tuple[int, list[int]]],
    ) -> int:
        """The first `end` pieces of a kind, run by run of those of one level. What is clipped of them
        has so many tokens now."""
        allowed, sizes, start, total, at = self._caps[kind], self.pieces.sizes, self._age, 0, 0
        while at < end:
            age = start + ages[places[at] - first]
            if age > allowed.bound:
                allowed.lower(age)
            stop = end
            if start + ages[places[end - 1] - first] > allowed.bound:
                young = first + bisect_right(ages, allowed.bound - start)
                stop = bisect_left(places, young, at + 1, end)
            least, cap, above = allowed.cap + WORTH, allowed.cap, allowed.next
            large = [place for place in places[at:stop] if sizes[place] > least]
            if above > least + 1:  # what its age allows to the token stays as it is
                large = [
                    place
                    for place in large
                    if sizes[place] >= above or sizes[place] > allowed.at(start + ages[place - first])
                ]
            if large:
                clipped.append((cap, large))
                total += sum([sizes[place] for place in large])
            at = stop
        return total

    def _odd(self, place: int, piece: Row, age: float) -> tuple[int, int, bool]:
        """The size in the view of a piece where not age alone decides, its level, and whether it is quoted
        with its calls cut like any text: no form has to be made then to know its size."""
        _, now, said, least, stale, sealed, kept, call = piece
        leaves = call > self._largest_call
        if sealed and not leaves and not self.quotes:
            self._thought += sealed
            index = self.pieces.total - 1 - place
            if self._thought <= self._most_thought or index >= self.last:
                return now + sealed, 0, False
            self.place, self.quotes = index + 1, True
        if least == 0 and not leaves:
            return now, 0, False
        allowed = self._caps[2 * said + stale]
        most = allowed.at(age)
        at = bisect_right(LEVELS, most)
        cap = LEVELS[max(at - 1, 0)]
        if leaves or (self.quotes and kept):
            self._left, cap = True, 0 if now <= max(cap + WORTH, most) else max(cap, QUOTE)
            return QUOTED + (cap or now), cap, True
        if now - kept <= max(cap + WORTH, most):
            return now, 0, False
        return now, cap + kept if kept else max(cap, least or 0), False


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
