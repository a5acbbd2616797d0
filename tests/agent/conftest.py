"""A process that forks conversations, and a project for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.terminal import Nursery, Project


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


@pytest.fixture
def project(nursery: Nursery, tmp_path: Path) -> Iterator[Project]:
    made = Project(nursery, tmp_path)
    yield made
    for run in made.runs:
        try:
            run.kill()
        except (ProcessLookupError, OSError):
            pass
