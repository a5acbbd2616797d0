"""Rule: signed thinking stays with its tool loop, unchanged.

While a model works through tool calls, the provider requires the thinking that started the loop. A cut inside
such a loop is legal only directly before a reply that starts with signed thinking of its own. Thinking is
dropped only where it cannot be valid: at the very end of a message, and where it contains lone surrogates and
cannot be sent unchanged. In the latter case the calls it led to would be refused while the loop continues, so
they and their results become a note.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from refold.messages import Assistant, Message, Result, Text, Thinking, User, in_full
from refold.session.dialects.common import without_surrogates
from refold.session.invariants.empty import blank
from refold.session.items import Item
from refold.text.frames import frame


def signed(part: object) -> bool:
    return isinstance(part, Thinking) and bool(part.signature or part.data)


_ENCRYPTED = "gAAAA"
"""OpenAI's encrypted reasoning begins like this, as does every Fernet token of this century."""


def optional(part: object) -> bool:
    """True for encrypted reasoning that a request may omit. OpenAI accepts requests without it; Anthropic
    requires it during a tool loop."""
    if not isinstance(part, Thinking) or part.signature or not part.data:
        return False
    return part.id is not None or part.data.startswith(_ENCRYPTED)


def required(part: object) -> bool:
    """True if the provider requires it back during the tool loop."""
    return signed(part) and not optional(part)


def starts_signed(message: Message) -> bool:
    """True if this reply starts with thinking that the provider can verify."""
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
            if any(required(p) for p in before.content):
                return i >= index  # thinking that is kept, waiting for the message it belongs to
        elif not isinstance(before, Result) and not blank(before):
            return True
    return True


def without_unsendable(items: list[Item]) -> list[Item]:
    """The items without thinking that cannot be sent. Runs first, because it removes calls."""
    if not any(isinstance(item.message, Assistant) and _halved(item.message) for item in items):
        return items
    shown: list[Item] = []
    told: set[str] | None = None
    """Calls of this loop that become notes; None if there are none."""
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
    for part in message.content:
        if type(part) is Thinking:
            texts = (part.text, part.signature, part.data, part.id)
            if any(text and without_surrogates(text) != text for text in texts):
                return True
    return False


def _record(message: Message) -> User:
    return User((Text(frame("call" if message.calls else "result", in_full(message)), "tool"),))


def repair(items: list[Item]) -> list[Item]:
    return [
        _without_trailing(item, item.message) if isinstance(item.message, Assistant) else item
        for item in items
    ]


def _without_trailing(item: Item, message: Assistant) -> Item:
    """Without thinking that is followed by nothing in its message."""
    kept = end = len(message.content)
    for i in range(end - 1, -1, -1):
        part = message.content[i]
        if type(part) is Thinking:
            kept = i
        elif type(part) is not Text or (part.text and not part.text.isspace()):
            break
    if kept == end:
        return item
    return item.saying(msgspec.structs.replace(message, content=message.content[:kept]))
