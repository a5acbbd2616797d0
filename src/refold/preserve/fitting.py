"""Fitting text into budgets: characters (by the cutters of `refold.text.truncate`) and tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from refold.protocols import TokenCounter
from refold.text.truncate import boundary, head, middle, one_line, tail

__all__ = ["boundary", "fit", "head", "middle", "newest_within", "one_line", "tail"]


def fit(text: str, budget: int, counter: TokenCounter, cut: Callable[[str, int], str] = middle) -> str:
    """The text cut so that it costs at most `budget` tokens; empty where not even a piece fits."""
    size = counter.text(text)
    if size <= budget:
        return text
    if budget <= 0:
        return ""
    low, high = 0, min(len(text), budget * max(8, 2 * len(text) // max(size, 1)))
    best = ""
    for _ in range(24):
        if low >= high:
            break
        limit = (low + high + 1) // 2
        piece = cut(text, limit)
        if counter.text(piece) <= budget:
            low, best = limit, piece
        else:
            high = limit - 1
    return best


def newest_within(blocks: Sequence[str], budget: int, size: Callable[[str], int]) -> int:
    """How many of the blocks, counted from the last one, fit the budget together. Stops at the first that
    does not: a later turn never disappears in favour of an earlier one."""
    total = 0
    for taken, block in enumerate(reversed(blocks)):
        total += size(block)
        if total > budget:
            return taken
    return len(blocks)
