"""M5: what the engine costs. Per turn without a fold, plan, fold, view to wire dicts, digest, load, memory.

Transcripts are made up (fixed seed, tool results of 0.5 to 8 KB); set-up is excluded. Every time is the median of
several runs in milliseconds, `best` beside it where other work on the machine can only add. Peers run on the same
transcripts in the same run: `benchmarks.peers`.

    python -m benchmarks.engine [--quick]
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.synthetic import Wire, agent_transcript
from refold import Engine, Session, presets, tokens
from refold import messages as m
from refold.compaction.plan import Ask, Plan
from refold.digest import Source, digest
from refold.engine.summarise import Answer
from refold.entries import Fold, MessageEntry, key
from refold.protocols import SessionInfo
from refold.session.dialects import parse_list
from refold.stores import jsonl, open_store

clock = time.process_time
"""Processor time: on a busy machine the clock on the wall measures the others. Processes of their own (imports)
are timed on the wall, best of many."""
SIZES = (1_000, 10_000, 50_000, 100_000)
QUICK = (1_000,)
SUMMARY = "## Goal\nFix what was asked.\n\n## Progress\n- the files named in the trail were edited\n" * 4


@dataclass
class Stub:
    """A summariser that answers at once."""

    name: str = "stub"
    uses_model: bool = True

    async def answer(self, ask: Ask, /) -> Answer:
        return Answer(ask.accept(SUMMARY), 1)


def milliseconds(work: Callable[[], Any], runs: int) -> dict[str, float]:
    """Median and best of several runs, without the garbage collector's chance."""
    spent: list[float] = []
    for _ in range(runs):
        gc.collect()
        gc.disable()
        began = clock()
        work()
        spent.append(1000 * (clock() - began))
        gc.enable()
    return {"median": round(median(spent), 3), "best": round(min(spent), 3)}


def entries_of(wire: Sequence[Wire]) -> list[MessageEntry]:
    made: list[MessageEntry] = []
    for number, message in enumerate(parse_list(list(wire))):
        parent = made[-1].id if made else None
        made.append(MessageEntry(id=f"{number:012x}", parent=parent, time=1.8e9 + number, message=message))
    return made


def measure(size: int, *, quick: bool = False) -> dict[str, Any]:
    """All figures of one size."""
    entries = entries_of(agent_transcript(size))
    runs = 3 if quick else 2 if size > 10_000 else 5
    total = sum(tokens.get("bytes4").message(entry.message) for entry in entries)
    found: dict[str, Any] = {"messages": size, "megabytes": round(4 * total / 1e6, 1)}
    found["check"] = _checks(entries, total)
    for name in ("refold", "pi"):
        found[f"plan, {name}"] = _plans(entries, name, runs)
        found[f"fold, {name}"] = _folds(entries, name, runs)
    found["wire"] = _wire(entries, 15 if size <= 10_000 else runs)
    return found


def _checks(entries: list[MessageEntry], total: int) -> dict[str, Any]:
    """`observe` + `prepare` of one more turn. `far`: the window is far away; `near`: it is close, so that the
    view must be counted exactly; `first`: the first one of all, which counts everything."""
    found: dict[str, Any] = {}
    for name, window in (("far", total * 20), ("near", int(total * 1.6))):
        session, engine = Session(entries), Engine(presets.get("refold", window=window))
        began = clock()
        _one_turn(engine, session, 0)
        found[f"first, {name}"] = round(1000 * (clock() - began), 2)
        spent: list[float] = []
        for number in range(1, 101):
            began = clock()
            _one_turn(engine, session, number)
            spent.append(1000 * (clock() - began))
        found[name] = {"median": round(median(spent), 3), "best": round(min(spent), 3)}
        assert not session.annotations(Fold), "nothing was to be folded"
    return found


def _one_turn(engine: Engine, session: Session, number: int) -> None:
    engine.observe(session, m.assistant("Let me look.", m.call(f"t{number}", "Read", path="a.py")))
    session.append(m.result(f"t{number}", "x = 1\n" * 40))
    _run(engine.prepare(session))


def _run(coroutine: Any) -> Any:
    """Drive a coroutine that waits for nothing; an event loop would cost more than the work."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waited for something")


def _plans(entries: list[MessageEntry], name: str, runs: int) -> dict[str, Any]:
    """Cold: a session that was never looked at. Warm: one message after another plan."""
    preset = presets.get(name, window=200_000)
    cold: list[float] = []
    for _ in range(runs):
        session, engine = Session(entries), Engine(preset, summariser=Stub())
        gc.collect()
        began = clock()
        assert isinstance(engine.plan(session, force=True), Plan)
        cold.append(1000 * (clock() - began))
    warm: list[float] = []
    for number in range(10):
        session.append(m.assistant(f"Step {number}."))
        began = clock()
        assert isinstance(engine.plan(session, force=True), Plan)
        warm.append(1000 * (clock() - began))
    return {
        "cold": {"median": round(median(cold), 2), "best": round(min(cold), 2)},
        "warm": {"median": round(median(warm), 2), "best": round(min(warm), 2)},
    }


def _folds(entries: list[MessageEntry], name: str, runs: int) -> dict[str, Any]:
    """`apply` with a summariser that answers at once, on a session that was planned before."""
    preset = presets.get(name, window=200_000)
    stub: list[float] = []
    for _ in range(1 if len(entries) > 10_000 else min(runs, 3)):
        session, engine = Session(entries), Engine(preset, summariser=Stub())
        plan = engine.plan(session, force=True)
        assert isinstance(plan, Plan)
        began = clock()
        fold = asyncio.run(engine.apply(session, plan))
        stub.append(1000 * (clock() - began))
        assert fold, fold
    return {"median": round(median(stub), 1), "best": round(min(stub), 1)}


def _wire(entries: list[MessageEntry], runs: int) -> dict[str, Any]:
    view = Engine("refold").view(Session(entries), system="You are a coding agent.")
    per = 1000 / len(entries)
    found: dict[str, Any] = {}
    for name, work in (("openai", view.to_openai), ("anthropic", view.to_anthropic)):
        figures = milliseconds(work, runs)
        found[name] = figures | {"median_per_1000": round(figures["median"] * per, 2), "best_per_1000": round(figures["best"] * per, 2)}  # fmt: skip
    return found


def digest_figures(*, quick: bool = False) -> dict[str, Any]:
    """The embedded digest of 10 000 messages (18 MB) to 8 000 tokens."""
    entries = entries_of(agent_transcript(1_000 if quick else 10_000))
    sources = [Source(message=x.message, id=x.id, key=key(x.id), time=x.time) for x in entries]
    counter = tokens.get("o200k")
    return milliseconds(lambda: digest(sources, budget=8_000, counter=counter), 1 if quick else 3)


# ── processes of their own: memory, load ────────────────────────────────────────────────────────

_PEAK = """
import json, re, sys, time
from pathlib import Path
from benchmarks.engine import entries_of
from benchmarks.synthetic import agent_transcript
from refold import Engine, Session, presets

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

entries = entries_of(agent_transcript(int(sys.argv[1])))
data = sum(len(e.message.text) for e in entries) / 1e6
Path("/proc/self/clear_refs").write_text("5")  # start counting the peak from here
before = peak()
session, engine = Session(entries), Engine(presets.get("refold", window=200_000))
plan = engine.plan(session, force=True)
view = engine.view(session)
view.tokens
print(json.dumps({"text_mb": round(data, 1), "messages_mb": round(before), "with_session_plan_and_view_mb": round(peak())}))
"""


def memory(size: int) -> dict[str, Any]:
    """Peak of memory: the messages themselves, and with session, plan and an exactly counted view."""
    if not Path("/proc/self/clear_refs").exists():
        return {"skipped": "peaks of memory are read from /proc, which this system has not"}
    return _in_new_process(_PEAK, str(size))


def _in_new_process(code: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no message"}
    return json.loads(done.stdout)


def load(*, quick: bool = False) -> dict[str, Any]:
    """Opening a stored session: file to `Session`."""
    count = 20_000 if quick else 100_000
    made: list[MessageEntry] = []
    for number in range(count):
        text = f"message {number}: " + " ".join(f"word{(number * 7 + i * 13) % 5000}" for i in range(55))
        made.append(
            MessageEntry(id=f"{number:012x}", parent=made[-1].id if made else None, message=m.user(text))
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.jsonl"
        jsonl.write_session_file(path, SessionInfo(id="bench", created=1.0), made)
        size = path.stat().st_size
        figures = milliseconds(lambda: Session.of(open_store(f"jsonl:{path}").store.load("bench")), 3)
    return {"entries": count, "megabytes": round(size / 1e6, 1), "ms": figures, "ms_per_mb": round(figures["best"] / (size / 1e6), 1)}  # fmt: skip


def run(*, quick: bool = False) -> dict[str, Any]:
    sizes = QUICK if quick else SIZES
    tokens.get().text("once")  # the vocabulary: loaded once in a process (`benchmarks.start`)
    return {
        "measure": "M5",
        "sizes": {str(size): measure(size, quick=quick) for size in sizes},
        "digest": digest_figures(quick=quick),
        "memory": memory(1_000 if quick else 10_000),
        "load": load(quick=quick),
        "yardstick_ms": yardstick(),
    }


def yardstick() -> float:
    """A million additions in plain Python, best of nine: to see how disturbed a run was, beside other runs."""

    def add() -> None:
        total = 0
        for number in range(1_000_000):
            total += number & 3

    return milliseconds(add, 9)["best"]


if __name__ == "__main__":
    print(json.dumps(run(quick="--quick" in sys.argv[1:]), indent=1))
