"""Opening a long session, and appends against bare SQLite and bare JSONL on the same disk in the same run.

python -m benchmarks.stores
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from refold import messages as m
from refold.entries import MessageEntry
from refold.format import encode
from refold.protocols import SessionInfo
from refold.stores import jsonl, open_store

ENTRIES = 100_000
APPENDS = 400
S = "bench"


def run(*, quick: bool = False) -> dict[str, Any]:
    """Figures of the two stores; ratios compare with the bare way of the same round."""
    entries, appends = (5_000, 50) if quick else (ENTRIES, APPENDS)
    with tempfile.TemporaryDirectory(dir=os.environ.get("REFOLD_BENCH_DIR")) as name:
        folder = Path(name)
        return {"open": _open(folder, entries), "append": _append(folder, appends)}


def _message(number: int, parent: str | None) -> MessageEntry:
    text = f"message {number}: " + " ".join(f"word{(number * 7 + i * 13) % 5000}" for i in range(55))
    return MessageEntry(id=f"{number:012x}", parent=parent, time=1.8e9 + number, message=m.user(text))


def _open(folder: Path, count: int) -> dict[str, Any]:
    entries: list[MessageEntry] = []
    for number in range(count):
        entries.append(_message(number, entries[-1].id if entries else None))
    jsonl.write_session_file(folder / "long.jsonl", SessionInfo(id=S, created=1.0), entries)
    store = open_store(f"sqlite:{folder}/long.db").store
    store.create(SessionInfo(id=S))
    began = time.perf_counter()
    store.append(S, entries, after=None)
    filled = time.perf_counter() - began
    store.close()
    found: dict[str, Any] = {"entries": count, "bytes_each": len(encode(entries[count // 2]))}
    for kind, file in (("sqlite", "long.db"), ("jsonl", "long.jsonl")):
        found[kind] = _in_new_process(f"{kind}:{folder}/{file}")
    found["sqlite"]["fill_seconds"] = round(filled, 2)
    return found


_LOAD = """
import re, resource, sys, time, json
from pathlib import Path
from refold.stores import open_store
began = time.perf_counter()
loaded = open_store(sys.argv[1]).store.load(sys.argv[2])
seconds = time.perf_counter() - began
status = Path("/proc/self/status")  # what getrusage says on Linux includes the parent of this process
if status.exists():
    peak = int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1]) * 1024
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": round(seconds, 3), "peak_mb": round(peak / 1e6), "entries": len(loaded.entries)}))
"""


def _in_new_process(spec: str) -> dict[str, Any]:
    """The best of three: the peak of memory counts per process."""
    runs = [
        json.loads(
            subprocess.run([sys.executable, "-c", _LOAD, spec, S], capture_output=True, check=True).stdout
        )
        for _ in range(3)
    ]
    return min(runs, key=lambda one: one["seconds"])


def _append(folder: Path, appends: int) -> dict[str, Any]:
    ways: dict[str, Callable[[int], None]] = {
        "bare_sqlite": _bare_sqlite(folder),
        "sqlite": _stored(f"sqlite:{folder}/a.db"),
        "bare_jsonl": _bare_jsonl(folder),
        "jsonl": _stored(f"jsonl:{folder}/a.jsonl"),
    }
    spent = dict.fromkeys(ways, 0.0)
    for number in range(appends):
        for name, append in ways.items():  # by turns, so that a busy disk hurts all alike
            began = time.perf_counter()
            append(number)
            spent[name] += time.perf_counter() - began
    rates = {name: round(appends / seconds) for name, seconds in spent.items()}
    return {
        "per_second": rates,
        "sqlite_ratio": round(spent["sqlite"] / spent["bare_sqlite"], 2),
        "jsonl_ratio": round(spent["jsonl"] / spent["bare_jsonl"], 2),
        "cpu_per_second": _without_disk(),
    }


def _without_disk() -> dict[str, int]:
    """Appends a second where syncing costs nothing: what the stores themselves take."""
    if not os.access("/dev/shm", os.W_OK):
        return {}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        found: dict[str, int] = {}
        for spec in (f"sqlite:{name}/a.db", f"jsonl:{name}/a.jsonl"):
            append = _stored(spec)
            began = time.perf_counter()
            for number in range(2000):
                append(number)
            found[spec.partition(":")[0]] = round(2000 / (time.perf_counter() - began))
        return found


def _stored(spec: str) -> Callable[[int], None]:
    store = open_store(spec).store
    store.create(SessionInfo(id=S))
    last: list[str | None] = [None]

    def append(number: int) -> None:
        entry = _message(number, last[0])
        store.append(S, [entry], after=last[0])
        last[0] = entry.id

    return append


def _bare_sqlite(folder: Path) -> Callable[[int], None]:
    connection = apsw.Connection(str(folder / "bare.db"))
    connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL").fetchall()
    connection.execute("CREATE TABLE log(id INTEGER PRIMARY KEY, line BLOB)").fetchall()

    def append(number: int) -> None:
        line = encode(_message(number, None))
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO log(line) VALUES (?)", (line,))
        connection.execute("COMMIT")

    return append


def _bare_jsonl(folder: Path) -> Callable[[int], None]:
    fd = os.open(folder / "bare.jsonl", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    sync = getattr(os, "fdatasync", os.fsync)

    def append(number: int) -> None:
        os.write(fd, encode(_message(number, None)) + b"\n")
        sync(fd)

    return append


if __name__ == "__main__":
    print(json.dumps(run(), indent=1))
