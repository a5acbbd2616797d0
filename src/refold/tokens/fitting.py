"""Fitting text into a budget of tokens: the cutters of `refold.text.truncate`, measured by a counter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from refold.protocols import TokenCounter
from refold.text.truncate import middle

_Block = TypeVar("_Block")


def fit(text: str, budget: int, counter: TokenCounter, cut: Callable[[str, int], str] = middle) -> str:
    """The text cut so that it costs at most `budget` tokens; empty where not even a piece fits."""
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
    """The largest n ≤ limit that fits, if fitting is monotone; 0 where none does. What it returns does fit
    in any case."""
    if limit <= 0 or fits(limit):
        return max(limit, 0)
    low, high = 0, limit - 1
    while low < high:
        half = (low + high + 1) // 2
        low, high = (half, high) if fits(half) else (low, half - 1)
    return low


def newest_within(blocks: Sequence[_Block], budget: int, size: Callable[[_Block], int]) -> int:
    """How many of the blocks, counted from the last one, fit the budget together. Stops at the first that
    does not: a later turn never disappears in favour of an earlier one."""
    total = 0
    for taken, block in enumerate(reversed(blocks)):
        total += size(block)
        if total > budget:
            return taken
    return len(blocks)
