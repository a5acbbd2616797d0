"""Fidelity falls with age (R19): how much of each item of the view a fold shows.

One number, the *scale*, gives every item its form: the newest whole, older ones clipped harder and harder,
the oldest not in their place any more. A step whose calls are too large for the scale leaves its place: it is
quoted in the record. A larger scale never gives an item a lower form. A fold takes the largest scale of a
fixed grid whose view fits the goal (up to the first that does not), and of the next one as much, from the
newest item on, as still fits. So the goal is used, and a larger one never shows less (R20).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, TypeAlias

from refold.compaction.clips import SMALL, ItemReader
from refold.shrink.clip import LEVELS, WORTH

STEP = 1.06
GRID: tuple[float, ...] = tuple(40 * STEP**n for n in range(260))
"""Scales, in tokens."""
SMALL_CALL = SMALL + LEVELS[0]
"""Tokens of a small call for whose result there is room."""
QUOTE = 48
"""Tokens that a quoted step has at least."""
QUOTED = 8
"""Tokens of the number and the speaker beside a quotation."""
SMALLEST = LEVELS[0] + WORTH
"""An item of at most so many tokens is never clipped."""
STALE = 0.1
"""Share of the usual size that a result keeps once a later call of the same kind supersedes it."""


class Curve(NamedTuple):
    """Tokens an item may have at age x: scale × share × (x / bend)^−decay, for x beyond the bend."""

    said: float = 1.2
    said_decay: float = 0.3
    result: float = 0.08
    result_decay: float = 1.04
    bend: float = 0.5
    weight: float = 0.2
    sealed: float = 0.8
    """Signed thinking of the turn that is going on may have so much of the scale; steps before are quoted."""
    call: float = 0.45
    """Calls of one reply may have so much of the scale; a step with larger ones is quoted."""

    def share(self, age: float, *, said: bool) -> float:
        """Share of the scale at an age, in bends."""
        if said:
            return self.said * max(age, 1.0) ** -self.said_decay
        return self.result * max(age, 1.0) ** -self.result_decay


RecordSize: TypeAlias = Callable[[int, float], int]
"""Where the record ends, and a scale → tokens of the record."""


@dataclass(frozen=True)
class ScaleSearch:
    """Looks for the largest view that fits a goal."""

    items: ItemReader
    goal: int
    record: RecordSize
    curve: Curve
    last: int
    """Items from here on (the newest step) always stay."""

    def largest(self) -> ScaleView:
        """The view at the largest scale that fits, and as much of what the next one would add as there is
        room for. No step that left comes back so: a batch stands or leaves as a whole."""
        low = self._estimate()
        view, room = self._at(low)
        while room >= 0 and low < len(GRID) - 1:
            larger, more = self._at(low + 1)
            if more < 0:
                break
            view, room, low = larger, more, low + 1
        while room < 0 and low > 0:
            low -= 1
            view, room = self._at(low)
        if low < len(GRID) - 1:
            next_view = at_scale(self.items, GRID[low + 1], self.curve, self.last, calls=GRID[low])
            _add(self.items, view, next_view, room)
        return view

    def _estimate(self) -> int:
        """The largest scale that fits the goal where an item clipped to a level has that many tokens."""
        low, high = 0, len(GRID) - 1
        while low < high:
            middle = (low + high + 1) // 2
            view = at_scale(self.items, GRID[middle], self.curve, self.last, goal=self.goal)
            room = self.goal - view.estimate
            if room >= 0 and room >= self.record(view.begins, GRID[middle]):
                low = middle
            else:
                high = middle - 1
        return low

    def _at(self, index: int) -> tuple[ScaleView, int]:
        """The view at a scale, and what it leaves of the goal, exactly; less than nothing where it does not
        fit. What has to be made to know its size is made last, the largest first, and only while the rest
        fits."""
        items, view = self.items, at_scale(self.items, GRID[index], self.curve, self.last)
        room, unknown = self.goal - view.whole, list[tuple[int, int]]()
        for place in view.clipped:
            size = items.known_size(place, view.caps[place])
            if size is None:
                unknown.append((view.caps[place], -place))
            else:
                room -= size
        if room >= 0:
            room -= self.record(view.begins, GRID[index])
        for cap, place in sorted(unknown, reverse=True):
            if room < 0:
                break
            room -= items.size(-place, items.stats(-place).now, cap)
        return view, room


def _add(items: ItemReader, view: ScaleView, more: ScaleView, room: int) -> None:
    """Raise the items of a view to those of the next scale, newest first, until something does not fit.
    Items that are lines at this scale come too, unless something is quoted: the record only gets smaller."""
    caps = view.caps

    def size(place: int, now: int, cap: int) -> int:
        return QUOTED + (cap or now) if place in view.quoted else items.size(place, now, cap)

    for place, cap in enumerate(more.caps):
        new = place == len(caps)
        if new and (view.in_place is not None or more.in_place is not None):
            return
        if place in more.quoted:
            view.quoted.add(place)
        if not new and cap == caps[place]:
            continue
        stats = items.stats(place)
        now = stats.now + (stats.sealed if more.stays(place) else 0)
        shown = 0 if new else size(place, now, caps[place])
        added = size(place, now, cap) - shown
        if added <= room:
            room -= added
            caps[place : place + 1] = [cap]
            continue
        # As much of the item as there is room for, to the token. One that comes new leaves room for the call
        # before it, which it cannot be without.
        quoted = place in view.quoted
        call = (SMALL_CALL if quoted else max(SMALL_CALL, LEVELS[0] + stats.call)) if new else 0
        most = room + shown - call
        low, part = 0 if new else caps[place], min(most, (cap or now) - 1)
        least = max(low + 1, LEVELS[0])
        while part >= least and (over := size(place, now, part) - most) > 0:
            part -= over
        part = part if part >= least else low
        if new and (not part or (not quoted and (not cap or stats.kept))):
            return
        caps[place : place + 1] = [part]
        if not new:
            return
        room = call


# ── the items of a view at one scale ────────────────────────────────────────────────────────────
#
# The *age* of an item is what came after it, in units of the scale; one huge message counts as `weight` at
# most, so that it does not push everything before it out of sight. Numbers only: nothing is read or made.


@dataclass
class ScaleView:
    """The items that are no lines at a scale. An item's place is counted from the newest, which has 0."""

    total: int
    caps: list[int] = field(default_factory=list[int])
    """For each item, newest first, the level it is clipped to; 0: not at all."""
    whole: int = 0
    """Tokens of items that stay as they are, and of quotations."""
    estimate: int = 0
    """Tokens of all items, where one that is clipped to a level has that many."""
    clipped: list[int] = field(default_factory=list[int])
    """Places of items that are clipped where they stand."""
    quoted: set[int] = field(default_factory=set[int])
    """Places of items whose step is quoted in the record."""
    in_place: int | None = None
    """How many of the newest stay in their place, where older ones are quoted; None: all do."""

    def stays(self, place: int) -> bool:
        return self.in_place is None or place < self.in_place

    @property
    def begins(self) -> int:
        """Where the record ends: as soon as anything is quoted, it takes at least the first item's place."""
        return max(self.total - len(self.caps), int(bool(self.quoted) or self.in_place is not None))


def at_scale(
    items: ItemReader,
    scale: float,
    curve: Curve,
    last: int,
    *,
    goal: float = inf,
    calls: float | None = None,
) -> ScaleView:
    """The view at a scale; given up where it is seen to pass `goal`. `calls`: the scale that says which calls
    may stand, where that is another one."""
    view, age, thought, tokens = ScaleView(items.total), 0.0, 0, 0
    caps, read = view.caps, items.read
    depth = scale * curve.bend * max(curve.result * scale / LEVELS[0], 1.0) ** (1 / curve.result_decay)
    bend, largest_call, largest = curve.bend * scale, curve.call * (calls or scale), curve.weight * scale
    for place in range(items.total):
        if (age > depth and place >= items.total - last) or tokens > goal:
            break
        whole, now, said, least, stale, sealed, kept, call = (
            read[place] if place < len(read) else items.stats(place)
        )
        before, leaves, level = age, call > largest_call, 0
        age += whole if whole < largest else largest
        if sealed and not leaves and view.in_place is None:
            thought += sealed
            if thought <= curve.sealed * scale or items.total - 1 - place >= last:
                now, least = now + sealed, 0
            else:
                view.in_place = place
        if leaves or kept or (now > SMALLEST and least != 0):
            most = scale * curve.share(before / bend, said=said) * (STALE if stale else 1.0)
            cap = LEVELS[max(bisect_right(LEVELS, most) - 1, 0)]
            enough = max(cap + WORTH, most)
            if leaves or (kept and view.in_place is not None and least != 0):
                level = 0 if now <= enough else max(cap, QUOTE)
                now = QUOTED + (level or now)
                view.quoted.add(place)
            elif now - kept > enough and least != 0:
                level = cap + kept if kept else max(cap, least or 0)
                view.clipped.append(place)
                tokens, now = tokens + level, 0
        caps.append(level)
        tokens += now
        view.whole += now
    view.estimate = tokens
    return view
