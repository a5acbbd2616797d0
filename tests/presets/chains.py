"""Chains of folds: helpers that feed real transcripts and look at what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from refold import entries as e
from refold.messages import Assistant, Result
from refold.models.scripted import Scripted
from refold.protocols import Request
from refold.session.invariants import settled
from refold.session.items import Item
from refold.session.view import View
from refold.testing.validators import validate_anthropic, validate_view


def summariser(text: str = "SUMMARY") -> Scripted:
    """A model whose n-th summary says so."""
    count = iter(range(1, 10_000))
    return Scripted(
        then=lambda request: f"{text} {next(count)} ({request.purpose})", context_window=10_000_000
    )


def orphans(items: Sequence[Item]) -> list[str]:
    """Results whose call is not in view in front of them."""
    seen: set[str] = set()
    lost: list[str] = []
    for item in items:
        message = item.message
        if isinstance(message, Assistant):
            seen |= {call.id for call in message.calls}
        elif isinstance(message, Result) and message.call_id not in seen:
            lost.append(message.call_id)
    return lost


def check_wire(view: View) -> None:
    """Every dialect is valid, unless a call at the very end still waits for its result."""
    if not settled(view.items):
        return
    wrong = validate_view(view) + validate_anthropic(view.to_anthropic())
    assert wrong == [], wrong


def prompts(model: Scripted, purpose: str = "summary") -> list[str]:
    return [r.messages[-1].text for r in model.requests if r.purpose == purpose]


def asked(requests: Sequence[Request], wanted: Callable[[Request], bool]) -> list[Request]:
    return [request for request in requests if wanted(request)]


def tail_of(items: Sequence[Item], fold: e.Fold) -> list[Item]:
    """Items from the first kept entry on."""
    at = next((i for i, item in enumerate(items) if fold.first_kept in item.entries), len(items))
    return list(items[at:])
