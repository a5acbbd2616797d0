"""Codex's response items, one by one and as the history a compaction leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from refold import messages as m
from refold.transcripts.base import Record
from refold.transcripts.foreign import arguments, chat_parts, is_list, is_object, listing, mapping, text
from refold.transcripts.foreign import name as named

_INJECTED = {
    "<environment_context>": "environment",
    "<user_instructions>": "instructions",
    "# AGENTS.md instructions": "instructions",
    "<permissions instructions>": "instructions",
    "<skills_instructions>": "instructions",
    "<turn_aborted>": "aborted",
    "<subagent_notification>": "notification",
}
KEPT_OF_USER = 20_000
"""Tokens of the user's own messages that Codex carries over a compaction, newest first (4 bytes each)."""
NO_SUMMARY = "(no summary available)"


def injected(text: str) -> str | None:
    """What kind of note a user message is that Codex wrote itself; None if the user did."""
    head = text[:40].lstrip()
    return next((kind for mark, kind in _INJECTED.items() if head.startswith(mark)), None)


def message_of(raw: Record) -> m.Message | None:
    content = tuple(chat_parts(raw.get("content")))
    match raw.get("role"):
        case "user":
            return m.User(content)
        case "system" | "developer":
            return m.System(content)
        case "assistant":
            return m.Assistant(content)
        case _:
            return None


def part_of(raw: Record) -> list[m.AnyPart]:
    """An item that the model produced, as parts of its reply."""
    match raw.get("type"):
        case "message":
            return chat_parts(raw.get("content"))
        case "reasoning":
            return [_reasoning(raw)]
        case "function_call":
            parsed, unparsed = arguments(raw.get("arguments"))
            return [m.Call(_call_id(raw), text(raw.get("name")), parsed, unparsed)]
        case "custom_tool_call":
            return [m.Call(_call_id(raw), text(raw.get("name")), {}, text(raw.get("input")))]
        case "local_shell_call":
            return [m.Call(_call_id(raw), "local_shell", mapping(raw.get("action")))]
        case _:
            return [m.Opaque(raw)]


def _reasoning(raw: Record) -> m.Thinking:
    shown = listing(raw.get("summary")) or listing(raw.get("content"))
    lines = [part.text for part in chat_parts(shown) if isinstance(part, m.Text)]
    return m.Thinking("\n\n".join(lines), None, named(raw.get("encrypted_content")), named(raw.get("id")))


def _call_id(raw: Record) -> str:
    return text(raw.get("call_id")) or text(raw.get("id"))


def output_of(raw: Record) -> m.Result:
    """The result of a call. The text stays as the model read it, shells' JSON included."""
    output: Any = raw.get("output", raw.get("content"))
    if is_object(output):
        failed = mapping(output).get("success") is False
        inner: Any = mapping(output).get("content")
        known = isinstance(inner, str) or is_list(inner)
        content = chat_parts(inner) if known else [m.Text(m.compact_json(output))]
        return m.Result(_call_id(raw), tuple(content), None, failed)
    return m.Result(_call_id(raw), tuple(chat_parts(output)))


def replacement(items: Sequence[object]) -> list[m.Message]:
    """The messages of a history that Codex wrote down as the result of a compaction."""
    found: list[m.Message] = []
    for raw in map(mapping, items):
        kind = text(raw.get("type"))
        if kind.endswith("_output"):
            found.append(output_of(raw))
        elif kind == "message" and raw.get("role") != "assistant":
            found.append(message_of(raw) or m.User(tuple(chat_parts(raw.get("content")))))
        elif kind != "ghost_snapshot":
            parts = part_of(raw) if kind else [m.Opaque(raw)]
            before = found[-1] if found else None
            if isinstance(before, m.Assistant):
                found[-1] = m.Assistant((*before.content, *parts))
            else:
                found.append(m.Assistant(tuple(parts)))
    return found


def rebuilt(history: Iterable[m.Message], summary: str) -> list[m.Message]:
    """The history after a compaction whose result was not written down, made as Codex makes it: the
    instructions, the newest messages of the user up to a limit, the summary."""
    context: list[m.Message] = []
    said: list[m.User] = []
    for message in history:
        if isinstance(message, m.System) or (isinstance(message, m.User) and injected(message.text)):
            if not any(message == other for other in context):
                context.append(message)
        elif isinstance(message, m.User):
            said.append(message)
    kept: list[m.Message] = []
    room = KEPT_OF_USER * 4
    for message in reversed(said):
        size = len(message.text.encode("utf-8", "surrogatepass"))
        if size > room:
            # Codex cuts this one in its middle; so much of it stays.
            half = message.text[: room // 8], message.text[len(message.text) - room // 8 :]
            if room >= 8:
                kept.append(m.User((m.Text("…".join(half)),)))
            break
        room -= size
        kept.append(message)
    return [*context, *reversed(kept), m.User((m.Text(summary or NO_SUMMARY),))]
