"""A test that reads files of the machine is found out, also where it swallows the failure."""

from __future__ import annotations

import json
import linecache
from pathlib import Path

import pytest

from tests.conftest import kept
from tests.data import DATA
from tests.hermetic import hermetic


def attempts() -> list[str]:
    """What the guard saw; the test itself is not failed for it."""
    seen = hermetic.attempts.copy()
    hermetic.attempts.clear()
    return seen


def test_reading_installed_code_is_found_out() -> None:
    Path(json.__file__).read_text()
    Path(pytest.__file__).read_bytes()
    assert attempts() == [json.__file__, pytest.__file__]


def test_reading_real_transcripts_without_the_marker_is_found_out() -> None:
    with pytest.raises(OSError):
        (DATA / "no such file").read_text()
    assert attempts() == [str(DATA / "no such file")]


@pytest.mark.data
def test_reading_real_transcripts_with_the_marker_is_allowed() -> None:
    with pytest.raises(OSError):
        (DATA / "no such file").read_text()
    assert attempts() == []


def test_imports_tracebacks_and_own_files_are_allowed(tmp_path: Path) -> None:
    linecache.clearcache()
    assert linecache.getline(json.__file__, 1)
    (tmp_path / "a.py").write_text("x")
    Path(__file__).read_text()
    assert attempts() == []


@pytest.mark.parametrize(
    ("cases", "count", "chosen"),
    [(10, 2, {0, 9}), (10, 4, {0, 3, 6, 9}), (3, 5, {0, 1, 2}), (7, 1, {0}), (1, 3, {0})],
)
def test_a_sample_is_spread_evenly(cases: int, count: int, chosen: set[int]) -> None:
    assert kept(cases, count) == chosen
