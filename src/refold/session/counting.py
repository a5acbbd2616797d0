"""Counts of what is long, with pauses: a megabyte keeps the tokenizer for tens of milliseconds."""

from __future__ import annotations

from refold.messages import AnyPart, Call, Message, Text, Thinking, User
from refold.protocols import PatientCounter, Steps, TokenCounter
from refold.session.tree import Session

LONG = 100_000
"""Characters of a text that is not counted in one piece."""


def is_long(message: Message) -> bool:
    for part in message.parts:
        if type(part) is Text:
            if len(part.text) > LONG:
                return True
        elif _length(part) > LONG:
            return True
    return False


def _length(part: AnyPart) -> int:
    """Characters of a part that is no plain text, about: values deep inside of a call are not looked at."""
    if isinstance(part, Call):
        values = part.arguments.values() if part.raw is None else (part.raw,)
        return sum(len(value) for value in values if isinstance(value, str))
    return len(part.text) if isinstance(part, Thinking) else 0


def counting(session: Session, key: str, message: Message, counter: TokenCounter) -> Steps[int]:
    """`session.cached_count` with a pause after each piece of a long message."""
    if not session.counted(key, counter) and is_long(message):
        size = yield from message_size(message, counter)
        return session.cached_count(key, message, counter, size)
    return session.cached_count(key, message, counter)


def message_size(message: Message, counter: TokenCounter) -> Steps[int]:
    """`counter.message` with such pauses."""
    if is_long(message) and isinstance(counter, PatientCounter):
        return (yield from counter.counting(message))
    return counter.message(message)


def text_size(text: str, counter: TokenCounter) -> Steps[int]:
    """`counter.text` with such pauses."""
    if len(text) > LONG and isinstance(counter, PatientCounter):
        return (yield from counter.counting(User((Text(text),)))) - counter.message(User(()))
    return counter.text(text)
