"""Tokens of a view on the wire beyond its own messages (R2): placeholders for missing results, notes for
results without a call, and text that a dialect writes for parts it has no place for. Counted by the dialect
that writes most, and per item, so that the size of a cut is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from refold.messages import (
    AnyPart,
    Assistant,
    Call,
    Image,
    Opaque,
    Result,
    System,
    Text,
    Thinking,
    User,
    arguments_json,
)
from refold.protocols import TokenCounter
from refold.session.dialects.common import call_json, describe_opaque
from refold.session.invariants import first_user
from refold.session.invariants.batches import CallBatch, read_batch
from refold.session.invariants.empty import blank
from refold.session.invariants.pairs import orphan_note, repeated, stand_in
from refold.session.items import Item
from refold.session.projection import Projection
from refold.text.frames import element
from refold.tokens.parts import part_strings

PICTURES = "Pictures of the tool result call_0123456789abcdef0123456789abcdef01234567: (the pictures follow)"
NO_OUTPUT = "(no output)"


class WireOverhead:
    """The overhead of a projection's items, updated incrementally."""

    def __init__(self, projection: Projection, counter: TokenCounter) -> None:
        self.projection, self.counter = projection, counter
        self._items: Sequence[Item] = ()
        self._read = self.total = self.settled = 0
        """The overhead of items before `settled` is final."""
        self._by_item: dict[int, int] = {}
        self._tail: list[int] = []
        """Items at the end whose overhead may still change."""

    @classmethod
    def of(cls, projection: Projection, counter: TokenCounter) -> WireOverhead:
        known = projection.overheads.get(counter.name)
        if known is None:
            known = projection.overheads[counter.name] = cls(projection, counter)
        known._follow()
        return known

    def item(self, index: int) -> int:
        return self._by_item.get(index, 0)

    def _follow(self) -> None:
        items = self.projection.items
        if items is not self._items:
            self._items, self._read, self.settled, self.total = items, 0, 0, 0
            self._by_item, self._tail = {}, []
        if self._read == len(items):
            return
        for index in self._tail:
            self.total -= self._by_item.pop(index, 0)
        for start, stretch in overhead_by_stretch(items, self.settled, self.counter):
            self.settled, self._tail = start, list(stretch)
            self._by_item |= stretch
            self.total += sum(stretch.values())
        self._read = len(items)


def wire_overhead(items: Sequence[Item], counter: TokenCounter) -> int:
    """Tokens of the items on the wire beyond their own count."""
    return sum(sum(found.values()) for _, found in overhead_by_stretch(items, 0, counter))


def overhead_by_stretch(
    items: Sequence[Item], first: int, counter: TokenCounter
) -> Iterator[tuple[int, dict[int, int]]]:
    """Where each stretch begins (a batch with its results, or a single message) from `first` on, and its
    overhead by item. `first` must begin one."""
    opening = next((index for index, item in enumerate(items) if first_user.begins(item)), None)
    index = first
    while index < len(items):
        message = items[index].message
        if _plain_pair(items, index):
            end, found = index + 2, {}
        elif message.calls:
            batch = read_batch(items, index)
            found, end = dict(_of_batch(items, batch, counter)), batch.end
        else:
            end = index + 1
            extra = _own(items[index], index, counter)
            if type(message) is Result:
                extra += counter.message(orphan_note(message)) - counter.message(message)
            found = {index: extra} if extra > 0 else {}
        if index == opening and isinstance(message, (Assistant, Result)):
            found[index] = found.get(index, 0) + counter.message(first_user.STAND_IN)
        yield index, found
        index = end


def _plain_pair(items: Sequence[Item], index: int) -> bool:
    """True for one call and its result, the usual case without overhead. Written for speed: it runs for every
    item of a view, four times per fold."""
    message = items[index].message
    if type(message) is not Assistant or index + 1 == len(items):
        return False
    call: Call | None = None
    for part in message.content:
        if type(part) is Call and call is None and part.raw is None:
            call = part
        elif type(part) is not Text and type(part) is not Thinking:
            return False
    result = items[index + 1].message
    if call is None or type(result) is not Result or result.call_id != call.id or result.is_error:
        return False
    if any(type(part) is not Text for part in result.content):
        return False
    if index + 2 == len(items):
        return True
    after = items[index + 2].message
    return type(after) is not Result and not blank(after)


def _of_batch(items: Sequence[Item], batch: CallBatch, counter: TokenCounter) -> Iterator[tuple[int, int]]:
    extras = {i for i in batch.extras if not repeated(items, i, batch)}
    closed = batch.end < len(items) or bool(extras)
    missing = [call for call, given in zip(batch.calls, batch.given, strict=True) if given is None]
    for index in range(batch.heads[0], batch.end):
        message, extra = items[index].message, _own(items[index], index, counter)
        if index == batch.heads[-1] and closed:
            extra += sum(counter.message(stand_in(call)) for call in missing)
        if index in extras and isinstance(message, Result):
            extra += counter.message(orphan_note(message)) - counter.message(message)
        if extra > 0:
            yield index, extra


def _own(item: Item, index: int, counter: TokenCounter) -> int:
    """Text that a dialect writes around the parts of one message."""
    message = item.message
    odd = [part for part in message.parts if type(part) is not Text]
    extra = sum(_around(part, counter) for part in odd) if odd else 0
    if isinstance(message, Result):
        if any(isinstance(part, Image) for part in odd):
            extra += counter.message(User((Text(PICTURES),)))
        elif message.is_error and not message.text.strip():
            extra += counter.text(NO_OUTPUT)
    elif isinstance(message, System) and index:
        texts = (part.text for part in message.content if type(part) is Text)
        extra += len(odd) * counter.text(element("system_message", ""))
        extra += sum(counter.text(element("system_message", x)) - counter.text(x) for x in texts)
    return extra


def _around(part: AnyPart, counter: TokenCounter) -> int:
    """Additional tokens of a part that must be written in another form."""
    if type(part) is Call and part.raw is not None:
        return max(counter.text(call_json(part)) - counter.text(arguments_json(part)), 0)
    if isinstance(part, Opaque):
        return max(counter.text(describe_opaque(part.raw)) - sum(map(counter.text, part_strings(part))), 0)
    return 0
