"""The rules of the wire, one per file.

Each rule can `repair` a list that breaks it and, if it forbids cuts, says which are `legal` (directly before
`items[index]`, dropping everything before). A planner may make cuts that all rules allow. Rules judge the
given items, including the replacements of a fold.

Repairing keeps correct objects, is deterministic and reads left to right, so the repaired form of a settled
prefix is a prefix of the repaired whole.
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
    """A rule that forbids cuts. Other rules never do, because what precedes a cut can be joined, dropped or
    replaced."""

    def legal(self, items: Sequence[Item], index: int) -> bool: ...


WIRE: tuple[CutRule, ...] = (batches, pairs, thinking)
PAIRS: tuple[CutRule, ...] = (batches, pairs)
"""The minimum that every preset guarantees: calls stay with their results."""


def legal(items: Sequence[Item], index: int, rules: Sequence[CutRule] = WIRE) -> bool:
    """True if everything before `items[index]` may be dropped. `index` may be `len(items)`."""
    possible = 0 <= index <= len(items) and not inside_put(items, index)
    return possible and all(rule.legal(items, index) for rule in rules)


def inside_put(items: Sequence[Item], index: int) -> bool:
    """True if a cut before `items[index]` would separate messages that replace the same stretch of the
    path."""
    if not 0 < index < len(items) or (fold := items[index].fold) is None:
        return False
    return items[index - 1].fold == fold and items[index - 1].entries == items[index].entries


def repair(items: Sequence[Item], dialect: str | None = None) -> list[Item]:
    """The items in a form that a provider accepts; correct objects are unchanged. Without a `dialect`, the
    strictest form of every rule but alternation."""
    return repair_by(WireRules() if dialect is None else dialects.get(dialect).rules, items)


def repair_by(rules: WireRules, items: Sequence[Item]) -> list[Item]:
    repaired = empty.repair(thinking.without_unsendable(list(items)))
    if not pairs.orderly(repaired, unique=rules.unique_ids):
        repaired = pairs.repair(repaired, unique=rules.unique_ids)
    repaired = first_user.repair(thinking.repair(repaired))
    return alternation.repair(repaired) if rules.alternates else repaired


def settled(items: Sequence[Item]) -> bool:
    """True if no call at the end waits for its result."""
    batch = batches.around(items, len(items))
    return batch is None or not batch.open(items)
