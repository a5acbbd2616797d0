"""M5, long run: what a conversation of 10,000 and of 50,000 messages costs, appended turn by turn as an agent does it.

A 200k window and the embedded default. `prepare` before every model call: median, 99th percentile and maximum in
milliseconds of processor time, folds included; processor time in total; the longest stretch that the event loop was
held, seen by a task beside it that ticks every 5 ms (time beyond those 5 ms, pauses of Python's garbage collector
included; also without them, and these alone). Then: opening 10,000 messages and folding at once; tools that answer
with megabytes; opening a stored session in a thread; 100 sessions on one loop, one of them folding 50,000 messages; memory with all caches; `plan` of
every design. Peers: `benchmarks.peers`; one that cannot be installed here (no network) has a row that says so.

Parts are measured one after the other, or several at a time (`--on processes:N`: no more than there are idle cores).

    python -m benchmarks.long_run [--quick] [--on WHERE]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import re
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import cells
from benchmarks.engine import Stub, _in_new_process, entries_of, yardstick
from benchmarks.measuring import done
from benchmarks.peers.run import LIBRARIES, ask
from benchmarks.synthetic import agent_transcript
from refold import Engine, Session, presets, tokens
from refold import messages as m
from refold import open as open_session
from refold.compaction.plan import Plan
from refold.entries import Fold
from refold.session.dialects import parse_list

clock = time.process_time
WINDOW, TICK = 200_000, 0.005
SIZES, QUICK = (10_000, 50_000), (1_500,)
NAMES = ("refold", "pi", "augment", "window", "rounds", "layered")
SYSTEM = "You are a coding agent."


def milliseconds(spent: Sequence[float]) -> dict[str, float]:
    """Of seconds."""
    ordered = sorted(spent)
    return {
        "median": round(1000 * median(ordered), 3),
        "p99": round(1000 * ordered[min(int(len(ordered) * 0.99), len(ordered) - 1)], 2),
        "max": round(1000 * ordered[-1], 1),
    }


@dataclass
class Ticker:
    """A task that ticks every 5 ms and sees how long it was kept from it, in processor time: on a busy machine the
    clock on the wall measures the others."""

    stretches: list[float] = field(default_factory=list[float])
    own: list[float] = field(default_factory=list[float])
    """The same without what the garbage collector took of them."""
    pauses: list[float] = field(default_factory=list[float])
    """Of the garbage collector."""

    async def tick(self) -> None:
        while True:
            before, pauses = clock(), len(self.pauses)
            await asyncio.sleep(TICK)
            self.stretches.append(max(clock() - before - TICK, 0.0))
            self.own.append(max(self.stretches[-1] - sum(self.pauses[pauses:]), 0.0))

    @contextmanager
    def watching(self) -> Generator[None, None, None]:
        began = 0.0

        def collected(phase: str, _: dict[str, int]) -> None:
            nonlocal began
            if phase == "start":
                began = clock()
            else:
                self.pauses.append(clock() - began)

        gc.callbacks.append(collected)
        task = asyncio.ensure_future(self.tick())
        try:
            yield
        finally:
            task.cancel()
            gc.callbacks.remove(collected)

    def figures(self) -> dict[str, float]:
        lists = {"longest": self.stretches, "own": self.own, "collector": self.pauses}
        return {name: round(1000 * max(spent, default=0.0), 1) for name, spent in lists.items()}


async def turn_by_turn(size: int, name: str = "refold") -> dict[str, Any]:
    """A session that grows by one message after the other, and is prepared whenever a model would be called."""
    said = list(parse_list(agent_transcript(size)))[::-1]
    session, engine = Session(), Engine(presets.get(name, window=WINDOW))
    spent, total, ticker = list[float](), 0.0, Ticker()
    gc.collect()
    with ticker.watching():
        while said:  # (an agent has no second list of what was said, which the collector would look through)
            message = said.pop()
            session.append(message)
            if message.role in ("user", "tool"):
                began = clock()
                await engine.prepare(session, system=SYSTEM)
                spent.append(clock() - began)
                total += spent[-1]
                await asyncio.sleep(0)
    return {
        "messages": size,
        "prepare": milliseconds(spent),
        "folds": len(session.annotations(Fold)),
        "cpu_seconds": round(total, 1),
        "stretch": ticker.figures(),
    }


async def cold_start(size: int) -> dict[str, Any]:
    """A session that was never looked at is opened and folded at once."""
    entries = entries_of(agent_transcript(size))
    engine, ticker = Engine(presets.get("refold", window=WINDOW)), Ticker()
    gc.collect()
    began = clock()
    session = Session(entries)
    opened = clock() - began
    with ticker.watching():
        await asyncio.sleep(2 * TICK)
        began = clock()
        await engine.prepare(session, system=SYSTEM)
        folded = clock() - began
        await asyncio.sleep(2 * TICK)
    assert session.annotations(Fold), "nothing was folded"
    return {
        "messages": size,
        "open_ms": round(1000 * opened),
        "fold_ms": round(1000 * folded),
        "stretch": ticker.figures(),
    }


async def large_messages(messages: int, sizes: Sequence[int] = (1_500_000, 5_000_000)) -> dict[str, Any]:
    """A session in which tools answer with megabytes: a log of a test run, a file with numbers, a list of records,
    and a file that is written; each is the newest once, and old later."""
    engine, ticker, session, spent = (
        Engine(presets.get("refold", window=WINDOW)),
        Ticker(),
        Session(),
        list[float](),
    )
    said, made = list(parse_list(agent_transcript(messages))), 0
    texts = [text for size in sizes for text in _large(size)]
    steps = max(len(said) // (len(texts) + 1), 1)
    turns = [number for number, message in enumerate(said) if message.role == "user"]
    places = {min(at for at in turns if at >= min(n * steps, turns[-1])): n for n in range(1, len(texts) + 1)}
    gc.collect()
    with ticker.watching():
        for number, message in enumerate(said):
            if number in places:
                name, given, text = texts[places[number] - 1]
                session.append(m.assistant("I look.", m.call(f"large_{made}", name, **given)))
                session.append(m.result(f"large_{made}", text))
                made += 1
                spent.append(await _prepared(engine, session))
                session.append(m.assistant("I have seen it."))
            session.append(message)
            if message.role in ("user", "tool"):
                spent.append(await _prepared(engine, session))
    return {
        "messages": messages,
        "characters": [len(text) + sum(map(len, given.values())) for _, given, text in texts],
        "prepare": milliseconds(spent),
        "folds": len(session.annotations(Fold)),
        "stretch": ticker.figures(),
    }


async def _prepared(engine: Engine, session: Session) -> float:
    began = clock()
    await engine.prepare(session, system=SYSTEM)
    spent = clock() - began
    await asyncio.sleep(0)
    return spent


def _large(size: int) -> list[tuple[str, dict[str, str], str]]:
    """Calls with what they were given, and their results, of about so many characters each."""
    log = "".join(f"tests/test_{n}.py::test_{n} PASSED [ 42%] after {n} ms\n" for n in range(size // 52))
    file = "".join(f"{n:6}\tvalue_{n} = compute({n}, other={n})\n" for n in range(size // 44))
    records = json.dumps([{"id": n, "name": f"part {n}", "value": n * 7 % 13} for n in range(size // 48)])
    return [
        ("Bash", {"command": "pytest -q"}, f"{log}==== 1 failed, 61 passed in 3.21s ====\n"),
        ("Read", {"path": "src/large.py"}, file),
        ("Bash", {"command": "curl host/all"}, records),
        ("Write", {"path": "src/written.py", "content": file}, "ok"),
    ]


async def opening(size: int) -> dict[str, Any]:
    """A stored session opened as a server does it: in a thread, so that the event loop keeps its turns."""
    found: dict[str, Any] = {"messages": size}
    with tempfile.TemporaryDirectory() as folder:
        for spec in (f"jsonl:{folder}/session.jsonl", f"sqlite:{folder}/session.db"):
            made, ticker = open_session(spec), Ticker()
            made.extend(entries_of(agent_transcript(size)))
            gc.collect()
            with ticker.watching():
                await asyncio.sleep(2 * TICK)
                began = clock()
                assert len(await asyncio.to_thread(open_session, spec, made.id)) == size
                found[spec.split(":")[0]] = {"open_ms": round(1000 * (clock() - began))}
                await asyncio.sleep(2 * TICK)
            found[spec.split(":")[0]]["stretch"] = ticker.figures()
    return found


async def many_sessions(size: int, number: int = 100) -> dict[str, Any]:
    """The others' `prepare` (time on the wall, which is what they feel), alone and while one session folds."""
    engine = Engine(presets.get("refold", window=WINDOW))
    entries = entries_of(agent_transcript(200))
    sessions = [Session(entries) for _ in range(number)]
    large = Session(entries_of(agent_transcript(size)))

    async def others(until: asyncio.Event, least: int) -> list[float]:
        waits: list[float] = []
        while not until.is_set() or len(waits) < least:
            for session in sessions:
                session.append(m.user("Go on."))
                began = time.perf_counter()
                await engine.prepare(session, system=SYSTEM)
                await asyncio.sleep(0)
                waits.append(time.perf_counter() - began)
        return waits

    done = asyncio.Event()
    done.set()
    await others(done, 5 * number)  # every session was looked at once
    alone = await others(done, 20 * number)
    done.clear()
    beside = asyncio.ensure_future(others(done, number))
    await engine.prepare(large, system=SYSTEM)
    done.set()
    assert large.annotations(Fold), "nothing was folded"
    found = {"alone": milliseconds(alone), "beside": milliseconds(await beside)}
    moved = found["beside"]["p99"] - found["alone"]["p99"]
    return {"sessions": number, "folding": size, **found, "p99_moved_ms": round(moved, 1)}


_MEMORY = """
import asyncio, gc, json, sys
from pathlib import Path
from benchmarks.long_run import SYSTEM, WINDOW
from benchmarks.synthetic import agent_transcript
from refold import Engine, Session, presets
from refold.session.dialects import parse_list

def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6

async def grow():
    for message in said:
        session.append(message)
        if message.role == "user":
            await engine.prepare(session, system=SYSTEM)

warm = Engine(presets.get("refold", window=2_000))  # what the package itself needs is there before
small = Session()
for message in parse_list(agent_transcript(60)):
    small.append(message)
asyncio.run(warm.prepare(small)), warm.recall(small, "retry upload")
before = resident()
said = list(parse_list(agent_transcript(int(sys.argv[1]))))
own = resident() - before
session, engine = Session(), Engine(presets.get("refold", window=WINDOW))
asyncio.run(grow())
folded = resident() - before - own
engine.recall(session, "retry upload", limit=3)
beside = resident() - before - own
print(json.dumps({"messages_mb": round(own, 1), "folding_mb": round(folded, 1), "beside_mb": round(beside, 1), "ratio": round(beside / own, 2)}))
"""


def memory(size: int) -> dict[str, Any]:
    """What is resident beside the messages once everything is known about them: session, counts, readings and folds,
    then with the index of recall, too."""
    if not Path("/proc/self/statm").exists():
        return {"skipped": "memory is read from /proc, which this system has not"}
    return {"messages": size, **_in_new_process(_MEMORY, str(size))}


def plans(size: int) -> dict[str, Any]:
    """`plan`, asked for by hand: cold, and one message after another plan. A summariser that answers at once."""
    entries, found = entries_of(agent_transcript(size)), dict[str, Any]()
    for name in NAMES:
        session, engine = Session(entries), Engine(presets.get(name, window=WINDOW), summariser=Stub())
        spent: list[float] = []
        for number in range(6):
            gc.collect()
            began = clock()
            assert isinstance(engine.plan(session, force=True), Plan)
            spent.append(1000 * (clock() - began))
            session.append(m.assistant(f"Step {number}."))
        found[name] = {"cold": round(spent[0], 1), "warm": round(min(spent[1:]), 1)}
    return found


def peers(sizes: Sequence[int]) -> dict[str, Any]:
    """The same transcripts through other libraries, each in its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {str(size): str(Path(folder) / f"{size}.json") for size in sizes}
        for size in sizes:
            Path(paths[str(size)]).write_text(json.dumps(agent_transcript(size)), encoding="utf-8")
        job = Path(folder) / "job.json"
        nothing: dict[str, Any] = {"runs": 1, "transcripts": {}, "valid": [], "late": []}
        job.write_text(json.dumps(nothing | {"long": paths}), encoding="utf-8")
        answers = {library.adapter.strip("_"): ask(library, job) for library in LIBRARIES}
    return {
        name: {"error": answer["error"]} if "error" in answer else {"rows": answer["long"]}
        for name, answer in answers.items()
    }


def measured(asked: tuple[str, bool]) -> Any:
    """One part of the measure: what it is called, and the size where it has several."""
    part, quick = asked
    sizes = QUICK if quick else SIZES
    tokens.get().text("once")  # the vocabulary: loaded once in a process (`benchmarks.start`)
    name, _, size = part.partition(" ")
    match name:
        case "sizes":
            return asyncio.run(turn_by_turn(int(size)))
        case "cold":
            return asyncio.run(cold_start(sizes[0]))
        case "large":
            return asyncio.run(large_messages(300 if quick else 1_500))
        case "opening":
            return asyncio.run(opening(sizes[0]))
        case "many":
            return asyncio.run(many_sessions(sizes[-1], 20 if quick else 100))
        case "memory":
            return memory(sizes[0])
        case "plans":
            return plans(sizes[0])
        case _:
            return {} if quick else peers(sizes)


def run(*, quick: bool = False, on: str = "here") -> dict[str, Any]:
    sizes = QUICK if quick else SIZES
    rest = ("cold", "large", "opening", "many", "memory", "plans", "peers")
    parts = [*(f"sizes {size}" for size in reversed(sizes)), *rest]
    found = dict(zip(parts, done(measured, [(part, quick) for part in parts], on), strict=True))
    return {
        "measure": "M5, long run",
        "window": WINDOW,
        "on": on,
        "sizes": {str(size): found[f"sizes {size}"] for size in sizes},
        **{part: found[part] for part in rest},
        "yardstick_ms": yardstick(),
    }


# ── tables ──────────────────────────────────────────────────────────────────────────────────────

LONG = ("10000", "50000")
YARDSTICK = 34.0
"""Milliseconds, on a quiet machine, of the yardstick that the figures were set beside."""
_TIME = re.compile(r"[\d,.]+(?= ms)")


def table(found: dict[str, Any]) -> str:
    """Milliseconds of processor time of all that happens before a model call, folds included."""
    head = [
        "milliseconds",
        *(f"{what}, {int(size) // 1000}k" for what in ("median", "p99", "max") for size in LONG),
    ]
    head += [f"seconds in all, {int(size) // 1000}k" for size in LONG]
    rows = [["**refold**, embedded default", *_long_cells(found["sizes"])]]
    for library, answer in found["peers"].items():
        if "error" in answer:
            rows.append([library, f"not measured: {cells.cell(answer['error'])}", *[""] * (len(head) - 2)])
        for name, row in answer.get("rows", {}).items():
            failed = (
                [f"failed: {cells.cell(row['error'])}", *[""] * (len(head) - 2)] if "error" in row else None
            )
            rows.append([f"{name}, stub summariser", *(failed or _long_cells(row))])
    return cells.markdown(head, rows)


def speed(found: dict[str, Any]) -> str:
    """The short form, for the README: two sizes in a cell."""
    head = ["milliseconds, 10k / 50k messages", "median", "p99", "max", "longest stretch"]
    rows = [["**refold**, embedded default", *_short_cells(found["sizes"])]]
    missing: list[str] = []
    for library, answer in found["peers"].items():
        if "error" in answer:
            missing.append(library)
        for name, row in answer.get("rows", {}).items():
            rows.append([name, *(["failed", *[""] * 3] if "error" in row else _short_cells(row))])
    told = f"\n\n*Not installed where this was measured: {', '.join(missing)}.*" if missing else ""
    return cells.markdown(head, rows) + told


def _short_cells(sizes: dict[str, Any]) -> list[str]:
    runs = [sizes.get(size) for size in LONG]
    times = [[one and one["prepare"][what] for one in runs] for what in ("median", "p99", "max")]
    # Who does not yield at all holds everybody up for as long as it takes.
    times.append([one and one.get("stretch", {}).get("longest", one["prepare"]["max"]) for one in runs])
    return [" / ".join(cells.milliseconds(value and {"best": value}) for value in row) for row in times]


def _long_cells(sizes: dict[str, Any]) -> list[str]:
    runs = [sizes.get(size) for size in LONG]
    times = [
        cells.milliseconds(one and {"best": one["prepare"][what]})
        for what in ("median", "p99", "max")
        for one in runs
    ]
    return [*times, *(_seconds(one) for one in runs)]


def _seconds(one: dict[str, Any] | None) -> str:
    if one is None:
        return "–"
    stopped = one.get("reached", 0) < one.get("of", 0)
    return f"{one['cpu_seconds']:.1f}" + (
        f" (stopped at {one['reached'] / one['of']:.0%})" if stopped else ""
    )


def figures(found: dict[str, Any]) -> str:
    """What the long run is held to, and what was measured."""
    ten, fifty = (found["sizes"][size] for size in LONG)
    cold, many, memory = found["cold"], found["many"], found["memory"]
    slowest = max(found["plans"], key=lambda name: found["plans"][name]["warm"])
    growth = fifty["prepare"]["max"] / max(ten["prepare"]["max"], 0.001)
    stretches = [("10k; 50k", (ten, fifty)), ("10k opened and folded at once", (cold,))]
    if "large" in found:
        stretches.append(("tool results of 1.5 and 5 MB", (found["large"],)))
    stretches.append(("10k opened in a thread: jsonl; sqlite", [found["opening"][kind] for kind in ("jsonl", "sqlite")]))  # fmt: skip
    rows = [
        ["`prepare`, p99: 10k; 50k", "≤ 100 ms", f"{ten['prepare']['p99']:.1f} ms; {fifty['prepare']['p99']:.1f} ms"],
        ["`prepare`, maximum: 10k; 50k", "≤ 250 ms", f"{ten['prepare']['max']:.0f} ms; {fifty['prepare']['max']:.0f} ms"],
        ["growth of the maximum", "≤ 2 ×", f"{growth:.1f} ×"],
        *([f"longest stretch, {name}", "≤ 20 ms", "; ".join(f"{one['stretch']['own']:.0f} ms" for one in runs)] for name, runs in stretches),
        ["10k messages opened and folded at once", "≤ 1,000 ms", f"{cold['open_ms'] + cold['fold_ms']:,} ms"],
        [f"p99 of {many['sessions'] - 1} other sessions while one folds {many['folding']:,} messages", "+ 20 ms", f"{many['p99_moved_ms']:+.1f} ms"],
        ["memory beside 10k messages, all caches and folds", "≤ 2 ×", f"{memory.get('ratio', 0):.1f} ×"],
        [f"`plan` warm, 10k, the slowest preset (`{slowest}`)", "≤ 10 ms", f"{found['plans'][slowest]['warm']:.1f} ms"],
        ["yardstick: a million additions in Python", "", f"{found['yardstick_ms']:.0f} ms"],
    ]  # fmt: skip
    for row in rows[:-1]:
        row.append(_scaled(row[2], found["yardstick_ms"]))
    rows[-1].append(f"{YARDSTICK:.0f} ms")
    return cells.markdown(["what", "figure", "measured", "beside a quiet yardstick"], rows)


def _scaled(measured: str, yardstick: float) -> str:
    """The times of a row as they would be where the yardstick takes what it takes on a quiet machine."""
    times = [float(time.replace(",", "")) * YARDSTICK / yardstick for time in _TIME.findall(measured)]
    return "; ".join(f"{time:,.1f} ms" for time in times)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="M5, long run")
    parser.add_argument("--quick", action="store_true", help="small, to see that it works")
    parser.add_argument("--on", default="here", help="who measures: here, processes:4, ray …")
    print(json.dumps(run(**vars(parser.parse_args())), indent=1))
