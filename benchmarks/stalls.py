"""What an event loop notices of folds: the longest stall and how many ticks of a millisecond it gets in a second, while 1, 6
and 20 sessions are folded at once, and one that holds a result of 20 MB.

    python -m benchmarks.stalls [--json]
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from typing import Any

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m

TICK = 0.001
REPEATS = 3


def session_of(turns: int, *, size: int = 0, seed: int = 0) -> Session:
    """Turns with a file read in each; one result of `size` characters in the middle."""
    session = Session()
    for n in range(turns):
        text = "".join(f"value_{n}_{row} = compute({row}, {seed})\n" for row in range(60))
        if size and n == turns // 2:
            text *= size // len(text)
        session.append(m.user(f"Look at part {n} of the parser, and never touch the migrations."))
        session.append(m.assistant(f"I read {n}.", m.call(f"c{n}", "Read", path=f"src/part{n}.py")))
        session.append(m.result(f"c{n}", text))
        session.append(m.assistant(f"Part {n} was read; its answer is {n * 17}."))
    return session


async def ticking(stop: asyncio.Event) -> list[float]:
    gaps: list[float] = []
    while not stop.is_set():
        before = time.perf_counter()
        await asyncio.sleep(TICK)
        gaps.append(time.perf_counter() - before - TICK)
    return gaps


async def folded(sessions: list[Session]) -> dict[str, Any]:
    engines = [Engine(presets.get("refold", window=60_000)) for _ in sessions]
    stop, began = asyncio.Event(), time.perf_counter()
    ticks = asyncio.ensure_future(ticking(stop))
    await asyncio.sleep(0.01)
    await asyncio.gather(
        *(engine.prepare(session) for engine, session in zip(engines, sessions, strict=True))
    )
    seconds = time.perf_counter() - began
    stop.set()
    gaps = await ticks
    assert all(session.annotations(e.Fold) for session in sessions)
    return {
        "stall_ms": round(1000 * max(gaps), 1),
        "ticks_per_s": round(len(gaps) / seconds),
        "seconds": round(seconds, 2),
    }


CASES = {
    "1 session": (1, 0),
    "6 sessions": (6, 0),
    "20 sessions": (20, 0),
    "a result of 20 MB": (1, 20_000_000),
}


def run(*, quick: bool = False) -> dict[str, Any]:
    asyncio.run(
        folded([session_of(150)])
    )  # patterns and vocabularies are made by the first fold of a process
    rows: dict[str, Any] = {}
    for name, (number, size) in CASES.items():
        found: list[dict[str, Any]] = []
        for repeat in range(1 if quick else REPEATS):
            sessions = [session_of(150, size=size, seed=100 * repeat + n) for n in range(number)]
            gc.collect()
            found.append(asyncio.run(folded(sessions)))
        rows[name] = sorted(found, key=lambda row: row["stall_ms"])[len(found) // 2]
    return {"rows": rows}


if __name__ == "__main__":
    rows = run()["rows"]
    if "--json" in sys.argv:
        print(json.dumps(rows))
    else:
        for name, row in rows.items():
            print(f"{name:20} {row}")
