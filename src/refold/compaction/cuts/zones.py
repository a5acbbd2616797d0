"""Which finished rounds stay verbatim: a number of them, or as many as fit a budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import msgspec

from refold import entries as e
from refold.compaction.rounds import round_at
from refold.compaction.situation import Situation
from refold.messages import Message, Result, Text
from refold.text.truncate import middle


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
            for at in self._items(s, index):
                item = s.items[at]
                if item.fold is None and (smaller := self._cut(item.message)) is not item.message:
                    yield e.Edit(item.entries[0], item.entries[-1], (smaller,), "shrink")

    def _items(self, s: Situation, index: int) -> range:
        round = round_at(s, index)
        return range(s.item_at(round.first), s.item_at(round.last + 1))

    def _size(self, s: Situation, index: int, *, newest: bool) -> int:
        total = 0
        for at in self._items(s, index):
            message = s.items[at].message
            smaller = message if newest else self._cut(message)
            total += s.counter_size(at) if smaller is message else s.counter.message(smaller)
        return total

    def _cut(self, message: Message) -> Message:
        if not isinstance(message, Result) or len(message.text) <= self.result_chars:
            return message
        return msgspec.structs.replace(message, content=(Text(middle(message.text, self.result_chars)),))
