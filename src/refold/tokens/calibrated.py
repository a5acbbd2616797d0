"""Predicts a provider's token counts from its earlier ones.

A provider's count is ours times a scale (another vocabulary) plus a fixed part (system prompt, tools and
framing that the transcript does not hold). Both are fitted per session and model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

MINIMUM = 5
"""Points needed for a fit."""
_RECENT = 200
_SCALES = (0.5, 3.0)


@dataclass(frozen=True, slots=True)
class Calibration:
    """`predict(count) = scale × count + fixed`. `spread` is the median relative error of the `points`."""

    scale: float = 1.0
    fixed: float = 0.0
    points: int = 0
    spread: float = 0.0

    @classmethod
    def fit(cls, pairs: Iterable[tuple[float, float]]) -> Calibration:
        """Fit to (our count, provider's count), oldest first: medians, which a few odd counts do not move.
        Zero counts (aborted turns) are ignored. With fewer than five points only the fixed part is fitted."""
        usable = [(x, y) for x, y in pairs if x > 0 and y > 0][-_RECENT:]
        if not usable:
            return cls()
        scale = _slope(usable) if len(usable) >= MINIMUM and _spans(usable) else 1.0
        fixed = median(y - scale * x for x, y in usable)
        spread = median(abs(scale * x + fixed - y) / y for x, y in usable)
        return cls(scale, fixed, len(usable), spread)

    @property
    def known(self) -> bool:
        return self.points >= MINIMUM

    def predict(self, count: float) -> int:
        """The provider's count for our `count`; never negative."""
        return max(0, round(self.scale * count + self.fixed))

    def budget(self, tokens: float) -> int:
        """The largest count of ours for which the provider counts at most `tokens`."""
        return max(0, int((tokens - self.fixed) / self.scale))


def _spans(pairs: list[tuple[float, float]]) -> bool:
    """True if the counts differ enough for a slope."""
    low, high = min(x for x, _ in pairs), max(x for x, _ in pairs)
    return high - low >= 0.05 * high


def _slope(pairs: list[tuple[float, float]]) -> float:
    """Theil-Sen estimate: the median slope between points half the list apart."""
    ordered = sorted(pairs)
    half = len(ordered) // 2
    slopes = [
        (y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in zip(ordered, ordered[half:], strict=False) if x2 > x1
    ]
    return min(_SCALES[1], max(_SCALES[0], median(slopes))) if slopes else 1.0
