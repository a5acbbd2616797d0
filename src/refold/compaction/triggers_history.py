"""Triggers by the size of the history in characters: at every model call, and ahead of cache expiry."""

from __future__ import annotations

from dataclasses import dataclass

from refold.compaction.exchanges import history_size
from refold.compaction.plan import Due, Reason
from refold.compaction.situation import Situation


@dataclass(frozen=True)
class HistorySize:
    """The history has so many characters; fewer are enough while the provider's cache is about to expire."""

    threshold: int
    when_expiring: int = 0
    off: str = ""
    """Why nothing is folded at all; empty: it is not switched off."""

    def due(self, s: Situation, /) -> Due | Reason:
        if self.off:
            return Reason("off", self.off)
        threshold = self.when_expiring if s.cache_expiring else self.threshold
        if threshold <= 0:
            which = "_when_cache_expiring" if s.cache_expiring else ""
            return Reason("off", f"trigger_on_history_size_chars{which} is {threshold}: this trigger is off")
        size = history_size(s)
        if size < threshold:
            return Reason("below_threshold", f"{size} characters of {threshold}")
        code = "cache_expiring" if s.cache_expiring else "size"
        return Due(code, f"the history has {size} characters, the threshold is {threshold}")


def arm_delay(*, ttl_ms: int, buffer_ms: int, age_ms: float = 0) -> float | None:
    """Seconds after which to look again, ahead of the expiry of a cache entry that is `age_ms` old; None:
    there is no time for that, the timer is not armed."""
    delay = ttl_ms - age_ms - buffer_ms
    return delay / 1000 if delay > 0 else None
