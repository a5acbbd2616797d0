"""Runs with several processes, as a program of its own: it forks, so it must have one thread only.

    python -m tests.stores.processes kill KIND FOLDER KILLS SEED
    python -m tests.stores.processes crowd KIND FOLDER WRITERS COUNT

Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from refold.errors import Conflict
from refold.stores.jsonl import JsonlStore

from . import kit

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: object, timeout: float = 600) -> dict[str, Any]:
    """Start this program and return what it found."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.stores.processes", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        timeout=timeout,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def forked(work: Callable[[int], None]) -> tuple[int, int]:
    """(pid, read end of a pipe) of a child that does the work with the write end."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    os.close(reading)
    code = 0
    try:
        work(writing)
    except BaseException:
        os.write(writing, b"!" + traceback.format_exc().encode().replace(b"\n", b" | ") + b"\n")
        code = 1
    os._exit(code)


def read_lines(fd: int) -> list[str]:
    found = b""
    while piece := os.read(fd, 1 << 16):
        found += piece
    os.close(fd)
    return found.decode().split("\n")[:-1]  # a last line without its end was never sent completely


# ── kills ───────────────────────────────────────────────────────────────────────────────────────


def kill(kind: str, folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill a writer again and again; after each kill look for what it had acknowledged."""
    chance = random.Random(seed)
    report: dict[str, Any] = {
        "kills": 0,
        "acknowledged": 0,
        "lost": 0,
        "changed": 0,
        "fused": 0,
        "errors": [],
    }
    promised: list[str] = []
    place = folder
    for number in range(kills):
        if number % 50 == 0:
            place = folder / f"round{number}"
            place.mkdir()
            promised = []
            kit.begin(kind.partition("-")[0], place).close()
        pid, reading = forked(lambda ack, n=number, p=place: _append_for_ever(kind, p, n, ack))
        first = os.read(reading, 1)  # it is at work
        time.sleep(chance.random() * 0.02)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        told = read_lines(reading)
        told = [first.decode() + told[0], *told[1:]] if told else []
        report["errors"] += [line for line in told if line.startswith("!")]
        promised += [line for line in told if not line.startswith("!")]
        report["kills"] += 1
        _look(kind.partition("-")[0], place, promised, report)
        report["acknowledged"] += len(told)
    return report


def _append_for_ever(kind: str, place: Path, number: int, ack: int) -> None:
    store = kit.make(kind, place)
    found = store.load(kit.S).entries
    after = found[-1].id if found else None
    chance = random.Random(number)
    for step in range(1_000_000):
        id = f"k{number}.{step}"
        store.append(kit.S, [kit.said(id, after, chance.choice((20, 300, 5000, 40_000)))], after=after)
        os.write(ack, id.encode() + b"\n")
        after = id


def _look(kind: str, place: Path, promised: list[str], report: dict[str, Any]) -> None:
    store = kit.make(kind, place)
    loaded = store.load(kit.S)
    ids = [entry.id for entry in loaded.entries]
    there = set(ids)
    kept = [id for id in promised if id in there]
    report["lost"] += len(promised) - len(kept)
    report["changed"] += sum(not kit.is_intact(entry) for entry in loaded.entries)
    report["changed"] += [id for id in ids if id in set(promised)] != kept
    report["fused"] += sum(problem.raw.count(b'"type":"message"') > 1 for problem in loaded.problems)
    if not isinstance(store, JsonlStore):
        with store.reading() as connection:
            report["changed"] += connection.execute("PRAGMA quick_check").get != "ok"
    promised[:] = kept  # one loss is counted once
    store.close()


# ── many writers ────────────────────────────────────────────────────────────────────────────────


def crowd(kind: str, folder: Path, writers: int, count: int) -> dict[str, Any]:
    """Several processes append to one session; each takes its turn by compare-and-swap."""
    real = kind.partition("-")[0]
    kit.begin(real, folder).close()
    started = time.monotonic()
    gate, opener = os.pipe()  # closed at both ends of it: everybody starts

    def start(ack: int, writer: int) -> None:
        os.close(opener)
        os.read(gate, 1)
        _take_turns(kind, folder, writer, count, ack)

    children = [forked(lambda ack, w=writer: start(ack, w)) for writer in range(writers)]
    os.close(opener)
    told = [read_lines(reading) for _, reading in children]
    for pid, _ in children:
        os.waitpid(pid, 0)
    loaded = kit.make(real, folder).load(kit.S)
    ids = [entry.id for entry in loaded.entries]
    parents = [getattr(entry, "parent", None) for entry in loaded.entries]
    return {
        "seconds": time.monotonic() - started,
        "present": len(set(ids)),
        "doubled": len(ids) - len(set(ids)),
        "problems": len(loaded.problems),
        "forks": sum(a != b for a, b in zip(parents, [None, *ids], strict=False)),
        "disorder": sum(
            [id for id in ids if id.startswith(f"w{w}.")] != _wanted(w, count) for w in range(writers)
        ),
        "errors": [line for lines in told for line in lines if line.startswith("!")],
        "conflicts": sum(int(line) for lines in told for line in lines if line.isdigit()),
    }


def _wanted(writer: int, count: int) -> list[str]:
    return [f"w{writer}.{n}" for n in range(count)]


def _take_turns(kind: str, folder: Path, writer: int, count: int, ack: int) -> None:
    store = kit.make(kind, folder)
    after, seen, conflicts = None, 0, 0
    for id in _wanted(writer, count):
        while True:
            try:
                store.append(kit.S, [kit.said(id, after)], after=after)
            except Conflict:
                conflicts += 1
                new = store.load(kit.S, seen).entries
                seen += len(new)
                after = new[-1].id if new else after
                continue
            after, seen = id, seen + 1
            break
    os.write(ack, f"{conflicts}\n".encode())


if __name__ == "__main__":
    name, kind, folder, first, second = sys.argv[1:]
    work = {"kill": kill, "crowd": crowd}[name]
    print(json.dumps(work(kind, Path(folder), int(first), int(second))))
