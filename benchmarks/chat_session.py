"""A long session of the coding agent in a pseudo-terminal: 2,000 turns in a window of 8,000 tokens, 100 small tasks in a git
repository, twenty kills. From a key to the screen, from the start to the prompt; beside it the same keys through a bare
Python program that echoes them, because a busy machine is slow for both."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.agent.long_session import Session, echo


def run(quick: bool = False) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        user = Session(Path(folder), tasks=3 if quick else 100, kills=3 if quick else 20)
        before = echo()
        found = user.work()
        user.check()
        return {**found, "echo_ms": {"before": before, "after": echo()}}
