"""Rule: parallel calls stay together.

The calls of one reply are a batch; its results follow directly, in the order of the calls. A reply that
arrived in pieces (one call per message) is joined: `pairs` repairs both, as it reads each batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from refold.messages import Assistant, Call, Result
from refold.session.invariants.empty import BROKEN_STOPS, blank
from refold.session.items import Item


class CallBatch(msgspec.Struct):
    """The calls of one reply and the results that follow it, as positions in the items."""

    heads: list[int]
    calls: list[Call]
    given: list[int | None]
    """Call → position of its result."""
    extras: list[int]
    """Results after the batch that answer none of its calls."""
    blanks: list[int]
    """Messages in between that the model does not see."""
    end: int
    """The first item after the batch, or the end."""

    @property
    def results(self) -> list[int]:
        return [g for g in self.given if g is not None]

    def open(self, items: Sequence[Item]) -> bool:
        """True if results may still come."""
        return self.end == len(items) and None in self.given


def read_batch(items: Sequence[Item], start: int) -> CallBatch:
    """The batch whose first assistant message is `items[start]`."""
    heads, results, blanks, end = _extent(items, start)
    calls = [call for h in heads for call in items[h].message.calls]
    given: list[int | None] = [None] * len(calls)
    waiting: dict[str, list[int]] = {}
    for number, call in enumerate(calls):
        waiting.setdefault(call.id, []).append(number)
    extras: list[int] = []
    for position in results:
        message = items[position].message
        numbers = waiting.get(message.call_id) if isinstance(message, Result) else None
        if numbers:
            given[numbers.pop(0)] = position
        else:
            extras.append(position)
    return CallBatch(heads, calls, given, extras, blanks, end)


def around(items: Sequence[Item], index: int) -> CallBatch | None:
    """The batch that a cut directly before `items[index]` might split. Scans only this batch."""
    if index < len(items) and _stands_alone(items, index):
        return None
    start: int | None = None
    for i in range(index - 1, -1, -1):
        message = items[i].message
        if message.calls:
            if start is not None and not _continues(message):
                break
            start = i
        elif not blank(message) and (start is not None or not isinstance(message, Result)):
            break
    return None if start is None else read_batch(items, start)


def legal(items: Sequence[Item], index: int) -> bool:
    """False between the pieces of a batch and between the results of parallel calls."""
    batch = around(items, index)
    if batch is None or len(batch.calls) == 1:
        return True  # a single call is a matter of pairs
    return index > max([*batch.heads, *batch.results]) and not batch.open(items)


def join_assistants(pieces: Sequence[Item]) -> Item:
    content = tuple(p for piece in pieces for p in piece.message.parts)
    last = pieces[-1].message
    stop = last.stop if isinstance(last, Assistant) else None
    fold = next((p.fold for p in pieces if p.fold is not None), None)
    return Item(Assistant(content, stop), tuple(e for p in pieces for e in p.entries), fold)


def _stands_alone(items: Sequence[Item], index: int) -> bool:
    """True if the message at `index` does not belong to a batch before it."""
    here = items[index].message
    if isinstance(here, Result) or blank(here):
        return False
    if not here.calls:
        return True
    before = next((items[i].message for i in range(index - 1, -1, -1) if not blank(items[i].message)), None)
    return before is None or not before.calls


def _continues(message: object) -> bool:
    """True if a message with calls directly after this one is part of the same reply. A reply that broke off
    is not continued: the next one is a new attempt."""
    return isinstance(message, Assistant) and message.stop not in BROKEN_STOPS


def _extent(items: Sequence[Item], start: int) -> tuple[list[int], list[int], list[int], int]:
    heads, results, blanks = [start], list[int](), list[int]()
    for i in range(start + 1, len(items)):
        message = items[i].message
        if isinstance(message, Result):
            results.append(i)
        elif not results and message.calls and _continues(items[heads[-1]].message):
            heads.append(i)
        elif blank(message):
            blanks.append(i)
        else:
            return heads, results, blanks, i
    return heads, results, blanks, len(items)
