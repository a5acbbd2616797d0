"""Results as files: what was measured, by which versions, on which machine, and how busy that was."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks" / "results"
QUICK = ROOT / "out" / "bench-quick"
"""Quick runs say that everything works; their figures are no results and stay out of the README."""
PACKAGES = ("refold", "msgspec", "splintr-rs", "apsw", "click", "rich")


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
    made = {**made, "seconds": round(seconds, 1)}
    text = json.dumps({"name": name, "made": made, "result": result}, indent=1, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")
    return path


def read(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """All stored results by name."""
    found = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json")))
    return {one["name"]: one for one in found}


def surroundings(code: Path = ROOT) -> dict[str, Any]:
    """`code`: what was measured, where that is another checkout."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "commit": _commit(code),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
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
