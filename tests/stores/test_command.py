"""`refold sessions`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from refold import messages as m
from refold.cli import main
from refold.cli.sessions import moment
from refold.entries import MessageEntry
from refold.protocols import SessionInfo
from refold.stores.jsonl import JsonlStore
from refold.stores.sqlite import SqliteStore

DAY = 86400.0


@pytest.fixture(params=["sqlite", "jsonl"])
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    store: Any
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "s.db")
    else:
        store = JsonlStore(tmp_path / "sessions", folder=True)
    for number, name in enumerate(("fix the login", "write docs", "evil \x1b[31m name")):
        info = SessionInfo(id=f"s{number}-id", created=number * DAY, name=name, cwd=f"/home/u/p{number}")
        store.create(info)
        text = f"Talking about topic{number}, zebra number {number}"
        store.append(info.id, [MessageEntry(id="e", message=m.user(text))], after=None)
    store.close()
    return f"{request.param}:{store.path}"


def call(*arguments: str, input: str | None = None) -> Result:
    return CliRunner().invoke(main, ["sessions", *arguments], input=input, catch_exceptions=False)


def listed(*arguments: str) -> list[str]:
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return sorted(row["id"] for row in json.loads(result.output)["sessions"])


def test_the_list_and_its_filters(spec: str) -> None:
    assert listed("--store", spec) == ["s0-id", "s1-id", "s2-id"]
    assert listed("--store", spec, "--name", "LOGIN") == ["s0-id"]
    assert listed("--store", spec, "--name", "s1") == ["s1-id"]
    assert listed("--store", spec, "--folder", "/home/u/p2") == ["s2-id"]
    assert listed("--store", spec, "--folder", "/home/u") == ["s0-id", "s1-id", "s2-id"]
    assert listed("--store", spec, "--since", "1h") == ["s0-id", "s1-id", "s2-id"]
    assert listed("--store", spec, "--until", "1h") == []
    assert listed("--store", spec, "--search", "topic1") == ["s1-id"]
    assert listed("--store", spec, "--search", "zebra") == ["s0-id", "s1-id", "s2-id"]
    assert listed("--store", spec, "--search", "giraffe") == []
    assert len(listed("--store", spec, "--limit", "2")) == 2


def test_a_list_for_people_has_no_control_characters(spec: str) -> None:
    result = call("--store", spec, "--search", "zebra")
    assert "evil" in result.output and "\x1b[31m" not in result.output
    assert "zebra" in result.output


def test_delete_asks(spec: str) -> None:
    assert call("--store", spec, "delete", "s1", input="n\n").exit_code == 1
    assert len(listed("--store", spec)) == 3
    assert call("delete", "s1", "--store", spec, input="y\n").exit_code == 0
    assert listed("--store", spec) == ["s0-id", "s2-id"]
    assert call("delete", "s", "--store", spec, "--yes").exit_code == 2
    assert call("delete", "nobody", "--store", spec, "--yes").exit_code == 2
    assert call("delete", "s0-id", "--store", spec, "--json").exit_code == 2
    result = call("delete", "s0-id", "--store", spec, "--json", "--yes")
    assert json.loads(result.output) == {"deleted": ["s0-id"]}


def test_doctor_says_and_repairs(spec: str) -> None:
    assert "no problems found" in call("--store", spec, "doctor").output
    path = Path(spec.partition(":")[2])
    broken = path if path.is_file() else path / "s0-id.jsonl"
    broken.chmod(0o644)
    result = call("doctor", "--store", spec, "--json")
    assert result.exit_code == 1 and json.loads(result.output)["repairable"] == 1
    assert call("doctor", "--store", spec, "--repair").exit_code == 0
    assert call("doctor", "--store", spec).exit_code == 0


def test_copy_and_backup(spec: str, tmp_path: Path) -> None:
    target = f"jsonl:{tmp_path}/one.jsonl"
    result = call("copy", "s0", "--to", target, "--store", spec, "--move", "--json")
    assert json.loads(result.output)["session"]["entries"] == 1
    assert listed("--store", target) == ["s0-id"] and listed("--store", spec) == ["s1-id", "s2-id"]
    result = call("backup", str(tmp_path / "copy.db"), "--store", spec)
    if spec.startswith("sqlite"):
        assert result.exit_code == 0
        assert listed("--store", str(tmp_path / "copy.db")) == ["s1-id", "s2-id"]
    else:
        assert result.exit_code == 2


def test_your_own_database_is_empty_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFOLD_DATABASE", str(tmp_path / "none.db"))
    assert listed() == []
    assert "it is empty; `refold import` imports" in call().output
    assert list(tmp_path.iterdir()) == []


def test_wrong_places_and_dates_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database" * 1000)
    for arguments, code in (
        (["--store", f"sqlite:{tmp_path}/missing.db"], 1),
        (["--store", f"{tmp_path}/text.db"], 1),
        (["--store", "redis:there"], 2),
        (["--store", str(tmp_path), "--since", "yesterday-ish"], 2),
    ):
        result = call(*arguments)
        assert result.exit_code == code and "Traceback" not in result.output
    assert sorted(p.name for p in tmp_path.iterdir()) == ["text.db"]


def test_moments() -> None:
    assert moment(None) is None
    assert moment("2h", lambda: 10_000.0) == 10_000.0 - 7200
    assert moment("1w", lambda: 7 * DAY) == 0
    assert moment("1970-01-02T00:00:00+00:00") == DAY
