"""What the tests of the examples share."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from refold.testing.wire import WireServer
from refold.tokens import get

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
WINDOW = 4000
SECRET = "The code word of the vault is heliotrope."
"""Said in the first turn, folded away later, and recalled at the end."""


def example(name: str) -> ModuleType:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec and spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def needs(*packages: str) -> None:
    """Skips the module's tests, loudly, where a framework is not installed."""
    for package in packages:
        installed(package, module=True)


def installed(package: str, *, module: bool = False) -> None:
    """Skips a test, loudly, where a framework is not installed."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: `make test-examples` runs this", allow_module_level=module)


def question(number: int) -> str:
    return f"Question {number}. {SECRET if number == 0 else ''} " + f"What about part {number}? " * 20


def answer(number: int) -> str:
    return f"Answer {number}. " + f"Part {number} is as it should be. " * 20


def size(body: dict[str, Any]) -> int:
    """Tokens of everything that was sent."""
    counter = get("o200k")
    sent = [body.get("system"), body.get("instructions"), body.get("messages"), body.get("input")]
    return counter.text(str([part for part in sent if part]))


def check(server: WireServer, *, least: int) -> None:
    """Every request was valid and inside the window, and there were folds: one can be told by its frame."""
    assert server.problems == []
    assert len(server.bodies) >= least
    assert max(size(body) for body in server.bodies) < WINDOW * 1.25  # JSON around the texts included
    assert "conversation up to here, folded." in str(server.bodies[-1])
