"""A view graded to a goal: which items stay in their place, in which form, and where the record ends
(R19)."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from refold import entries as e
from refold.compaction.clips import Form, ItemReader, least_step
from refold.compaction.grade import Curve, RecordSize, ScaleSearch
from refold.compaction.plan_context import PlanContext, legal_cut, may_leave, newest_step
from refold.messages import Assistant
from refold.session.invariants import PAIRS, legal, thinking
from refold.session.invariants.empty import blank
from refold.session.items import Item
from refold.shrink.clip import LEVELS


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
    forms: dict[int, Form]
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

    def clipped(self, items: Sequence[Item]) -> tuple[str, ...]:
        return tuple(items[index].entries[0] for index in sorted(self.forms))


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
        forms = reader.forms(stays, caps)
        return Layout(cut, s.projection.position_of(cut), reader.sent(stays, forms), forms, quotes, gone)

    if wanted is not None:
        return laid(ItemReader.of(s, goal, limit), wanted, min(step, wanted))
    leaves = may_leave(s)
    if not (leaves and least_step(s) + before(step - first, 0.0) > goal):
        layout = laid(ItemReader.of(s, goal, limit), None, step)
        if not (leaves and layout.tokens + before(layout.first - first, 0.0) > limit):
            return layout
    # The newest step alone is too large, or the rules of the wire left no cut that fits: all is quoted.
    return laid(ItemReader.of(s, goal, limit, loose=True), len(s.items), len(s.items))


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


def clip_kept(s: PlanContext, first: int, room: int) -> dict[int, Form]:
    """Items from `first` on made to fit into `room`, the longest first: all to the same level."""
    reader = ItemReader(s, room, room)
    sizes = {index: s.sizes.item(index) for index in range(first, len(s.items))}
    forms: dict[int, Form] = {}
    for tokens in reversed(LEVELS):
        loose = (index for index in sizes if not reader.fixed(index))
        forms = {index: form for index in loose if (form := reader.form(index, tokens))}
        if sum(forms[i].size if i in forms else size for i, size in sizes.items()) <= room:
            break
    return forms
