"""Figures of a conversation: what fills the window, and its cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from refold import entries as e
from refold.costs import known
from refold.engine.layers import rules_of, with_rules
from refold.engine.summarise import total
from refold.messages import Usage
from refold.registry.engine import Engine
from refold.session import Session


class Filling(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of the next request, in tokens by the engine's counter."""

    window: int
    system: int
    """The system prompt with the project's rules, and the tools."""
    summary: int
    """Text inserted by folds, and summaries of branches."""
    verbatim: dict[str, int]
    """Original messages, by role."""

    @property
    def used(self) -> int:
        return self.system + self.summary + sum(self.verbatim.values())

    @property
    def free(self) -> int:
        return max(self.window - self.used, 0)


def filling(engine: Engine, session: Session, *, system: str, tools: Sequence[Any]) -> Filling:
    """What fills the window. Counts only what is new since the last call."""
    shown, counter = engine.planner.context(session).projection, engine.counter
    prompt = with_rules(system, rules_of(engine.preset, session)) or ""
    framed, summary, spoken = set(shown.framed), 0, dict[str, int]()
    for index, item in enumerate(shown.items):
        size = shown.count(index, counter)
        if index in framed:
            summary += size
        else:
            spoken[item.message.role] = spoken.get(item.message.role, 0) + size
    return Filling(
        window=engine.preset_for(session).window,
        system=counter.text(prompt) + counter.tools(tools),
        summary=summary,
        verbatim=spoken,
    )


class Bill(msgspec.Struct, frozen=True):
    """What one model was asked."""

    model: str
    requests: int
    usage: Usage
    dollars: float | None
    """None: its prices are unknown."""


def bills(sessions: Iterable[Session], overrides: Mapping[str, Any] | None = None) -> list[Bill]:
    """What was paid in these sessions, on all branches, folds included; one row for each model."""
    asked: dict[str, list[Usage]] = {}
    for session in sessions:
        for entry in session.entries:
            if isinstance(entry, e.MessageEntry) and entry.usage is not None:
                asked.setdefault(entry.model or "unknown", []).append(entry.usage)
            elif isinstance(entry, e.Fold) and entry.usage is not None and entry.requests:
                asked.setdefault(entry.author, []).append(entry.usage)
    return [_bill(model, usages, overrides) for model, usages in asked.items()]


def _bill(model: str, usages: Sequence[Usage], overrides: Mapping[str, Any] | None) -> Bill:
    row = known(model, overrides)
    prices = row.prices if row else None
    dollars = sum(prices.cost(usage) for usage in usages) if prices else None
    return Bill(model, len(usages), total(usages), dollars)


def total_dollars(rows: Sequence[Bill]) -> float | None:
    """All of it; None where one has no price."""
    paid = [row.dollars for row in rows]
    return None if None in paid else sum(filter(None, paid))
