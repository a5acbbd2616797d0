"""Results as files: what was measured, by which script and judge, on which data, by which versions, on which machine, and
how busy that was. `provenance` says it in one line below every table; `releases_behind`, whether it is too old."""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from refold import __version__

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks" / "results"
QUICK = ROOT / "out" / "bench-quick"
"""Quick runs say that everything works; their figures are no results and stay out of the README."""
PACKAGES = ("msgspec", "splintr-rs", "apsw", "click", "rich")


class Source(NamedTuple):
    """Where the figures of a measure come from."""

    script: str
    data: str
    judge: str = ""
    """A language model that scores, where there is one."""


_REAL = "real sessions of coding agents"
_MADE = "generated sessions, fixed seed"
SOURCES = {
    "agent": Source("python -m benchmarks agent", "a scripted model"),
    "cache_cost": Source("python -m benchmarks cache_cost", f"{_REAL}, replayed request by request"),
    "chat_session": Source("python -m benchmarks chat_session", "a scripted model in a pseudo-terminal"),
    "closed_loop": Source(
        "python -m benchmarks closed_loop", "generated chores, fixed seeds; a scripted reader"
    ),
    "closed_loop_gpu": Source(
        "python -m benchmarks.closed_loop_gpu --store",
        "generated chores, fixed seeds, done by Qwen2.5-Coder-1.5B",
    ),
    "compactions": Source("make bench-compactions", "real sessions of Claude Code", "Qwen2.5-Coder-1.5B"),
    "continuation": Source("python -m benchmarks continuation", _REAL, "smollm2-135M"),
    "continuation_full": Source("make bench-compactions", _REAL, "Qwen2.5-Coder-1.5B"),
    "continuation_small": Source("make bench-continuation", _REAL, "smollm2-135M"),
    "drift": Source("python -m benchmarks drift", "generated chores, fixed seeds; a scripted reader"),
    "engine": Source("python -m benchmarks engine", _MADE),
    "gateway": Source("python -m benchmarks gateway", "generated requests to a local upstream"),
    "house": Source("python -m benchmarks house", "the source of refold"),
    "long_run": Source("python -m benchmarks long_run", _MADE),
    "many": Source("python -m benchmarks many", _MADE),
    "many_ray": Source("python -m benchmarks many_ray", f"{_MADE}, and {_REAL}"),
    "mutation": Source("make mutation", "the source of refold"),
    "peers": Source("python -m benchmarks peers", _MADE),
    "recall": Source("python -m benchmarks recall", f"LoCoMo, and {_REAL}"),
    "redaction": Source("python -m benchmarks redaction", "generated secrets; installed Python code"),
    "requests": Source("python -m benchmarks requests", _MADE),
    "retention": Source("python -m benchmarks retention", f"LoCoMo, and {_REAL}"),
    "rounds": Source("python -m benchmarks rounds", _MADE),
    "scale": Source("python -m benchmarks.scale --store", _MADE),
    "stalls": Source("python -m benchmarks stalls", _MADE),
    "start": Source("python -m benchmarks start", "one message"),
    "stores": Source("python -m benchmarks stores", _MADE),
    "tokens": Source("python -m benchmarks tokens", f"{_REAL} that carry the provider's usage"),
    "verification": Source("python -m benchmarks verification", f"{_REAL}, with planted claims"),
}


def write(
    name: str,
    result: dict[str, Any],
    *,
    seconds: float,
    before: list[float],
    quick: bool,
    made: dict[str, Any] | None = None,
) -> Path:
    """`made`: where it was measured, if not here and now."""
    folder = QUICK if quick else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    made = made or {**surroundings(), "load_before": before, "load_after": load()}
    judge = result.get("judge")
    judge = judge["judge"] if isinstance(judge, dict) else judge
    source = SOURCES[name]._replace(**{"judge": judge} if isinstance(judge, str) else {})
    made = {**made, **source._asdict(), "seconds": round(seconds, 1)}
    text = json.dumps({"name": name, "made": made, "result": result}, indent=1, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")
    return path


def read(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """All stored results by name."""
    found = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json")))
    return {one["name"]: one for one in found}


def provenance(one: dict[str, Any]) -> str:
    """Script, date, version, machine, data and judge of a stored result, as one line."""
    made = one["made"]
    machine = made["machine"]
    known = "" if machine["processor"] == "unknown" else f", {machine['processor']}"
    parts = [
        f"`{made['script']}`",
        made["date"],
        f"refold {made['versions']['refold']} ({made['commit']})",
        f"{machine['system']}, {machine['cores']} cores{known}",
        made["data"],
        *([f"judge {made['judge']}"] if made["judge"] else []),
    ]
    return f"*{'; '.join(parts)}*"


def releases() -> list[str]:
    """Numbers of all releases, the newest first: this version, and those that the change log has."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return list(dict.fromkeys((__version__, *re.findall(r"^## (\d[\w.]*)", text, re.M))))


def releases_behind(measured: str, known: list[str] | None = None) -> int:
    """How many releases came after the one that was measured. One that is not known is too old."""
    known = known or releases()
    return known.index(measured) if measured in known else len(known) + 1


def surroundings(code: Path = ROOT) -> dict[str, Any]:
    """`code`: what was measured, where that is another checkout."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "commit": _commit(code),
        "python": platform.python_version(),
        "versions": {"refold": __version__, **{name: _version(name) for name in PACKAGES}},
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "processor": _processor(),
            "cores": os.cpu_count(),
        },
    }


def load() -> list[float]:
    """Load averages of 1, 5 and 15 minutes: above the number of cores, times on the wall mean little."""
    return [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else []


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _commit(folder: Path) -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    if known := os.environ.get("REFOLD_COMMIT"):  # a copy of the tree, without git
        return known
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout.strip() or "unknown"
    except OSError:  # no git here
        return "unknown"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown"
    )
