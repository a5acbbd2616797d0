"""Measurements of a running gateway.

Requests and their time are the gateway's own counts. Tokens, cache reads and folds are read from its sessions
where the provider reported them; other replies are counted as unmeasured. Cost is at list prices. The cost
without folding is a low estimate: everything in the previous request is assumed to be cached, if the cache
was in use at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from refold import entries as e
from refold.costs import Prices, known
from refold.costs.prices import CACHE_SECONDS
from refold.explorer.session_list import reply_usage
from refold.messages import Usage
from refold.session import Session
from refold.session.edits import active_folds
from refold.text.lenient_json import JsonObject

GATEWAY_ID = re.compile(r"(?<=\.)[0-9a-f]{32}\Z")
"""Prefix of a gateway's sessions."""
_LINE = re.compile(r'^(\w{1,200}+)(?:\{what="([^"\n]{0,200})"\})? ([0-9.e+-]{1,40})', re.MULTILINE)


_Previous = tuple[int, int, float]
"""The previous reply: its prompt, its size without folding, and its time."""


class GatewayCounts(msgspec.Struct):
    """Counts of replies since a gateway was started."""

    replies: int = 0
    unmeasured: int = 0
    """Replies without usage from the provider."""
    prompt: int = 0
    output: int = 0
    cache_read: int = 0
    cache_misses: int = 0
    """Replies whose prompt continued the previous one but was less than half cached."""
    folds: int = 0
    dollars: float = 0.0
    unfolded: float = 0.0
    """Estimated cost of the same replies without folding."""
    unpriced: int = 0
    """Replies of models without known prices."""


def counts(sessions: Iterable[Session], since: float) -> GatewayCounts:
    total = GatewayCounts()
    for session in sessions:
        _add(total, session, since)
    return total


def _add(total: GatewayCounts, session: Session, since: float) -> None:
    total.folds += sum(fold.time >= since for fold in session.annotations(e.Fold))
    counted = reply_usage(session)
    before: _Previous | None = None
    active: list[e.Entry] = []
    for entry in session.path:
        if isinstance(entry, (e.Fold, e.Undo, e.Redo)):
            active.append(entry)
        if not isinstance(entry, e.MessageEntry) or entry.message.role != "assistant":
            continue
        is_new = entry.time >= since
        total.replies += is_new
        if entry.id not in counted:
            total.unmeasured += is_new
            continue
        usage = counted[entry.id][1]
        saved = sum(max(f.tokens_before - f.tokens_after, 0) for f in active_folds(active))
        if is_new:
            _count(total, entry, usage, saved, before)
        before = usage.prompt, usage.prompt + saved, entry.time


def _count(
    total: GatewayCounts, entry: e.MessageEntry, usage: Usage, saved: int, before: _Previous | None
) -> None:
    total.prompt += usage.prompt
    total.output += usage.output
    total.cache_read += usage.cache_read
    if before and usage.prompt >= before[0] and usage.cache_read < before[0] / 2:
        total.cache_misses += 1
    about = known(entry.model) if entry.model else None
    if about is None or about.prices is None:
        total.unpriced += 1
    else:
        total.dollars += about.prices.cost(usage)
        total.unfolded += _unfolded(about.prices, usage, saved, before, entry.time)


def _unfolded(prices: Prices, usage: Usage, saved: int, before: _Previous | None, now: float) -> float:
    """The cost of a request with everything that folds removed from it."""
    if not saved:
        return prices.cost(usage)
    in_use = usage.cache_read or usage.cache_write
    recent = before is not None and now - before[2] < CACHE_SECONDS["5m"]
    warm = min(before[1], usage.prompt + saved) if before and in_use and recent else 0
    whole = usage.prompt + saved
    prompt = prices.prompt(warm, whole - warm) if in_use else Usage(input=whole)
    return prices.cost(msgspec.structs.replace(prompt, output=usage.output))


def metrics(text: str) -> JsonObject:
    """Values of the gateway's `/metrics` that the page shows."""
    events: dict[str, int] = {}
    values: dict[str, float] = {}
    for name, what, value in _LINE.findall(text):
        if what:
            events[what] = int(float(value))
        else:
            values[name] = float(value)
    asked, seconds = (values.get(f"refold_gateway_added_seconds_{part}", 0.0) for part in ("count", "sum"))
    return {
        "requests": events.get("requests", 0),
        "folded": events.get("fold", 0),
        "failed": events.get("status 5xx", 0),
        "unrecorded": events.get("unrecorded", 0),
        "inside": int(values.get("refold_gateway_inside", 0)),
        "started": values.get("refold_gateway_started_seconds"),
        "added": seconds / asked if asked else None,
    }
