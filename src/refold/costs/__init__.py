"""Windows and prices of models, the effect of caching, and when a fold pays off. Pure."""

from __future__ import annotations

from refold.costs.break_even import BreakEven, SummaryCost, break_even, cold_share
from refold.costs.models import KnownModel, known, known_models, same_model, window_of
from refold.costs.prices import Long, Prices

__all__ = [
    "BreakEven", "KnownModel", "Long", "Prices", "SummaryCost", "break_even", "cold_share", "known",
    "known_models", "same_model", "window_of",
]  # fmt: skip
