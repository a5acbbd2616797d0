"""Events of OpenHands' agent SDK (the newer kind, told by `kind`), as messages."""

from __future__ import annotations

from collections.abc import Iterable

from refold import messages as m
from refold.transcripts.base import Record
from refold.transcripts.foreign import chat_calls, chat_parts, listing, mapping, named, text, without
from refold.transcripts.origins import OPENHANDS, declared

KINDS = frozenset({
    "ActionEvent", "ObservationEvent", "MessageEvent", "SystemPromptEvent", "AgentErrorEvent", "PauseEvent",
    "UserRejectObservation", "Condensation", "CondensationRequest", "ConversationStateUpdateEvent",
})  # fmt: skip


def replies_of(events: Iterable[object]) -> dict[str, list[Record]]:
    """The actions of every reply, in order."""
    found: dict[str, list[Record]] = {}
    for raw in map(mapping, events):
        if raw.get("kind") == "ActionEvent":
            found.setdefault(text(raw.get("llm_response_id")) or text(raw.get("id")), []).append(raw)
    return found


def assistant_of(actions: list[Record]) -> m.Assistant:
    """One reply: what it thought and said, and all its calls."""
    parts: list[m.AnyPart] = []
    for raw in actions:
        blocks = [mapping(block) for block in listing(raw.get("thinking_blocks"))]
        parts += [
            m.Thinking(text(b.get("thinking")), named(b.get("signature")), named(b.get("data")))
            for b in blocks
        ]
        if not blocks and text(raw.get("reasoning_content")):
            parts.append(m.Thinking(raw["reasoning_content"]))
        parts += chat_parts(raw.get("thought"))
    return m.Assistant((*parts, *(_call(raw) for raw in actions)), "tool_use")


def _call(raw: Record) -> m.Call:
    given = chat_calls([raw.get("tool_call")])[0]
    arguments = given.arguments or (
        {} if given.raw is not None else without(mapping(raw.get("action")), _KIND)
    )
    return m.Call(
        text(raw.get("tool_call_id")) or given.id,
        text(raw.get("tool_name")) or given.name,
        arguments,
        given.raw,
    )


_KIND = frozenset({"kind"})


def message_of(kind: str, raw: Record) -> m.Message | None:
    """The message of an event that is no action; None where the model never saw it."""
    call = text(raw.get("tool_call_id"))
    if kind == "SystemPromptEvent":
        return m.System(tuple(chat_parts([raw.get("system_prompt")])))
    if kind == "MessageEvent":
        said = mapping(raw.get("llm_message"))
        content, added = chat_parts(said.get("content")), chat_parts(raw.get("extended_content"))
        if said.get("role") == "assistant":
            return m.Assistant((*content, *added), "end")
        return m.User((*declared(content, OPENHANDS), *m.with_origin("program", added)))
    if kind == "ObservationEvent":
        seen = mapping(raw.get("observation"))
        parts = chat_parts(seen.get("content")) or chat_parts(seen.get("output"))
        if not parts and seen:
            parts = [m.Text(m.compact_json(without(seen, _KIND)))]
        return m.Result(call, tuple(parts), named(raw.get("tool_name")), seen.get("is_error") is True)
    if kind == "AgentErrorEvent":
        return m.Result(call, tuple(chat_parts(raw.get("error"))), named(raw.get("tool_name")), True)
    if kind == "UserRejectObservation":
        return m.Result(
            call, tuple(chat_parts(raw.get("rejection_reason"))), named(raw.get("tool_name")), True
        )
    return None
