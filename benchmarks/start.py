"""What it costs to begin: `import refold`, the first `prepare`, `refold --help`; the size of the wheel and of what it installs.

    python -m benchmarks start [--quick]

Processor time of whole processes with compiled modules, best of several, by turns; `python -c pass` is one of them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from benchmarks.cells import markdown
from benchmarks.engine import yardstick
from benchmarks.results import ROOT

PREPARE = (
    "from refold import Engine, Session, messages, run\n"
    "session = Session(); session.append(messages.user('Fix the parser.'))\n"
    "view = run(Engine().prepare(session))"
)
WAYS = {
    "`python -c pass`": ("-c", "pass"),
    "`import click`": ("-c", "import click"),
    "`import refold`": ("-c", "import refold"),
    "`import refold` and the first `prepare`": ("-c", PREPARE),
    "the same, and the view counted": ("-c", f"{PREPARE}\nview.tokens"),
    "`refold --help`": ("-m", "refold", "--help"),
}
GOALS = {"`import refold` and the first `prepare`": "≤ 300", "`refold --help`": "≤ 100"}


def processor_ms(arguments: tuple[str, ...], compiled: Path) -> float:
    """Of one process, its end included. `compiled`: where modules are kept, as an installation has them."""
    environment = os.environ | {"PYTHONPYCACHEPREFIX": f"{compiled}", "PYTHONDONTWRITEBYTECODE": ""}
    with open(os.devnull, "w") as nowhere:
        started = subprocess.Popen([sys.executable, *arguments], stdout=nowhere, env=environment)
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
    assert started.returncode == 0, arguments
    return 1000 * (used.ru_utime + used.ru_stime)


def wheel_bytes() -> dict[str, int]:
    """All of it, and what of that is Python."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        path = next(Path(folder).glob("*.whl"))
        with zipfile.ZipFile(path) as wheel:
            source = sum(file.compress_size for file in wheel.infolist() if file.filename.endswith(".py"))
        return {"wheel": path.stat().st_size, "source": source}


def installed_bytes() -> dict[str, int]:
    """Of refold's own files and of each package that it needs, compiled modules left out."""
    own = [path for path in (ROOT / "src" / "refold").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    found, wanted = {"refold": sum(path.stat().st_size for path in own)}, _needs("refold")
    while wanted:
        name = wanted.pop()
        if name not in found:
            files = [Path(str(file.locate())) for file in distribution(name).files or ()]
            found[name] = sum(
                path.stat().st_size for path in files if path.suffix != ".pyc" and path.exists()
            )
            wanted += _needs(name)
    return found


def _needs(name: str) -> list[str]:
    """What is always installed with a package."""
    needs = [line for line in distribution(name).requires or () if "extra ==" not in line]
    names = [found[0] for line in needs if (found := re.match(r"[\w.-]+", line))]
    return [name for name in names if _is_here(name)]


def _is_here(name: str) -> bool:
    try:
        return bool(distribution(name))
    except PackageNotFoundError:  # for another system
        return False


def run(*, quick: bool = False) -> dict[str, Any]:
    best = dict.fromkeys(WAYS, 1e9)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2 if quick else 20):
            for name, arguments in WAYS.items():
                best[name] = min(best[name], processor_ms(arguments, Path(folder)))
    return {
        "ms": {name: round(spent, 1) for name, spent in best.items()},
        **wheel_bytes(),
        "installed": installed_bytes(),
        "yardstick_ms": yardstick(),
    }


def table(found: dict[str, Any]) -> str:
    rows = [[name, GOALS.get(name, ""), f"{spent:.0f} ms"] for name, spent in found["ms"].items()]
    sizes: dict[str, int] = found["installed"]
    large = max(sizes, key=lambda name: sizes[name])
    everything = f"{sum(sizes.values()) / 1e6:.1f} MB, of which {large} {sizes[large] / 1e6:.1f} MB"
    rows.append(["yardstick: a million additions in Python", "", f"{found['yardstick_ms']:.0f} ms"])
    wheel = f"{found['wheel'] / 1e6:.2f} MB, of which Python {found['source'] / 1e6:.2f} MB"
    rows.append(["the wheel", "≤ 1 MB", wheel])
    rows.append(["refold, installed", "", f"{sizes['refold'] / 1e6:.1f} MB"])
    rows.append(["with all that it needs", "", everything])
    return markdown(["to begin with", "goal", "processor time, size"], rows)
