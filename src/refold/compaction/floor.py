"""The irreducible floor (R2): what no fold can make smaller."""

from __future__ import annotations

from refold.compaction import carried
from refold.compaction.situation import Situation
from refold.errors import DoesNotFit

FRAME = 160
"""Tokens for the words around a folded record."""


def parts(s: Situation) -> dict[str, int]:
    """The parts of the floor and their exact sizes."""
    found = {
        "system prompt": s.counter.text(s.system) if s.system else 0,
        "tools": s.counter.tools(s.tools) if s.tools else 0,
        "system messages": s.system_messages,
        "pins": s.counter.text(carried.pins_text(s.session)),
    }
    request = carried.current_request(s.session)
    if request is not None:
        found["newest user message"] = s.session.count(request[1], s.counter)
    return {name: size for name, size in found.items() if size}


def check(s: Situation, budget: int) -> None:
    """Raise `DoesNotFit`, naming the parts, where the floor alone passes the budget."""
    found = parts(s)
    if sum(found.values()) + FRAME > budget:
        raise DoesNotFit(budget, {**found, "frame of a fold": FRAME})
