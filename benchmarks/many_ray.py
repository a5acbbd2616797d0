"""`refold compare` of thousands of transcripts with all designs, by one process and on Ray, where a worker is killed in the middle.

    python -m benchmarks many_ray [--quick]

2,000 generated coding sessions of 8 messages and all real transcripts at hand, which are folded to 2,000 tokens. The command itself is
run, by one process and on Ray at the same time, so that whoever else uses the machine disturbs both alike; every row must be the same. Needs
Ray (`make test-ray` installs it). Ray would give its workers a low priority; here they have that of everybody else.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.cells import markdown
from benchmarks.many import write
from benchmarks.measuring import DATA

SESSIONS, MESSAGES, BUDGET = 2_000, 8, "2k"
STARTS = 3
"""Tries: Ray gives up where it cannot start within 30 seconds, which a very busy machine does not allow."""
SOON = 20.0
"""Seconds of work on Ray after which a worker is killed."""


def compared(on: str, folders: list[Path], home: Path, *, kill: bool = False) -> dict[str, Any]:
    """What the command says, and how long it took."""
    command = [sys.executable, "-m", "refold", "compare", *map(str, folders), "--on", on, "--budgets", BUDGET]
    environment = {
        **os.environ,
        "XDG_DATA_HOME": str(home / on),
        "RAY_worker_niceness": "0",
        "PYTHONPATH": str(results.ROOT / "src"),
    }
    for _ in range(STARTS):
        before, began = results.load()[0], time.perf_counter()
        with subprocess.Popen([*command, "--json"], env=environment, stdout=subprocess.PIPE) as running:
            killer = threading.Thread(target=kill_worker, args=(running,))
            if kill:
                killer.start()
            out, _ = running.communicate()
            if kill:
                killer.join()
        if out:
            break
    found = json.loads(out)
    for row in found["rows"]:
        del row["seconds"]
    return {**found, "wall": time.perf_counter() - began, "load": [before, results.load()[0]]}


def kill_worker(running: subprocess.Popen[bytes]) -> None:
    """One that works, some time after the first was seen at work."""
    seen = 0.0
    while running.poll() is None:
        time.sleep(0.05)
        busy = [pid for pid in below(running.pid) if _title(pid).startswith(b"ray::attempt")]
        seen = seen or (time.monotonic() if busy else 0.0)
        if busy and time.monotonic() - seen > SOON:
            os.kill(busy[0], signal.SIGKILL)
            return


def below(pid: int) -> list[int]:
    """The processes that a process started, and theirs."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [found for child in map(int, children) for found in (child, *below(child))]


def _title(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def run(*, quick: bool = False) -> dict[str, Any]:
    if find_spec("ray") is None:
        return {"skipped": "Ray is not installed here: `make test-ray` installs it into .ray-venv"}
    with tempfile.TemporaryDirectory(dir=os.environ.get("REFOLD_BENCH_DIR")) as name:
        home = Path(name)
        files = write(home / "generated", 200 if quick else SESSIONS, MESSAGES)
        folders = [home / "generated", *([DATA] if DATA.is_dir() and not quick else [])]
        with ThreadPoolExecutor() as both:
            runs = [both.submit(compared, on, folders, home, kill=on == "ray") for on in ("ray", "here")]
            ray, serial = (run.result() for run in runs)
        assert ray["rows"] == serial["rows"] and ray["batch"]["failed"] == serial["batch"]["failed"]
        transcripts = {row["file"] for row in serial["rows"]}
        return {
            "generated": len(files),
            "files": serial["batch"]["jobs"],
            "transcripts": len(transcripts),
            "megabytes": round(
                sum(file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file())
                / 1e6,
                1,
            ),
            "designs": len({row["preset"] for row in serial["rows"]}),
            "rows": len(serial["rows"]),
            "equal": True,
            "begun_again": ray["batch"]["repeated"],
            "failed": ray["batch"]["failed"],
            "seconds": {
                "here": round(serial["batch"]["seconds"]),
                "ray": round(ray["batch"]["seconds"]),
                "here, start and end included": round(serial["wall"]),
                "ray, start and end included": round(ray["wall"]),
            },
            "load": {"here": serial["load"], "ray": ray["load"]},
            "ratio": round(serial["batch"]["seconds"] / ray["batch"]["seconds"], 2),
        }


def table(found: dict[str, Any]) -> str:
    rows = [
        [
            f"`--on {on}`",
            f"{found['seconds'][on]:,} s",
            f"{found['seconds'][f'{on}, start and end included']:,} s",
            " to ".join(f"{load:.0f}" for load in found["load"][on]),
        ]
        for on in ("here", "ray")
    ]
    return markdown(
        [
            f"`refold compare` of {found['transcripts']:,} transcripts, {found['megabytes']:.0f} MB, {found['designs']} presets",
            "work",
            "with start and end",
            "load",
        ],
        rows,
    )


if __name__ == "__main__":
    print(json.dumps(run(), indent=1))
