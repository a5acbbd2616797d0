"""M15, cost net of cache: every supplied session replayed request by request, with list prices and the providers' cache rules.

    python -m benchmarks cache_cost [--quick] [--on processes:2]

Protocol, written before the first run:

- Every transcript of the data folder with at least 40 requests; from a file of many the first three. Every reply of the assistant
  is one request with everything before it. Pauses are the log's, at most an hour; 20 s where it has no times.
- Windows of 50,000 and 200,000 tokens. Ways: no folding (also beyond the window: nobody could send that, but it is what the others are held
  against); every preset, by `engine.prepare`, the digest writing; the tail, cut at every turn to four fifths of the window; Anthropic's
  `clear_tool_uses_20250919` by its published rules: beyond half of the window (the default is 100,000 tokens) results of all tool uses but
  the newest three are replaced by a placeholder. It keeps no state: the whole history is sent and edited anew each time.
- A cache holds the longest common prefix of messages with the request before, if the pause was shorter than five minutes. Anthropic: read
  0.1 ×, written 1.25 × (the prices of `claude-sonnet-5`), prefixes from `min_cache` tokens; OpenAI: automatic, read in steps of 128 from 1,024
  tokens, writing costs nothing (`gpt-5.5`).
- Each fold says what it costs at once and what it saves each later request, from the sizes of the view before and after it and from how often the
  cache had expired in the session so far (`refold.costs.break_even`, as in the explorer and `refold plan`). The sum of these predictions over a
  session is compared with the difference that the replay makes. Until November 2026 every later request was taken to find the cache warm: of what
  `refold` saves, a third is saved by the requests that do not, one in 28, and the sum was a quarter too low.

What favours whom: the replies are those of the real session, whatever the view; a worse view would have led to more steps. No model is asked for
summaries, so folds by `pi`, `augment` and others cost no request here. Output is priced the same for all and included.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.closed_loop import figure
from benchmarks.measuring import COUNTER, DATA, done
from refold import Engine, Session, presets, transcripts
from refold import entries as e
from refold.compare.money import DEFAULT_PAUSE_SECONDS, MAX_PAUSE_SECONDS, priced
from refold.costs import break_even, cold_share
from refold.costs.prices import CACHE_SECONDS, Prices
from refold.errors import RefoldError
from refold.messages import Assistant, Usage
from refold.session.edits import said_by

WINDOWS = (50_000, 200_000)
LEAST = 40
SEVERAL = 3
MODELS = {"anthropic": "claude-sonnet-5", "openai": "gpt-5.5"}
STEP = 128
KEPT_TOOL_USES = 3
PLACEHOLDER = 12
"""Tokens of what stands for a cleared result."""
WAYS = ("no folding", *presets.NAMES, "tail every turn", "provider clears")
Key = tuple[Any, ...]
Prompt = list[tuple[Key, int]]
"""What is sent: messages by identity, and their sizes."""


@dataclass
class Prediction:
    """Of one fold, in dollars: at once, by each request after that, and after how many it has paid."""

    now: float
    each: float
    turns: int | None
    requests: int = 0
    """Requests since the fold, the one that it was made for included."""


@dataclass
class Meter:
    """One provider's bill."""

    provider: str
    prices: Prices
    before: Prompt
    dollars: float = 0.0
    read: int = 0
    sent: int = 0

    def request(self, prompt: Prompt, pause: float, output: int) -> float:
        same = 0
        if pause < CACHE_SECONDS["5m"]:
            for (now, size), (then, _) in zip(prompt, self.before, strict=False):
                if now != then:
                    break
                same += size
        total = sum(size for _, size in prompt)
        if self.provider == "openai":
            same = same // STEP * STEP if same >= 1024 else 0
            usage = Usage(input=total - same, cache_read=same, output=output)
        else:
            usage = msgspec.structs.replace(self.prices.prompt(same, total - same), output=output)
        paid = self.prices.cost(usage)
        self.dollars, self.read, self.sent, self.before = (
            self.dollars + paid,
            self.read + usage.cache_read,
            self.sent + total,
            prompt,
        )
        return paid


def tail(prompt: Prompt, roles: Sequence[str], room: int) -> Prompt:
    start = len(prompt)
    while start and room >= prompt[start - 1][1]:
        start -= 1
        room -= prompt[start][1]
    while start < len(prompt) and roles[start] == "tool":
        start += 1
    return prompt[start:]


def cleared(prompt: Prompt, roles: Sequence[str], trigger: int) -> Prompt:
    if sum(size for _, size in prompt) <= trigger:
        return prompt
    results = [at for at, role in enumerate(roles) if role == "tool"]
    gone = set(results[:-KEPT_TOOL_USES])
    return [
        ((*key, "cleared"), min(size, PLACEHOLDER)) if at in gone else (key, size)
        for at, (key, size) in enumerate(prompt)
    ]


async def replayed(path: Path, index: int | None, way: str, window: int) -> dict[str, Any]:
    """What a session costs one way."""
    source = [
        (entry, message)
        for entry in Session.of(transcripts.read(path, index=index)).path
        if (message := said_by(entry)) is not None
    ]
    numbers = count()
    session = Session(id="replay", new_id=lambda: f"r{next(numbers)}")
    meters = {name: Meter(name, priced(model).prices, []) for name, model in MODELS.items()}
    settings: dict[str, Any] = (
        {"window": window} if way == "refold" else {"budget": window, "fallback": "digest"}
    )
    engine = Engine(presets.get(way, **settings)) if way in presets.NAMES else None
    prompt, roles = Prompt(), list[str]()
    predicted, folds, refused, last = list[Prediction](), 0, 0, 0.0
    for entry, message in source:
        if isinstance(message, Assistant) and prompt:
            pause = (
                min(max(entry.time - last, 0.0), MAX_PAUSE_SECONDS)
                if last and entry.time
                else DEFAULT_PAUSE_SECONDS
            )
            sent = prompt
            if engine:
                try:
                    view = await engine.prepare(session)
                    sent = [
                        (
                            (item.entries, item.fold),
                            session.cached_count(
                                f"{item.entries[0] if item.entries else ''}/{item.fold}",
                                item.message,
                                COUNTER,
                            )
                            if item.fold
                            else COUNTER.message(item.message),
                        )
                        for item in view.items
                    ]
                except RefoldError:
                    refused += 1
                made = session.annotations(e.Fold)[folds:]
                predicted += predictions(session, made, warm=pause < CACHE_SECONDS["5m"])
                folds += len(made)
            elif way == "tail every turn":
                sent = tail(prompt, roles, window * 4 // 5)
            elif way == "provider clears":
                sent = cleared(prompt, roles, window // 2)
            for meter in meters.values():
                meter.request(sent, pause, COUNTER.message(message))
            for one in predicted:
                one.requests += 1
            last = entry.time or last
        if engine:
            # What the provider counted then was another prompt: with it, a view would be taken for larger than it is.
            session.append(e.MessageEntry(id=entry.id, parent=session.leaf, time=entry.time, message=message))
        prompt = [*prompt, ((entry.id,), COUNTER.message(message))]
        roles.append(message.role)
    saved = sum(one.each * (one.requests - 1) - one.now for one in predicted)
    return {
        **{name: {"dollars": meter.dollars, "read": meter.read, "sent": meter.sent} for name, meter in meters.items()},
        "folds": folds, "refused": refused, "predicted": saved, "costs_now": sum(one.now for one in predicted),
        "paid_after": [one.turns for one in predicted if one.turns is not None],
    }  # fmt: skip


def predictions(session: Session, folds: Sequence[e.Fold], *, warm: bool) -> list[Prediction]:
    """What folds that were made for one request say. The cache holds what the first of them replaces, and nothing of what it leaves."""
    prices = priced(MODELS["anthropic"]).prices
    cold = cold_share([session.path[position].time for position in session.replies])
    evens = [break_even(fold.tokens_before, fold.tokens_after, prices, warm=warm and not number, cold=cold) for number, fold in enumerate(folds)
             if fold.tokens_after]  # fmt: skip
    return [Prediction(even.now, even.per_turn, even.turns) for even in evens]


def sessions(*, quick: bool = False) -> tuple[list[tuple[Path, int | None, str]], list[str]]:
    """Those that count; and why others do not."""
    found: list[tuple[Path, int | None, str]] = []
    left_out: list[str] = []
    for path in sorted(DATA.glob("*/*.json*")):
        if path.parent.name in ("locomo", "tau-bench") or path.name.startswith(("cuts.", "oracle")):
            continue
        for index in range(SEVERAL):
            name = f"{path.parent.name}/{path.name[:28]}" + (f"#{index}" if index else "")
            try:
                path_of = Session.of(transcripts.read(path, index=index)).path
            except RefoldError as error:
                if not index:
                    left_out.append(f"{name}: {error}")
                break
            requests = sum(isinstance(said_by(entry), Assistant) for entry in path_of)
            if requests >= LEAST:
                found.append((path, index, name))
            else:
                left_out.append(f"{name}: {requests} requests")
    return (found[:2] if quick else found), left_out


def one(asked: tuple[str, int | None, str, int]) -> dict[str, Any]:
    path, index, way, window = asked
    return asyncio.run(replayed(Path(path), index, way, window))


def run(*, quick: bool = False, on: str = "here") -> dict[str, Any]:
    if not DATA.exists():
        return {"skipped": "the transcripts are not here: set REFOLD_DATA to their folder"}
    chosen, left_out = sessions(quick=quick)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    jobs = [
        (str(path), index, way, window)
        for window in (WINDOWS[:1] if quick else WINDOWS)
        for way in WAYS
        for path, index, _ in chosen
    ]
    for (_, _, way, window), row in zip(jobs, done(one, jobs, on), strict=True):
        rows[f"{way}/{window}"].append(row)
    found = {
        name: summary(made, rows[f"no folding/{name.rpartition('/')[2]}"]) for name, made in rows.items()
    }
    return {
        "measure": "M15",
        "sessions": [name for *_, name in chosen],
        "left_out": left_out,
        "models": MODELS,
        "ways": found,
    }


def summary(rows: Sequence[dict[str, Any]], none: Sequence[dict[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for provider in MODELS:
        share = [
            row[provider]["dollars"] / base[provider]["dollars"] for row, base in zip(rows, none, strict=True)
        ]
        made[provider] = {
            "dollars": sum(row[provider]["dollars"] for row in rows),
            "share": figure(share),
            "read": sum(row[provider]["read"] for row in rows)
            / max(sum(row[provider]["sent"] for row in rows), 1),
            "sent": sum(row[provider]["sent"] for row in rows),
            "dearer": sum(one > 1.001 for one in share),
        }
    real = [
        base["anthropic"]["dollars"] - row["anthropic"]["dollars"]
        for row, base in zip(rows, none, strict=True)
    ]
    waits = sorted(turns for row in rows for turns in row["paid_after"])
    return made | {
        "sessions": len(rows), "folds": sum(row["folds"] for row in rows), "refused": sum(row["refused"] for row in rows),
        "costs_now": sum(row["costs_now"] for row in rows), "predicted": sum(row["predicted"] for row in rows), "real": sum(real),
        "paid_after": waits[len(waits) // 2] if waits else None,
    }  # fmt: skip
