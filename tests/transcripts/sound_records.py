"""Is a written session one that its program resumes? Do the records hang together: known kinds, ids that differ,
parents that stand before their children, results after their calls?"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from uuid import UUID

from refold.text.lenient_json import JsonObject
from refold.transcripts.base import TranscriptFile, seconds
from refold.transcripts.values import as_list, as_name, as_object, as_text, is_list, is_object


def unsound(data: bytes, program: str, id: str) -> list[str]:
    """What is wrong with the records of a file, one sentence each; `id`: the session it should be."""
    source = TranscriptFile(io.BytesIO(data))
    records = [record for _, record in source.records()]
    found = [f"{problem.where}: {problem.text}" for problem in source.problems]
    if not data.endswith(b"\n"):
        found.append("the last line breaks off")
    if not records:
        return [*found, "there are no records"]
    rules = _claude_code if program == "claude-code" else _codex
    return [*found, *rules(records, id)]


def _claude_code(records: Sequence[JsonObject], id: str) -> Iterator[str]:
    seen: dict[str, JsonObject] = {}
    calls: set[str] = set()
    for number, record in enumerate(records, 1):
        uuid, kind = as_name(record.get("uuid")), as_text(record.get("type"))
        if uuid is None:
            continue  # titles, snapshots: beside the conversation
        if not _is_uuid(uuid) or uuid in seen:
            yield f"record {number} has an id that is none, or that another has"
        yield from _linked(record, number, seen)
        if record.get("sessionId") != id:
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


def _codex(records: Sequence[JsonObject], id: str) -> Iterator[str]:
    first = records[0]
    head = as_object(first.get("payload"))
    if first.get("type") != "session_meta" or not _is_uuid(as_text(head.get("id"))):
        yield "it does not begin with a session_meta that names its session"
    elif head.get("id") != id:
        yield "it belongs to another session"
    ordinals = [record["ordinal"] for record in records if isinstance(record.get("ordinal"), int)]
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
