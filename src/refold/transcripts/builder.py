"""Shared parts of importers: content in the providers' formats, and a builder that always makes a valid log.

Foreign files are untrusted. Every entry goes through `Builder`, which keeps ids unique and parents valid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable
from pathlib import PurePath
from typing import Any, cast

import msgspec

from refold import entries as e
from refold import messages as m
from refold.protocols import Loaded, SessionInfo
from refold.session.dialects.common import parse_arguments, parse_image
from refold.text.frames import without_escapes
from refold.text.lenient_json import JsonObject
from refold.text.plural import counted
from refold.transcripts.base import TranscriptFile, index_id
from refold.transcripts.values import as_count, as_list, as_name, as_object, as_text, is_list, is_object


def build_call(id: object, name: object, given: object) -> m.Call:
    return parse_arguments(as_text(id), as_text(name), given)


def usage(*, prompt: object = 0, output: object = 0, read: object = 0) -> m.Usage | None:
    """Usage of a provider that includes cached tokens in the prompt; None if there is none."""
    cached = as_count(read)
    found = m.Usage(max(as_count(prompt) - cached, 0), as_count(output), cached)
    return found if found.total else None


def build_parts(content: object, part: Callable[[JsonObject], m.AnyPart]) -> list[m.AnyPart]:
    """Content in any form: nothing, a text, an object, or a list of these. `part` reads an object; anything
    else is kept unchanged."""
    items = as_list(content) if is_list(content) else [content] if content != "" else []
    return [_part_of(item, part) for item in items if item is not None]


def _part_of(item: object, part: Callable[[JsonObject], m.AnyPart]) -> m.AnyPart:
    if isinstance(item, str):
        return m.Text(item)
    return part(as_object(item)) if as_object(item) else m.Opaque({"value": item})


def chat_parts(content: object) -> list[m.AnyPart]:
    """Content in OpenAI's format, chat and responses alike."""
    return build_parts(content, _chat_part)


def _chat_part(raw: JsonObject) -> m.AnyPart:
    match raw.get("type"):
        case "text" | "input_text" | "output_text" | "summary_text" | "reasoning_text" if isinstance(
            raw.get("text"), str
        ):
            return m.Text(raw["text"])
        case "image_url" | "input_image":
            image = raw.get("image_url")
            url = as_text(image) or as_text(as_object(image).get("url"))
            return parse_image(url) if url else m.Opaque(raw)
        case None if isinstance(raw.get("text"), str) and len(raw) == 1:
            return m.Text(raw["text"])
        case _:
            return m.Opaque(raw)


def chat_calls(calls: object) -> list[m.Call]:
    """`tool_calls` of an OpenAI chat message."""
    found: list[m.Call] = []
    for raw in map(as_object, as_list(calls)):
        function = as_object(raw.get("function")) or as_object(raw.get("custom")) or raw
        given = function.get("arguments", function.get("input"))
        found.append(build_call(raw.get("id"), function.get("name"), given))
    return found


def thinking_parts(blocks: object) -> list[m.Thinking]:
    """Thinking in Anthropic's format, as other programs keep it."""
    return [
        m.Thinking(as_text(raw.get("thinking")), as_name(raw.get("signature")), as_name(raw.get("data")))
        for raw in map(as_object, as_list(blocks))
    ]


def without_terminal_codes(part: m.AnyPart) -> m.AnyPart:
    """A part of tool output without terminal escapes."""
    if not isinstance(part, m.Text) or (bare := without_escapes(part.text)) == part.text:
        return part
    return msgspec.structs.replace(part, text=bare)


def chosen_object(source: TranscriptFile, within: str = "") -> dict[str, Any]:
    """The wanted conversation of a file: a JSON object (or the list under its key `within`), a list of
    objects, or one object per line."""
    head = source.head()
    if not head.raw.lstrip().startswith(b"[") and head.records and within not in head.records[0]:
        wanted, count, chosen = source.index or 0, 0, dict[str, Any]()
        for count, (_, record) in enumerate(source.records(), 1):
            chosen = record if count - 1 == wanted else chosen
        source.choose(count)
        return chosen
    found = source.once("objects", lambda: _objects(source, within))
    return found[source.choose(len(found))]


def _objects(source: TranscriptFile, within: str) -> list[dict[str, Any]]:
    """The conversations of a document."""
    document = source.document()
    items = as_list(document)
    if is_object(document):
        items = as_list(as_object(document).get(within, [document]))
    found = [as_object(item) for item in items if is_object(item)]
    if len(found) < len(items):
        source.problem("file", f"left out {counted(len(items) - len(found), 'item')}: not JSON objects")
    return found


def edits_of(
    path: Iterable[str], gone: Container[str], put: tuple[m.Message, ...], between: Container[str] = ()
) -> tuple[e.Edit, ...]:
    """One edit for each stretch of removed entries; the first one has the replacement."""
    runs: list[tuple[str, str]] = []
    inside = False
    for id in path:
        if id in gone and inside:
            runs[-1] = runs[-1][0], id
        elif id in gone:
            runs.append((id, id))
        inside = id in gone or (inside and id in between)
    return tuple(
        e.Edit(first, last, () if number else put, "summary" if put and not number else "hide")
        for number, (first, last) in enumerate(runs)
    )


class Builder:
    """Collects the entries of one conversation. Ids stay unique, parents are entries that exist."""

    def __init__(self, format: str, source: TranscriptFile) -> None:
        self.format = format
        self.source = source
        self.calls: dict[str, str] = {}
        """Call id → name of the tool."""
        self.info: dict[str, Any] = {}
        self.times: list[float] = []
        self.unknown: Counter[str] = Counter()
        """Unknown types of records, which are kept and reported at the end."""
        self.clear()

    def clear(self) -> None:
        """Discards all entries, because the file restates them."""
        self.entries: list[e.AnyEntry] = []
        self.tail: str | None = None
        """The entry that the next one of a linear conversation continues."""
        self._ids: set[str] = set()
        self._parents: dict[str, str | None] = {}
        self._roots: dict[str, str] = {}
        self._newest: str | None = None

    def fresh(self, wanted: object, index: int) -> str:
        """The id of an entry: its own if it is free, otherwise `e<index>`."""
        if isinstance(wanted, int) and not isinstance(wanted, bool):
            wanted = str(wanted)
        id = as_name(wanted) or index_id(index)
        if id in self._ids:
            id = index_id(index)
            number = 0
            while id in self._ids:
                number += 1
                id = f"{index_id(index)}.{number}"
        return id

    def parent(self, id: str) -> str | None:
        return self._parents.get(id)

    def path(self, id: str | None) -> list[str]:
        """The entries that lead to `id`, itself included."""
        found: list[str] = []
        while id is not None:
            found.append(id)
            id = self._parents.get(id)
        return found[::-1]

    def __contains__(self, id: object) -> bool:
        return id in self._parents

    def put(self, entry: e.AnyEntry) -> str:
        self.entries.append(entry)
        self._ids.add(entry.id)
        if entry.time:
            self.times.append(entry.time)
        if entry.on_path:
            parent = cast("e.AnyPathEntry", entry).parent
            self._parents[entry.id] = parent
            self._roots[entry.id] = entry.id if parent is None else self._roots[parent]
            self.tail = self._newest = entry.id
        if isinstance(entry, e.MessageEntry):
            self.calls.update((call.id, call.name) for call in entry.message.calls)
        return entry.id

    def add(self, kind: type[e.AnyEntry], index: int, /, *, id: object = None, **fields: Any) -> str:
        """Adds an entry under a free id. On the path it continues the conversation, unless it has another
        parent."""
        if issubclass(kind, e.PathEntry):
            fields.setdefault("parent", self.tail)
        return self.put(kind(id=self.fresh(id, index), **fields))

    def say(self, message: m.Message, index: int, *, id: object = None, **fields: Any) -> str:
        """Adds a message that continues the conversation; a result gets the name of its tool and loses
        terminal colours."""
        if isinstance(message, m.Result):
            tool = self.calls.get(message.call_id) if message.name is None else message.name
            content = tuple(map(without_terminal_codes, message.content))
            message = msgspec.structs.replace(message, name=tool, content=content)
        return self.add(e.MessageEntry, index, id=id, message=message, **fields)

    def strange(self, raw: dict[str, Any], item: object, index: int) -> str:
        """Adds a message with an unknown role."""
        role = raw.get("role")
        self.source.problem(f"message {index}", f"has the unknown role {role!r}: kept as it came")
        return self.add(e.Other, index, kind=as_text(role) or "message", raw=raw or {"value": item})

    def state(self, kind: str, value: Any, index: int, *, time: float = 0.0) -> str:
        """Adds a program's internal state, which is kept but not part of the conversation."""
        return self.add(
            e.State, index, time=time, target=self.tail, name=f"{self.format}:{kind}", value=value
        )

    def fold(self, put: tuple[m.Message, ...], index: int, **fields: Any) -> str | None:
        """Adds the agent's own compaction: one edit for the whole path. None if there is nothing before
        it."""
        if self.tail is None:
            return None
        edit = e.Edit(self._roots[self.tail], self.tail, put)
        return self.folded((edit,), index, **fields)

    def folded(self, edits: tuple[e.Edit, ...], index: int, **fields: Any) -> str:
        who = {"preset": self.format, "author": f"import:{self.format}"}
        return self.add(e.Fold, index, edits=edits, **who, **fields)

    def loaded(
        self, *, id: object = None, title: object = None, cwd: object = None, leaf: str | None = None
    ) -> Loaded:
        """All entries, the leaf at the end of the conversation, and an `Info`."""
        name, folder = as_name(title), as_name(cwd)
        if leaf is not None and leaf != self._newest and leaf in self._parents:
            self.add(e.Leaf, len(self.entries), id=f"leaf:{leaf}", target=leaf)
        for kind, count in self.unknown.items():
            told = f"{counted(count, 'record')} of the unknown type {kind!r}: kept unchanged"
            self.source.problem("file", told)
        created, updated = (min(self.times), max(self.times)) if self.times else (0.0, 0.0)
        meta = {"format": self.format, **self.info}
        self.add(e.Info, len(self.entries), id="info", time=updated, name=name, cwd=folder, meta=meta)
        info = SessionInfo(
            id=as_name(id) or PurePath(self.source.name).stem or self.format,
            created=created,
            updated=updated,
            name=name,
            cwd=folder,
            entries=len(self.entries),
        )
        return Loaded(tuple(self.entries), tuple(self.source.problems), info)
