"""Runs the adapters: makes the peers' environments, hands out the jobs, gathers rows and errors.

    python -m benchmarks.peers.run [--quick]

`.bench-venv` holds the peers (those that need a newer Python have `.bench-venv/newer`). What cannot be installed
or does not run has a row that says so.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.synthetic import Wire, agent_transcript, late_transcripts, orphans, valid_transcripts

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
VENV = ROOT / ".bench-venv"
SIZES = (1_000, 10_000, 50_000)
QUICK = (500,)
INSTALL_SECONDS, RUN_SECONDS = 900, 900


@dataclass(frozen=True)
class Library:
    adapter: str
    packages: tuple[str, ...]
    python: tuple[int, int] = (3, 10)
    """The oldest Python it installs on."""


LIBRARIES = (
    Library("langchain_", ("langchain", "langmem")),
    Library("strands_", ("strands-agents",)),
    Library("agno_", ("agno",)),
    Library("pydantic_ai_", ("pydantic-ai-slim", "pydantic-ai-harness")),
    Library("haystack_", ("haystack-ai",)),
    Library("openhands_", ("openhands-sdk",), (3, 12)),
)


class CannotRun(Exception):
    """Why a library has no figures."""


def environment(library: Library) -> Path:
    """The Python of an environment that has the library; installs it on first use."""
    python, folder = _interpreter(library)
    marker = folder / f".has-{library.adapter}"
    inside = folder / "bin" / "python"
    if marker.exists():
        return inside
    if not inside.exists():
        _do([python, "-m", "venv", str(folder)], 120)
    _do([str(inside), "-m", "pip", "install", "--quiet", *library.packages], INSTALL_SECONDS)
    marker.touch()
    return inside


def _interpreter(library: Library) -> tuple[str, Path]:
    if sys.version_info[:2] >= library.python:
        return sys.executable, VENV
    if (VENV / "newer" / "bin" / "python").exists():
        return "", VENV / "newer"
    for minor in range(library.python[1] + 1, library.python[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found and subprocess.run([found, "--version"], capture_output=True).returncode == 0:
            return found, VENV / "newer"
    found = os.environ.get("REFOLD_BENCH_PYTHON")
    if found:
        return found, VENV / "newer"
    wanted = ".".join(map(str, library.python))
    raise CannotRun(
        f"needs Python {wanted} or newer, and there is none here (name one in REFOLD_BENCH_PYTHON)"
    )


def _do(command: list[str], seconds: int) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRun(f"{type(error).__name__}: {error}"[:300]) from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["it failed"]
        raise CannotRun(lines[-1][:300])


def ask(library: Library, job: Path) -> dict[str, Any]:
    """One adapter's answer to a job, or the reason why there is none."""
    try:
        python = environment(library)
        done = subprocess.run(
            [str(python), str(HERE / f"{library.adapter}.py"), str(job)],
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            env={**os.environ, "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        if done.returncode:
            raise CannotRun((done.stderr.strip().splitlines() or ["no message"])[-1][:300])
        return json.loads(done.stdout)
    except (CannotRun, subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        return {"error": f"{error}"[:300], "packages": library.packages}


def jobs(folder: Path, *, quick: bool) -> Path:
    """What every library is to do, as a file: the transcripts that ours is timed on, and those to be cut."""
    paths: dict[str, str] = {}
    for size in QUICK if quick else SIZES:
        path = folder / f"{size}.json"
        path.write_text(json.dumps(agent_transcript(size)), encoding="utf-8")
        paths[str(size)] = str(path)
    job = folder / "job.json"
    runs = 2 if quick else 5
    job.write_text(
        json.dumps({"runs": runs, "transcripts": paths, **pair_cases(quick=quick)}), encoding="utf-8"
    )
    return job


def pair_cases(*, quick: bool = False) -> dict[str, list[dict[str, Any]]]:
    number, chance = 20 if quick else 150, random.Random(7)
    return {
        "valid": [case(chance, one) for one in valid_transcripts(number)],
        "late": [case(chance, one) for one in late_transcripts(number)],
    }


PRESETS = ("refold", "pi", "window")


def case(chance: random.Random, transcript: list[Wire]) -> dict[str, Any]:
    """A transcript and where to cut it: somewhere in its newer half."""
    keep = chance.randint(3, max(4, len(transcript) // 2))
    tokens = sum(len(message["content"]) // 4 + 4 for message in transcript[-keep:])
    return {"messages": transcript, "keep_messages": keep, "keep_tokens": max(60, tokens)}


def ours(preset: str, cases: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The same cases through the engine with a stub summariser; what counts is the request as it would be sent."""
    import asyncio

    from benchmarks.engine import Stub
    from refold import Engine, Session, presets
    from refold.compaction.plan import Plan
    from refold.session.dialects import parse_list

    row: dict[str, Any] = {}
    for kind, listed in cases.items():
        broken = unfolded = 0
        for one in listed:
            session = Session(id="pairs")
            for message in parse_list(one["messages"]):
                session.append(message)
            engine = Engine(presets.get(preset, **_settings(preset, one)), summariser=Stub())
            plan = engine.plan(session, force=True)
            folded = isinstance(plan, Plan) and bool(asyncio.run(engine.apply(session, plan)))
            unfolded += not folded
            broken += orphans(engine.view(session).to_openai()) > 0
        row[kind] = {"broken": broken, "failed": 0, "not_folded": unfolded, "of": len(listed)}
    return row


def _settings(preset: str, one: dict[str, Any]) -> dict[str, Any]:
    tokens = one["keep_tokens"]
    if preset == "refold":
        return {"window": 4 * tokens + 3_000, "target": 0.5}
    return {"keep_recent_tokens": tokens} if preset == "pi" else {}


def run(*, quick: bool = False) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        job = jobs(Path(name), quick=quick)
        answers = {library.adapter.strip("_"): ask(library, job) for library in LIBRARIES}
    found: dict[str, Any] = {
        "versions": {name: answer.get("versions", {}) for name, answer in answers.items()}
    }
    for part in ("engine", "pairs"):  # the long run has its own measure
        found[part] = {
            name: {"error": answer["error"]} if "error" in answer else {"rows": answer[part]}
            for name, answer in answers.items()
        }
    cases = pair_cases(quick=quick)
    mine = {"refold": {"rows": {f"refold, preset {name}": ours(name, cases) for name in PRESETS}}}
    found["pairs"] = mine | found["pairs"]
    return found


if __name__ == "__main__":
    print(json.dumps(run(quick="--quick" in sys.argv[1:]), indent=1))
