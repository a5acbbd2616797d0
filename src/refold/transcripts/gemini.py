"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*.json`.

A message holds its calls together with their results; a result becomes an entry of its own, under the id of
the call. Newer releases write the same records one a line, the session's own fields first.
"""

from __future__ import annotations

from typing import Any

from refold import entries as e
from refold import messages as m
from refold.protocols import Loaded
from refold.transcripts.base import Head, Record, Source, seconds
from refold.transcripts.foreign import Builder, call_of, parts_of, usage
from refold.transcripts.origins import GEMINI, declared
from refold.transcripts.values import listing, mapping, named, text, time_of, whole, without

name = "gemini"

_ASIDE = frozenset({"info", "error", "warning"})
_FAILED = frozenset({"error", "cancelled"})
_USED = frozenset({"id", "timestamp", "type", "content", "toolCalls", "thoughts", "tokens", "model"})
_CALL_USED = frozenset({"id", "name", "args", "result", "status", "timestamp"})


def detect(head: Head) -> float:
    first = mapping(head.value) or (head.records[0] if head.records else {})
    if "sessionId" in first and "projectHash" in first:
        return 0.95
    kinds = {text(mapping(item).get("type")) for item in listing(first.get("messages"))}
    return 0.7 if "gemini" in kinds else 0.0


def read(source: Source) -> Loaded:
    head, messages = _session(source)
    log = Builder(name, source)
    for index, item in enumerate(messages):
        raw = mapping(item)
        if "$rewindTo" in raw:
            _rewind(log, raw, index)
        elif raw.get("type") == "user":
            message = m.User(declared(parts_of(raw.get("content"), _part), GEMINI))
            log.say(message, index, id=raw.get("id"), time=time_of(raw), meta=without(raw, _USED))
        elif raw.get("type") == "gemini":
            _reply(log, raw, index)
        else:
            kind = text(raw.get("type"))
            if kind not in _ASIDE:
                log.unknown[kind or "without a type"] += 1
            kept = {"kind": kind or "record", "raw": raw or {"value": item}}
            log.add(e.Other, index, id=raw.get("id"), time=time_of(raw), **kept)
    log.info.update(without(head, frozenset({"messages", "sessionId"})))
    log.times += [when for key in ("startTime", "lastUpdated") if (when := seconds(head.get(key)))]
    return log.loaded(id=named(head.get("sessionId")), title=named(head.get("summary")), leaf=log.tail)


def _session(source: Source) -> tuple[Record, list[Any]]:
    """The session's own fields and its messages, from a document or from lines."""
    if not source.head().records:
        document = mapping(source.document())
        return document, listing(document.get("messages"))
    head: Record = {}
    messages: list[Any] = []
    for _, record in source.records():
        if "messages" in record or ("sessionId" in record and "type" not in record):
            head.update(without(record, frozenset({"messages"})))
            messages += listing(record.get("messages"))
        elif isinstance(record.get("$set"), dict):
            head.update(without(record["$set"], frozenset({"messages"})))
        else:
            messages.append(record)
    return head, messages


def _rewind(log: Builder, raw: Record, index: int) -> None:
    """The user went back to before a message: what follows is a branch."""
    target = raw["$rewindTo"]
    if isinstance(target, str) and target in log:
        log.tail = log.parent(target)
    else:
        log.source.problem(f"record {index}", f"goes back to {target!r}, which is not in this file")
    log.state("rewind", raw, index)


def _reply(log: Builder, raw: Record, index: int) -> None:
    calls = [mapping(call) for call in listing(raw.get("toolCalls"))]
    parts: list[m.AnyPart] = [_thought(thought) for thought in map(mapping, listing(raw.get("thoughts")))]
    parts += parts_of(raw.get("content"), _part)
    parts += [call_of(call.get("id"), call.get("name"), call.get("args")) for call in calls]
    tokens = mapping(raw.get("tokens"))
    model = named(raw.get("model"))
    log.say(
        m.Assistant(tuple(parts), "tool_use" if calls else "end"),
        index,
        id=raw.get("id"),
        time=time_of(raw),
        usage=usage(
            prompt=whole(tokens.get("input")) + whole(tokens.get("tool")),
            output=whole(tokens.get("output")) + whole(tokens.get("thoughts")),
            read=tokens.get("cached"),
        ),
        model=f"google:{model}" if model else None,
        meta=without(raw, _USED),
    )
    for call in calls:
        if call.get("result") is not None:
            failed = text(call.get("status")) in _FAILED
            result = m.Result(text(call.get("id")), tuple(parts_of(call["result"], _part)), None, failed)
            meta = without(call, _CALL_USED)
            log.say(result, index, id=call.get("id"), time=time_of(call), meta=meta)


def _thought(raw: Record) -> m.Thinking:
    lines = (text(raw.get("subject")), text(raw.get("description")))
    return m.Thinking("\n\n".join(line for line in lines if line))


def _part(raw: Record) -> m.AnyPart:
    if isinstance(raw.get("text"), str):
        return m.Thinking(raw["text"]) if raw.get("thought") is True else m.Text(raw["text"])
    if "functionResponse" in raw:
        response = mapping(mapping(raw["functionResponse"]).get("response"))
        said = response.get("output", response.get("error"))
        return m.Text(said if isinstance(said, str) and len(response) == 1 else m.compact_json(response))
    inline = mapping(raw.get("inlineData"))
    media = text(inline.get("mimeType"))
    if media.startswith("image/") and named(inline.get("data")):
        return m.Image(media, inline["data"])
    return m.Opaque(raw)
