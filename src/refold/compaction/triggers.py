"""When a fold is due. Each trigger is one small class; it looks, it changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from refold import entries as e
from refold.compaction.money import last_model
from refold.compaction.overflow import is_overflow
from refold.compaction.plan import Due, Reason
from refold.compaction.situation import ROUGH, Situation
from refold.costs import Prices, known
from refold.messages import Assistant, Usage, User
from refold.session import Session


@dataclass(frozen=True)
class Never:
    """Automatic folding is switched off."""

    def due(self, s: Situation, /) -> Due | Reason:  # noqa: ARG002
        return Reason("disabled", "automatic folding is switched off")


@dataclass(frozen=True)
class UsageThreshold:
    """Tokens, anchored on the provider's own count, pass the window less a reserve."""

    reserve: int

    def due(self, s: Situation, /) -> Due | Reason:
        last = s.last_assistant()
        if last is not None and isinstance(last.message, Assistant):
            if last.message.stop == "aborted":
                return Reason("aborted", "the last reply was aborted by the user")
            if not s.is_fresh(last):
                return Reason(
                    "stale", "no reply since the last fold: its usage describes a view that is gone"
                )
            if failed_by_overflow(last, s.window):
                return Due("overflow", "the provider refused the context as too long")
        tokens, limit = s.anchored(bare=True), s.window - self.reserve
        if tokens > limit:
            return Due("threshold", f"{tokens} tokens of {limit} ({s.window} less {self.reserve} reserved)")
        return Reason("below_threshold", f"{tokens} tokens of {limit}")


@dataclass(frozen=True)
class MessageCount:
    """So many messages are in the view when the user speaks."""

    threshold: int
    code: str = "count"

    def due(self, s: Situation, /) -> Due | Reason:
        count = len(s.items)
        if count and not isinstance(s.items[-1].message, User):
            return Reason("in_turn", "checked once per user message")
        if count < self.threshold:
            return Reason("below_threshold", f"{count} messages of {self.threshold}")
        return Due(self.code, f"{count} messages, the threshold is {self.threshold}")


def fold_beats_cold_cache(s: Situation, before: int, after: int) -> bool:
    """With the cache gone at the next request: is a summary from the warm cache plus the folded context
    cheaper than the whole context? Prices of the log's model; ratios are much the same everywhere."""
    name = last_model(s.session)
    about = known(name) if name else None
    prices = about.prices if about and about.prices else Prices(input=1.0, output=5.0)
    output = 1_000 if s.has_model else 0
    asked = prices.cost(Usage(cache_read=before if s.has_model else 0, output=output))
    cold = prices.cost(prices.prompt(0, before))
    return after < before and asked + prices.cost(prices.prompt(0, after)) < cold


def failed_by_overflow(entry: e.MessageEntry, window: int) -> bool:
    """Did this reply fail, or silently suffer, because the context was too long?"""
    message = entry.message
    return isinstance(message, Assistant) and is_overflow(
        error=message.error, stop=message.stop, usage=entry.usage, window=window
    )


@dataclass(frozen=True)
class FillLevel:
    """The view, anchored on the provider's own count where there is one, passes what the window can take.
    Counts exactly only where a rough count cannot tell. With the provider's cache about to expire it fires
    early, where folding now costs less than sending the whole context to a cold cache."""

    usable: int
    goal: int = 0
    """What a fold makes of it; 0: never early."""

    def due(self, s: Situation, /) -> Due | Reason:
        last = s.last_assistant()
        if last is not None and s.is_fresh(last) and failed_by_overflow(last, s.window):
            return Due("overflow", "the provider refused the context as too long")
        tokens = max(s.anchored(ROUGH), s.rough)
        if self.usable / 4 < tokens < self.usable * 4:
            tokens = s.filled
        if tokens > self.usable:
            return Due("full", f"{tokens} tokens, {self.usable} are usable")
        if s.cache_expiring and self.goal and fold_beats_cold_cache(s, tokens, self.goal):
            return Due("cache_expiring", "folding now costs less than sending all of it to a cold cache")
        return Reason("below_threshold", f"{tokens} tokens of {self.usable}")


def overflowed_twice(session: Session, window: int) -> bool:
    """Did the provider refuse the context twice, with no good reply in between and no fold since?"""
    last = [session.path[at] for at in session.replies[-2:]]
    if len(last) < 2 or not all(_refused(entry, window) for entry in last):
        return False
    return not any(isinstance(entry, e.Fold) for entry in session.path[session.replies[-1] :])


def _refused(entry: e.Entry, window: int) -> bool:
    if not isinstance(entry, e.MessageEntry) or not isinstance(entry.message, Assistant):
        return False
    return entry.message.stop == "error" and failed_by_overflow(entry, window)
