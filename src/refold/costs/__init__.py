"""What models hold and cost: windows, prices, a model of prompt caches, and when a fold pays. Pure."""

from __future__ import annotations

from refold.costs.break_even import BreakEven, Summary, break_even
from refold.costs.cache import COLD, Block, Cached, send
from refold.costs.models import Known, known, known_models, same_model, window_of
from refold.costs.prices import Long, Prices

__all__ = [
    "COLD",
    "Block",
    "BreakEven",
    "Cached",
    "Known",
    "Long",
    "Prices",
    "Summary",
    "break_even",
    "known",
    "known_models",
    "same_model",
    "send",
    "window_of",
]
