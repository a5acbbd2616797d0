"""What many transcripts cost: processor time per session, per fold and per gigabyte, and what handing out the work adds.

Generated coding sessions of 200 messages (about half a megabyte each, with a fixed seed). Read, put into SQLite, compared
by one design and by all; kept turn by turn in a window that makes them fold, as an agent does it. Then jobs that do
nothing, for what a job costs beside its work; and the comparison of 40 short sessions by one and by two processes.

    python -m benchmarks many [--quick]

Processor time, because the clock on the wall measures the others on a busy machine; the ratio of two processes to one is time
on the wall, of two runs beside the same others, with the load at that time.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.cells import markdown
from benchmarks.synthetic import agent_transcript
from refold import Engine, Session, batch, presets
from refold.batch import Batch, Job
from refold.batch.results import StoredResults
from refold.compare.budgets import parse_budgets
from refold.compare.jobs import endings, jobs, work
from refold.compare.run import VARIANTS, ComparisonPlan
from refold.entries import Fold
from refold.session.dialects import parse_list as messages_of
from refold.stores import open_store
from refold.transcripts.importing import Importer, ImportJob, read_for_import

clock = time.process_time
MESSAGES, SESSIONS, WINDOW = 200, 12, 32_000
SHORT, SHORT_SESSIONS = 40, 40
EMPTY = 2_000


def write(folder: Path, sessions: int, messages: int) -> list[Path]:
    folder.mkdir()
    paths = [folder / f"{number:04}.json" for number in range(sessions)]
    for number, path in enumerate(paths):
        path.write_text(json.dumps(agent_transcript(messages, seed=number)), encoding="utf-8")
    return paths


def nothing(_: Any) -> None:
    pass


def turn_by_turn(paths: Sequence[Path]) -> dict[str, Any]:
    """`prepare` before every call of a model; what a step without a fold costs, and what a fold does."""
    steps, folding, folds, calls = 0.0, 0.0, 0, 0
    for path in paths:
        session, engine = Session(), Engine(presets.get("refold", window=WINDOW))
        for message in messages_of(json.loads(path.read_text(encoding="utf-8"))):
            session.append(message)
            if message.role not in ("user", "tool"):
                continue
            before, began = len(session.annotations(Fold)), clock()
            asyncio.run(_prepared(engine, session))
            spent, more = clock() - began, len(session.annotations(Fold)) - before
            calls, folds = calls + 1, folds + more
            if more:
                folding += spent
            else:
                steps += spent
    return {
        "window": WINDOW,
        "calls": round(calls / len(paths), 1),
        "folds": round(folds / len(paths), 1),
        "ms_per_call": round(1000 * steps / max(calls - folds, 1), 2),
        "ms_per_fold": round(1000 * folding / max(folds, 1), 1),
        "ms_per_session": round(1000 * (steps + folding) / len(paths)),
    }


async def _prepared(engine: Engine, session: Session) -> None:
    await engine.prepare(session)


def importing(paths: Sequence[Path], folder: Path) -> dict[str, float]:
    """Seconds of processor time: what a worker does, and what the one who writes does."""
    store = open_store(f"sqlite:{folder}/import.db").store
    importer, read, put = Importer(store), 0.0, 0.0
    for path in paths:
        began = clock()
        parcels = read_for_import(ImportJob(path, named=True))
        read, began = read + clock() - began, clock()
        assert [one.state for one in importer.put(path, parcels)] == ["imported"]
        put += clock() - began
    store.close()
    size = (folder / "import.db").stat().st_size
    return {"read": read, "put": put, "stored_bytes": size}


def comparing(paths: Sequence[Path], names: Sequence[str]) -> dict[str, float]:
    plan = ComparisonPlan(tuple(names), parse_budgets("8k"))
    began, size = clock(), 0
    for job in jobs([(str(path), False) for path in paths], plan):
        size += len(msgspec.json.encode(work(job.argument)))
    return {"seconds": clock() - began, "kept_bytes": size / len(paths)}


def handing_out(on: str, number: int) -> dict[str, float]:
    """Seconds until the first job is done, and milliseconds of each of so many that do nothing."""
    began = time.perf_counter()
    with batch.open_executor(on) as who:
        list(Batch(nothing).run([Job(None)], who))
        ready = time.perf_counter() - began
        began = time.perf_counter()
        assert sum(1 for _ in Batch(nothing).run([Job(n) for n in range(number)], who)) == number
        each = (time.perf_counter() - began) / number
    return {"first_s": round(ready, 2), "job_ms": round(1000 * each, 3)}


def keeping(folder: Path, number: int) -> float:
    """Milliseconds to keep a result of two kilobytes."""
    store = open_store(f"sqlite:{folder}/kept.db").store
    kept, began = StoredResults(store, "bench"), time.perf_counter()
    for place in range(number):
        kept.put(str(place), {"value": "x" * 2_000})
    spent = time.perf_counter() - began
    store.close()
    return round(1000 * spent / number, 2)


def side_by_side(folder: Path, sessions: int) -> dict[str, Any]:
    """The same comparison by one and by two processes, in turns: time on the wall, of all turns together."""
    files = [(str(path), False) for path in write(folder / "short", sessions, SHORT)]
    plan = ComparisonPlan(("refold", "pi"), parse_budgets("4k"))
    found: dict[str, list[float]] = {"processes:1": [], "processes:2": []}
    for _ in range(3):
        for on, times in found.items():
            with batch.open_executor(on) as who:
                list(endings(jobs(files[:2], plan), plan, who))  # they are there, and have read their tables
                began = time.perf_counter()
                list(endings(jobs(files, plan), plan, who))
                times.append(round(time.perf_counter() - began, 2))
    one, two = (sum(times) for times in found.values())
    return {
        "sessions": sessions,
        "seconds": found,
        "ratio": round(one / two, 2),
        "load": round(os.getloadavg()[0], 1),
    }


def run(*, quick: bool = False) -> dict[str, Any]:
    sessions = 3 if quick else SESSIONS
    with tempfile.TemporaryDirectory(dir=os.environ.get("REFOLD_BENCH_DIR")) as name:
        folder = Path(name)
        paths = write(folder / "sessions", sessions, MESSAGES)
        size = sum(path.stat().st_size for path in paths) / 1e9
        turns, taken = turn_by_turn(paths), importing(paths, folder)
        ours, every = comparing(paths, ["refold"]), comparing(paths, [*presets.NAMES, *VARIANTS])
        return {
            "messages": MESSAGES,
            "sessions": sessions,
            "mb_per_session": round(1000 * size / sessions, 3),
            "turns": turns,
            "per_gb": {
                "read": round(taken["read"] / size),
                "put": round(taken["put"] / size),
                "compare refold": round(ours["seconds"] / size),
                "compare all designs": round(every["seconds"] / size),
            },
            "stored": round(taken["stored_bytes"] / size / 1e9, 2),
            "kept_bytes": {"refold": round(ours["kept_bytes"]), "all designs": round(every["kept_bytes"])},
            "keep_ms": keeping(folder, 50 if quick else 200),
            "handing_out": {
                on: handing_out(on, EMPTY // 10 if quick else EMPTY)
                for on in ("here", "processes:2", *(["ray"] if find_spec("ray") else []))
            },
            "side_by_side": side_by_side(folder, 8 if quick else SHORT_SESSIONS),
        }


def table(found: dict[str, Any]) -> str:
    turns, per_gb = found["turns"], found["per_gb"]
    size = found["mb_per_session"]
    rows = [
        ["a call of the model, no fold (`prepare`)", f"{turns['ms_per_call']:.1f} ms", ""],
        [f"a fold, window of {turns['window']:,} tokens", f"{turns['ms_per_fold']:.0f} ms", ""],
        [
            f"a session of {found['messages']} messages, {size:.2f} MB: {turns['calls']:.0f} calls, {turns['folds']:.0f} folds",
            f"{turns['ms_per_session']:,} ms",
            f"{turns['ms_per_session'] / size:,.0f} s",
        ],
    ]
    names = {
        "read": "reading a transcript (by workers)",
        "put": "putting it into SQLite (by one)",
        "compare refold": "`refold compare --presets refold`",
        "compare all designs": "`refold compare`, all presets",
    }
    for key, title in names.items():
        rows.append([title, f"{per_gb[key] * size:,.0f} ms", f"{per_gb[key]:,} s"])
    return markdown(["processor time of", "each session", "each GB"], rows)


if __name__ == "__main__":
    print(json.dumps(run(), indent=1))
