"""Fidelity falls with age (R19): how much of each item of the view a fold shows.

One number, the *scale*, gives every item its form: the newest whole, older ones clipped harder and harder,
the oldest not in their place any more. A step whose calls are too large for the scale leaves its place: it is
quoted in the record. A larger scale never gives an item a lower form. A fold takes the largest scale of a
fixed grid whose view fits the goal (up to the first that does not), and of the next one as much, from the
newest item on, as still fits. So the goal is used, and a larger one never shows less (R20).

A fold in order: `clips.py` reads the items and makes them smaller; here each gets its form at a scale, the
scale is found, and the layout says what stays; `record.py` writes what stands for the rest;
`strategies/graded.py` makes proposals of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, TypeAlias

from refold import entries as e
from refold.compaction.clips import ItemReader, ItemStats, SizedMessage, least_step
from refold.compaction.plan_context import PlanContext, legal_cut, may_leave, newest_step
from refold.messages import Assistant
from refold.session.invariants import PAIRS, legal, thinking
from refold.session.invariants.empty import blank
from refold.session.items import Item
from refold.shrink.clip import LEVELS, WORTH

_SCALE_FACTOR = 1.03
"""From one scale to the next."""
GRID: tuple[float, ...] = tuple(40 * _SCALE_FACTOR**n for n in range(520))
"""Scales, in tokens."""
QUOTE = 48
"""Tokens that a quoted step has at least."""
_LARGEST_QUOTE = 0.25
"""Share of the goal that one quotation may have."""
QUOTED = 8
"""Tokens of the number and the speaker beside a quotation."""
_SUPERSEDED_SHARE = 0.1
"""Share of the usual size that a result keeps once a later call of the same kind supersedes it, and a quoted
call that came to nothing."""


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
    written_decay: float = 0.9
    """What its calls say in a quotation fades faster than the agent's words: mostly it is on disk."""

    def share(self, item: ItemStats, age: float) -> float:
        """Of the scale, at an age in units of it."""
        bends = max(age / self.bend, 1.0)
        share = self.said * bends**-self.said_decay if item.said else self.result * bends**-self.result_decay
        return share * (_SUPERSEDED_SHARE if item.stale else 1.0)

    def quoted(self, item: ItemStats, age: float, scale: float) -> float:
        """Tokens for a reply in a quotation."""
        written = self.said * max(age / self.bend, 1.0) ** -self.written_decay
        return item.now - item.written + scale * written * (_SUPERSEDED_SHARE if item.void else 1.0)


# ── the items of a view at one scale ────────────────────────────────────────────────────────────
#
# The *age* of an item is what came after it, in units of the scale; one huge message counts as `weight` at
# most, so that it does not push everything before it out of sight. Numbers only: nothing is read or made.


@dataclass
class ScaleView:
    """The items that are no lines at a scale. An item's place is counted from the newest, which has 0."""

    total: int
    levels: list[int] = field(default_factory=list[int])
    """For each item, newest first, the level it is clipped to; 0: not at all."""
    whole: int = 0
    """Tokens of items that stay as they are, and of quotations."""
    clipped: dict[int, int] = field(default_factory=dict[int, int])
    """Items that are clipped where they stand, and their levels."""
    quoted: set[int] = field(default_factory=set[int])
    """Items that are quoted in the record."""
    in_place: int | None = None
    """How many of the newest stay in their place, where all older ones are quoted; None: no such end."""

    @property
    def estimate(self) -> int:
        """Tokens of all items, where one that is clipped to a level has that many."""
        return self.whole + sum(self.clipped.values())

    @property
    def begins(self) -> int:
        """Where the record ends: as soon as anything is quoted, it takes at least the first item's place."""
        return max(self.total - len(self.levels), int(bool(self.quoted)))


# ── the largest view that fits ──────────────────────────────────────────────────────────────────

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

    def at_scale(self, scale: float, goal: float = inf) -> ScaleView:
        """The view at a scale; given up where it is seen to pass `goal`."""
        items, curve = self.items, self.curve
        view, age, thought, left = ScaleView(items.total), 0.0, 0, goal
        depth = scale * curve.bend * max(curve.result * scale / LEVELS[0], 1.0) ** (1 / curve.result_decay)
        for place in range(items.total):
            newest = place < items.total - self.last
            if (age > depth and not newest) or left < 0:
                break
            stats = items.stats(place)
            most, now = scale * curve.share(stats, age / scale), stats.now
            leaves, fixed = stats.call > curve.call * scale, False
            if stats.sealed and not leaves and view.in_place is None:
                thought += stats.sealed
                if thought <= curve.sealed * scale or newest:
                    now, fixed = now + stats.sealed, True
                else:
                    view.in_place = place
            quoted = leaves or view.in_place is not None
            least = stats.least
            if quoted:  # without its calls; what the user typed among others' words stays
                most = min(most, _LARGEST_QUOTE * self.goal)
                if stats.written:
                    most = min(most, curve.quoted(stats, age / scale, scale))
                least = QUOTE if stats.said else max(QUOTE, least)
            level = max(LEVELS[max(bisect_right(LEVELS, most) - 1, 0)], least)
            level = 0 if fixed or now <= max(level + WORTH, most) else level
            view.levels.append(level)
            if quoted:
                view.quoted.add(place)
                now = QUOTED + (level or now)
            elif level:
                view.clipped[place] = now = level
            left -= now
            age += min(stats.whole, curve.weight * scale)
            view.whole += 0 if place in view.clipped else now
        return view

    def largest(self) -> ScaleView:
        """The view at the largest scale that fits, and as much of what the next one would add as there is
        room for."""
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
            self._add(view, self.at_scale(GRID[low + 1]), room)
        return view

    def _estimate(self) -> int:
        """The largest scale that fits the goal where an item clipped to a level has that many tokens."""
        low, high = 0, len(GRID) - 1
        while low < high:
            middle = (low + high + 1) // 2
            view = self.at_scale(GRID[middle], self.goal)
            room = self.goal - view.estimate
            if room >= 0 and room >= self.record(view.begins, GRID[middle]):
                low = middle
            else:
                high = middle - 1
        return low

    def _at(self, index: int) -> tuple[ScaleView, int]:
        """The view at a scale, and what it leaves of the goal, exactly; less than nothing where it does not
        fit."""
        view = self.at_scale(GRID[index])
        room = self.goal - view.whole - self.record(view.begins, GRID[index])
        for place, level in sorted(view.clipped.items(), key=lambda clip: -clip[1]):
            if room < 0:
                break
            room -= self.items.size(place, level)
        return view, room

    def _add(self, view: ScaleView, more: ScaleView, room: int) -> None:
        """Raise items that are clipped where they stand to what they are at the next scale, newest first; of
        the first for which there is no room as much as there is room for, to the token."""
        for place, level in view.clipped.items():
            if place in more.quoted or room <= 0 or place >= len(more.levels):
                return
            size = self.items.size
            shown, larger = size(place, level), more.levels[place]
            most = room + shown
            if (added := size(place, larger)) > most:
                larger = min(most, larger or added) - 1
                while larger > level and (over := size(place, larger) - most) > 0:
                    larger -= over
                view.levels[place] = max(larger, level)
                return
            room -= added - shown
            view.levels[place] = larger


# ── layout: which items stay, in which form ──────────────────────────────────────────────────────


@dataclass(frozen=True)
class Layout:
    """Items from `first` on stay in their place, except those that `left`; `forms` are those that become
    smaller."""

    first: int
    position: int
    """Where that is on the path."""
    tokens: int
    """Of the items from `first` on."""
    forms: dict[int, SizedMessage]
    quotes: dict[int, int]
    """Items that do not stay in their place, and yet are too new to be lines: the tokens that each may
    have in the record; 0: all of it."""
    left: frozenset[int] = frozenset()
    """Items of steps whose calls are too large to stand: the record tells of them."""

    def edits(self, items: Sequence[Item]) -> Iterator[e.Edit]:
        for index, form in sorted(self.forms.items()):
            ids = items[index].entries
            yield e.Edit(ids[0], ids[-1], (form.message,), "clip")
        first = 0
        for index in sorted(self.left):
            first = first if index - 1 in self.left else index
            if index + 1 not in self.left:
                yield e.Edit(items[first].entries[0], items[index].entries[-1], (), e.LEFT)


def lay_out(s: PlanContext, goal: int, limit: int, curve: Curve, record: RecordSize) -> Layout:
    """The items of the view within `goal` tokens, together with the record that stands for the path before
    them."""
    first, wanted, step = s.projection.first, s.wanted_cut, newest_step(s)

    def before(index: int, scale: float) -> int:
        at = first + index
        return record(s.projection.position_of(at), scale) if at > first else 0

    def laid(reader: ItemReader, cut: int | None, last: int) -> Layout:
        view, newest = ScaleSearch(reader, goal, before, curve, last - first).largest(), len(s.items) - 1
        caps = {newest - place: cap for place, cap in enumerate(view.levels)}
        left = {newest - place for place in view.quoted if place < len(view.levels)}
        lines_end = newest + 1 - len(view.levels)
        if cut is None:
            # A record has to stand somewhere: what leaves takes at least the first item with it.
            begins = lines_end if view.in_place is None else newest + 1 - view.in_place
            begins = max(begins, first + 1) if left else begins
            cut = _cut(s, begins, left, goal // 10, reader.open_from)
        steps = range(lines_end, cut)
        # No result without its call, unless all is quoted and the line of the call stands before them.
        whole = lines_end if reader.loose else next((i for i in steps if legal(s.items, i, PAIRS)), cut)
        gone = frozenset(index for index in left if index >= cut > first)
        quotes = {i: caps[i] for i in (*range(whole, cut), *sorted(gone))}
        caps |= {index: reader.stats(newest - index).least for index in range(cut, lines_end)}
        stays = [index for index in range(cut, len(s.items)) if index not in gone]
        made = ((index, reader.form(index, caps.get(index, 0))) for index in stays)
        forms = {index: form for index, form in made if form is not None}
        return Layout(cut, s.projection.position_of(cut), reader.sent(stays, forms), forms, quotes, gone)

    if wanted is not None:
        return laid(ItemReader(s, goal, limit), wanted, min(step, wanted))
    leaves, reader = may_leave(s), ItemReader(s, goal, limit)
    if not (leaves and least_step(s) + before(step - first, 0.0) > goal):
        for cut in (None, legal_cut(s, step, 0, reader.open_from)):
            layout = laid(reader, cut, step)
            if layout.tokens + before(layout.first - first, 0.0) <= limit:
                return layout
    if not leaves:  # what no reply has read is quoted in less than its share
        return laid(ItemReader(s, goal, 0), legal_cut(s, step, 0, reader.open_from), step)
    # The newest step alone is too large, or the rules of the wire left no cut that fits: all is quoted.
    return laid(ItemReader(s, goal, limit, loose=True), len(s.items), len(s.items))


def _cut(s: PlanContext, begins: int, left: Container[int], slack: int, open_from: int) -> int:
    """Where the part begins that stays in its place (`legal_cut`). Where the reply with the signed thinking
    left that the tool loop going on starts with: the next reply that starts with its own, if there is one."""
    items, cut = s.items, legal_cut(s, begins, slack, open_from)
    stays = [i for i in range(cut, len(items)) if i not in left]
    replies = (i for i in stays if i >= open_from and isinstance(items[i].message, Assistant))
    first = next((i for i in replies if not blank(items[i].message)), None)
    if first is not None and not thinking.legal(items, first):
        return next((i for i in stays if i > first and legal(items, i)), stays[0])
    return stays[0] if stays else cut
