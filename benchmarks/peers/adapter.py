"""What every adapter shares. Runs inside the peers' environment: standard library only, no import of refold.

An adapter is a script that describes its library as `Peer`s and calls `main`. It reads a job (a JSON file) and
prints a JSON object: one row per peer, or the error that kept it from having one.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

Wire = dict[str, Any]
SUMMARY = "The user asked for several changes; the files named above were edited. Work goes on."
PATIENCE = 20.0
"""Seconds that one measure of one size may take in all; the first run always ends."""


@dataclass(frozen=True)
class Peer:
    name: str
    load: Callable[[list[Wire]], Any]
    """Wire messages → the library's own messages. Not timed."""
    fold: Callable[[Any, int, int], Any]
    """(messages, messages to keep, tokens to keep) → the messages that the model would get."""
    wire: Callable[[Any], list[Wire]]
    """The library's messages → wire messages, for counting orphans."""
    check: Callable[[Any], Any] | None = None
    """Is a fold due? Asked before every model call, where nothing is folded."""
    plan: Callable[[Any], Any] | None = None
    """Where would the cut be? Without writing a summary."""
    note: str = ""


def main(packages: tuple[str, ...], peers: Callable[[], list[Peer]]) -> None:
    """Do the job named on the command line and print the result."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    done: dict[str, Any] = {
        "versions": {name: _version(name) for name in packages},
        "engine": {},
        "pairs": {},
        "long": {},
    }
    out, sys.stdout = sys.stdout, sys.stderr  # libraries talk
    try:
        found = peers()
    except Exception as error:
        done["error"] = f"{type(error).__name__}: {error}"[:400]
        found = []
    for peer in found:
        for part, work in (("engine", _engine), ("pairs", _pairs), ("long", _long)):
            if part == "long" and not job.get("long"):
                continue
            try:
                done[part][peer.name] = work(peer, job)
            except Exception as error:
                traceback.print_exc()
                done[part][peer.name] = {"error": f"{type(error).__name__}: {error}"[:400]}
    json.dump(done, out)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _engine(peer: Peer, job: dict[str, Any]) -> dict[str, Any]:
    rows: dict[str, Any] = {"note": peer.note} if peer.note else {}
    slow: set[str] = set()
    for size, path in job["transcripts"].items():
        native = peer.load(json.loads(Path(path).read_text(encoding="utf-8")))
        row: dict[str, Any] = {}
        works = {"check": peer.check, "plan": peer.plan, "fold": lambda n: peer.fold(n, 20, 20_000)}
        for name, work in works.items():
            if work is None:
                continue
            if name in slow:
                row[name] = {"skipped": "the next smaller size took too long"}
                continue
            row[name] = _timed(lambda work=work, native=native: work(native), job["runs"])
            if row[name]["best"] * 6 > 1000 * PATIENCE:
                slow.add(name)
        rows[size] = row
    return rows


def _timed(work: Callable[[], Any], runs: int) -> dict[str, float]:
    """Processor time in milliseconds. Work must not change what it is given."""
    spent: list[float] = []
    began_all = time.process_time()
    while len(spent) < runs and (not spent or time.process_time() - began_all < PATIENCE):
        gc.collect()
        began = time.process_time()
        work()
        spent.append(1000 * (time.process_time() - began))
    return {"median": round(median(spent), 3), "best": round(min(spent), 3), "runs": len(spent)}


FULL, KEPT = 183_000, 91_000
"""Tokens at which a long run folds, and what it keeps: as ours does in a window of 200k."""


def _long(peer: Peer, job: dict[str, Any]) -> dict[str, Any]:
    """A session that grows message by message: the library's check before every model call, a fold with a stub
    summariser whenever about `FULL` tokens have come together. All of it is synchronous, so the maximum is also how
    long an event loop is held."""
    rows: dict[str, Any] = {"note": peer.note} if peer.note else {}
    for size, path in job["long"].items():
        wire = json.loads(Path(path).read_text(encoding="utf-8"))
        native = list(peer.load(wire))
        each = max(sum(len(message["content"]) for message in wire) / 4 / max(len(native), 1), 1.0)
        rows[size] = _grown(peer, native, each)
    return rows


def _grown(peer: Peer, native: list[Any], each: float) -> dict[str, Any]:
    keep, shown, spent, folds = int(KEPT / each), list[Any](), list[float](), 0
    for done, message in enumerate(native, 1):
        shown.append(message)
        if done % 2:
            continue
        began = time.process_time()
        if peer.check is not None:
            peer.check(shown)
        if len(shown) * each > FULL:
            folded = list(peer.fold(shown, keep, KEPT))
            folds += len(folded) < len(shown)
            shown = folded
        spent.append(time.process_time() - began)
        if sum(spent) > PATIENCE:
            break
    ordered = sorted(1000 * one for one in spent)
    row = {"median": median(ordered), "p99": ordered[int(len(ordered) * 0.99)], "max": ordered[-1]}
    row = {name: round(value, 3) for name, value in row.items()}
    return {
        "prepare": row,
        "folds": folds,
        "cpu_seconds": round(sum(spent), 1),
        "reached": done,
        "of": len(native),
    }


def _pairs(peer: Peer, job: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"note": peer.note} if peer.note else {}
    for kind in ("valid", "late"):
        broken = unfolded = failed = 0
        errors: dict[str, int] = {}
        for case in job[kind]:
            try:
                before = peer.load(case["messages"])
                size = len(peer.wire(before))
                after = peer.wire(peer.fold(before, case["keep_messages"], case["keep_tokens"]))
            except Exception as error:
                failed += 1
                text = f"{type(error).__name__}: {error}"[:200]
                errors[text] = errors.get(text, 0) + 1
                continue
            unfolded += len(after) >= size
            broken += orphans(after) > 0
        row[kind] = {"broken": broken, "failed": failed, "not_folded": unfolded, "of": len(job[kind])}
        if errors:
            row[kind]["errors"] = dict(sorted(errors.items(), key=lambda item: -item[1])[:3])
    return row


def orphans(messages: list[Wire]) -> int:
    """Results without a call before them, and calls that nothing answers."""
    waiting: set[str] = set()
    wrong = 0
    for message in messages:
        for call in message.get("tool_calls") or ():
            waiting.add(call["id"])
        if message["role"] == "tool":
            if message["tool_call_id"] in waiting:
                waiting.discard(message["tool_call_id"])
            else:
                wrong += 1
    return wrong + len(waiting)
