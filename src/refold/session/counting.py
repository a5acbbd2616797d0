"""Counts of what is long, with pauses: a megabyte keeps the tokenizer for tens of milliseconds."""

from __future__ import annotations

from refold.messages import Message, Text
from refold.protocols import PatientCounter, Steps, TokenCounter
from refold.session.tree import Session

LONG = 200_000
"""Characters of a text that is not counted in one piece."""


def is_long(message: Message) -> bool:
    return any(type(part) is Text and len(part.text) > LONG for part in message.parts)


def counting(session: Session, key: str, message: Message, counter: TokenCounter) -> Steps[int]:
    """`session.cached_count` with a pause after each piece of a long message."""
    if is_long(message) and isinstance(counter, PatientCounter) and not session.counted(key, counter):
        size = yield from counter.counting(message)
        return session.cached_count(key, message, counter, size)
    return session.cached_count(key, message, counter)
