"""GitHub Copilot CLI: `~/.copilot/session-state/<id>/events.jsonl`, one event a line.

What was said becomes messages under the ids of their events: system prompt, prompts, replies, results.
Everything else (turns, hooks, permissions) is bookkeeping that is kept beside the conversation.
"""

from __future__ import annotations

from refold import entries as e
from refold import messages as m
from refold.protocols import Loaded
from refold.session.dialects.common import model_of
from refold.text.lenient_json import JsonObject
from refold.transcripts.base import Head, TranscriptFile
from refold.transcripts.builder import Builder, build_call
from refold.transcripts.values import as_count, as_list, as_name, as_object, as_text, time_of, without

name = "copilot"

_BOOKKEEPING = (
    "session.", "hook.", "permission.", "tool.", "assistant.", "subagent.", "skill.", "user_input.",
)  # fmt: skip
_REPLY_USED = frozenset({"content", "toolRequests", "reasoningText", "model", "messageId"})
_RESULT_USED = frozenset({"toolCallId", "result", "error", "success", "model"})


def detect(head: Head) -> float:
    first = as_object(head.first)
    data = as_object(first.get("data"))
    if first.get("type") == "session.start" and "sessionId" in data:
        return 0.95
    return 0.8 if "parentId" in first and data and "." in as_text(first.get("type")) else 0.0


def read(source: TranscriptFile) -> Loaded:
    log = Builder(name, source)
    start: JsonObject = {}
    for index, (_, raw) in enumerate(source.records()):
        kind, data = as_text(raw.get("type")), as_object(raw.get("data"))
        place = {"id": raw.get("id"), "time": time_of(raw)}
        match kind:
            case "session.start":
                start = data
            case "system.message":
                log.say(m.System(m.content(as_text(data.get("content")))), index, **place)
            case "user.message":
                meta = without(data, frozenset({"content", "transformedContent"}))
                log.say(m.User(_prompt(data)), index, **place, meta=meta)
            case "assistant.message":
                meta = without(data, _REPLY_USED)
                log.say(_reply(data), index, **place, model=model_of("copilot", data), meta=meta)
            case "tool.execution_complete":
                log.say(_result(data), index, **place, meta=without(data, _RESULT_USED))
            case "system.notification":
                content = (m.Text(as_text(data.get("content")), "program"),)
                log.add(e.Note, index, **place, content=content, kind="notification", meta=data)
            case "session.compaction_complete" if as_name(data.get("summaryContent")):
                _compaction(log, data, index, place)
            case _:
                if not kind.startswith(_BOOKKEEPING):
                    log.unknown[kind] += 1
                log.state(kind, raw, index, time=time_of(raw))
    log.info.update(without(start, frozenset({"sessionId", "context"})))
    return log.loaded(id=start.get("sessionId"), cwd=as_object(start.get("context")).get("cwd"))


def _prompt(data: JsonObject) -> m.Content:
    """What was typed, and what the program put around it for the model."""
    typed, sent = as_text(data.get("content")), as_text(data.get("transformedContent"))
    before, found, after = sent.partition(typed) if typed else ("", "", "")
    if not found:
        return m.content(typed)
    parts = (m.Text(before, "program"), m.Text(typed), m.Text(after, "program"))
    return tuple(part for part in parts if part.text)


def _reply(data: JsonObject) -> m.Assistant:
    calls = [
        build_call(raw.get("toolCallId"), raw.get("name"), raw.get("arguments"))
        for raw in map(as_object, as_list(data.get("toolRequests")))
    ]
    thought = as_text(data.get("reasoningText"))
    parts = (*([m.Thinking(thought)] if thought else []), *m.content(as_text(data.get("content"))), *calls)
    return m.Assistant(parts, "tool_use" if calls else "end")


def _result(data: JsonObject) -> m.Result:
    said = as_text(as_object(data.get("result")).get("content")) or as_text(
        as_object(data.get("error")).get("message")
    )
    return m.Result(as_text(data.get("toolCallId")), m.content(said), None, data.get("success") is False)


def _compaction(log: Builder, data: JsonObject, index: int, place: JsonObject) -> None:
    summary = as_text(data.get("summaryContent"))
    log.fold(
        (m.User((m.Text(summary, "summary"),)),),
        index,
        **place,
        summary=summary,
        tokens_before=as_count(data.get("preCompactionTokens")),
        tokens_after=as_count(data.get("postCompactionTokens")),
    )
