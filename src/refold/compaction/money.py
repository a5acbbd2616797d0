"""What a plan costs (R15): money now, per turn, and the number of turns after which it has paid."""

from __future__ import annotations

import msgspec

from refold import entries as e
from refold.compaction.plan import Plan
from refold.compaction.requests import PROMPT, last_model
from refold.costs import Summary, break_even, known, same_model
from refold.session import Session

__all__ = ["Money", "cost", "last_model", "requests_per_turn"]


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
        summary=_summary(plan, name or ""),
        warm=warm,
        requests_per_turn=requests_per_turn(plan.situation.session),
    )
    return Money(round(found.now, 6), round(found.per_turn, 6), found.turns, name)


def _summary(plan: Plan, chat: str) -> Summary:
    """What asking will cost, in the form in which it will be asked."""
    asks, writer = plan.proposal.asks, plan.situation.writer
    if not asks or writer is None:
        return Summary()
    prompt = PROMPT * len(asks)
    if not all(ask.prefix for ask in asks):
        counter = plan.situation.counter
        prompt += sum(counter.message(x.message) for ask in asks for x in ask.sources)
    about = None if same_model(chat, writer.name) else known(writer.name)
    return Summary(
        form="cached-prefix" if all(ask.prefix for ask in asks) else "stand-alone",
        prompt=prompt,
        output=sum(ask.target_tokens for ask in asks),
        prices=about.prices if about else None,
    )


def requests_per_turn(session: Session) -> float:
    """Model calls per user message so far: each of them sends the context again."""
    replies = sum(1 for x in session.path if isinstance(x, e.MessageEntry) and x.message.role == "assistant")
    return max(replies / len(session.turns), 1.0) if session.turns else 1.0
