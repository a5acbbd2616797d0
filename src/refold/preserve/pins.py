"""Pins (R9): entries that are verbatim in every later fold until they are unpinned."""

from __future__ import annotations

from refold.entries import key
from refold.messages import Message, Result, in_full


def block(entry_id: str, message: Message) -> str:
    """A pinned message in full, headed by who said it and its recall key: all that was said and done, and
    thoughts are neither. Nothing is cut: what the user pinned is part of the floor that has to fit."""
    return f"[{key(entry_id)}] {who(message)}:\n{in_full(message, thoughts=False)}"


def who(message: Message) -> str:
    if isinstance(message, Result):
        return f"tool result ({message.name})" if message.name else "tool result"
    return {"bash": "user's shell", "tool": "tool"}.get(message.role, message.role)
