"""Rule: no message without content.

Providers refuse empty messages and blank text blocks. A reply with only thinking is joined with the next
assistant message; without one it is dropped.
"""

from __future__ import annotations

import msgspec

from refold.messages import Assistant, Bash, Call, Message, Result, Text, Thinking
from refold.session.items import Item

BROKEN_STOPS = ("error", "aborted")


def blank(message: Message) -> bool:
    """True if nothing of this message is visible on the wire."""
    if isinstance(message, Result):
        return False
    if isinstance(message, Bash):
        return message.hidden
    for part in message.content:
        if type(part) is Text:
            if part.text and not part.text.isspace():
                return False
        elif type(part) is not Thinking and (type(part) is not Call or isinstance(message, Assistant)):
            return False  # only an assistant calls
    return True


def repair(items: list[Item]) -> list[Item]:
    if not any(blank(item.message) for item in items):
        return items
    kept: list[Item] = []
    waiting: list[Item] = []  # thinking whose message may follow
    for item in items:
        message = item.message
        if not blank(message):
            if waiting and isinstance(message, Assistant):
                item = _joined(waiting, item, message)
            waiting = []
            kept.append(item)
        elif isinstance(message, Assistant) and message.stop not in BROKEN_STOPS:
            waiting += [item] if any(isinstance(part, Thinking) for part in message.content) else []
    return kept


def _joined(waiting: list[Item], item: Item, message: Assistant) -> Item:
    thoughts = tuple(p for w in waiting for p in w.message.parts if isinstance(p, Thinking))
    entries = tuple(e for w in waiting for e in w.entries) + item.entries
    return Item(msgspec.structs.replace(message, content=thoughts + message.content), entries, item.fold)
