"""OpenHands: event histories, as one JSON list or as `output.jsonl` with one run a line.

An action that came from a model's reply carries the whole reply; the actions of one reply become one message
with all its calls, under the id of the first. An observation is the result of the call that caused it. What
OpenHands itself forgot (`condensation`) is a fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from refold import entries as e
from refold import messages as m
from refold.protocols import Loaded
from refold.session.dialects.common import parse_image
from refold.text.lenient_json import JsonObject
from refold.transcripts.base import Head, TranscriptFile
from refold.transcripts.builder import (
    Builder,
    chat_calls,
    chat_parts,
    chosen_object,
    edits_of,
    thinking_parts,
    usage,
    without_terminal_codes,
)
from refold.transcripts.origins import OPENHANDS, declared
from refold.transcripts.values import (
    as_count,
    as_list,
    as_name,
    as_object,
    as_text,
    first,
    is_list,
    time_of,
    without,
)

name = "openhands"

_UNSEEN_ACTIONS = frozenset(
    {"change_agent_state", "null", "recall", "condensation_request", "pause", "start"}
)
_UNSEEN_OBSERVATIONS = frozenset({"agent_state_changed", "null", "recall"})
_HEAVY = frozenset({
    "tool_call_metadata", "content", "args", "message", "llm_message", "tool_call", "thought",
    "system_prompt",
})  # fmt: skip
_NOT_ARGUMENTS = frozenset(
    {"thought", "hidden", "confirmation_state", "is_confirmed", "blocking", "is_static"}
)


_KIND = frozenset({"kind"})
SDK_EVENTS = frozenset({
    "ActionEvent", "ObservationEvent", "MessageEvent", "SystemPromptEvent", "AgentErrorEvent", "PauseEvent",
    "UserRejectObservation", "Condensation", "CondensationRequest", "ConversationStateUpdateEvent",
})  # fmt: skip
"""Events of the agent SDK, the newer kind."""
_FAILURES = {"AgentErrorEvent": "error", "UserRejectObservation": "rejection_reason"}


def detect(head: Head) -> float:
    if head.records and is_list(head.records[0].get("history")):
        return 0.9 if _is_event(head.records[0]["history"]) else 0.4
    value: Any = head.value
    if as_object(value) or _holds_runs(head):
        value = (as_object(value) or first(value)).get("history")
    return 0.9 if _is_event(value) else 0.0


def _is_event(history: object) -> bool:
    """True for a list of events, or of pairs of them."""
    event = first(history) or first(next(iter(as_list(history)), None))
    return "source" in event and ("action" in event or "observation" in event or "kind" in event)


def read(source: TranscriptFile) -> Loaded:
    run, events = _run(source)
    log = Builder(name, source)
    reading = _Import(log, replies_of(events))
    for index, item in enumerate(events):
        reading.event(as_object(item), index, item)
    log.info.update(without(run, frozenset({"history"})))
    return log.loaded(id=run.get("instance_id"), title=run.get("instance_id"))


def _run(source: TranscriptFile) -> tuple[JsonObject, list[Any]]:
    head = source.head()
    if head.raw.lstrip().startswith(b"[") and not _holds_runs(head):
        run: JsonObject = {}
        events = as_list(source.document())
    else:
        run = chosen_object(source)
        events = as_list(run.get("history"))
    # The oldest files hold pairs of an action and its observation.
    flat = [event for item in events for event in (as_list(item) if is_list(item) else [item])]
    return run, flat


def _holds_runs(head: Head) -> bool:
    """True for a list of runs instead of events."""
    return "history" in first(head.value)


class _Import:
    def __init__(self, log: Builder, replies: dict[str, list[JsonObject]]) -> None:
        self.log = log
        self.given = replies
        """Actions of the newer kind, by their reply."""
        self.replies: set[str] = set()
        self.calls: dict[str, str] = {}
        """Event → the call it makes."""
        self.forgotten: set[str] = set()

    def event(self, raw: JsonObject, index: int, item: object) -> None:
        if as_text(raw.get("kind")) in SDK_EVENTS:
            self._newer(as_text(raw["kind"]), raw, index)
        elif "action" in raw:
            self._action(raw, index)
        elif "observation" in raw:
            self._observation(raw, index)
        else:
            self.log.unknown[as_text(raw.get("kind")) or "without an action"] += 1
            self._other(raw or {"value": item}, index, as_text(raw.get("kind")) or "event")

    def _other(self, raw: JsonObject, index: int, kind: str) -> None:
        self.log.add(e.Other, index, id=raw.get("id"), kind=kind, raw=raw, time=time_of(raw))

    def _say(self, message: m.Message, raw: JsonObject, index: int, **fields: Any) -> None:
        meta = without(raw, _HEAVY)
        self.log.say(message, index, id=raw.get("id"), time=time_of(raw), meta=meta, **fields)

    def _note(self, content: Sequence[m.AnyPart], kind: str, raw: JsonObject, index: int) -> None:
        said = {
            "content": tuple(map(without_terminal_codes, content)),
            "kind": kind,
            "meta": without(raw, _HEAVY),
        }
        self.log.add(e.Note, index, id=raw.get("id"), time=time_of(raw), **said)

    def _newer(self, kind: str, raw: JsonObject, index: int) -> None:
        """An event of the agent SDK."""
        if kind == "Condensation":
            self._condensation(raw, raw, index)
        elif kind == "ActionEvent":
            reply = as_text(raw.get("llm_response_id")) or as_text(raw.get("id"))
            if reply in self.replies:
                self._other(
                    {"id": raw.get("id"), "of": reply, "call": raw.get("tool_call_id")}, index, "action"
                )
            else:
                self.replies.add(reply)
                self._say(assistant_of(self.given.get(reply, [raw])), raw, index)
        else:
            message = message_of(kind, raw)
            if message is None:
                self._other(raw, index, kind)
            else:
                self._say(message, raw, index)

    # ── actions ─────────────────────────────────────────────────────────────────────────────────

    def _action(self, raw: JsonObject, index: int) -> None:
        kind, arguments = as_text(raw.get("action")), as_object(raw.get("args"))
        metadata = as_object(raw.get("tool_call_metadata"))
        if kind == "condensation":
            self._condensation(arguments, raw, index)
        elif kind in _UNSEEN_ACTIONS:
            self._other(raw, index, kind)
        elif kind == "system":
            self._say(m.System(_said(arguments, raw)), raw, index)
        elif kind == "message" and raw.get("source") != "agent":
            self._say(m.User(declared(_said(arguments, raw), OPENHANDS)), raw, index)
        elif metadata:
            self._reply(metadata, arguments, raw, index)
        elif kind == "message":
            self._say(m.Assistant(_said(arguments, raw), "end"), raw, index)
        elif raw.get("source") == "agent":
            self._bare_call(kind, arguments, raw, index)
        else:
            self.log.unknown[f"action {kind}"] += 1
            self._other(raw, index, kind or "action")

    def _reply(self, metadata: JsonObject, arguments: JsonObject, raw: JsonObject, index: int) -> None:
        response = as_object(metadata.get("model_response"))
        call_id, reply = as_text(metadata.get("tool_call_id")), as_text(response.get("id"))
        self.calls[str(raw.get("id"))] = call_id
        if reply and reply in self.replies:
            self._other({"id": raw.get("id"), "of": reply, "call": call_id}, index, "action")
            return
        self.replies.add(reply)
        said = as_object(first(response.get("choices")).get("message"))
        parts = [*_reasoning(said), *chat_parts(said.get("content")), *chat_calls(said.get("tool_calls"))]
        if not any(isinstance(part, m.Call) and part.id == call_id for part in parts):
            parts += [] if parts else chat_parts(arguments.get("thought"))
            tool = as_text(metadata.get("function_name"))
            parts.append(m.Call(call_id, tool, without(arguments, _NOT_ARGUMENTS)))
        spent = as_object(response.get("usage"))
        self._say(
            m.Assistant(tuple(parts), "tool_use"),
            raw,
            index,
            model=as_name(response.get("model")),
            usage=usage(
                prompt=spent.get("prompt_tokens"),
                output=spent.get("completion_tokens"),
                read=as_object(spent.get("prompt_tokens_details")).get("cached_tokens"),
            ),
        )

    def _bare_call(self, kind: str, arguments: JsonObject, raw: JsonObject, index: int) -> None:
        """An action of an agent without function calling."""
        call = m.Call(f"call-{raw.get('id', index)}", kind, without(arguments, _NOT_ARGUMENTS))
        self.calls[str(raw.get("id"))] = call.id
        self._say(m.Assistant((*chat_parts(arguments.get("thought")), call), "tool_use"), raw, index)

    # ── observations ────────────────────────────────────────────────────────────────────────────

    def _observation(self, raw: JsonObject, index: int) -> None:
        kind = as_text(raw.get("observation"))
        call = as_text(as_object(raw.get("tool_call_metadata")).get("tool_call_id")) or self.calls.get(
            str(raw.get("cause"))
        )
        if kind == "recall":
            self._recall(raw, index)
        elif kind in _UNSEEN_OBSERVATIONS:
            self._other(raw, index, kind)
        elif call is None:
            self._note(m.with_origin("tool", _printed(raw)), kind, raw, index)
        else:
            self._say(m.Result(call, tuple(_printed(raw)), None, kind == "error"), raw, index)

    def _recall(self, raw: JsonObject, index: int) -> None:
        """Knowledge that OpenHands added; the model reads its texts."""
        extras = as_object(raw.get("extras"))
        texts = [
            as_text(as_object(item).get("content")) for item in as_list(extras.get("microagent_knowledge"))
        ]
        texts += [as_text(extras.get(key)) for key in ("repo_instructions", "additional_agent_instructions")]
        said = [m.Text(found, "program") for found in texts if found]
        if said:
            self._note(said, "recall", raw, index)
        else:
            self._other(raw, index, "recall")

    # ── condensation ────────────────────────────────────────────────────────────────────────────

    def _condensation(self, arguments: JsonObject, raw: JsonObject, index: int) -> None:
        start, end = arguments.get("forgotten_events_start_id"), arguments.get("forgotten_events_end_id")
        ids = {str(id) for id in as_list(arguments.get("forgotten_event_ids"))}
        path = self.log.path(self.log.tail)
        if start is not None and end is not None:
            ids |= {
                id
                for id in path
                if id.isascii() and id.isdigit() and as_count(start) <= int(id) <= as_count(end)
            }
        self.forgotten |= ids
        summary = as_text(arguments.get("summary"))
        put: tuple[m.Message, ...] = (m.user([m.text(summary, "summary")]),) if summary else ()
        # What the model never saw may lie between.
        unseen = {entry.id for entry in self.log.entries if isinstance(entry, e.Other | e.Fold)}
        edits = edits_of(path, self.forgotten, put, unseen)
        if not edits:
            self.log.source.problem(
                f"event {raw.get('id', index)}", "forgets events that are not in this file"
            )
            self._other(raw, index, "condensation")
            return
        place = {"id": raw.get("id"), "time": time_of(raw)}
        self.log.folded(edits, index, **place, summary=summary, details=arguments)


def _said(arguments: JsonObject, raw: JsonObject) -> m.Content:
    parts = chat_parts(arguments.get("content")) or chat_parts(raw.get("message"))
    images = [parse_image(url) for url in as_list(arguments.get("image_urls")) if as_name(url)]
    return (*parts, *images)


def _reasoning(said: JsonObject) -> list[m.Thinking]:
    thought = as_text(said.get("reasoning_content"))
    return [m.Thinking(thought)] if thought else []


def _printed(raw: JsonObject) -> list[m.AnyPart]:
    """The text of an observation; a command's output includes its exit status."""
    content = chat_parts(raw.get("content"))
    metadata = as_object(as_object(raw.get("extras")).get("metadata"))
    if raw.get("observation") != "run" or not metadata:
        return content
    said = as_text(metadata.get("prefix")) + as_text(raw.get("content")) + as_text(metadata.get("suffix"))
    if as_name(metadata.get("working_dir")):
        said += f"\n[Current working directory: {metadata['working_dir']}]"
    if as_name(metadata.get("py_interpreter_path")):
        said += f"\n[Python interpreter: {metadata['py_interpreter_path']}]"
    if isinstance(metadata.get("exit_code"), int) and metadata["exit_code"] != -1:
        said += f"\n[Command finished with exit code {metadata['exit_code']}]"
    return [m.Text(said)]


# ── events of the agent SDK, told by `kind` ────────────────────────────────────────────────────


def replies_of(events: Iterable[object]) -> dict[str, list[JsonObject]]:
    """The actions of every reply, in order."""
    found: dict[str, list[JsonObject]] = {}
    for raw in map(as_object, events):
        if raw.get("kind") == "ActionEvent":
            found.setdefault(as_text(raw.get("llm_response_id")) or as_text(raw.get("id")), []).append(raw)
    return found


def assistant_of(actions: list[JsonObject]) -> m.Assistant:
    """One reply: its thoughts, text and calls."""
    parts: list[m.AnyPart] = []
    for raw in actions:
        parts += thinking_parts(raw.get("thinking_blocks")) or _reasoning(raw)
        parts += chat_parts(raw.get("thought"))
    return m.Assistant((*parts, *(_call(raw) for raw in actions)), "tool_use")


def _call(raw: JsonObject) -> m.Call:
    given = chat_calls([raw.get("tool_call")])[0]
    arguments = given.arguments or (
        {} if given.raw is not None else without(as_object(raw.get("action")), _KIND)
    )
    return m.Call(
        as_text(raw.get("tool_call_id")) or given.id,
        as_text(raw.get("tool_name")) or given.name,
        arguments,
        given.raw,
    )


def message_of(kind: str, raw: JsonObject) -> m.Message | None:
    """The message of an event that is not an action; None if the model never saw it."""
    call = as_text(raw.get("tool_call_id"))
    if kind == "SystemPromptEvent":
        return m.System(tuple(chat_parts(raw.get("system_prompt"))))
    if kind == "MessageEvent":
        said = as_object(raw.get("llm_message"))
        content, added = chat_parts(said.get("content")), chat_parts(raw.get("extended_content"))
        if said.get("role") == "assistant":
            return m.Assistant((*content, *added), "end")
        return m.User((*declared(content, OPENHANDS), *m.with_origin("program", added)))
    if kind == "ObservationEvent":
        seen = as_object(raw.get("observation"))
        parts = chat_parts(seen.get("content")) or chat_parts(seen.get("output"))
        if not parts and seen:
            parts = [m.Text(m.compact_json(without(seen, _KIND)))]
        return m.Result(call, tuple(parts), as_name(raw.get("tool_name")), seen.get("is_error") is True)
    if kind in _FAILURES:
        return m.Result(
            call, tuple(chat_parts(raw.get(_FAILURES[kind]))), as_name(raw.get("tool_name")), True
        )
    return None
