"""Rule: the first message that is not a system message comes from the user."""

from __future__ import annotations

from refold.messages import Assistant, Result, System, Text, User
from refold.session.invariants.empty import blank
from refold.session.items import Item

STAND_IN = User((Text("(the conversation goes on from here)", "program"),))


def begins(item: Item) -> bool:
    """True for an item that the provider sees as the first; messages without content do not count."""
    return not isinstance(item.message, System) and not blank(item.message)


def repair(items: list[Item]) -> list[Item]:
    at = next((i for i, item in enumerate(items) if begins(item)), None)
    if at is None or not isinstance(items[at].message, (Assistant, Result)):
        return items
    return [*items[:at], Item(STAND_IN), *items[at:]]
