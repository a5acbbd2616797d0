"""What all tests share: no network, no home directory, no keys, the same answer every time, and skips that are
told.

Property tests are derandomised here, so `make test` gives the same answer twice; `make test-all` runs more of their
examples. `make torture` runs them at
random (`--hypothesis-profile=torture`), each as often as `REFOLD_ROUNDS` says; a find becomes an `@example`.
"""

from __future__ import annotations

import gc
import os
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers

from tests.data import NEEDS_DATA
from tests.hermetic import hermetic
from tests.offline import Offline
from tests.offline import offline as guard
from tests.timing import alarm

settings.register_profile(
    "refold",
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("all", settings.get_profile("refold"), max_examples=40)
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
"""Empty, and without configuration."""
os.environ.update(TZ="UTC", LC_ALL="C.UTF-8", SHELL="/bin/sh", TERM="xterm-256color")
for _name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "SSL_CERT_DIR"):
    os.environ[_name] = _home.name  # nor certificates, which every client would read: a tenth of a second
_KEYS = {name: os.environ.pop(name) for name in [*os.environ] if name.startswith(("OPENAI_", "ANTHROPIC_"))}
time.tzset()

ROUNDS = int(os.environ.get("REFOLD_ROUNDS", "1"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if ROUNDS > 1 and is_hypothesis_test(metafunc.function):
        metafunc.fixturenames.append("_round")
        metafunc.parametrize("_round", range(ROUNDS), indirect=True)


@pytest.fixture(scope="session")
def _round(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture
def offline() -> Offline:
    """The guard of the network, which watches every test."""
    return guard


LONGEST = 600
"""Seconds after which a test that waits for what never comes is broken off; no test takes a tenth of it. Those that are
marked as long have ten times as many."""
_LONG = {"slow", "data", "torture", "timing", "live", "clients", "browser", "local"}


@contextmanager
def _own_machine(item: pytest.Item) -> Generator[None]:
    """Tests end. They read what lies in the repository and what they made; those marked `data` the real transcripts,
    too. Tests marked `live` may use the network and see keys; all others fail if they reach for it, even where that
    failure is swallowed."""
    marks = {mark.name for mark in item.iter_markers()}
    live = "live" in marks
    guard.on, hermetic.on, hermetic.data = not live, True, "data" in marks
    guard.attempts.clear()
    hermetic.attempts.clear()
    with (
        alarm(10 * LONGEST if marks & _LONG else LONGEST),
        pytest.MonkeyPatch.context() if live else nullcontext() as patch,
    ):
        if patch:
            patch.delenv("SSL_CERT_DIR")
            for name, value in _KEYS.items():
                patch.setenv(name, value)
        yield
    guard.on, hermetic.on = True, False
    assert guard.attempts == []
    assert hermetic.attempts == [], "a test read files of the machine it runs on"


_watch = pytest.StashKey[AbstractContextManager[None]]()


# Hooks, not fixtures that every test has: a thousand small tests cost half as much.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    item.stash[_watch] = _own_machine(item)
    item.stash[_watch].__enter__()
    yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    try:
        yield
    finally:
        item.stash[_watch].__exit__(None, None, None)


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


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Nothing that collecting makes is garbage: the garbage collector, which would take a third of it, rests meanwhile and
    never looks through it again. Afterwards it looks less often than it does by itself: that is a twentieth of all."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)


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
    **dict.fromkeys(("slow", "data", "local", "postgres", "clients", "browser"), "make test-all"),
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
    if settings.default.derandomize:
        # Hypothesis draws from the constants of all modules that are imported by then: other examples in another
        # order of tests, and seconds in every process until it has read their source.
        providers._get_local_constants = providers.Constants


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
