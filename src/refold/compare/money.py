"""The cost of a conversation: every request replayed with prices and a simulated prompt cache.

Uses only token counts. A fold is described by its measured sizes (`ViewSizes`): the untouched beginning, the
record, and the verbatim tail. Whenever the next request would exceed the threshold, the conversation is
folded to these sizes; the cache then holds only the beginning.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from refold import entries as e
from refold.compaction.requests import PROMPT
from refold.costs import Prices, known
from refold.costs.break_even import break_even, cold_share
from refold.costs.prices import CACHE_SECONDS
from refold.errors import SettingError
from refold.messages import Assistant, System, Usage
from refold.protocols import TokenCounter
from refold.session import Session
from refold.session.edits import said_by
from refold.session.history import last_model
from refold.session.items import Item

PRICED = "claude-sonnet-5"
"""The default model for prices."""
TIMES = (2, 4, 8)
"""Thresholds in budgets: a context of this size is folded to one budget."""
COST_THRESHOLD = 4
"""The threshold of `cost`; if a conversation never reaches it, the largest that it reaches."""
DEFAULT_PAUSE_SECONDS = 20.0
"""Assumed seconds between requests if the transcript has no times."""
MAX_PAUSE_SECONDS = 3600.0
"""Maximum pause that counts, since nights and holidays say nothing about a preset."""
GAIN = 0.9
"""A fold that leaves more than this part of the context is not made."""


class ReplayedRequest(NamedTuple):
    """A request: number of entries before it, time since the previous one, size of the reply."""

    entries: int
    pause: float
    output: int


class RequestSeries(msgspec.Struct, frozen=True):
    """A conversation as a series of requests."""

    sums: tuple[int, ...]
    """`sums[i]` is the size of the first `i` entries."""
    fixed: int
    """Number of leading entries that are never folded: system prompts."""
    steps: tuple[ReplayedRequest, ...]

    @property
    def tokens(self) -> int:
        return self.sums[-1]

    @property
    def sizes(self) -> list[int]:
        return [after - before for before, after in pairwise(self.sums)]


class ViewSizes(msgspec.Struct, frozen=True):
    """Sizes of a folded view, in tokens."""

    kept: int
    record: int
    tail: int


class Summarising(msgspec.Struct, frozen=True):
    """Cost of writing records. Without prices: the digest, which is free."""

    prices: Prices | None = None
    output: int = 0


class ReplayBill(msgspec.Struct, frozen=True):
    """Result of a replay, in dollars and tokens."""

    dollars: float
    summaries: float = 0.0
    """The summariser's part of it."""
    folds: int = 0
    prompt: int = 0
    """Total tokens sent."""
    peak: int = 0
    """The largest context sent."""


class Paid(msgspec.Struct, frozen=True):
    """Cost of a conversation with a preset, by threshold, and without folding."""

    none: ReplayBill
    by_threshold: dict[int, ReplayBill] = {}
    threshold: int = 0
    """The usual one."""

    @property
    def usual(self) -> ReplayBill:
        return self.by_threshold.get(self.threshold, self.none)

    @property
    def saved(self) -> float:
        return self.none.dollars - self.usual.dollars

    def row(self) -> dict[str, Any]:
        thresholds = {
            str(threshold): {
                "cost": round(bill.dollars, 6),
                "summaries": round(bill.summaries, 6),
                "folds": bill.folds,
                "peak": bill.peak,
            }
            for threshold, bill in self.by_threshold.items()
        }
        return {
            "no_compaction": round(self.none.dollars, 6),
            "saved": round(self.saved, 6),
            "loses": self.saved < 0,
            "thresholds": thresholds,
        }


class Priced(NamedTuple):
    """A model whose prices are used."""

    name: str
    prices: Prices


def priced(name: str) -> Priced:
    model = known(name)
    if model is None or model.prices is None:
        raise SettingError("prices", f"no prices for {name!r}; `refold models` lists the models with prices")
    return Priced(model.name, model.prices)


def prices_of(session: Session, name: str | None) -> Priced:
    """Prices of the named model, the conversation's, or a default."""
    if name:
        return priced(name)
    spoken = last_model(session)
    model = known(spoken) if spoken else None
    if model and model.prices:
        return priced(model.name)
    usual = priced(PRICED)
    return usual._replace(name=f"{usual.name}, since the log names no model with known prices")


def folds_saved(session: Session, since: float = 0.0) -> tuple[int, int, float]:
    """Of the folds since then: their number, the tokens saved in requests, and dollars saved, less the cost
    of rewriting the cache. A fold without sizes counts for nothing."""
    folds, tokens, money = 0, 0, 0.0
    entries = session.entries
    cold = cold_share([session.path[position].time for position in session.replies])
    for place, fold in enumerate(entries):
        if not isinstance(fold, e.Fold) or fold.time < since:
            continue
        later = sum(
            isinstance(entry, e.MessageEntry) and entry.message.role == "assistant"
            for entry in entries[place:]
        )
        folds += 1
        if not fold.tokens_after:
            continue
        even = break_even(fold.tokens_before, fold.tokens_after, prices_of(session, None).prices, cold=cold)
        tokens += later * (fold.tokens_before - fold.tokens_after)
        money += (later - 1) * even.per_turn - even.now if later else 0
    return folds, tokens, money


def steps(session: Session, counter: TokenCounter) -> RequestSeries:
    """The requests of a conversation; sizes are counted once per entry."""
    sums, found = [0], list[ReplayedRequest]()
    fixed, last = 0, 0.0
    for entry in session.path:
        message = said_by(entry)
        if message is None:
            continue
        size = session.cached_count(entry.id, message, counter)
        if isinstance(message, System) and fixed == len(sums) - 1:
            fixed += 1
        if isinstance(message, Assistant):
            found.append(ReplayedRequest(len(sums) - 1, _pause(last, entry.time), size))
            last = entry.time
        sums.append(sums[-1] + size)
    return RequestSeries(tuple(sums), fixed, tuple(found))


def _pause(before: float, now: float) -> float:
    return min(max(now - before, 0.0), MAX_PAUSE_SECONDS) if before and now else DEFAULT_PAUSE_SECONDS


def view_sizes(items: Sequence[Item], sizes: Sequence[int]) -> ViewSizes:
    put = [index for index, item in enumerate(items) if item.fold is not None]
    first = put[0] if put else len(items)
    record = sum(sizes[index] for index in put)
    kept = sum(sizes[:first])
    return ViewSizes(kept, record, sum(sizes) - kept - record)


def bill(
    conversation: RequestSeries,
    prices: Prices,
    *,
    threshold: int | None = None,
    shape: ViewSizes | None = None,
    summarising: Summarising = Summarising(),
) -> ReplayBill:
    """The bill of the conversation, folded to `shape` where a request would exceed `threshold`, if given."""
    run = _Run(conversation, prices, summarising)
    for step in conversation.steps:
        if threshold is not None and shape is not None and run.size(step) > threshold:
            run.fold(step, shape)
        run.request(step)
    return run.bill()


def pay(
    conversation: RequestSeries,
    prices: Prices,
    none: ReplayBill,
    limit: int,
    shape: ViewSizes,
    summarising: Summarising,
) -> Paid:
    """The cost at every threshold that the conversation reaches."""
    bills = {
        limit * times: bill(
            conversation, prices, threshold=limit * times, shape=shape, summarising=summarising
        )
        for times in TIMES
        if limit * times < none.peak
    }
    usual = max(
        (reached for reached in bills if reached <= limit * COST_THRESHOLD), default=limit * COST_THRESHOLD
    )
    return Paid(none, bills, usual)


def summarising(folds: Sequence[e.Fold], model: str, chat: Priced) -> Summarising:
    """The observed cost of a summary; a model without known prices costs as much as the chat model."""
    asked = [fold for fold in folds if fold.requests]
    if not asked:
        return Summarising()
    about = known(model)
    outputs = [fold.usage.output for fold in asked if fold.usage]
    prices = about.prices if about and about.prices else chat.prices
    return Summarising(prices, sum(outputs) // len(outputs) if outputs else 1_000)


class _Run:
    def __init__(self, conversation: RequestSeries, prices: Prices, summarising: Summarising) -> None:
        self.sums = conversation.sums
        self.prices, self.summarising = prices, summarising
        self.kept = self.sums[conversation.fixed]
        """Leading tokens that no fold touches."""
        self.start = conversation.fixed
        """First entry that is shown unchanged."""
        self.record = 0
        self.warm = 0
        """Leading tokens of the next prompt that are cached."""
        self.dollars = self.summaries = 0.0
        self.folds = self.prompt = self.peak = 0

    def size(self, step: ReplayedRequest) -> int:
        return self.kept + self.record + self.sums[step.entries] - self.sums[self.start]

    def fold(self, step: ReplayedRequest, shape: ViewSizes) -> None:
        """Folds to the beginning, a record and the newest entries that the preset keeps."""
        before = self.size(step)
        start = bisect_left(self.sums, self.sums[step.entries] - shape.tail, self.start, step.entries)
        kept = min(max(self.kept, shape.kept), self.sums[start])
        after = kept + shape.record + self.sums[step.entries] - self.sums[start]
        if start == self.start or after > GAIN * before:
            return
        if self.summarising.prices is not None:
            source = before - self.kept - (self.sums[step.entries] - self.sums[start]) + PROMPT
            usage = Usage(input=source, output=self.summarising.output)
            self.summaries += self.summarising.prices.cost(usage)
        self.start, self.record, self.kept = start, shape.record, kept
        self.warm = min(self.warm, kept)
        self.folds += 1

    def request(self, step: ReplayedRequest) -> None:
        """Bills a request by a cache of the longest prefix: every prompt continues the previous one."""
        size = self.size(step)
        warm = min(self.warm, size) if step.pause < CACHE_SECONDS["5m"] else 0
        usage = self.prices.prompt(warm, size - warm)
        self.dollars += self.prices.cost(msgspec.structs.replace(usage, output=step.output))
        if size >= self.prices.min_cache:
            self.warm = size
        self.prompt += size
        self.peak = max(self.peak, size)

    def bill(self) -> ReplayBill:
        return ReplayBill(self.dollars + self.summaries, self.summaries, self.folds, self.prompt, self.peak)
