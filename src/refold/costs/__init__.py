"""What models hold and cost: windows, prices, what caching changes, and when a fold pays. Pure."""

from __future__ import annotations

from refold.costs.break_even import BreakEven, Summary, break_even
from refold.costs.models import Known, known, known_models, same_model, window_of
from refold.costs.prices import Long, Prices

__all__ = [
    "BreakEven", "Known", "Long", "Prices", "Summary", "break_even", "known", "known_models", "same_model",
    "window_of",
]  # fmt: skip
