"""Codex's response items, one by one and as the history a compaction leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from refold import messages as m
from refold.text.lenient_json import JsonObject
from refold.transcripts.base import loads
from refold.transcripts.builder import build_call, chat_parts
from refold.transcripts.origins import CODEX, declared
from refold.transcripts.values import as_list, as_name, as_object, as_text, is_list, is_object


class _Mark(NamedTuple):
    """How a message begins (and ends, where the beginning alone could be typed) that Codex wrote itself."""

    begins: str
    kind: str
    origin: m.Origin = "program"
    ends: str = ""


_INJECTED = (
    _Mark("<environment_context>", "environment"),
    _Mark("<user_instructions>", "instructions", "attached"),
    _Mark("# AGENTS.md instructions", "instructions", "attached"),
    _Mark("<permissions instructions>", "instructions"),
    _Mark("<skills_instructions>", "instructions"),
    _Mark("<turn_aborted>", "aborted"),
    _Mark("<subagent_notification>", "notification"),
    _Mark("<user_shell_command>", "shell", "tool", "</user_shell_command>"),
    _Mark("<skill>", "skill", "attached", "</skill>"),
    _Mark("<additional_context>", "context", "program", "</additional_context>"),
)
KEPT_OF_USER = 20_000
"""Tokens of the user's own messages that Codex carries over a compaction, newest first (4 bytes each)."""
NO_SUMMARY = "(no summary available)"


def injected(message: m.Message) -> str | None:
    """What kind of note a user message is that Codex wrote itself; None if the user did."""
    mark = _mark(message.text) if isinstance(message, m.User) else None
    return mark.kind if mark else None


def is_context(message: m.Message) -> bool:
    """What Codex says at the beginning of every session, and says again when one is resumed."""
    mark = _mark(message.text) if isinstance(message, m.User | m.System) else None
    return mark is not None and mark.kind in ("environment", "instructions")


def _mark(said: str) -> _Mark | None:
    head = said[:60].lstrip()
    found = next((mark for mark in _INJECTED if head.startswith(mark.begins)), None)
    return found if found is None or said.rstrip().endswith(found.ends) else None


def origin_of_injected(said: str) -> m.Origin | None:
    """The origin of a text that Codex wrote itself; None if the user did."""
    mark = _mark(said)
    return mark.origin if mark else None


def _user(parts: Iterable[m.AnyPart]) -> m.User:
    """A message in the user's role; what Codex wrote itself says so."""
    message = m.User(tuple(parts))
    whole = _mark(message.text)
    if whole is None:
        return m.User(declared(message.content, CODEX))
    # One message may hold several such texts.
    own = (
        m.Text(part.text, (_mark(part.text) or whole).origin) if isinstance(part, m.Text) else part
        for part in message.content
    )
    return m.User(tuple(own))


def message_of(raw: JsonObject) -> m.Message | None:
    """A message that is not the model's; None if its role is unknown."""
    content = tuple(chat_parts(raw.get("content")))
    match raw.get("role"):
        case "user":
            return _user(content)
        case "system" | "developer":
            return m.System(content)
        case _:
            return None


def part_of(raw: JsonObject) -> list[m.AnyPart]:
    """An item that the model produced, as parts of its reply."""
    match raw.get("type"):
        case "message":
            return chat_parts(raw.get("content"))
        case "reasoning":
            return [_reasoning(raw)]
        case "function_call":
            return [build_call(_call_id(raw), raw.get("name"), raw.get("arguments"))]
        case "custom_tool_call":
            return [m.Call(_call_id(raw), as_text(raw.get("name")), {}, as_text(raw.get("input")))]
        case "local_shell_call":
            return [m.Call(_call_id(raw), "local_shell", as_object(raw.get("action")))]
        case _:
            return [m.Opaque(raw)]


def _reasoning(raw: JsonObject) -> m.Thinking:
    shown = as_list(raw.get("summary")) or as_list(raw.get("content"))
    lines = [part.text for part in chat_parts(shown) if isinstance(part, m.Text)]
    return m.Thinking("\n\n".join(lines), None, as_name(raw.get("encrypted_content")), as_name(raw.get("id")))


def _call_id(raw: JsonObject) -> str:
    return as_text(raw.get("call_id")) or as_text(raw.get("id"))


def output_of(raw: JsonObject) -> tuple[m.Result, JsonObject]:
    """The result of a call, and what is known of the run. What a shell printed comes out of its JSON, with
    the exit code as its last line."""
    output: Any = raw.get("output", raw.get("content"))
    failed = False
    if is_object(output):
        failed = as_object(output).get("success") is False
        inner: Any = as_object(output).get("content")
        output = inner if isinstance(inner, str) or is_list(inner) else m.compact_json(output)
    said, run = _printed(output)
    content = chat_parts(output) if said is None else [m.Text(said)]
    return m.Result(_call_id(raw), tuple(content), None, failed), run


def is_printed(output: object) -> bool:
    """Does it read as what Codex's shell writes?"""
    return _printed(output)[0] is not None


def _printed(output: object) -> tuple[str | None, JsonObject]:
    """The text and the run of `{"output": "…", "metadata": {"exit_code": 0, …}}`; None for any other."""
    if not isinstance(output, str) or not output.startswith('{"output":'):
        return None, {}
    try:
        value = as_object(loads(output.encode()))
    except ValueError:
        return None, {}
    said, run = value.get("output"), as_object(value.get("metadata"))
    if not isinstance(said, str) or not isinstance(run.get("exit_code"), int) or len(value) != 2:
        return None, {}
    line_end = "" if not said or said.endswith("\n") else "\n"
    return f"{said}{line_end}Exit code: {run['exit_code']}", run


def replacement(items: Sequence[object], summary: str) -> list[m.Message]:
    """The messages of a history that Codex wrote down as the result of a compaction."""
    found: list[m.Message] = []
    for raw in map(as_object, items):
        kind = as_text(raw.get("type"))
        if kind.endswith("_output"):
            found.append(output_of(raw)[0])
        elif kind == "message" and raw.get("role") != "assistant":
            said = message_of(raw) or m.User(tuple(chat_parts(raw.get("content"))))
            retold = isinstance(said, m.User) and summary and said.text.endswith(summary)
            found.append(m.User(m.with_origin("summary", said.parts)) if retold else said)
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
        if isinstance(message, m.System) or injected(message):
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
    return [*context, *reversed(kept), m.user([m.text(summary or NO_SUMMARY, "summary")])]
