"""Decisions are pure: what a room from `presets` down computes depends on its arguments alone."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
LAYERS, PURE = LINTER["contracts"][0], LINTER["contracts"][-1]
ROOMS: list[str] = PURE["source_modules"]
IMPURE = {"refold.loop", "refold.worker"}
"""On the ground floor, but a performer: the event loop of synchronous callers."""

CALLS = {"open", "print", "input", "eval", "exec", "breakpoint", "__import__"}
"""Builtins that reach the disk or the terminal."""
METHODS = {"now", "utcnow", "today", "getenv", "urandom", "getrandbits", "fromtimestamp"}
"""Of `datetime` and others; `fromtimestamp` without a zone takes the machine's."""
ALLOWED = {
    ("refold/session/tree.py", "secrets.token_hex"),  # `random_id`, the default of `Session(new_id=…)`
    ("refold/session/tree.py", "threading.RLock"),  # `Session.writing`: one writer after the other
}


def modules() -> list[Path]:
    found: list[Path] = []
    for room in ROOMS:
        place = ROOT / "src" / room.replace(".", "/")
        found += sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    return found


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def impure_calls(tree: ast.AST, excused: set[str]) -> Iterator[str]:
    """An excused module may be named (as the default of an argument), but not called."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        first, _, last = name.rpartition(".")
        zoned = last == "fromtimestamp" and (len(node.args) > 1 or node.keywords)
        if name in CALLS or (first and last in METHODS and not zoned) or first in excused:
            yield name


def within(name: str, forbidden: set[str]) -> bool:
    return name.split(".")[0] in forbidden or name in forbidden


def problems(source: str, where: str) -> list[str]:
    forbidden = set(PURE["forbidden_modules"])
    module = where.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    excused = {
        line.partition(" -> ")[2] for line in PURE["ignore_imports"] if line.startswith(f"{module} ->")
    }
    tree = ast.parse(source)
    found = [f"imports {name}" for name in imported(tree) if within(name, forbidden - excused)]
    calls = impure_calls(tree, excused)
    return found + [f"calls {name}" for name in calls if (where, name) not in ALLOWED]


def test_the_pure_rooms_are_all_rooms_from_presets_down() -> None:
    layers: list[str] = LAYERS["layers"]
    below = [room.strip("() ") for layer in layers[layers.index("presets") :] for room in layer.split("|")]
    assert {f"refold.{room}" for room in below} == {*ROOMS, *IMPURE}
    assert set(PURE["forbidden_modules"]) >= IMPURE


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT / "src" / "refold")))
def test_no_network_disk_clock_chance_or_terminal(path: Path) -> None:
    assert problems(path.read_text(), str(path.relative_to(ROOT / "src"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import socket",
        "import urllib.request as u",
        "from http import client",
        "def f():\n    from pathlib import Path",
        "from refold.loop import run",
        "from refold import loop",
        "open('x')",
        "print('x')",
        "datetime.now(UTC)",
        "date.today()",
        "datetime.fromtimestamp(5)",
        "import random",
    ],
)
def test_each_of_these_would_be_seen(source: str) -> None:
    assert problems(source, "refold/text/x.py") != []


@pytest.mark.parametrize("source", ["datetime.fromtimestamp(5, UTC)", "page.open()", "import re", "clock()"])
def test_these_are_pure(source: str) -> None:
    assert problems(source, "refold/text/x.py") == []


def test_exceptions_hold_for_the_module_they_name() -> None:
    assert problems("import time", "refold/session/tree.py") == []
    assert problems("import time", "refold/session/view.py") != []
    assert problems("time.time()", "refold/session/tree.py") != []
