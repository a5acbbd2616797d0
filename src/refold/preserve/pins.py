"""Pins (R9): entries that are verbatim in every later fold until they are unpinned."""

from __future__ import annotations

from collections.abc import Iterable

from refold.entries import key
from refold.messages import Bash, Call, Image, Message, Opaque, Result, Text, arguments_json
from refold.protocols import TokenCounter


def render(pinned: Iterable[tuple[str, Message]]) -> str:
    """Every pinned message in full, headed by who said it and its recall key. Nothing is cut: what the user
    pinned is part of the floor that has to fit (`size`)."""
    return "\n\n".join(block(entry_id, message) for entry_id, message in pinned)


def block(entry_id: str, message: Message) -> str:
    head = f"[{key(entry_id)}] {who(message)}:"
    return f"{head}\n{verbatim(message)}"


def who(message: Message) -> str:
    if isinstance(message, Result):
        return f"tool result ({message.name})" if message.name else "tool result"
    return {"bash": "user's shell", "tool": "tool"}.get(message.role, message.role)


def verbatim(message: Message) -> str:
    """The whole readable content, tool calls included; pictures are named, thoughts are left out."""
    if isinstance(message, Bash):
        return message.text
    pieces: list[str] = []
    for part in message.parts:
        if isinstance(part, Text):
            pieces.append(part.text)
        elif isinstance(part, Call):
            pieces.append(f"→ {part.name} {arguments_json(part)}")
        elif isinstance(part, Image):
            pieces.append(f"[image {part.media_type}]")
        elif isinstance(part, Opaque):
            pieces.append(f"[{part.raw.get('type', 'part')}]")
    return "\n".join(pieces)


def size(pinned: Iterable[tuple[str, Message]], counter: TokenCounter) -> int:
    """Tokens the pins will take in a fold."""
    return counter.text(render(pinned))
