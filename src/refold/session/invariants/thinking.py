"""Rule: signed thinking stays with the tool loop it belongs to, unchanged.

While a model works through tool calls, the provider wants the thinking that started the loop back. A cut
inside such a loop is legal only directly before a reply that starts with signed thinking of its own.
Thinking is dropped only where it cannot be valid: at the very end of a message, behind everything it led to,
and where it cannot be sent unchanged because it holds half characters (lone surrogates). Calls that it led to
would be refused without it while the loop goes on, so they and their results are told as a record instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from refold.messages import Assistant, Message, Result, Text, Thinking, User, in_full
from refold.session.invariants.empty import blank
from refold.session.items import Item
from refold.text.frames import frame


def signed(part: object) -> bool:
    return isinstance(part, Thinking) and bool(part.signature or part.data)


def starts_signed(message: Message) -> bool:
    """The first thing this reply shows is thinking the provider can verify."""
    for part in message.parts:
        if isinstance(part, Text) and not part.text.strip():
            continue
        return signed(part)
    return False


def legal(items: Sequence[Item], index: int) -> bool:
    here = next((i for i in range(index, len(items)) if not blank(items[i].message)), None)
    if here is None:
        return True
    message = items[here].message
    if not isinstance(message, (Assistant, Result)) or starts_signed(message):
        return True
    for i in range(here - 1, -1, -1):
        before = items[i].message
        if isinstance(before, Assistant):
            if any(signed(p) for p in before.content):
                return i >= index  # thinking that is kept, waiting for the message it belongs to
        elif not isinstance(before, Result) and not blank(before):
            return True
    return True


def sendable(items: list[Item]) -> list[Item]:
    """The items without thinking that no body can hold. Done before anything else: it takes calls away."""
    if not any(isinstance(item.message, Assistant) and _halved(item.message) for item in items):
        return items
    shown: list[Item] = []
    told: set[str] | None = None
    """Calls of this loop that are told as a record; None while there are none."""
    for item in items:
        message = item.message
        if isinstance(message, Assistant):
            halved = _halved(message)
            if halved:
                kept = tuple(part for part in message.content if not isinstance(part, Thinking))
                message = msgspec.structs.replace(message, content=kept)
            if message.calls and (halved or (told is not None and not starts_signed(message))):
                told = {*(told or ()), *(call.id for call in message.calls)}
                message = _record(message)
            elif message.calls:
                told = None
        elif isinstance(message, Result) and told is not None and message.call_id in told:
            message = _record(message)
        elif not isinstance(message, Result) and not blank(message):
            told = None
        shown.append(item if message is item.message else item.saying(message))
    return shown


def _halved(message: Assistant) -> bool:
    return any(
        isinstance(part, Thinking)
        and any(text and not _encodes(text) for text in (part.text, part.signature, part.data, part.id))
        for part in message.content
    )


def _encodes(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _record(message: Message) -> User:
    return User((Text(frame("call" if message.calls else "result", in_full(message)), "tool"),))


def repair(items: list[Item]) -> list[Item]:
    changed = [
        (i, item.message)
        for i, item in enumerate(items)
        if isinstance(item.message, Assistant) and _trails(item.message)
    ]
    if not changed:
        return items
    repaired = list(items)
    for i, message in changed:
        content = message.content[: _led_to(message)]
        repaired[i] = items[i].saying(msgspec.structs.replace(message, content=content))
    return repaired


def _trails(message: Assistant) -> bool:
    if not message.content:
        return False
    last = message.content[-1]
    if type(last) is Text:
        return (not last.text or last.text.isspace()) and _led_to(message) < len(message.content)
    return type(last) is Thinking


def _led_to(message: Assistant) -> int:
    """How many of the parts come before thinking that led to nothing."""
    kept = end = len(message.content)
    for i in range(end - 1, -1, -1):
        part = message.content[i]
        if isinstance(part, Thinking):
            kept = i
        elif not isinstance(part, Text) or part.text.strip():
            break
    return kept
