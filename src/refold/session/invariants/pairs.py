"""Rule: every call has exactly one result, every result its call.

A missing result gets a placeholder once a later message closes the call; at the very end, results may still
come. A late result, a second one and one without a call become notes where they arrived. Duplicate ids are
renamed. Everything is derived from what came before, so a settled prefix is always repaired the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from refold.messages import Assistant, Call, Result, Text, Thinking, User
from refold.session.invariants.batches import CallBatch, around, join_assistants, read_batch
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


def repair(items: Sequence[Item], *, unique: bool = True) -> list[Item]:
    """Joins the pieces of a reply, too, which is the rule of `batches`. `unique`: ids must be unique over the
    whole conversation, not only within a batch."""
    repaired: list[Item] = []
    ids, at = _CallIds(), 0
    while at < len(items):
        item, message = items[at], items[at].message
        if message.calls:
            batch = read_batch(items, at)
            repaired += _paired(items, batch, ids if unique else _CallIds())
            at = batch.end
        else:
            lone = isinstance(message, Result)
            repaired.append(item.saying(orphan_note(message)) if lone else item)
            at += 1
    return repaired


def repeated(items: Sequence[Item], position: int, batch: CallBatch) -> bool:
    """True for a verbatim repetition of a result of this batch, which is dropped."""
    message = items[position].message
    return any(g is not None and items[g].message == message for g in batch.given)


def _paired(items: Sequence[Item], batch: CallBatch, ids: _CallIds) -> Iterator[Item]:
    """The items of a batch: the reply in one piece, with unused ids, and one result for each of its calls."""
    pieces = [items[at] for at in batch.heads]
    reply = ids.renamed(pieces[0] if len(pieces) == 1 else join_assistants(pieces))
    yield reply
    yield from (items[at] for at in batch.blanks)
    extras = [at for at in batch.extras if not repeated(items, at, batch)]
    closed = batch.end < len(items) or bool(extras)
    for call, given in zip(reply.message.calls, batch.given, strict=True):
        if given is not None:
            yield _answer(items[given], call)
        elif closed:
            yield Item(stand_in(call))
    for item in (items[at] for at in extras):
        if isinstance(item.message, Result):
            yield item.saying(orphan_note(item.message))


def _answer(item: Item, call: Call) -> Item:
    message = item.message
    renamed = isinstance(message, Result) and message.call_id != call.id
    return item.saying(msgspec.structs.replace(message, call_id=call.id)) if renamed else item


class _CallIds:
    """The ids of calls that are in use."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.counts: dict[str, int] = {}

    def renamed(self, item: Item) -> Item:
        """A reply whose calls have unused ids."""
        message = item.message
        parts = tuple(self._fresh(part) if type(part) is Call else part for part in message.parts)
        renamed = isinstance(message, Assistant) and parts != message.content
        return item.saying(msgspec.structs.replace(message, content=parts)) if renamed else item

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
