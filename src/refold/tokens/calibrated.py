"""Predicts a provider's token counts from its earlier ones.

A provider's count is ours times a scale (another vocabulary) plus a fixed part (system prompt, tools and
framing that the transcript does not hold). Both are fitted per session and model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import StatisticsError, fmean, linear_regression, median

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
        """Fit to (our count, provider's count), oldest first. Zero counts (aborted turns) and outliers are
        ignored. With fewer than five points only the fixed part is fitted, to the newest ones."""
        usable = [(x, y) for x, y in pairs if x > 0 and y > 0][-_RECENT:]
        if not usable:
            return cls()
        scale = _slope(usable) if len(usable) >= MINIMUM and _spans(usable) else 1.0
        fixed = median(y - scale * x for x, y in usable)
        kept = _without_outliers(usable, scale, fixed)
        if len(kept) >= MINIMUM and _spans(kept):
            scale = _least_squares(kept)
            fixed = fmean(y - scale * x for x, y in kept)
        spread = median(abs(scale * x + fixed - y) / y for x, y in kept) if kept else 0.0
        return cls(scale, fixed, len(kept), spread)

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
    return _bounded(median(slopes)) if slopes else 1.0


def _least_squares(pairs: list[tuple[float, float]]) -> float:
    try:
        return _bounded(linear_regression(*zip(*pairs, strict=True)).slope)
    except StatisticsError:  # counts that differ by less than a float can square
        return 1.0


def _bounded(scale: float) -> float:
    return min(_SCALES[1], max(_SCALES[0], scale))


def _without_outliers(
    pairs: list[tuple[float, float]], scale: float, fixed: float
) -> list[tuple[float, float]]:
    """Points within three robust deviations of the line (and always those within 2 %)."""
    errors = [abs(y - scale * x - fixed) for x, y in pairs]
    limit = 3 * 1.4826 * median(errors)
    return [(x, y) for (x, y), error in zip(pairs, errors, strict=True) if error <= max(limit, 0.02 * y)]
