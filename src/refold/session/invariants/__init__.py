"""The rules of the wire, one per file.

Each rule says how to `repair` a list that breaks it and, where it forbids cuts, which ones are `legal`
(directly before `items[index]`, everything before it going away). Cuts that a planner may make are the
intersection. Rules judge what they are given: with a fold's replacement in place they judge that.

Repairing keeps objects that are right as they are, makes nothing up at random and reads left to right, so
the repaired form of a settled prefix is a prefix of the repaired whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from refold.session import dialects
from refold.session.dialects.common import WireRules
from refold.session.invariants import alternation, batches, empty, first_user, pairs, thinking
from refold.session.items import Item

__all__ = ["PAIRS", "WIRE", "CutRule", "alternation", "inside_put", "legal", "repair", "repair_by", "settled"]


class CutRule(Protocol):
    """Forbids cuts. The other rules never do: what stands in front of a cut can be joined, left out or stood
    in for without a loss."""

    def legal(self, items: Sequence[Item], index: int) -> bool: ...


WIRE: tuple[CutRule, ...] = (batches, pairs, thinking)
PAIRS: tuple[CutRule, ...] = (batches, pairs)
"""The least that every design promises: calls stay with their results."""


def legal(items: Sequence[Item], index: int, rules: Sequence[CutRule] = WIRE) -> bool:
    """May everything before `items[index]` go? `index` may be `len(items)`."""
    possible = 0 <= index <= len(items) and not inside_put(items, index)
    return possible and all(rule.legal(items, index) for rule in rules)


def inside_put(items: Sequence[Item], index: int) -> bool:
    """Would a cut before `items[index]` part messages that stand for the same stretch of the path? They come
    and go together."""
    if not 0 < index < len(items) or (fold := items[index].fold) is None:
        return False
    return items[index - 1].fold == fold and items[index - 1].entries == items[index].entries


def repair(items: Sequence[Item], dialect: str | None = None) -> list[Item]:
    """The items as a provider takes them; objects that are right stay the same. `dialect` is the name of one;
    without it, everything but alternation, in its strictest form."""
    return repair_by(WireRules() if dialect is None else dialects.get(dialect).rules, items)


def repair_by(rules: WireRules, items: Sequence[Item]) -> list[Item]:
    repaired = empty.repair(thinking.without_unsendable(list(items)))
    if not pairs.orderly(repaired, unique=rules.unique_ids):
        repaired = pairs.repair(batches.repair(repaired), unique=rules.unique_ids)
    repaired = first_user.repair(thinking.repair(repaired))
    return alternation.repair(repaired) if rules.alternates else repaired


def settled(items: Sequence[Item]) -> bool:
    """No call at the end waits for its result."""
    batch = batches.around(items, len(items))
    return batch is None or not batch.open(items)
