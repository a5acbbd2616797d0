"""Exchanges: a view read as requests and the replies they got.

A request is user text and/or tool results; its reply is text and/or tool calls. In an agent loop every
model call is one exchange. A request at the very end that nobody answered yet is no exchange.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from refold import entries as e
from refold.compaction.plan import Source
from refold.compaction.situation import Situation
from refold.messages import Assistant, Bash, Call, Message, Text, arguments_json
from refold.session.items import Item


class Exchange(NamedTuple):
    """The items `first` up to, not including, `last`."""

    first: int
    last: int
    size: int


class Said:
    """Size in characters: texts, names of tools, their arguments as compact JSON. Thoughts are not said."""

    name = "said"

    def text(self, text: str) -> int:
        return len(text)

    def message(self, message: Message) -> int:
        if isinstance(message, Bash):
            return 0 if message.hidden else len(message.text)
        return sum(_length(part) for part in message.parts)

    def tools(self, tools: Sequence[Any]) -> int:
        del tools
        return 0


def _length(part: object) -> int:
    match part:
        case Text(text=text):
            return len(text)
        case Call(name=name):
            return len(name) + len(arguments_json(part))
        case _:
            return 0


SAID = Said()


def answered(items: Sequence[Item], first: int = 0) -> int:
    """Where the last exchange ends: what comes after waits for an answer."""
    end = len(items)
    while end > first and not isinstance(items[end - 1].message, Assistant):
        end -= 1
    return end


def newest_first(s: Situation) -> Iterator[Exchange]:
    """The exchanges of the view, from the last one back. Costs what is taken."""
    items, first = s.items, s.first_item
    end = answered(items, first)
    while end > first:
        start = end
        while start > first and isinstance(items[start - 1].message, Assistant):
            start -= 1
        while start > first and not isinstance(items[start - 1].message, Assistant):
            start -= 1
        yield Exchange(start, end, s.projection.size(SAID, start, end))
        end = start


def history_size(s: Situation) -> int:
    """Characters of all exchanges."""
    return s.projection.size(SAID, s.first_item, answered(s.items, s.first_item))


def node_of(s: Situation, item: Item) -> e.Fold | None:
    """The fold whose summary node this item is a part of."""
    if item.fold is None:
        return None
    fold = s.fold_of(item)
    return fold if fold.details.get("is_history_summary") else None


def sources(s: Situation, last: int) -> tuple[Source, ...]:
    """What was said before item `last`; summary nodes say nothing."""
    found = (item for item in s.items[s.first_item : last] if item.fold is None or node_of(s, item) is None)
    return tuple(s.source(item) for item in found)


def grouped(sources: Sequence[Source]) -> list[tuple[Source, ...]]:
    """Sources as exchanges: a new one begins where somebody speaks after the assistant."""
    found: list[list[Source]] = []
    for before, source in zip((None, *sources), sources, strict=False):
        answered = before is not None and isinstance(before.message, Assistant)
        if not found or (answered and not isinstance(source.message, Assistant)):
            found.append([])
        found[-1].append(source)
    return [tuple(group) for group in found]
