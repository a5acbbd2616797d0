"""Cuts text to a token budget: `refold.text.truncate`, measured by a counter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from refold.protocols import TokenCounter
from refold.text.truncate import middle

_Block = TypeVar("_Block")


def fit(text: str, budget: int, counter: TokenCounter, cut: Callable[[str, int], str] = middle) -> str:
    """The text cut to at most `budget` tokens; empty if no piece fits."""
    size = counter.text(text)
    if size <= budget:
        return text
    if budget <= 0:
        return ""
    # A piece never has more characters than the whole would allow at twice its density.
    longest = min(len(text), budget * max(8, 2 * len(text) // max(size, 1)))
    limit = largest(longest, lambda limit: counter.text(cut(text, limit)) <= budget)
    return cut(text, limit) if limit else ""


def largest(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest n ≤ limit that fits, for a monotone `fits`; 0 if none does. The result always fits."""
    if limit <= 0 or fits(limit):
        return max(limit, 0)
    low, high = 0, limit - 1
    while low < high:
        half = (low + high + 1) // 2
        low, high = (half, high) if fits(half) else (low, half - 1)
    return low


def newest_within(blocks: Sequence[_Block], budget: int, size: Callable[[_Block], int]) -> int:
    """How many blocks, counted from the last, fit the budget together. Stops at the first that does not fit:
    a newer turn is never dropped for an older one."""
    total = 0
    for taken, block in enumerate(reversed(blocks)):
        total += size(block)
        if total > budget:
            return taken
    return len(blocks)
