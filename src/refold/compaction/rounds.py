"""Rounds: a user message and everything up to the next one, as stretches of the path; which are finished, and
which stay verbatim: a number of them, or as many as fit a budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

from refold import entries as e
from refold.compaction.situation import Situation
from refold.messages import Assistant, Message, Result, Text
from refold.session import Item
from refold.session.edits import said_by, stretches, undone_folds
from refold.text.truncate import middle

BROKEN = ("error", "aborted")


class Round(NamedTuple):
    """`first` and `last` are path positions, both inside. Numbers count from 1."""

    number: int
    first: int
    last: int


def is_over(s: Situation) -> bool:
    """Has the newest round come to its final answer?"""
    if not s.items:
        return False
    last = s.items[-1]
    message = said_by(s.session[last.entries[-1]]) or last.message
    return isinstance(message, Assistant) and not message.calls and message.stop not in BROKEN


def finished(s: Situation) -> int:
    """How many rounds are finished."""
    return max(len(s.session.turns) - (0 if is_over(s) else 1), 0)


def round_at(s: Situation, index: int) -> Round:
    """The round with this index, from 0. What the model never sees at its end is no part of it; what was
    said before the first user message is a part of the first."""
    turns, path = s.session.turns, s.session.path
    first = turns[index] if index else min(s.projection.floor, turns[0])
    last = (turns[index + 1] if index + 1 < len(turns) else len(path)) - 1
    while last > first and said_by(path[last]) is None:
        last -= 1
    return Round(index + 1, first, last)


def items_of(s: Situation, round: Round) -> range:
    """Indexes of the items that show a round."""
    return range(s.projection.item_at(round.first), s.projection.item_at(round.last + 1))


def verbatim(s: Situation, round: Round) -> Round | None:
    """What of a round is still shown as it was said: all of it, what an older fold left of it, or nothing."""
    begin, end = s.projection.item_at(round.first), s.projection.item_at(round.last)
    if begin >= len(s.items) or end >= len(s.items):
        return None
    reach = _span(s, s.items[begin])
    if _span(s, s.items[end])[1] > round.last or (reach[1] >= round.last and s.items[begin].fold):
        return None
    if s.items[begin].fold and reach[0] < round.first:
        return Round(round.number, reach[1] + 1, round.last)
    return round


def _span(s: Situation, item: Item) -> tuple[int, int]:
    first, last = s.session.position(item.entries[0]), s.session.position(item.entries[-1])
    return first or 0, last or 0


def left_alone(s: Situation) -> list[tuple[int, int]]:
    """Stretches that were unfolded by hand: not folded again unless they must go."""
    if s.force or not s.session.annotations(e.Undo) or s.sizes.too_large:
        return []
    return [(x.first, x.last) for x in stretches(undone_folds(s.session.path), s.session.position)]


def touches(first: int, last: int, spans: list[tuple[int, int]]) -> bool:
    return any(a <= last and first <= b for a, b in spans)


# ── which finished rounds stay (D2) ─────────────────────────────────────────────────────────────


class Zone(Protocol):
    def first(self, s: Situation, rounds: int, /) -> int:
        """Index of the first of the `rounds` finished rounds that stays."""
        ...

    def trims(self, s: Situation, first: int, rounds: int, /) -> Iterator[e.Edit]:
        """Edits inside the rounds that stay."""
        ...


@dataclass(frozen=True)
class Newest:
    """So many of the newest rounds."""

    count: int

    def first(self, s: Situation, rounds: int, /) -> int:  # noqa: ARG002
        return max(rounds - self.count, 0)

    def trims(self, s: Situation, first: int, rounds: int, /) -> Iterator[e.Edit]:  # noqa: ARG002
        return iter(())


@dataclass(frozen=True)
class Fitting:
    """As many of the newest whole rounds as fit a budget; tool results of all but the newest are cut."""

    budget: int
    result_chars: int

    def first(self, s: Situation, rounds: int, /) -> int:
        total = 0
        for index in range(rounds - 1, -1, -1):
            total += self._size(s, index, newest=index == rounds - 1)
            if total > self.budget:
                return index + 1
        return 0

    def trims(self, s: Situation, first: int, rounds: int, /) -> Iterator[e.Edit]:
        for index in range(first, rounds - 1):
            for at in items_of(s, round_at(s, index)):
                item = s.items[at]
                if item.fold is None and (smaller := self._cut(item.message)) is not item.message:
                    yield e.Edit(item.entries[0], item.entries[-1], (smaller,), "shrink")

    def _size(self, s: Situation, index: int, *, newest: bool) -> int:
        total = 0
        for at in items_of(s, round_at(s, index)):
            message = s.items[at].message
            smaller = message if newest else self._cut(message)
            total += s.sizes.item(at) if smaller is message else s.counter.message(smaller)
        return total

    def _cut(self, message: Message) -> Message:
        if not isinstance(message, Result) or len(message.text) <= self.result_chars:
            return message
        return msgspec.structs.replace(message, content=(Text(middle(message.text, self.result_chars)),))
