"""Rule, where the dialect demands it: the two sides take turns.

Results, notes and user messages are one side and become blocks of one message when they are rendered;
here two replies in a row become one. Not part of `WIRE`: it is a matter of the dialect.
"""

from __future__ import annotations

from itertools import groupby, pairwise

from refold.messages import Assistant
from refold.session.invariants.batches import join_assistants
from refold.session.items import Item


def repair(items: list[Item]) -> list[Item]:
    replies = [isinstance(item.message, Assistant) for item in items]
    if not any(a and b for a, b in pairwise(replies)):
        return items
    repaired: list[Item] = []
    for is_reply, side in groupby(items, key=lambda item: isinstance(item.message, Assistant)):
        run = list(side)
        repaired += [join_assistants(run)] if is_reply and len(run) > 1 else run
    return repaired
