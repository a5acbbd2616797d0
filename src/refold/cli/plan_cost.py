"""What a plan costs (R15): dollars, for the model that talks to the user."""

from __future__ import annotations

import msgspec

from refold.compaction.plan import Plan
from refold.compaction.requests import PROMPT
from refold.costs import SummaryCost, break_even, cold_share, known, same_model
from refold.session.history import History, last_model


class Money(msgspec.Struct, frozen=True):
    """Dollars. All None where the model's prices are unknown."""

    now: float | None = None
    per_turn: float | None = None
    break_even_turns: int | None = None
    model: str | None = None


def cost(plan: Plan, model: str | None = None) -> Money:
    """For the model that talks to the user: the one given, or the one the log names."""
    session = plan.context.session
    name = model or last_model(session)
    about = known(name) if name else None
    if about is None or about.prices is None:
        return Money(model=name)
    after = min(plan.tokens_after, plan.tokens_before)
    balance = break_even(
        plan.tokens_before,
        after,
        about.prices,
        shared=plan.context.sizes.overhead,
        summary=_summary(plan, name or ""),
        cold=cold_share([session.path[position].time for position in session.replies]),
        requests_per_turn=requests_per_turn(session),
    )
    return Money(round(balance.now, 6), round(balance.per_turn, 6), balance.turns, name)


def _summary(plan: Plan, chat: str) -> SummaryCost:
    """What asking will cost, in the form in which it will be asked."""
    asks, writer = plan.asks, plan.context.writer
    if not asks or writer is None:
        return SummaryCost()
    prompt = PROMPT * len(asks)
    if not all(ask.prefix for ask in asks):
        counter = plan.context.counter
        prompt += sum(counter.message(x.message) for ask in asks for x in ask.sources)
    about = None if same_model(chat, writer.name) else known(writer.name)
    return SummaryCost(
        form="cached-prefix" if all(ask.prefix for ask in asks) else "stand-alone",
        prompt=prompt,
        output=sum(ask.target_tokens for ask in asks),
        prices=about.prices if about else None,
    )


def requests_per_turn(session: History) -> float:
    """Model calls per user message so far: each of them sends the context again."""
    return max(len(session.replies) / len(session.turns), 1.0) if session.turns else 1.0
