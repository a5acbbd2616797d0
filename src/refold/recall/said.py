"""What an entry says, as text: for the index, for snippets and in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from refold.messages import AnyPart, Bash, Call, Image, Message, Opaque, Result, Text, Thinking, compact_json
from refold.text.frames import without_escapes

DEPTH = 12


def searchable(message: Message) -> str:
    """Everything of a message that words can be found in: text, thinking, tool names and arguments."""
    if isinstance(message, Bash):
        return without_escapes(message.text)
    return without_escapes("\n".join(said for part in message.parts if (said := _said(part))))


def in_full(message: Message) -> str:
    """The whole message for a reader, tool arguments included (D6)."""
    return "\n".join(said for part in message.parts if (said := _told(part)))


def _said(part: AnyPart) -> str:
    match part:
        case Text(text=text) | Thinking(text=text):
            return text
        case Call():
            return "\n".join((part.name, *((part.raw,) if part.raw is not None else leaves(part.arguments))))
        case Opaque(raw=raw):
            return "\n".join(leaves(raw))
        case Image():
            return ""


def _told(part: AnyPart) -> str:
    match part:
        case Text(text=text):
            return text
        case Thinking(text=text):
            return f"(thinking) {text}" if text else ""
        case Call():
            return f"{part.name}({_arguments(part)})"
        case Image(media_type=kind, url=url):
            return f"(picture: {url or kind})"
        case Opaque(raw=raw):
            return compact_json(raw)


def _arguments(call: Call) -> str:
    """Arguments on one line while they are short; long or many-lined texts as they are, below each other."""
    if call.raw is not None:
        return call.raw
    shown = {name: v if isinstance(v, str) else compact_json(v) for name, v in call.arguments.items()}
    if all("\n" not in text and len(text) <= 120 for text in shown.values()):
        return ", ".join(f"{name}={text}" for name, text in shown.items())
    return "\n" + "\n".join(f"{name}: {text}" for name, text in shown.items()) + "\n"


def leaves(value: Any, depth: int = 0) -> list[str]:
    """All strings and numbers inside a JSON value."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, bool) or value is None or depth > DEPTH:
        return []
    if isinstance(value, Mapping):
        return [s for v in cast("Mapping[str, Any]", value).values() for s in leaves(v, depth + 1)]
    if isinstance(value, Sequence):
        return [s for v in cast("Sequence[Any]", value) for s in leaves(v, depth + 1)]
    return [str(value)]


def tools_of(message: Message) -> tuple[str, ...]:
    """The tools a message calls or answers for."""
    if isinstance(message, Result):
        return (message.name,) if message.name else ()
    return tuple(call.name for call in message.calls)
