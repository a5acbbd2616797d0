"""What a plan costs (R15): money now, per turn, and the number of turns after which it has paid."""

from __future__ import annotations

import msgspec

from refold import entries as e
from refold.compaction.plan import Plan
from refold.costs import Summary, break_even, known
from refold.session import Session

PROMPT = 600
"""Tokens of a summariser's instruction."""


class Money(msgspec.Struct, frozen=True):
    """Dollars. All None where nobody knows the model's prices."""

    now: float | None = None
    per_turn: float | None = None
    break_even_turns: int | None = None
    model: str | None = None


def cost(plan: Plan, model: str | None = None, *, warm: bool = True) -> Money:
    """For the model that talks to the user: the one given, or the one the log names."""
    name = model or last_model(plan.situation.session)
    about = known(name) if name else None
    if about is None or about.prices is None:
        return Money(model=name)
    after = min(plan.tokens_after, plan.tokens_before)
    found = break_even(
        plan.tokens_before,
        after,
        about.prices,
        shared=plan.situation.overhead,
        summary=_summary(plan),
        warm=warm,
        requests_per_turn=requests_per_turn(plan.situation.session),
    )
    return Money(round(found.now, 6), round(found.per_turn, 6), found.turns, name)


def _summary(plan: Plan) -> Summary:
    if not plan.proposal.asks or not plan.situation.has_model:
        return Summary()
    counter = plan.situation.counter
    prompt = sum(counter.message(x.message) for ask in plan.proposal.asks for x in ask.sources)
    output = sum(ask.target_tokens for ask in plan.proposal.asks)
    return Summary(form="stand-alone", prompt=prompt + PROMPT * len(plan.proposal.asks), output=output)


def requests_per_turn(session: Session) -> float:
    """Model calls per user message so far: each of them sends the context again."""
    replies = sum(1 for x in session.path if isinstance(x, e.MessageEntry) and x.message.role == "assistant")
    return max(replies / len(session.turns), 1.0) if session.turns else 1.0


def last_model(session: Session) -> str | None:
    for entry in reversed(session.path):
        if isinstance(entry, (e.MessageEntry, e.ModelChange)) and entry.model:
            return entry.model
    return None
