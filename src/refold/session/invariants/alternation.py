"""Rule, where the dialect demands it: the two sides take turns.

Results, notes and user messages are one side and become blocks of one message when they are rendered;
here two replies in a row become one. Not part of `WIRE`: it is a matter of the dialect.
"""

from __future__ import annotations

from itertools import pairwise

from refold.messages import Assistant
from refold.session.invariants.batches import joined
from refold.session.items import Item


def repair(items: list[Item]) -> list[Item]:
    replies = [isinstance(item.message, Assistant) for item in items]
    if not any(a and b for a, b in pairwise(replies)):
        return items
    repaired: list[Item] = []
    run: list[Item] = []
    for item in items:
        if isinstance(item.message, Assistant):
            run.append(item)
            continue
        repaired.extend(_flush(run))
        run = []
        repaired.append(item)
    return repaired + _flush(run)


def _flush(run: list[Item]) -> list[Item]:
    return [joined(run)] if len(run) > 1 else run
