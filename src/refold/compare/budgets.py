"""Budgets: `20k` tokens, or `20%` of a transcript."""

from __future__ import annotations

import math
import re

import msgspec

from refold.errors import SettingError

_NUMBER = re.compile(r"([0-9]{1,12}(?:_[0-9]{3}){0,3}(?:\.[0-9]{1,12})?)\s?(%|[kKmM])?")
_TIMES = {"k": 1_000, "m": 1_000_000}


class Budget(msgspec.Struct, frozen=True):
    """Tokens that a fold may leave: a number, or a share of the transcript."""

    text: str
    tokens: int | None = None
    share: float = 0.0

    def of(self, whole: int) -> int:
        """In tokens, for a transcript of `whole` tokens."""
        return self.tokens if self.tokens is not None else max(1, round(whole * self.share))


def parse_budget(text: str) -> Budget:
    """`8k`, `20000`, `1.5m` or `20%`."""
    text = text.strip()
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise SettingError("budget", f"{text!r} is neither a number of tokens (20000, 20k) nor a share (20%)")
    number, unit = float(match[1].replace("_", "")), (match[2] or "").lower()
    if unit == "%":
        if not 0 < number <= 100:
            raise SettingError("budget", f"{text!r} is not a share of a transcript: use 1% to 100%")
        return Budget(text, share=number / 100)
    tokens = math.floor(number * _TIMES.get(unit, 1))
    if tokens < 1:
        raise SettingError("budget", f"{text!r} is too small: a view needs at least one token")
    return Budget(text, tokens)


def parse_budgets(text: str) -> tuple[Budget, ...]:
    """Comma-separated budgets without duplicates (`2k`, `2000`)."""
    budgets: dict[tuple[int | None, float], Budget] = {}
    for budget in (parse_budget(one) for one in text.split(",") if one.strip()):
        budgets.setdefault((budget.tokens, budget.share), budget)
    return tuple(budgets.values())
