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
from refold.compaction.clips import SMALL, ItemReader, SizedMessage, least_step
from refold.compaction.plan_context import PlanContext, legal_cut, may_leave, newest_step
from refold.messages import Assistant
from refold.session.invariants import PAIRS, legal, thinking
from refold.session.invariants.empty import blank
from refold.session.items import Item
from refold.shrink.clip import LEVELS, WORTH

_SCALE_FACTOR = 1.06
"""From one scale to the next."""
GRID: tuple[float, ...] = tuple(40 * _SCALE_FACTOR**n for n in range(260))
"""Scales, in tokens."""
SMALL_CALL = SMALL + LEVELS[0]
"""Tokens of a small call for whose result there is room."""
QUOTE = 48
"""Tokens that a quoted step has at least."""
QUOTED = 8
"""Tokens of the number and the speaker beside a quotation."""
SMALLEST = LEVELS[0] + WORTH
"""An item of at most so many tokens is never clipped."""
_SUPERSEDED_SHARE = 0.1
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

    @property
    def begins(self) -> int:
        """Where the record ends: as soon as anything is quoted, it takes at least the first item's place."""
        return max(self.total - len(self.caps), int(bool(self.quoted) or self.in_place is not None))


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

    def at_scale(self, scale: float, *, goal: float = inf, calls: float | None = None) -> ScaleView:
        """The view at a scale; given up where it is seen to pass `goal`. `calls`: the scale that says which
        calls may stand, where that is another one."""
        items, curve, last = self.items, self.curve, self.last
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
                bends = max(before / bend, 1.0)
                share = (
                    curve.said * bends**-curve.said_decay
                    if said
                    else curve.result * bends**-curve.result_decay
                )
                most = scale * share * (_SUPERSEDED_SHARE if stale else 1.0)
                cap = LEVELS[max(bisect_right(LEVELS, most) - 1, 0)]
                enough = max(cap + WORTH, most)
                if leaves or (kept and view.in_place is not None and least != 0):
                    own = 0 if said else kept  # what the user typed into it
                    level = 0 if now <= enough + own else max(cap, QUOTE) + own
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
            self._add(view, self.at_scale(GRID[low + 1], calls=GRID[low]), room)
        return view

    def _estimate(self) -> int:
        """The largest scale that fits the goal where an item clipped to a level has that many tokens."""
        low, high = 0, len(GRID) - 1
        while low < high:
            middle = (low + high + 1) // 2
            view = self.at_scale(GRID[middle], goal=self.goal)
            room = self.goal - view.estimate
            if room >= 0 and room >= self.record(view.begins, GRID[middle]):
                low = middle
            else:
                high = middle - 1
        return low

    def _at(self, index: int) -> tuple[ScaleView, int]:
        """The view at a scale, and what it leaves of the goal, exactly; less than nothing where it does not
        fit."""
        items, view = self.items, self.at_scale(GRID[index])
        room = self.goal - view.whole - self.record(view.begins, GRID[index])
        for place in sorted(view.clipped, key=view.caps.__getitem__, reverse=True):
            if room < 0:
                break
            room -= items.size(place, items.stats(place).now, view.caps[place])
        return view, room

    def _add(self, view: ScaleView, more: ScaleView, room: int) -> None:
        """Raise the items of a view to those of the next scale, newest first, until something does not fit.
        Items that are lines at this scale come too, unless something is quoted: the record only gets
        smaller."""
        items, caps = self.items, view.caps

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
            stays = more.in_place is None or place < more.in_place
            now = stats.now + (stats.sealed if stays else 0)
            shown = 0 if new else size(place, now, caps[place])
            added = size(place, now, cap) - shown
            if added <= room:
                room -= added
                caps[place : place + 1] = [cap]
                continue
            # As much of the item as there is room for, to the token. One that comes new leaves room for the
            # call before it, which it cannot be without.
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


# ── layout: which items stay, in which form ──────────────────────────────────────────────────────


class Quote(NamedTuple):
    """An item that does not stay in its place, and yet is too new to be a line."""

    item: int
    """Its index."""
    level: int
    """Tokens it may have in the record; 0: all of it."""


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
    quotes: tuple[Quote, ...] = ()
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
        caps = {newest - place: cap for place, cap in enumerate(view.caps)}
        left = {newest - place for place in view.quoted if place < len(view.caps)}
        lines_end = newest + 1 - len(view.caps)
        if cut is None:
            # A record has to stand somewhere: what leaves takes at least the first item with it.
            begins = lines_end if view.in_place is None else newest + 1 - view.in_place
            begins = max(begins, first + 1) if left else begins
            cut = _cut(s, begins, left, goal // 10, reader.open_from)
        steps = range(lines_end, cut)
        whole = next((i for i in steps if legal(s.items, i, PAIRS)), cut)  # no result without its call
        gone = frozenset(index for index in left if index >= cut > first)
        quotes = tuple(Quote(i, caps[i]) for i in (*range(whole, cut), *sorted(gone)))
        caps |= {index: reader.least(index) for index in range(cut, lines_end)}
        stays = [index for index in range(cut, len(s.items)) if index not in gone]
        made = ((index, reader.form(index, caps.get(index, 0))) for index in stays)
        forms = {index: form for index, form in made if form is not None}
        return Layout(cut, s.projection.position_of(cut), reader.sent(stays, forms), forms, quotes, gone)

    if wanted is not None:
        return laid(ItemReader(s, goal, limit), wanted, min(step, wanted))
    leaves = may_leave(s)
    if not (leaves and least_step(s) + before(step - first, 0.0) > goal):
        layout = laid(ItemReader(s, goal, limit), None, step)
        if not (leaves and layout.tokens + before(layout.first - first, 0.0) > limit):
            return layout
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


def clip_kept(s: PlanContext, first: int, room: int) -> tuple[dict[int, SizedMessage], int]:
    """Items from `first` on made to fit into `room`, the longest first: all to the same level. With the
    tokens that all of them have then."""
    reader = ItemReader(s, room, room)
    sizes = {index: s.sizes.item(index) for index in range(first, len(s.items))}
    loose = [index for index in sizes if not reader.fixed(index)]
    forms, total = dict[int, SizedMessage](), sum(sizes.values())
    for tokens in reversed(LEVELS):
        forms = {index: form for index in loose if (form := reader.form(index, tokens))}
        total = sum((sizes | {index: form.size for index, form in forms.items()}).values())
        if total <= room:
            break
    return forms, total
