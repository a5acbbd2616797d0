"""Files with a list of provider messages: the common part of the dialects.

The list is the whole file, under `messages` (or `input`, `conversation` …) of an object, or one message per
line. A file with several such objects has several conversations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, cast

import msgspec

from refold import entries as e
from refold import messages as m
from refold.errors import FormatError, UsageError
from refold.protocols import Loaded, SessionInfo
from refold.text.lenient_json import JsonObject
from refold.transcripts.base import Head, TranscriptFile, seconds
from refold.transcripts.builder import Builder
from refold.transcripts.values import as_name, without

KEYS = ("messages", "input", "conversation", "conversations", "history", "chat", "dialogue")
"""Keys under which objects keep their list."""
_TIMES = ("timestamp", "created_at", "time")
_FACTS = ("model", "tools", "id", "name", "title", "metadata")


class Sample:
    """The first messages of a file, for detection."""

    def __init__(self, head: Head) -> None:
        self.envelope: JsonObject = {}
        self.items: list[JsonObject] = []
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
        """Types of the items and their content parts."""
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


def objects(values: Iterable[Any]) -> list[JsonObject]:
    return [cast("JsonObject", value) for value in values if isinstance(value, dict) and value]


def inside(record: JsonObject) -> list[Any] | None:
    """The list in an object; None if it is itself a message."""
    if "role" in record or "from" in record or isinstance(record.get("type"), str):
        return None
    for key in KEYS:
        if isinstance(record.get(key), list):
            return cast("list[Any]", record[key])
    return None


def chosen_messages(source: TranscriptFile) -> tuple[JsonObject, list[Any]]:
    """The wanted conversation: the object around it (may be empty) and its messages."""
    records, envelopes = source.once("messages", lambda: _messages(source))
    if not envelopes:
        return {}, records
    chosen = envelopes[source.choose(len(envelopes))]
    return chosen, inside(chosen) or []


def _messages(source: TranscriptFile) -> tuple[list[Any], list[JsonObject]]:
    """All records of a file, and those of them that hold conversations."""
    if source.head().records:
        records: list[Any] = [record for _, record in source.records()]
    else:
        value = source.document()
        records = cast("list[Any]", value) if isinstance(value, list) else [value]
    return records, [record for record in objects(records) if inside(record) is not None]


Parse = Callable[[list[JsonObject]], list[m.Message]]
Groups = list[tuple[int, list[JsonObject]]]
"""Records that belong together, with the position of the first."""


def alone(items: Sequence[Any]) -> Groups:
    return [(index, [cast("JsonObject", item)]) for index, item in enumerate(items) if isinstance(item, dict)]


def read_message_list(
    source: TranscriptFile,
    name: str,
    parse: Parse,
    known: frozenset[str],
    *,
    opening: Callable[[JsonObject], m.Message | None] = lambda _: None,
    groups: Callable[[Sequence[Any]], Groups] = alone,
) -> Loaded:
    """The messages that `parse` makes of each group of records; other records become problems. `known`: keys
    that the message covers; `opening`: what the enclosing object says before it."""
    envelope, items = chosen_messages(source)
    log = Builder(name, source)
    said = opening(envelope)
    if said is not None and said.parts:
        log.put(e.MessageEntry(id="system", message=said))
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            source.problem(f"message {index}", f"{type(item).__name__} where a message was expected")
    for index, records in groups(items):
        try:
            messages = parse(records)
        except (UsageError, TypeError, ValueError, KeyError, AttributeError) as error:
            source.problem(f"message {index}", f"not understood ({error}): left out")
            continue
        for number, message in enumerate(messages):
            raw = records[0] if number == 0 and len(records) == 1 else {}
            _put(log, message, index, raw, known)
    return _loaded(log, envelope)


def _put(log: Builder, message: m.Message, index: int, raw: JsonObject, known: frozenset[str]) -> None:
    """Adds a message; a result gets the name of the called tool if it is missing."""
    extra = without(raw, known)
    if isinstance(message, m.Result) and message.name is None:
        message = msgspec.structs.replace(message, name=log.calls.get(message.call_id))
    when = next((time for key in _TIMES if (time := seconds(raw.get(key)))), 0.0)
    log.add(e.MessageEntry, index, message=message, time=when, meta={"extra": extra} if extra else {})


def _loaded(log: Builder, envelope: JsonObject) -> Loaded:
    if not log.entries:
        raise FormatError(f"{log.source.name or 'the file'} holds no messages")
    facts = {key: envelope[key] for key in _FACTS if key in envelope}
    title = as_name(facts.get("name")) or as_name(facts.get("title"))
    info = SessionInfo(
        id=as_name(facts.get("id")) or _name_of(log.source),
        created=seconds(envelope.get("created_at") or envelope.get("created")),
        updated=max(log.times, default=0.0),
        name=title,
        entries=len(log.entries),
    )
    opening = (e.Info(id="e~info", name=title, meta=facts),) if facts else ()
    return Loaded((*opening, *log.entries), tuple(log.source.problems), info)


def _name_of(source: TranscriptFile) -> str:
    """The file's name without folder and ending."""
    last = source.name.replace("\\", "/").rpartition("/")[2]
    return last.partition(".")[0] or "session"
