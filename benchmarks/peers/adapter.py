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
    }
    out, sys.stdout = sys.stdout, sys.stderr  # libraries talk
    try:
        found = peers()
    except Exception as error:
        done["error"] = f"{type(error).__name__}: {error}"[:400]
        found = []
    for peer in found:
        for part, work in (("engine", _engine), ("pairs", _pairs)):
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
