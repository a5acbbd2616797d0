"""Never stuck, never broken, whatever an application brings along: a hook, a summariser, a model, a counter, a preset
or a rule that raises, says nonsense, never ends or streams for ever."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator

import pytest

from refold.models import reply
from tests.plugin_cases import CASES, JOBS, check

WHOLE = [(kind, job) for kind in CASES for job in JOBS]
SHARE = {"presets": 40, "models": 9, "hooks": 9, "summarisers": 9, "counters": 9, "rules": 5, "pairs": 5}
"""Of so many cases `make test` takes one for each job; `make torture` takes all."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A stream without an end is given up sooner: the clock of these tests stands still while it streams. What
    is logged stays here: a worker cannot report half a character, and would end without a word."""
    monkeypatch.setattr(reply, "MAX_EVENTS", 3_000)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def chosen(kind: str, job: str) -> list[str]:
    return [name for name in CASES[kind] if zlib.crc32(f"{name} {job}".encode()) % SHARE[kind] == 0]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("kind", "job"), WHOLE)
def test_what_an_application_brings_along_breaks_nothing(kind: str, job: str) -> None:
    for name in chosen(kind, job):
        try:
            check(CASES[kind][name], job)
        except BaseException as error:
            raise AssertionError(f"{kind}: {name}: {error!r}") from error


@pytest.mark.torture
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize(("kind", "job"), WHOLE)
def test_nothing_that_an_application_brings_along_breaks_anything(kind: str, job: str, part: int) -> None:
    for name in list(CASES[kind])[part::8]:
        try:
            check(CASES[kind][name], job)
        except BaseException as error:
            raise AssertionError(f"{kind}: {name}: {error!r}") from error
