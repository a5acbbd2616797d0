"""Rule: the first message that is not a system message comes from the user."""

from __future__ import annotations

from collections.abc import Sequence

from refold.messages import Assistant, Result, System, Text, User
from refold.session.invariants.empty import blank
from refold.session.items import Item

STAND_IN = User((Text("(the conversation goes on from here)", "program"),))


def repair(items: list[Item]) -> list[Item]:
    at = _wrong(items)
    return items if at is None else [*items[:at], Item(STAND_IN), *items[at:]]


def _wrong(items: Sequence[Item]) -> int | None:
    for i, item in enumerate(items):
        message = item.message
        if not isinstance(message, System) and not blank(message):
            return i if isinstance(message, (Assistant, Result)) else None
    return None
