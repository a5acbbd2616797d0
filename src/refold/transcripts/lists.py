"""Files that are a list of provider messages: what the dialects have in common.

The list stands alone, under `messages` (or `input`, `conversation` …) of an object, or one message a line. A
file of several such objects holds several conversations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, cast

import msgspec

from refold import entries as e
from refold import messages as m
from refold.errors import FormatError, UsageError
from refold.protocols import Loaded, SessionInfo
from refold.transcripts.base import Head, Record, Source, index_id, seconds

KEYS = ("messages", "input", "conversation", "conversations", "history", "chat", "dialogue")
"""Where objects keep their list."""
_TIMES = ("timestamp", "created_at", "time")
_FACTS = ("model", "tools", "id", "name", "title", "metadata")

Parse = Callable[[Record], list[m.Message]]


class Sample:
    """The first messages of a file, for detection."""

    def __init__(self, head: Head) -> None:
        self.envelope: Record = {}
        self.items: list[Record] = []
        value: Any = list(head.records) if head.records else head.value
        records = cast("list[Any]", value) if isinstance(value, list) else [value]
        self.items = objects(records[:50])
        inner = inside(self.items[0]) if self.items else None
        if inner is not None:
            self.envelope = self.items[0]
            self.items = objects(inner[:50])

    @property
    def roles(self) -> set[Any]:
        return {item.get("role") for item in self.items if isinstance(item.get("role"), str)}

    @property
    def kinds(self) -> set[str]:
        """Types of the items and of their content parts."""
        found = list(self.items)
        for item in self.items:
            content = item.get("content")
            found += objects(cast("list[Any]", content)) if isinstance(content, list) else []
        return {kind for one in found if isinstance(kind := one.get("type"), str)}

    def has(self, *keys: str) -> bool:
        return any(key in item for item in self.items for key in keys)


@lru_cache(maxsize=1)
def sample(head: Head) -> Sample:
    return Sample(head)


def objects(values: Iterable[Any]) -> list[Record]:
    return [cast("Record", value) for value in values if isinstance(value, dict) and value]


def inside(record: Record) -> list[Any] | None:
    """The list that an object holds; None if it is a message itself."""
    if "role" in record or "from" in record or isinstance(record.get("type"), str):
        return None
    for key in KEYS:
        if isinstance(record.get(key), list):
            return cast("list[Any]", record[key])
    return None


def conversation(source: Source) -> tuple[Record, list[Any]]:
    """The wanted conversation: the object around it (may be empty) and its messages."""
    if source.head().records:
        records: list[Any] = [record for _, record in source.records()]
    else:
        value = source.document()
        records = cast("list[Any]", value) if isinstance(value, list) else [value]
    envelopes = [record for record in objects(records) if inside(record) is not None]
    if not envelopes:
        return {}, records
    chosen = envelopes[source.choose(len(envelopes))]
    return chosen, inside(chosen) or []


class Builder:
    """Turns messages into a chain of entries: `e3`, and `e3.1` for the second message of one item."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.entries: list[e.AnyEntry] = []
        self._last: str | None = None
        self._tools: dict[str, str] = {}

    def add(self, id: str, message: m.Message, raw: Mapping[str, Any], known: frozenset[str]) -> None:
        """A result gets the name of the tool that was called, where the list does not repeat it."""
        extra = {key: value for key, value in raw.items() if key not in known}
        self._tools.update((call.id, call.name) for call in message.calls)
        if isinstance(message, m.Result) and message.name is None:
            message = msgspec.structs.replace(message, name=self._tools.get(message.call_id))
        entry = e.MessageEntry(
            id=id,
            parent=self._last,
            message=message,
            time=next((time for key in _TIMES if (time := seconds(raw.get(key)))), 0.0),
            meta={"extra": extra} if extra else {},
        )
        self.entries.append(entry)
        self._last = id

    def add_all(self, items: Iterable[Any], parse: Parse, known: frozenset[str]) -> None:
        """Every item by `parse`; one that is no message becomes a problem."""
        listed = list(items)
        self.refuse(listed)
        for index, item in enumerate(listed):
            if not isinstance(item, dict):
                continue
            self.add_item(index, cast("Record", item), parse, known)

    def add_item(self, index: int, record: Record, parse: Parse, known: frozenset[str]) -> None:
        try:
            found = parse(record)
        except (UsageError, TypeError, ValueError, KeyError, AttributeError) as error:
            self.source.problem(f"message {index}", f"not understood ({error}): left out")
            return
        for number, message in enumerate(found):
            id = index_id(index) if number == 0 else f"{index_id(index)}.{number}"
            self.add(id, message, record if number == 0 else {}, known)

    def refuse(self, items: Iterable[Any]) -> None:
        """Say which items are no messages at all."""
        for index, item in enumerate(items):
            if not isinstance(item, dict):
                self.source.problem(f"message {index}", f"{type(item).__name__} where a message was expected")

    def done(self, envelope: Record) -> Loaded:
        if not self.entries:
            raise FormatError(f"{self.source.name or 'the file'} holds no messages")
        facts = {key: envelope[key] for key in _FACTS if key in envelope}
        title = next((v for key in ("name", "title") if isinstance(v := facts.get(key), str)), None)
        given = facts.get("id")
        info = SessionInfo(
            id=given if isinstance(given, str) and given else _name_of(self.source),
            created=seconds(envelope.get("created_at") or envelope.get("created")),
            updated=max(entry.time for entry in self.entries),
            name=title,
            entries=len(self.entries),
        )
        if facts:
            self.entries.insert(0, e.Info(id="e~info", name=title, meta=facts))
        return self.source.loaded(self.entries, info)


def _name_of(source: Source) -> str:
    """The file's name without folder and ending."""
    last = source.name.replace("\\", "/").rpartition("/")[2]
    return last.partition(".")[0] or "session"
