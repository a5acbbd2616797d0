"""What all tests share: no network, no home directory, no keys, the same answer every time, and skips that are
told.

Property tests are derandomised here, so `make test` gives the same answer twice. `make torture` runs them at
random (`--hypothesis-profile=torture`), each as often as `REFOLD_ROUNDS` says; a find becomes an `@example`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from tests.data import NEEDS_DATA
from tests.offline import Offline
from tests.offline import offline as guard

settings.register_profile(
    "refold",
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "torture", settings.get_profile("refold"), max_examples=100, derandomize=False, print_blob=True
)
settings.load_profile("refold")
guard.install()

ROUNDS = int(os.environ.get("REFOLD_ROUNDS", "1"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if ROUNDS > 1 and is_hypothesis_test(metafunc.function):
        metafunc.fixturenames.append("_round")
        metafunc.parametrize("_round", range(ROUNDS), indirect=True)


@pytest.fixture(scope="session")
def _round(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(autouse=True)
def offline(request: pytest.FixtureRequest) -> Iterator[Offline]:
    """Tests marked `live` may use the network; all others fail if they try, even if nobody noticed."""
    guard.on = request.node.get_closest_marker("live") is None
    guard.attempts.clear()
    yield guard
    guard.on = True
    assert guard.attempts == []


@pytest.fixture(autouse=True)
def _nobodys_machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests see an empty home directory and no configuration of whoever runs them."""
    if request.node.get_closest_marker("live"):
        return
    patch = pytest.MonkeyPatch()
    request.addfinalizer(patch.undo)
    home: Path = tmp_path_factory.getbasetemp() / "home"
    home.mkdir(exist_ok=True)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        patch.setenv(name, str(home))
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "REFOLD_DATABASE",
    ):
        patch.delenv(name, raising=False)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line for each reason that tests were skipped for."""
    for line in told(report.longrepr for report in terminalreporter.getreports("skipped")):
        terminalreporter.write_line(line, yellow=True)


def told(reprs: Iterable[Any]) -> list[str]:
    """The lines for skips, each given as (file, line, reason). A test for every transcript there is, is one
    skip where there are none."""
    reasons = Counter(str(reason).removeprefix("Skipped: ") for _, _, reason in reprs)
    data = {why: n for why, n in reasons.items() if why.startswith((NEEDS_DATA, "got empty parameter set"))}
    lines = [f"{n} skipped: {why}" for why, n in reasons.most_common() if why not in data]
    if data:
        here = "../shared/data (or the folder that REFOLD_DATA names)"
        lines.insert(0, f"{sum(data.values())} tests need the real transcripts in {here} and were skipped")
    return lines
