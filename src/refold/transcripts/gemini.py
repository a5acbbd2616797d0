"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*.json`.

A message holds its calls together with their results; a result becomes an entry of its own, under the id of
the call. Newer releases write the same records one a line, the session's own fields first.
"""

from __future__ import annotations

from typing import Any

from refold import entries as e
from refold import messages as m
from refold.protocols import Loaded
from refold.session.dialects.common import model_of
from refold.text.lenient_json import JsonObject
from refold.transcripts.base import Head, TranscriptFile, seconds
from refold.transcripts.builder import Builder, build_call, build_parts, usage
from refold.transcripts.origins import GEMINI, declared
from refold.transcripts.values import as_count, as_list, as_name, as_object, as_text, time_of, without

name = "gemini"

_ASIDE = frozenset({"info", "error", "warning"})
_FAILED = frozenset({"error", "cancelled"})
_USED = frozenset({"id", "timestamp", "type", "content", "toolCalls", "thoughts", "tokens", "model"})
_CALL_USED = frozenset({"id", "name", "args", "result", "status", "timestamp"})


def detect(head: Head) -> float:
    first = as_object(head.first)
    if "sessionId" in first and "projectHash" in first:
        return 0.95
    kinds = {as_text(as_object(item).get("type")) for item in as_list(first.get("messages"))}
    return 0.7 if "gemini" in kinds else 0.0


def read(source: TranscriptFile) -> Loaded:
    head, messages = _session(source)
    log = Builder(name, source)
    for index, item in enumerate(messages):
        raw = as_object(item)
        if "$rewindTo" in raw:
            _rewind(log, raw, index)
        elif raw.get("type") == "user":
            message = m.User(declared(build_parts(raw.get("content"), _part), GEMINI))
            log.say(message, index, id=raw.get("id"), time=time_of(raw), meta=without(raw, _USED))
        elif raw.get("type") == "gemini":
            _reply(log, raw, index)
        else:
            kind = as_text(raw.get("type"))
            if kind not in _ASIDE:
                log.unknown[kind or "without a type"] += 1
            kept = {"kind": kind or "record", "raw": raw or {"value": item}}
            log.add(e.Other, index, id=raw.get("id"), time=time_of(raw), **kept)
    log.info.update(without(head, frozenset({"messages", "sessionId"})))
    log.times += filter(None, (seconds(head.get(key)) for key in ("startTime", "lastUpdated")))
    return log.loaded(id=head.get("sessionId"), title=head.get("summary"), leaf=log.tail)


def _session(source: TranscriptFile) -> tuple[JsonObject, list[Any]]:
    """The session's fields and messages, from a document or from lines."""
    if not source.head().records:
        document = as_object(source.document())
        return document, as_list(document.get("messages"))
    head: JsonObject = {}
    messages: list[Any] = []
    for _, record in source.records():
        if "messages" in record or ("sessionId" in record and "type" not in record):
            head.update(without(record, frozenset({"messages"})))
            messages += as_list(record.get("messages"))
        elif isinstance(record.get("$set"), dict):
            head.update(without(record["$set"], frozenset({"messages"})))
        else:
            messages.append(record)
    return head, messages


def _rewind(log: Builder, raw: JsonObject, index: int) -> None:
    """Moves back to before a message; what follows is a branch."""
    target = raw["$rewindTo"]
    if isinstance(target, str) and target in log:
        log.tail = log.parent(target)
    else:
        log.source.problem(f"record {index}", f"goes back to {target!r}, which is not in this file")
    log.state("rewind", raw, index)


def _reply(log: Builder, raw: JsonObject, index: int) -> None:
    calls = [as_object(call) for call in as_list(raw.get("toolCalls"))]
    parts: list[m.AnyPart] = [_thought(thought) for thought in map(as_object, as_list(raw.get("thoughts")))]
    parts += build_parts(raw.get("content"), _part)
    parts += [build_call(call.get("id"), call.get("name"), call.get("args")) for call in calls]
    tokens = as_object(raw.get("tokens"))
    log.say(
        m.Assistant(tuple(parts), "tool_use" if calls else "end"),
        index,
        id=raw.get("id"),
        time=time_of(raw),
        usage=usage(
            prompt=as_count(tokens.get("input")) + as_count(tokens.get("tool")),
            output=as_count(tokens.get("output")) + as_count(tokens.get("thoughts")),
            read=tokens.get("cached"),
        ),
        model=model_of("google", raw),
        meta=without(raw, _USED),
    )
    for call in calls:
        if call.get("result") is not None:
            failed = as_text(call.get("status")) in _FAILED
            result = m.Result(
                as_text(call.get("id")), tuple(build_parts(call["result"], _part)), None, failed
            )
            meta = without(call, _CALL_USED)
            log.say(result, index, id=call.get("id"), time=time_of(call), meta=meta)


def _thought(raw: JsonObject) -> m.Thinking:
    lines = (as_text(raw.get("subject")), as_text(raw.get("description")))
    return m.Thinking("\n\n".join(line for line in lines if line))


def _part(raw: JsonObject) -> m.AnyPart:
    if isinstance(raw.get("text"), str):
        return m.Thinking(raw["text"]) if raw.get("thought") is True else m.Text(raw["text"])
    if "functionResponse" in raw:
        response = as_object(as_object(raw["functionResponse"]).get("response"))
        said = response.get("output", response.get("error"))
        return m.Text(said if isinstance(said, str) and len(response) == 1 else m.compact_json(response))
    inline = as_object(raw.get("inlineData"))
    media = as_text(inline.get("mimeType"))
    if media.startswith("image/") and as_name(inline.get("data")):
        return m.Image(media, inline["data"])
    return m.Opaque(raw)
