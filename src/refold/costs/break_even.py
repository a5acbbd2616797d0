"""Whether a fold pays off: cost now, savings per turn, and the turn at which it breaks even (rule R15)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from refold.costs.prices import CACHE_SECONDS, Prices, Ttl
from refold.messages import Usage


class SummaryCost(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of making the summary. `cached-prefix` sends the chat's own history again and reads a warm cache;
    `stand-alone` sends an uncached transcript; `none` (embedded digest) is free."""

    form: Literal["cached-prefix", "stand-alone", "none"] = "none"
    prompt: int = 0
    """Tokens sent beyond the history (instruction), or the whole transcript when stand-alone."""
    output: int = 0
    prices: Prices | None = None
    """Of the summarising model; None: same as the chat model."""


class BreakEven(msgspec.Struct, frozen=True):
    """`now`: dollars that folding costs more than not folding, up to and including the next request.
    `per_turn`: dollars saved by each later turn. `turns`: turns until `now` is earned back; 0 if it costs
    nothing, None if never."""

    now: float
    per_turn: float
    turns: int | None


def break_even(
    before: int,
    after: int,
    prices: Prices,
    *,
    shared: int = 0,
    summary: SummaryCost = SummaryCost(),
    warm: bool = True,
    cold: float = 0.0,
    requests_per_turn: float = 1.0,
) -> BreakEven:
    """For a fold from `before` to `after` prompt tokens, the first `shared` of which are unchanged. `warm`:
    the provider's cache holds the prompt now. `cold`: share of later requests that find the cache expired;
    these pay for the whole prompt, so a smaller one saves most there."""
    stay = _prompt(prices, before if warm else 0, before)
    fold = _prompt(prices, shared if warm else 0, after)
    now = _summary(before, prices, summary, warm) + fold - stay
    warm_saves = _prompt(prices, before, before) - _prompt(prices, after, after)
    cold_saves = _prompt(prices, 0, before) - _prompt(prices, 0, after)
    per_turn = requests_per_turn * ((1 - cold) * warm_saves + cold * cold_saves)
    return BreakEven(now, per_turn, _turns(now, per_turn))


def cold_share(times: Sequence[float], ttl: Ttl = "5m") -> float:
    """Share of requests at these times (seconds; 0: unknown) that came after the cache had expired."""
    pauses = [later - earlier for earlier, later in pairwise(times) if earlier and later]
    return sum(pause >= CACHE_SECONDS[ttl] for pause in pauses) / len(pauses) if pauses else 0.0


def _turns(now: float, per_turn: float) -> int | None:
    if now <= 0:
        return 0
    return math.ceil(now / per_turn) if per_turn > 0 else None


def _prompt(prices: Prices, warm: int, total: int) -> float:
    warm = min(warm, total)
    return prices.cost(prices.prompt(warm, total - warm))


def _summary(before: int, prices: Prices, summary: SummaryCost, warm: bool) -> float:
    if summary.form == "none":
        return 0.0
    by = summary.prices or prices
    if summary.form == "stand-alone":
        return by.cost(Usage(input=summary.prompt, output=summary.output))
    # Another model has another cache: its copy of the history is cold.
    read = before if warm and summary.prices is None else 0
    prompt = by.prompt(read, before + summary.prompt - read)
    return by.cost(msgspec.structs.replace(prompt, output=summary.output))
