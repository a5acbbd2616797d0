"""How much of the house one step goes through: `python -m benchmarks house`.

The tree as it is, beside the tree before the house was rebuilt and the one before its rooms were read again for
what they say twice (taken from the repository's history; where that is not here, the figures stored last). A step is done once before it is watched, so that nothing is counted that only
happens when a module is first imported.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from benchmarks import results

BEFORE = {"before the rebuild": "f2a0dd2", "all rooms built": "da36504"}
"""The last commits of these trees."""
HEART = ("compaction", "engine", "facts", "preserve", "shrink", "digest", "presets")
"""Rooms that fold; `facts` was called `preserve`."""
WATCHED = """
import asyncio, json, sys, threading, refold
from refold import Engine, Session, messages as m, presets
try:
    from refold import worker
except ImportError:
    worker = None

def everywhere(profiler):
    # Also in the worker, a thread that runs already.
    if worker:
        asyncio.run(worker.run_in_worker(lambda: sys.setprofile(profiler)))
    threading.setprofile(profiler); sys.setprofile(profiler)

HOME = refold.__file__.rpartition("/")[0] + "/"

def conversation(turns):
    session = Session()
    for turn in range(turns):
        session.append(m.user(f"Please look at part {turn} and never touch the migrations."))
        for step in range(3):
            id = f"{turn}-{step}"
            call = m.call(id, "Read", path=f"src/module_{turn}/part_{step}.py")
            session.append(m.assistant(f"Reading part {step}.", call))
            session.append(m.result(id, f"def handle_{turn}_{step}(request):\\n    return None\\n" * 20))
        session.append(m.assistant(f"Part {turn} is fine."))
    return session

def watched(step):
    seen = set()
    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(HOME) and code.co_name[:1] != "<":
            seen.add((code.co_filename, code.co_qualname, code.co_firstlineno))
    everywhere(note)
    seen.clear()
    step()
    sys.setprofile(None)
    found = set(seen)
    everywhere(None)
    return {"functions": len(found), "files": len({file for file, *_ in found})}

def steps():
    small, large = conversation(10), conversation(60)
    roomy, tight = (Engine(presets.get("refold", window=size)) for size in (200_000, 8_000))
    yield "append", lambda: small.append(m.user("One more thing."))
    yield "prepare", lambda: asyncio.run(roomy.prepare(small))
    yield "prepare with a fold", lambda: asyncio.run(tight.prepare(large))
    view = asyncio.run(roomy.prepare(small))
    yield "to_openai", view.to_openai

for _, step in steps():
    step()
print(json.dumps({name: watched(step) for name, step in steps()}))
"""


def run() -> dict[str, Any]:
    return {
        "trees": {**{name: earlier(name, BEFORE[name]) for name in BEFORE}, "now": measured(results.ROOT)}
    }


def earlier(name: str, revision: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return measured(Path(folder)) if unpacked(revision, Path(folder)) else stored(name)


def unpacked(revision: str, folder: Path) -> bool:
    command = ["git", "archive", revision, "src", "pyproject.toml"]
    try:
        done = subprocess.run(command, cwd=results.ROOT, capture_output=True)
    except OSError:
        return False
    if done.returncode:
        return False
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return True


def stored(name: str) -> dict[str, Any]:
    return results.read().get("house", {}).get("result", {}).get("trees", {}).get(name, {})


def measured(tree: Path) -> dict[str, Any]:
    home = tree / "src" / "refold"
    modules = [path for path in home.rglob("*.py") if "__pycache__" not in path.parts]
    project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))
    floors = project["tool"]["importlinter"]["contracts"][0]["layers"]
    inside = [path.relative_to(home).parts for path in modules]
    surroundings = {**os.environ, "PYTHONPATH": str(tree / "src")}
    done = subprocess.run(
        [sys.executable, "-c", WATCHED],
        cwd=tree,
        env=surroundings,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in modules}
    return {
        "files": len(modules),
        "lines": sum(lines.values()),
        "lines of the heart": sum(n for path, n in lines.items() if path.relative_to(home).parts[0] in HEART),
        "floors": len(floors),
        "files at the top level": sum(len(parts) == 1 and not parts[0].startswith("__") for parts in inside),
        "rooms": len({parts[0] for parts in inside if len(parts) > 1}),
        "files in compaction": sum(parts[0] == "compaction" for parts in inside),
        "steps": json.loads(done.stdout),
    }
