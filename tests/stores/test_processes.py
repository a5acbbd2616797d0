"""Killed writers and crowds of writers."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import kit, processes


def clean(report: dict[str, object]) -> bool:
    return not any(report[what] for what in ("lost", "changed", "fused", "errors"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", kit.REAL)
def test_kills_lose_nothing_acknowledged(kind: str, tmp_path: Path) -> None:
    report = processes.run("kill", kind, tmp_path, 15, 1)
    assert clean(report), report
    assert report["acknowledged"] > 15


@pytest.mark.torture
@pytest.mark.parametrize("kind", kit.REAL)
def test_a_thousand_kills_lose_nothing_acknowledged(kind: str, tmp_path: Path) -> None:
    report = processes.run("kill", kind, tmp_path, 1000, 2, timeout=3000)
    assert clean(report), report
    assert report["kills"] == 1000 and report["acknowledged"] > 1000


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jsonl-buffered", "sqlite-late"])
def test_planted_late_writes_are_caught_by_kills(kind: str, tmp_path: Path) -> None:
    assert processes.run("kill", kind, tmp_path, 10, 1)["lost"] > 0


def orderly(report: dict[str, object]) -> bool:
    return not any(report[what] for what in ("doubled", "problems", "forks", "disorder", "errors"))


@pytest.mark.parametrize("kind", kit.REAL)
def test_many_writers_take_turns(kind: str, tmp_path: Path) -> None:
    report = processes.run("crowd", kind, tmp_path, 4, 25)
    assert orderly(report) and report["present"] == 100, report


@pytest.mark.torture
@pytest.mark.parametrize("kind", kit.REAL)
def test_eight_writers_of_a_thousand_take_turns(kind: str, tmp_path: Path) -> None:
    report = processes.run("crowd", kind, tmp_path, 8, 1000, timeout=3000)
    assert orderly(report) and report["present"] == 8000, report


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite-plain", "jsonl-unlocked", "jsonl-trusting"])
def test_planted_bad_turns_are_caught_by_a_crowd(kind: str, tmp_path: Path) -> None:
    """By chance the writers may come one after the other; not three times."""
    for attempt in range(3):
        (place := tmp_path / str(attempt)).mkdir()
        report = processes.run("crowd", kind, place, 4, 150)
        if not orderly(report):
            break
    assert not orderly(report), report
    if kind == "sqlite-plain":
        assert "in use by another process" in str(report["errors"])
