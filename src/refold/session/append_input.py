"""Conversion of the arguments of `session.append` to messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from refold.errors import UsageError, WrongType
from refold.messages import Message, MessageBase, user
from refold.session.dialects import parse

MESSAGE_ROLES = ("user", "assistant", "system", "developer", "tool", "function")
ACCEPTED_INPUT = "pass a message (refold.messages), a text, a dict with a role, or an entry"


def messages_of(said: object) -> Sequence[Message]:
    """Converts an argument to messages. A string is a user message; a dict is a message or item of any
    dialect. One dict may hold several messages: Anthropic sends all tool results of a turn in one."""
    if isinstance(said, MessageBase):
        return (cast("Message", said),)
    if isinstance(said, str):
        return (user(said),)
    if not isinstance(said, Mapping):
        hint = "; a reply of an SDK goes to engine.observe" if hasattr(type(said), "model_dump") else ""
        raise WrongType(f"expected a message, got {type(said).__name__}: {ACCEPTED_INPUT}{hint}")
    wire = dict(cast("Mapping[str, Any]", said))
    _check(wire)
    try:
        return parse(wire)
    except UsageError as error:
        raise WrongType(f"this dict is not a message: {error}") from None


def _check(wire: Mapping[str, Any]) -> None:
    """Raises for a dict that `parse`, which is lenient, would read as an empty user message."""
    if not isinstance(wire.get("role", wire.get("type")), str):
        raise WrongType(f"this dict has no role: {ACCEPTED_INPUT}")
    if wire.get("role", "user") not in MESSAGE_ROLES:
        raise WrongType(f"unknown role {wire['role']!r}; roles are: {', '.join(MESSAGE_ROLES)}")
    if wire.get("role", "assistant") != "assistant" and "content" not in wire:
        raise WrongType(f"this {wire['role']} message has no content")
