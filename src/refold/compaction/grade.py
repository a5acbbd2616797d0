"""Fidelity falls with age (R19): how much of each item of the view a fold shows.

One number, the *scale*, gives every item its form: the newest whole, older ones clipped harder and harder,
the oldest not in their place any more. A step that no clip makes small enough for the scale leaves its place:
it is quoted in the record. A larger scale never gives an item a lower form, and a fold takes the largest one
whose view fits the goal: so a larger goal never shows less (R20).

A fold in order: `clips.py` reads the items and makes them smaller; here each gets its form at a scale, the
scale is found, and the layout says what stays; `record.py` writes what stands for the rest;
`strategies/graded.py` makes proposals of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from refold import entries as e
from refold.compaction.clips import (
    Clips,
    ItemReader,
    ItemStats,
    SizedMessage,
)
from refold.compaction.plan_context import PlanContext, legal_cut, may_leave, newest_step
from refold.messages import Assistant
from refold.session.invariants import PAIRS, legal, thinking
from refold.session.invariants.empty import blank
from refold.session.items import Item
from refold.shrink.clip import LEVELS, WORTH
from refold.tokens.fitting import largest

SCALES: tuple[float, ...] = tuple(40 * 1.01**n for n in range(1_560))
"""In tokens. A fixed grid: what is found does not depend on where the search begins."""
QUOTE = 48
"""Tokens that a quoted step has at least."""
LARGEST_QUOTE = 0.25
"""Share of the goal that one quotation may have."""
QUOTED = 8
"""Tokens of the number and the speaker beside a quotation."""
_STALE_SHARE = 0.1
"""Share of the usual size that a result keeps once the same call was made again."""


class Curve(NamedTuple):
    """Tokens an item may have at age x: scale × share × (x / bend)^−decay, for x beyond the bend."""

    said: float = 1.2
    said_decay: float = 0.3
    result: float = 0.08
    decay: float = 1.04
    """Of results, and of large calls that are quoted."""
    bend: float = 0.5
    weight: float = 0.2
    """Share of the scale by which one item makes those before it older, at most."""
    heavy: float = 0.6
    """What no clip makes smaller may have so much of the scale in one step, less with age as words do."""

    def tokens(self, item: ItemStats, age: float, scale: float) -> float:
        """Tokens of an item in its place."""
        bends = max(age / scale / self.bend, 1.0)
        share = self.said * bends**-self.said_decay if item.said else self.result * bends**-self.decay
        return scale * share * (_STALE_SHARE if item.stale else 1.0)

    def quoted(self, item: ItemStats, age: float, scale: float) -> float:
        """Tokens of an item that is quoted in the record: what it wrote fades as results do."""
        bends = max(age / scale / self.bend, 1.0)
        return scale * self.said * bends**-self.decay if item.writes else self.tokens(item, age, scale)

    def leaves(self, item: ItemStats, age: float, scale: float) -> bool:
        """Is its step too large to stand?"""
        bends = max(age / scale / self.bend, 1.0)
        return item.heavy > scale * self.heavy * bends**-self.said_decay

    def depth(self, scale: float) -> float:
        """The age from which on items are lines: a result would be smaller than the lowest level."""
        return scale * self.bend * max(self.result * scale / LEVELS[0], 1.0) ** (1 / self.decay)


# ── the items of a view at one scale ────────────────────────────────────────────────────────────


@dataclass
class ScaleView:
    """The items that are no lines at a scale. An item's place is counted from the newest, which has 0."""

    total: int
    levels: list[int] = field(default_factory=list[int])
    """For each item, newest first, the level it is clipped to; 0: not at all."""
    quoted: set[int] = field(default_factory=set[int])
    """Items that are quoted in the record."""
    clipped: dict[int, int] = field(default_factory=dict[int, int])
    """Items that are clipped where they stand, and their levels."""
    tokens: int = 0
    """Of the other items, and of quotations."""

    @property
    def begins(self) -> int:
        """Where the record ends: as soon as anything is quoted, it takes at least the first item's place."""
        return max(self.total - len(self.levels), int(bool(self.quoted)))


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
        """The view at the largest scale that fits, with the newest of its clips as they are at the next one,
        as far as there is room; at the smallest scale where none fits."""
        index = largest(len(SCALES) - 2, lambda index: self._room(self.at_scale(SCALES[index]), index) >= 0)
        view, larger = self.at_scale(SCALES[index]), self.at_scale(SCALES[index + 1])
        room = self._room(view, index)
        for place, level in view.clipped.items():
            if place >= len(larger.levels) or place in larger.quoted:
                break
            room -= self.items.size(place, larger.levels[place]) - self.items.size(place, level)
            if room < 0:
                break
            view.levels[place] = larger.levels[place]
        return view

    def at_scale(self, scale: float) -> ScaleView:
        """The view at a scale; of one that passes the goal the newest items, as far as that shows it.

        The *age* of an item is what came after it; one huge message counts as a part of the scale at most, so
        that it does not push everything before it out of sight."""
        view, age, curve = ScaleView(self.items.total), 0.0, self.curve
        # The newest item of a step decides for all of it: no result stands without its call.
        leaving: dict[int, bool] = {}
        depth = curve.depth(scale)
        for place in range(self.items.total):
            newest = place < self.items.total - self.last
            if not newest and (age > depth or view.tokens > self.goal):
                break
            stats = self.items.stats(place)
            if leaving.setdefault(stats.step, curve.leaves(stats, age, scale)):
                most = min(curve.quoted(stats, age, scale), LARGEST_QUOTE * self.goal)
                level = _level(most, QUOTE if stats.said else max(QUOTE, stats.least), stats.now)
                view.quoted.add(place)
                view.tokens += QUOTED + (level or stats.now)
            else:
                fixed = stats.sealed > 0
                level = 0 if fixed else _level(curve.tokens(stats, age, scale), stats.least, stats.now)
                if level:
                    view.clipped[place] = level
                else:
                    view.tokens += stats.now + stats.sealed
            view.levels.append(level)
            age += min(stats.whole, curve.weight * scale)
        return view

    def _room(self, view: ScaleView, index: int) -> int:
        """What a view leaves of the goal; less than nothing where it does not fit."""
        room = self.goal - view.tokens
        if room >= 0:
            room -= self.record(view.begins, SCALES[index])
        for place, level in sorted(view.clipped.items(), key=lambda clip: -clip[1]):
            if room < 0:
                break
            room -= self.items.size(place, level)
        return room


def _level(most: float, least: int, now: int) -> int:
    """The level to which an item of `now` tokens is clipped to have `most`; 0 where that is not worth it."""
    level = max(LEVELS[max(bisect_right(LEVELS, most) - 1, 0)], least)
    return 0 if now <= max(level + WORTH, most) else level


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
    """Items of steps that are too large to stand: the record tells of them."""

    def edits(self, items: Sequence[Item]) -> Iterator[e.Edit]:
        for index, form in sorted(self.forms.items()):
            ids = items[index].entries
            yield e.Edit(ids[0], ids[-1], (form.message,), "clip")
        first = 0
        for index in sorted(self.left):
            first = first if index - 1 in self.left else index
            if index + 1 not in self.left:
                yield e.Edit(items[first].entries[0], items[index].entries[-1], (), e.LEFT)


def lay_out(s: PlanContext, clips: Clips, goal: int, limit: int, curve: Curve, record: RecordSize) -> Layout:
    """The items of the view within `goal` tokens, together with the record that stands for the path before
    them. Where the wire leaves no cut that fits, the newest step alone stays; where that is too large, and
    may leave, all is quoted."""
    first, step, leaves = s.projection.first, newest_step(s), may_leave(s)

    def before(index: int, scale: float) -> int:
        at = first + index
        return record(s.projection.position_of(at), scale) if at > first else 0

    def laid(reader: ItemReader, last: int, cut: int | None = None) -> Layout:
        view = ScaleSearch(reader, goal, before, curve, last - first).largest()
        return _placed(s, reader, view, cut, goal // 10)

    def fits(layout: Layout) -> bool:
        return layout.tokens + before(layout.first - first, 0.0) <= limit

    if s.wanted_cut is not None:
        return laid(ItemReader(s, clips, goal, limit=limit), min(step, s.wanted_cut), s.wanted_cut)
    layout = laid(ItemReader(s, clips, goal, limit=limit), step)
    if not fits(layout):  # the newest step alone, and no share of its own for what no reply has read
        reader = ItemReader(s, clips, goal)
        layout = laid(reader, step, legal_cut(s, step, 0, reader.open_from))
    if leaves and not fits(layout):
        end = len(s.items)
        return laid(ItemReader(s, clips, goal, all_leave=True), end, end)
    return layout


def _placed(s: PlanContext, reader: ItemReader, view: ScaleView, cut: int | None, slack: int) -> Layout:
    """The layout of a view: what stays begins at `cut`, or where the wire allows it near the view's end."""
    first, newest = s.projection.first, len(s.items) - 1
    levels = {newest - place: level for place, level in enumerate(view.levels)}
    left = {newest - place for place in view.quoted}
    lines_end = newest + 1 - len(view.levels)
    if cut is None:
        # A record has to stand somewhere: what leaves takes at least the first item with it.
        cut = _cut(s, max(lines_end, first + 1) if left else lines_end, left, slack, reader.open_from)
    # No result without its call, unless all is quoted and the line of the call stands before them.
    steps = range(lines_end, cut)
    whole = lines_end if reader.all_leave else next((i for i in steps if legal(s.items, i, PAIRS)), cut)
    gone = frozenset(index for index in left if index >= cut > first)
    quotes = {i: levels[i] for i in (*range(whole, cut), *sorted(gone))}
    levels |= {index: reader.stats(newest - index).least for index in range(cut, lines_end)}
    stays = [index for index in range(cut, len(s.items)) if index not in gone]
    made = ((index, reader.form(index, levels.get(index, 0))) for index in stays)
    forms = {index: form for index, form in made if form is not None}
    return Layout(cut, s.projection.position_of(cut), reader.sent(stays, forms), forms, quotes, gone)


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
