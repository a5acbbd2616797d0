"""The house: sizes, floors, the public names, and what importing costs."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import refold

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "refold"
MODULES = sorted(SOURCE.rglob("*.py"))


def functions() -> list[tuple[str, int]]:
    return [
        (f"{path.relative_to(ROOT)}:{node.name}", (node.end_lineno or 0) - node.lineno + 1)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def test_no_module_is_longer_than_400_lines() -> None:
    long = {str(p.relative_to(ROOT)): n for p in MODULES if (n := len(p.read_text().splitlines())) > 400}
    assert long == {}


@pytest.mark.parametrize("name", ["session/view.py", "engine/engine.py"])
def test_the_two_central_modules_stay_small(name: str) -> None:
    assert len((SOURCE / name).read_text().splitlines()) <= 250


def test_functions_are_short() -> None:
    found = functions()
    assert {name: lines for name, lines in found if lines > 60} == {}
    assert statistics.median(lines for _, lines in found) <= 10


def test_presets_are_compositions() -> None:
    for path in (SOURCE / "presets").glob("*.py"):
        assert len(path.read_text().splitlines()) <= 160, path.name
    text = "".join(p.read_text() for p in MODULES if p.parent.name != "presets")
    assert not re.search(r"^\s+(?:el)?if .*preset(\.name)? == ", text, re.M)


def test_architecture_says_what_the_linter_enforces() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    drawn = re.search(r"```house\n(.*?)```", (ROOT / "ARCHITECTURE.md").read_text(), re.S)
    assert drawn
    assert drawn[1].strip().splitlines() == contract["layers"]


def test_the_public_names_are_pinned() -> None:
    assert sorted(refold.__all__) == [
        "Engine", "Failed", "Fold", "Hooks", "Plan", "Reason", "Session", "View", "__version__", "errors", "load",
        "messages", "model", "open", "presets", "run",
    ]  # fmt: skip
    for name in refold.__all__:
        assert getattr(refold, name) is not None
    with pytest.raises(AttributeError):
        refold.nonsense


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


HEAVY = {"rich", "click", "apsw", "openai", "anthropic", "splintr", "asyncio", "hypothesis", "xllamacpp"}


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert not HEAVY & loaded_by("import refold")


def test_the_command_line_starts_without_the_engine() -> None:
    modules = loaded_by("import refold.cli")
    assert "refold.engine" not in modules
    assert not (HEAVY - {"click"}) & modules


def test_an_engine_loads_no_provider_and_no_terminal() -> None:
    modules = loaded_by("from refold import Engine, Session; Engine('pi').view(Session())")
    assert not {"rich", "click", "openai", "anthropic", "apsw"} & modules
