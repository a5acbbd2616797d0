"""Rule: every call has exactly one result, every result its call.

A missing result gets a placeholder once a later message closes the call; at the very end, results may still
come. A late result, a second one and one without a call become notes where they arrived. Duplicate ids are
renamed. Everything is derived from what came before, so a settled prefix is always repaired the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from refold.messages import Assistant, Call, Result, Text, Thinking, User
from refold.session.invariants.batches import CallBatch, around, read_batch
from refold.session.items import Item
from refold.text.frames import element

MISSING_RESULT = "(no result was recorded for this call)"
LATE = "unpaired_tool_result"


def stand_in(call: Call) -> Result:
    """The placeholder for a missing result."""
    return Result(call.id, (Text(MISSING_RESULT),), call.name, is_error=True)


def orphan_note(result: Result) -> User:
    """A result without an open call, as a note."""
    text = element(LATE, result.text, call=result.call_id, tool=result.name)
    others = (p for p in result.content if not isinstance(p, (Text, Thinking)))
    return User((Text(text, "tool"), *others))


def legal(items: Sequence[Item], index: int) -> bool:
    """False between a call and its result, and after a call whose result may still come."""
    batch = around(items, index)
    if batch is None:
        return True
    return not batch.open(items) and all(g is None or g < index for g in batch.given)


def orderly(items: Sequence[Item], *, unique: bool = True) -> bool:
    """True if neither this rule nor `batches` has anything to repair: the usual case, checked in one fast
    pass."""
    used: set[str] = set()
    waiting: list[str] = []
    for item in items:
        message = item.message
        if type(message) is Result:
            if not waiting or waiting.pop() != message.call_id:
                return False
        elif waiting:
            return False
        elif type(message) is Assistant:
            waiting = [p.id for p in message.content if type(p) is Call]
            if waiting:
                ids = set(waiting)
                if len(ids) < len(waiting) or "" in ids or not used.isdisjoint(ids):
                    return False
                if unique:
                    used |= ids
                waiting.reverse()
    return True


def repair(items: list[Item], *, unique: bool = True) -> list[Item]:
    """`unique`: ids must be unique over the whole conversation, not only within a batch."""
    return _Walk(items, unique).run()


def repeated(items: Sequence[Item], position: int, batch: CallBatch) -> bool:
    """True for a verbatim repetition of a result of this batch, which is dropped."""
    message = items[position].message
    return any(g is not None and items[g].message == message for g in batch.given)


class _Walk:
    """One pass over the items."""

    def __init__(self, items: list[Item], unique: bool) -> None:
        self.items = items
        self.unique = unique
        self.repaired: list[Item] = []
        self.used: set[str] = set()
        self.counts: dict[str, int] = {}

    def run(self) -> list[Item]:
        items = self.items
        i = 0
        while i < len(items):
            message = items[i].message
            if message.calls:
                i = self._batch(read_batch(items, i))
                continue
            lone = type(message) is Result
            self.repaired.append(items[i].saying(orphan_note(message)) if lone else items[i])
            i += 1
        return self.repaired

    def _batch(self, batch: CallBatch) -> int:
        if not self.unique:
            self.used, self.counts = set(), {}
        calls = [call for head in batch.heads for call in self._head(head)]
        self.repaired.extend(self.items[i] for i in batch.blanks)
        extras = [i for i in batch.extras if not repeated(self.items, i, batch)]
        closed = batch.end < len(self.items) or bool(extras)
        for call, given in zip(calls, batch.given, strict=True):
            if given is not None:
                self._answer(call, given)
            elif closed:
                self.repaired.append(Item(stand_in(call)))
        for i in extras:
            message = self.items[i].message
            if isinstance(message, Result):
                self.repaired.append(self.items[i].saying(orphan_note(message)))
        return batch.end

    def _head(self, position: int) -> tuple[Call, ...]:
        """Adds an assistant message with unused ids and returns its calls."""
        item = self.items[position]
        parts = tuple(self._fresh(p) if type(p) is Call else p for p in item.message.parts)
        message = item.message
        if isinstance(message, Assistant) and parts != message.content:
            item = item.saying(msgspec.structs.replace(message, content=parts))
        self.repaired.append(item)
        return item.message.calls

    def _fresh(self, call: Call) -> Call:
        id = call.id or "call"
        if id in self.used:
            number = self.counts.get(id, 1) + 1
            while f"{id}_{number}" in self.used:
                number += 1
            self.counts[id] = number
            id = f"{id}_{number}"
        self.used.add(id)
        return call if id == call.id else msgspec.structs.replace(call, id=id)

    def _answer(self, call: Call, position: int) -> None:
        item = self.items[position]
        message = item.message
        if isinstance(message, Result) and message.call_id != call.id:
            item = item.saying(msgspec.structs.replace(message, call_id=call.id))
        self.repaired.append(item)
