"""A long session for real: nothing is lost, the screen is never broken, the work is done (`tests/agent/long_session.py`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from refold.tools import sandbox
from tests.agent.long_session import Session, echo

pytestmark = pytest.mark.skipif(
    sandbox.find_sandbox(Path.cwd()) is None, reason="no sandbox here: `make test-sandbox` installs one"
)


@pytest.mark.slow
def test_sixty_turns_with_three_kills(tmp_path: Path) -> None:
    user = Session(tmp_path, tasks=3, kills=3)
    found = user.work()
    user.check()
    assert found["folds"] and found["undone"] and found["branches"]


@pytest.mark.torture
def test_two_thousand_turns_with_twenty_kills(tmp_path: Path) -> None:
    """`python -m benchmarks chat_session` is the same, and stores the figures."""
    before = echo()
    user = Session(tmp_path, tasks=100, kills=20)
    found = user.work()
    user.check()
    print(json.dumps({**found, "echo_ms": [before, echo()]}, indent=1))


@pytest.mark.timing
def test_key_to_screen_and_start_to_prompt(tmp_path: Path) -> None:
    """On a machine that is slow for a bare echo too, that much slower."""
    bare = echo()["p95"]
    user = Session(tmp_path, tasks=3, kills=3)
    found = user.work()
    assert found["key_to_screen_ms"]["p95"] <= 50 + 2 * bare
    assert min(found["first_start_ms"], found["resumed_start_ms"]["median"]) <= 350 + 20 * bare
