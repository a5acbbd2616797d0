"""Rule for dialects that demand it: roles alternate.

Results, notes and user messages are one side and become blocks of one message when rendered; here consecutive
replies are joined. Not part of `WIRE`, because it depends on the dialect.
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
