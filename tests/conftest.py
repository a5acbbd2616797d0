"""What all tests share: no network, no home directory, no keys, the same answer every time, and skips that are
told.

Property tests are derandomised here, so `make test` gives the same answer twice; `make test-all` runs more of their
examples. `make torture` runs them at
random (`--hypothesis-profile=torture`), each as often as `REFOLD_ROUNDS` says; a find becomes an `@example`.
"""

from __future__ import annotations

import os
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from tests.data import NEEDS_DATA
from tests.hermetic import hermetic
from tests.offline import Offline
from tests.offline import offline as guard
from tests.timing import alarm

settings.register_profile(
    "refold",
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("all", settings.get_profile("refold"), max_examples=100)
settings.register_profile(
    "torture", settings.get_profile("refold"), max_examples=100, derandomize=False, print_blob=True
)
settings.load_profile("refold")
guard.install()
hermetic.install()

_KEPT = re.compile(
    r"PATH|PYTHONPATH|TMPDIR|VIRTUAL_ENV|CI|(?:PYTEST|OPENAI|ANTHROPIC|RAY|MUTATION)_\w+"
    r"|REFOLD_(?:DATA|ORDER|ROUNDS|TIMING|RECORD|CASES|EXAMPLES|JUDGE|CLIENTS\w*|LIVE_\w+|BENCH_\w+)",
    re.ASCII,
)
"""Variables that say how the tests are run; keys are there for tests marked `live` alone."""
for _name in [name for name in os.environ if not _KEPT.fullmatch(name)]:
    del os.environ[_name]
_home = tempfile.TemporaryDirectory(prefix="refold-home-")
"""For what fixtures of a whole module do; each test has its own."""
os.environ.update(TZ="UTC", LC_ALL="C.UTF-8", HOME=_home.name, SHELL="/bin/sh", TERM="xterm-256color")
time.tzset()

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


LONGEST = 600
"""Seconds after which a test that waits for what never comes is broken off; no test takes a tenth of it. Those that are
marked as long have ten times as many."""
_LONG = {"slow", "data", "torture", "timing", "live", "clients", "browser", "local"}


@pytest.fixture(autouse=True)
def _own_machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests end. They read what lies in the repository and what they made; those marked `data` the real transcripts,
    too. They see an empty home directory, no configuration, and no keys; those marked `live` what there is."""
    marks = {mark.name for mark in request.node.iter_markers()}
    hermetic.on, hermetic.data = True, "data" in marks
    hermetic.attempts.clear()
    with pytest.MonkeyPatch.context() as patch, alarm(10 * LONGEST if marks & _LONG else LONGEST):
        if "live" not in marks:
            _empty_home(patch, tmp_path_factory.getbasetemp() / "home")
        yield
    hermetic.on = False
    assert hermetic.attempts == [], "a test read files of the machine it runs on"


def _empty_home(patch: pytest.MonkeyPatch, home: Path) -> None:
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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test marked `sample` some cases are quick enough; the rest is `slow`. `REFOLD_ORDER` shuffles by a seed."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sample"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for group in cases.values():
        marker = group[0].get_closest_marker("sample")
        chosen = kept(len(group), marker.args[0] if marker else 0)
        for number, item in enumerate(group):
            if number not in chosen:
                item.add_marker("slow")
    if seed := os.environ.get("REFOLD_ORDER"):
        random.Random(seed).shuffle(items)


def kept(cases: int, count: int) -> set[int]:
    """Which of so many cases are the sample."""
    return {round(number * (cases - 1) / max(count - 1, 1)) for number in range(count)}


def pytest_deselected(items: list[pytest.Item]) -> None:
    _left_out.update(name for item in items if (name := _group(item)))


def _group(item: pytest.Item) -> str | None:
    """The command that runs a test which `make test` leaves out."""
    return next((how for marker, how in _RUN_BY.items() if item.get_closest_marker(marker)), None)


_RUN_BY = {
    "torture": "make torture",
    "timing": "make torture",
    "live": "make test-live",
    **dict.fromkeys(("slow", "data", "local", "clients", "browser"), "make test-all"),
}
_left_out: Counter[str] = Counter()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist tells what it left out; all of them leave out the same."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["left_out"] = dict(_left_out)


class _Workers:
    """Only where pytest-xdist is installed and asked for."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        _left_out.update({} if _left_out else getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Workers())


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line for each reason that tests were skipped for, and for each command that runs others."""
    for line in told(report.longrepr for report in terminalreporter.getreports("skipped")):
        terminalreporter.write_line(line, yellow=True)
    for command, count in sorted(_left_out.items()):
        terminalreporter.write_line(f"{count} not run here: `{command}` runs them")


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
