"""Making single messages of the view smaller: shrink by rule, mask by a stub, squeeze as a last resort.

Every reduction is one edit of one entry; the full message stays in the log and its recall key is printed
in what replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from weakref import WeakKeyDictionary

import msgspec

from refold import entries as e
from refold.compaction.situation import Situation
from refold.compaction.squeeze import squeezed
from refold.messages import Call, Message, Result, Text
from refold.session import Session
from refold.session.invariants import inside_put
from refold.shrink import Limits, shrink
from refold.text.frames import attribute

STUB = '[{tool} result folded: {size} tokens. recall_conversation(keys=["{key}"]) brings it back.]'


@dataclass(frozen=True)
class Smaller:
    """What one item becomes."""

    message: Message
    kind: str
    name: str = ""
    """Names this form of the item for good, where it has only one: its size is counted once."""


_shrunk: WeakKeyDictionary[Session, dict[tuple[str, Limits], Message | None]] = WeakKeyDictionary()
"""What results become by rule: the same at every plan."""


@dataclass
class Reduction:
    """The items of a view with some of them made smaller, and their exact sizes."""

    s: Situation
    changed: dict[int, Smaller] = field(default_factory=dict[int, Smaller])
    _sizes: dict[int, int] = field(default_factory=dict[int, int])

    def size(self, index: int) -> int:
        if index in self.changed:
            if index not in self._sizes:
                self._sizes[index] = self._counted(self.changed[index])
            return self._sizes[index]
        return self.s.sizes.item(index)

    def _counted(self, smaller: Smaller) -> int:
        if not smaller.name:
            return self.s.counter.message(smaller.message)
        return self.s.session.cached_count(smaller.name, smaller.message, self.s.counter)

    def total(self, first: int = 0) -> int:
        """Exact size of the items from `first` on."""
        return sum(self.size(index) for index in range(first, len(self.s.items)))

    def put(self, index: int, smaller: Smaller | None) -> None:
        """Take a smaller form of an item, if it is smaller."""
        if smaller is None:
            return
        before, known = self.size(index), self.changed.get(index)
        self.changed[index] = smaller
        self._sizes.pop(index, None)
        if self.size(index) >= before:
            self._sizes.pop(index, None)
            if known is None:
                del self.changed[index]
            else:
                self.changed[index] = known

    def edits(self, first: int = 0) -> Iterator[e.Edit]:
        """One edit for each changed item from `first` on."""
        for index in sorted(self.changed):
            if index >= first:
                ids, smaller = self.s.items[index].entries, self.changed[index]
                yield e.Edit(ids[0], ids[-1], (smaller.message,), smaller.kind)

    def ids(self, kind: str, first: int = 0) -> tuple[str, ...]:
        chosen = (i for i, smaller in sorted(self.changed.items()) if smaller.kind == kind and i >= first)
        return tuple(self.s.items[i].entries[0] for i in chosen)


def calls_of(s: Situation) -> dict[str, Call]:
    """Calls of the view by id; of a repeated id the newest counts."""
    return {call.id: call for item in s.items for call in item.message.calls}


def old_results(s: Situation, newest_turns: int) -> list[int]:
    """Indexes of tool results before the newest `newest_turns` turns."""
    turns = s.session.turns
    if len(turns) < newest_turns:
        return []
    end = s.projection.item_at(turns[-newest_turns]) if newest_turns else len(s.items)
    first = s.projection.first
    return [i for i in _single_results(s, end) if i >= first]


def shrink_results(reduction: Reduction, indexes: Iterable[int], limits: Limits) -> None:
    calls, s = calls_of(reduction.s), reduction.s
    known = _shrunk.setdefault(s.session, {})
    for index in indexes:
        result, key = s.items[index].message, (s.projection.key(index), limits)
        assert isinstance(result, Result)
        if key not in known:
            call = calls.get(result.call_id) or Call(result.call_id, result.name or "")
            known[key] = shrink(call, result, limits)
        smaller, name = known[key], f"{key[0]}/shrink/{hash(limits)}"
        reduction.put(index, Smaller(smaller, "shrink", name) if smaller else None)


def mask_results(reduction: Reduction, indexes: Sequence[int], protected: int) -> None:
    """Replace results by stubs, except the newest ones that together have at most `protected` tokens."""
    room = protected
    safe: set[int] = set()
    for index in reversed(_single_results(reduction.s, len(reduction.s.items))):
        room -= reduction.size(index)
        if room < 0:
            break
        safe.add(index)
    for index in indexes:
        if index not in safe:
            reduction.put(index, mask(reduction.s, index))


def mask(s: Situation, index: int) -> Smaller:
    result = s.items[index].message
    assert isinstance(result, Result)
    id = s.items[index].entries[0]
    entry = s.session[id]
    original = entry.message if isinstance(entry, e.MessageEntry) else result
    size = s.session.cached_count(id, original, s.counter)
    stub = STUB.format(tool=attribute(result.name or "tool"), size=size, key=e.key(id))
    stub_only = msgspec.structs.replace(result, content=(Text(stub),))
    return Smaller(stub_only, "mask", f"{s.projection.key(index)}/mask")


def squeeze(reduction: Reduction, first: int, room: int, keep: frozenset[int]) -> bool:
    """Make the items from `first` on fit into `room`, the oldest first; those in `keep` stay as they are.
    True if they fit."""
    over, items = reduction.total(first) - room, reduction.s.items
    for index in range(first, len(items)):
        if over <= 0:
            return True
        if index in keep or inside_put(items, index) or inside_put(items, index + 1):
            continue  # of several messages that stand for one stretch, none can be replaced alone
        size = reduction.size(index)
        if size <= MINIMUM:
            continue
        message = items[index].message
        key = e.key(items[index].entries[0])
        for target in (max(size - over, MINIMUM), MINIMUM):
            reduction.put(index, Smaller(squeezed(message, target * 3, key), "mask"))
            if reduction.size(index) <= max(size - over, MINIMUM):
                break
        over -= size - reduction.size(index)
    return over <= 0


MINIMUM = 120
"""Tokens below which squeezing a message is not worth it."""


def _single_results(s: Situation, end: int) -> list[int]:
    """Indexes, before `end`, of the items that show the tool result of one entry."""
    return [
        index
        for index, item in enumerate(islice(s.items, end))
        if type(item.message) is Result and len(item.entries) == 1
    ]
