"""Is a written session one that its program resumes? What would not be taken is refused before it is written.

Two questions. Do the records hang together: known kinds, ids that differ, parents that stand before their
children, results after their calls? And: read back, does the file say what was to be said, in that order?
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from uuid import UUID

from refold import entries as e
from refold import messages as m
from refold.errors import FormatError
from refold.session import Item, Projection, Session, dialects
from refold.session.dialects.common import call_object, without_surrogates
from refold.session.edits import said_by
from refold.text.frames import without_escapes
from refold.text.lenient_json import JsonObject
from refold.transcripts import read_stream
from refold.transcripts.base import TranscriptFile, seconds
from refold.transcripts.embedded_fold import EMBEDDED_KEY
from refold.transcripts.programs import Page, Ticket, json_lines, sendable_items, writer
from refold.transcripts.values import as_list, as_name, as_object, as_text, is_list, is_object


def refuse_unsound(data: bytes, program: str, page: Page, ticket: Ticket, *, before: bytes = b"") -> None:
    """`FormatError` that says what is wrong with a session as it would be written; `before`: the file that it
    is appended to."""
    found = unsound(data, program, ticket.id, before=before)
    # What the program sees counts, and what we see: it reads nothing of what a record carries for us.
    for seen in (before + without_carried(data), before + data):
        found = found or _unlike(seen, program, page)
    if found:
        raise FormatError(
            f"{program} would not resume this session: {found[0]}. Nothing was written; "
            "`refold export FILE --to jsonl` holds everything"
        )


def unsound(data: bytes, program: str, id: str | None = None, *, before: bytes = b"") -> list[str]:
    """What is wrong with the records of a file, one sentence each; `id`: the session it should be."""
    source = TranscriptFile(io.BytesIO(data))
    records = [record for _, record in source.records()]
    known = [record for _, record in TranscriptFile(io.BytesIO(before)).records()]
    found = [f"{problem.where}: {problem.text}" for problem in source.problems]
    if not data.endswith(b"\n"):
        found.append("the last line breaks off")
    if not records:
        return [*found, "there are no records"]
    rules = _claude_code if program == "claude-code" else _codex
    return [*found, *rules(records, id, known)]


def _unlike(data: bytes, program: str, page: Page) -> list[str]:
    """How the file, read back, differs from what it should say."""
    session = Session.of(read_stream(io.BytesIO(data), name="session.jsonl", format=program))
    wanted = _words(page.view, program)
    chosen = writer(program)
    there = _words(sendable_items(Projection(session).items, chosen.dialect, chosen.adapted), program)
    pairs = enumerate(zip_longest(wanted, there))
    return [f"read back, part {at} of the view differs" for at, (a, b) in pairs if a != b][:1]


def unchanged(
    path: Sequence[e.Entry], program: str, records: Sequence[JsonObject], places: Mapping[str, str]
) -> dict[str, str]:
    """Of the entries that records say, those that come back as they are when these are read."""
    read = read_stream(io.BytesIO(json_lines(records)), name="session.jsonl", format=program)
    there = {entry.id: _said(entry) for entry in read.entries}
    return {
        entry.id: place
        for entry in path
        if (place := places.get(entry.id)) and there.get(place) == _said(entry)
    }


def _said(entry: e.Entry) -> list[tuple[str, ...]] | None:
    message = said_by(entry)
    return None if message is None else spoken_texts([message])


def without_carried(data: bytes) -> bytes:
    records = [record for _, record in TranscriptFile(io.BytesIO(data)).records()]
    for record in records:
        record.pop(EMBEDDED_KEY, None)
        as_object(record.get("payload")).pop(EMBEDDED_KEY, None)
    return json_lines(records)


def _words(items: Sequence[Item], program: str) -> list[tuple[str, ...]]:
    """What the provider would be told."""
    dialect = dialects.get(writer(program).dialect)
    return spoken_texts(dialect.parse_list(dialect.render(items)))


def spoken_texts(messages: Iterable[m.Message]) -> list[tuple[str, ...]]:
    """What is said, with its speaker, in order. What one side says in a row is one text."""
    found: list[tuple[str, ...]] = []
    for message in messages:
        if isinstance(message, m.Result):
            found.append(("result", message.call_id, plainly(message.text)))
            continue
        for part in message.parts:
            if isinstance(part, m.Call):
                found.append(("call", part.id, part.name, m.compact_json(call_object(part))))
            elif isinstance(part, m.Text) and (said := plainly(part.text)):
                role = "assistant" if isinstance(message, m.Assistant) else "user"
                if found and found[-1][0] == role:
                    said = found.pop()[1] + said
                found.append((role, said))
    return found


def plainly(text: str) -> str:
    """Letters and signs alone: escapes, blanks and half characters may be lost on the way."""
    return "".join(without_surrogates(without_escapes(text)).split())


def _claude_code(records: Sequence[JsonObject], id: str | None, known: Sequence[JsonObject]) -> Iterator[str]:
    seen = {as_text(record.get("uuid")): record for record in known}
    calls: set[str] = set()
    for number, record in enumerate(records, 1):
        uuid, kind = as_name(record.get("uuid")), as_text(record.get("type"))
        if uuid is None:
            continue  # titles, snapshots: beside the conversation
        if not _is_uuid(uuid) or uuid in seen:
            yield f"record {number} has an id that is none, or that another has"
        yield from _linked(record, number, seen)
        if id is not None and record.get("sessionId") != id:
            yield f"record {number} belongs to another session"
        if not seconds(record.get("timestamp")):
            yield f"record {number} has no time"
        if kind in ("user", "assistant"):
            yield from _message(as_object(record.get("message")), kind, number, calls)
        seen[uuid] = record
    if not any(as_text(record.get("type")) in ("user", "assistant") for record in records):
        yield "it holds no messages"


def _linked(record: JsonObject, number: int, seen: dict[str, JsonObject]) -> Iterator[str]:
    parent = record.get("parentUuid")
    bounds = record.get("subtype") == "compact_boundary"
    if bounds and (parent is not None or record.get("logicalParentUuid") not in (None, *seen)):
        yield f"record {number}: a boundary begins anew and names what it continues"
    if parent is None and seen and not bounds and record.get("isSidechain") is not True:
        yield f"record {number} continues nothing"
    if parent is not None and parent not in seen:
        yield f"record {number} continues a record that does not stand before it"


def _message(message: JsonObject, kind: str, number: int, calls: set[str]) -> Iterator[str]:
    content = message.get("content")
    if message.get("role") != kind:
        yield f"record {number} has the wrong role"
    if not content or not (isinstance(content, str) or is_list(content)):
        yield f"record {number} has no content"
        return
    for block in map(as_object, as_list(content)):
        if block.get("type") == "tool_use":
            calls.add(as_text(block.get("id")))
            if kind != "assistant" or not as_name(block.get("id")) or not is_object(block.get("input")):
                yield f"record {number} holds a call that is none"
        elif block.get("type") == "tool_result" and block.get("tool_use_id") not in calls:
            yield f"record {number} holds a result of no call"


def _codex(records: Sequence[JsonObject], id: str | None, known: Sequence[JsonObject]) -> Iterator[str]:
    first = (*known, *records)[0]
    head = as_object(first.get("payload"))
    if first.get("type") != "session_meta" or not _is_uuid(as_text(head.get("id"))):
        yield "it does not begin with a session_meta that names its session"
    elif id is not None and head.get("id") != id:
        yield "it belongs to another session"
    ordinals = [
        record["ordinal"] for record in (*known[-1:], *records) if isinstance(record.get("ordinal"), int)
    ]
    if ordinals != sorted(set(ordinals)):
        yield "its ordinals do not grow"
    history: list[JsonObject] = []
    for number, record in enumerate(records, 1):
        payload = record.get("payload")
        if not is_object(payload) or not as_name(record.get("type")) or not seconds(record.get("timestamp")):
            yield f"record {number} has no type, time or payload"
        elif record["type"] == "response_item":
            history.append(as_object(payload))
        elif record["type"] == "compacted" and is_list(as_object(payload).get("replacement_history")):
            history = [as_object(item) for item in as_object(payload)["replacement_history"]]
    yield from _items(history)


def _items(history: Sequence[JsonObject]) -> Iterator[str]:
    calls: dict[str, str] = {}
    for number, item in enumerate(history, 1):
        kind = as_text(item.get("type"))
        if kind in ("function_call", "custom_tool_call"):
            calls[as_text(item.get("call_id"))] = kind
            if not as_name(item.get("call_id")) or not as_name(item.get("name")):
                yield f"item {number} is a call without a name or an id"
        elif kind in ("function_call_output", "custom_tool_call_output"):
            if calls.get(as_text(item.get("call_id"))) != kind.removesuffix("_output"):
                yield f"item {number} is the output of no call of its kind"
        elif kind == "message":
            parts = [as_object(part).get("type") for part in as_list(item.get("content"))]
            spoken = "output_text" if item.get("role") == "assistant" else "input_text"
            if not parts or not all(part in (spoken, "input_image", "refusal") for part in parts):
                yield f"item {number} is a message without content, or with parts that have no place in it"
        elif not kind:
            yield f"item {number} has no type"


def _is_uuid(value: str) -> bool:
    try:
        return str(UUID(value)) == value.lower()
    except ValueError:
        return False
