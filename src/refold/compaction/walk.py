"""The items of a view at one scale (`compaction/grade.py`): which are reached, and which level each may have.

The *age* of an item is what came after it, in units of the scale; one huge message counts as `weight` at
most, so that it does not push everything before it out of sight. Numbers only: nothing is read or made here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import inf
from typing import NamedTuple, Protocol, TypeAlias

from refold.protocols import Steps
from refold.shrink.clip import LEVELS, WORTH

CHUNK = 256
"""Items that are looked at between two breaths."""
_STALE = 0.1
"""What a result that a later call of the same kind has superseded may have of the usual."""


Numbers: TypeAlias = tuple[float, float, float, float, float, float, float]
"""A `Curve`."""


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


Row: TypeAlias = tuple[int, int, bool, int | None, bool, int, int]
"""A piece as a bare tuple: the collector looks at thousands of them once, and never again."""


def bare(piece: Piece, *, stale: bool) -> Row:
    whole, now, said, cap, _, sealed, typed = piece
    return whole, now, said, cap, stale, sealed, typed


class Chunk:
    """Some pieces as walks look at them. A walk asks the same of all pieces of a kind and an age, so these
    stand together: a fold looks at every piece a dozen times."""

    def __init__(self, first: int, pieces: Sequence[Row]) -> None:
        self.first, self.length = first, len(pieces)
        """Places of the pieces, counted from the newest."""
        wholes = [piece[0] for piece in pieces]
        self.largest, self.wholes = max(wholes), wholes
        self.reach = [0, *accumulate(wholes)]
        """What came after each piece since the chunk began."""
        kinds: tuple[list[int], ...] = ([], [], [], [])
        sizes: tuple[list[int], ...] = ([], [], [], [])
        self.odd: list[tuple[int, Row]] = []
        """Those where not age alone decides, by place."""
        for place, piece in enumerate(pieces, first):
            _, now, said, cap, stale, sealed, typed = piece
            if cap is None and not sealed and not typed:
                kind = 2 * said + stale
                kinds[kind].append(place)
                sizes[kind].append(now)
            else:
                self.odd.append((place, piece))
        self.plain = [(kind, kinds[kind], [0, *accumulate(sizes[kind])]) for kind in range(4) if kinds[kind]]
        """The others: their kind, places, and running totals of their sizes."""

    def ages(self, most: float) -> Sequence[float]:
        """What came after each piece since the chunk began, one counting as `most` at most."""
        if self.largest <= most:
            return self.reach
        return [0, *accumulate([whole if whole < most else most for whole in self.wholes])]


class Pieces(Protocol):
    """The pieces of a view, read from its end: what no scale reaches is never counted. A piece's place is
    counted from the newest, which has 0."""

    total: int
    chunks: list[Chunk]
    """Those that were read."""
    sizes: list[int]
    """Tokens in the view, without sealed thinking, by place."""

    def read(self) -> Steps[None]:
        """One more chunk."""
        ...

    def piece(self, place: int) -> Piece: ...


class Part(NamedTuple):
    """Some items that are no lines at a scale, by their places."""

    first: int
    length: int
    whole: int
    """Tokens of those that stay as they are."""
    clipped: list[tuple[int, list[int]]]
    """The others by level."""

    def caps(self) -> list[int]:
        """For each item, newest first, the level it is clipped to; 0: not at all."""
        caps = [0] * self.length
        for cap, places in self.clipped:
            for place in places:
                caps[place - self.first] = cap
        return caps


class Walk:
    """The items that are no lines at a scale, newest first. At the end `first` is the index of the oldest of
    them, `place` that of the oldest one in its place; where these differ, it `quotes`."""

    def __init__(self, pieces: Pieces, scale: float, curve: Numbers, last: int) -> None:
        said, said_decay, result, result_decay, bend, weight, sealed = curve
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

    def part(self) -> Steps[Part | None]:
        """The next items; None where no more are reached."""
        if self._ended:
            return None
        pieces, age = self.pieces, self._age
        if self._read == len(pieces.chunks):
            yield from pieces.read()
        chunk = pieces.chunks[self._read]
        ages, first = chunk.ages(self._most), chunk.first
        length = self._length(chunk, ages)
        whole, clipped = 0, list[tuple[int, list[int]]]()
        for kind, places, sums in chunk.plain:
            end = bisect_left(places, first + length) if length < chunk.length else len(places)
            whole += sums[end] - self._clip(kind, places, end, first, ages, clipped)
        for place, piece in chunk.odd:
            if place < first + length:
                tokens, cap = self._odd(place, piece, age + ages[place - first])
                if cap:
                    clipped.append((cap, [place]))
                else:
                    whole += tokens
        self._age, self._read = age + ages[length], self._read + 1
        self.first = pieces.total - first - length
        self._ended = length < chunk.length or self.first == 0
        self.place = self.place if self.quotes else self.first
        return Part(first, length, whole, clipped)

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

    def _odd(self, place: int, piece: Row, age: float) -> tuple[int, int]:
        """The size in the view of a piece where not age alone decides, and its level."""
        _, now, said, least, stale, sealed, typed = piece
        if sealed and not self.quotes:
            self._thought += sealed
            index = self.pieces.total - 1 - place
            if self._thought <= self._most_thought or index >= self.last:
                return now + sealed, 0
            self.place, self.quotes = index + 1, True
        if least == 0:
            return now, 0
        allowed = self._caps[2 * said + stale]
        most = allowed.at(age)
        at = bisect_right(LEVELS, most)
        cap = LEVELS[max(at - 1, 0)]
        if now - typed <= max(cap + WORTH, most):
            return now, 0
        return now, cap + typed if typed else max(cap, least or 0)


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
