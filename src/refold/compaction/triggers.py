"""When a fold is due. Each trigger is one small class; it looks, it changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refold import entries as e
from refold.compaction.details import LayeredDetails
from refold.compaction.exchanges import history_size
from refold.compaction.overflow import FULL, HALF, failed_by_overflow, refused_by
from refold.compaction.plan import Reason
from refold.compaction.plan_context import Due, PlanContext, finished
from refold.compaction.sizes import ROUGH, usage_of
from refold.costs import Prices, known
from refold.messages import Assistant, System, Usage, User
from refold.session.history import History, last_model
from refold.session.items import Item

CHARS = 3
"""Characters of new input that make a token."""


@dataclass(frozen=True)
class Never:
    """Automatic folding is switched off."""

    def due(self, s: PlanContext, /) -> Due | Reason:  # noqa: ARG002
        return Reason("disabled", "automatic folding is switched off")


# ── by tokens ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class UsageThreshold:
    """Tokens, anchored on the provider's own count, pass the window less a reserve."""

    reserve: int

    def due(self, s: PlanContext, /) -> Due | Reason:
        last = s.session.last_reply
        if last is not None and isinstance(last.message, Assistant):
            at, turns = s.session.position(last.id), s.session.turns
            goes_on = s.incoming is not None or (at is not None and bool(turns) and turns[-1] > at)
            if last.message.stop == "aborted" and not goes_on:
                return Reason("aborted", "the last reply was aborted by the user")
            if not s.sizes.is_fresh(last):
                return Reason(
                    "stale", "no reply since the last fold: its usage describes a view that is gone"
                )
            if due := overflow(s):
                return due
        tokens, limit = s.sizes.anchored(bare=True), s.window - self.reserve
        if tokens > limit:
            return Due(
                "threshold", f"{tokens:,} tokens of {limit:,} ({s.window:,} less {self.reserve:,} reserved)"
            )
        return Reason("below_threshold", f"{tokens:,} tokens of {limit:,}")


@dataclass(frozen=True)
class FillLevel:
    """The view, anchored on the provider's own count where there is one, passes what the window can take.
    Counts exactly only where a rough count cannot tell. With the provider's cache about to expire it fires
    early, where folding now costs less than sending the whole context to a cold cache."""

    usable: int
    goal: int = 0
    """What a fold makes of it; 0: never early."""

    def due(self, s: PlanContext, /) -> Due | Reason:
        if due := overflow(s, HALF, silent=False):
            return due
        tokens, about = max(s.sizes.anchored(ROUGH), s.sizes.rough), "about "
        if tokens > self.usable / 4 and not s.sizes.far_beyond(self.usable):
            tokens, about = s.sizes.provider, ""
        if tokens > self.usable:
            return Due("full", f"{about}{tokens:,} tokens; {self.usable:,} fit")
        if s.cache_expiring and self.goal and fold_beats_cold_cache(s, tokens, self.goal):
            return Due("cache_expiring", "the cache is cold: folding costs less than sending everything")
        return Reason("below_threshold", f"{about}{tokens:,} tokens of {self.usable:,}")


def fold_beats_cold_cache(s: PlanContext, before: int, after: int) -> bool:
    """With the cache gone at the next request: is a summary from the warm cache plus the folded context
    cheaper than the whole context? Prices of the log's model; ratios are much the same everywhere."""
    name = last_model(s.session)
    about = known(name) if name else None
    prices = about.prices if about and about.prices else Prices(input=1.0, output=5.0)
    output = 1_000 if s.has_model else 0
    asked = prices.cost(Usage(cache_read=before if s.has_model else 0, output=output))
    cold = prices.cost(prices.prompt(0, before))
    return after < before and asked + prices.cost(prices.prompt(0, after)) < cold


@dataclass(frozen=True)
class NewInput:
    """Checked when the user speaks: tokens of the last call plus a third of the characters of the input reach
    a share of the window."""

    threshold: float = 0.8
    min_messages: int = 3

    def due(self, s: PlanContext, /) -> Due | Reason:
        if due := overflow(s):
            return due
        text, before = _input(s)
        if text is None:
            return Reason("in_turn", "checked when new user input arrives")
        if len(s.items) < self.min_messages:
            return Reason("few_messages", f"{len(s.items):,} messages; the minimum is {self.min_messages:,}")
        used = _last_usage(s.session)
        if used is None:
            used = s.sizes.overhead + s.projection.size(s.measure, 0, before)
        tokens, limit = used + len(text) // CHARS, s.window * self.threshold
        if tokens < limit:
            return Reason("below_threshold", f"{tokens:,} tokens of {limit:,.0f}")
        share = f"{self.threshold:.0%} of {s.window:,}"
        return Due("threshold", f"{tokens:,} tokens; the threshold is {limit:,.0f} ({share})")


def _input(s: PlanContext) -> tuple[str | None, int]:
    """The new input, all that is unanswered, and how many items came before it."""
    before = len(s.items)
    while before and s.items[before - 1].fold is None and isinstance(s.items[before - 1].message, User):
        before -= 1
    texts = [item.message.text for item in s.items[before:]]
    if s.incoming is not None:
        texts.append(s.incoming)
    return ("".join(texts) if texts else None), before


def _last_usage(session: History) -> int | None:
    """Everything the last call took, as the provider counted it. What was counted before an archive was made
    describes a view that is gone."""
    for entry in reversed(session.path):
        if isinstance(entry, e.Fold) and LayeredDetails.of(entry).archive:
            return None
        said = isinstance(entry, e.MessageEntry) and isinstance(entry.message, Assistant)
        if said and (usage := usage_of(entry)):
            return usage.total
    return None


# ── by messages, characters, rounds ─────────────────────────────────────────────────────────────


def message_count(items: Sequence[Item]) -> int:
    """How many messages there are, as this design counts: a system message of the log is none, a summary is
    one."""
    return sum(item.fold is not None or not isinstance(item.message, System) for item in items)


@dataclass(frozen=True)
class MessageCount:
    """So many messages are in the view when the user speaks or the reply has come. The log's own system
    messages do not count."""

    threshold: int

    def due(self, s: PlanContext, /) -> Due | Reason:
        if due := overflow(s):
            return due
        last = s.items[-1].message if s.items and s.incoming is None else None
        if last and not (isinstance(last, User) or (isinstance(last, Assistant) and not last.calls)):
            return Reason("in_turn", "checked when the user speaks and when the reply has come")
        count = message_count(s.items)
        if count < self.threshold:
            return Reason("below_threshold", f"{count:,} messages of {self.threshold:,}")
        return Due("count", f"{count:,} messages; the threshold is {self.threshold:,}")


@dataclass(frozen=True)
class HistorySize:
    """The history has so many characters; fewer are enough while the provider's cache is about to expire."""

    threshold: int
    when_expiring: int = 0
    off: str = ""
    """Why nothing is folded at all; empty: it is not switched off."""

    def due(self, s: PlanContext, /) -> Due | Reason:
        if self.off:
            return Reason("off", self.off)
        if due := overflow(s):
            return due
        threshold = self.when_expiring if s.cache_expiring else self.threshold
        if threshold <= 0:
            which = "_when_cache_expiring" if s.cache_expiring else ""
            return Reason("off", f"trigger_on_history_size_chars{which} is {threshold}: this trigger is off")
        size = history_size(s)
        if size < threshold:
            return Reason("below_threshold", f"{size:,} characters of {threshold:,}")
        code = "cache_expiring" if s.cache_expiring else "size"
        return Due(code, f"the history has {size:,} characters; the threshold is {threshold:,}")


@dataclass(frozen=True)
class RoundEnded:
    """Maintenance, whatever the size of the view: there are finished rounds. Whether one of them has to
    change is for the strategy to say."""

    text: str

    def due(self, s: PlanContext, /) -> Due | Reason:
        if not finished(s):
            return Reason("no_round", "no round is finished yet")
        return Due("round_ended", self.text)


# ── overflow ────────────────────────────────────────────────────────────────────────────────────


def overflow(s: PlanContext, full: float = FULL, *, silent: bool = True) -> Due | None:
    """The newest reply failed, or silently suffered, because the context was too long for the model that will
    be asked again, and nothing was folded since."""
    last = s.session.last_reply
    if last is None or not failed_by_overflow(last, s.window, full, silent=silent):
        return None
    if not s.sizes.is_fresh(last) or not refused_by(s.session, last, s.model):
        return None
    return Due("overflow", "the provider refused the context as too long")
