"""A new kind of store is one module and one row: everything that goes by the table knows it then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import refold
from refold import messages as m
from refold.cli import main
from refold.errors import UnknownName, UsageError
from refold.protocols import Backups, Examinable, Lines, Placed, Searchable, Store
from refold.registry.sessions import named_session
from refold.stores import KINDS, doctor, is_store, open_store, transfer
from tests.stores.toy_store import HEAD, KIND, ShelfStore


@pytest.fixture(autouse=True)
def row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "shelf", KIND)


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Path]:
    session = refold.open(f"shelf:{tmp_path}/a.shelf", id="one")
    session.append(m.user("hello"))
    session.append(m.assistant("hi"))
    return tmp_path / "a.shelf"


def run(*arguments: str) -> Any:
    done = CliRunner().invoke(main, [*arguments, "--json"], catch_exceptions=False)
    assert done.exit_code in (0, 1), done.output
    return json.loads(done.stdout)


def test_it_opens_by_name_by_ending_and_by_content(shelf: Path) -> None:
    assert [e.message.text for e in refold.open(str(shelf), id="one").path] == ["hello", "hi"]
    assert open_store(f"{shelf}#one").session == "one"
    assert open_store(f"shelf:{shelf}#one").session == "one"
    plain = shelf.rename(shelf.with_name("nameless"))
    assert isinstance(open_store(plain).store, ShelfStore)
    assert is_store(str(plain)) and is_store("shelf:anything")
    assert len(named_session(f"{plain}#one").path) == 2
    with pytest.raises(UnknownName, match="shelf"):
        open_store("redis:x")


def test_the_doctor_asks_it(shelf: Path) -> None:
    assert doctor.examine(open_store(shelf).store) == []
    shelf.write_bytes(shelf.read_bytes().removeprefix(HEAD))
    assert run("sessions", "doctor", "--store", f"shelf:{shelf}")["repairable"] == 1
    assert run("sessions", "doctor", "--repair", "--store", f"shelf:{shelf}")["repaired"] == 1
    assert shelf.read_bytes().startswith(HEAD)


def test_the_command_line_lists_it_and_copies_to_and_from_it(shelf: Path, tmp_path: Path) -> None:
    assert [row["id"] for row in run("sessions", "--store", f"shelf:{shelf}")["sessions"]] == ["one"]
    lines = f"jsonl:{tmp_path}/out.jsonl"
    run("sessions", "copy", "one", "--store", f"shelf:{shelf}", "--to", lines)
    run("sessions", "copy", "one", "--move", "--store", lines, "--to", f"shelf:{tmp_path}/b.shelf")
    copied = open_store(f"shelf:{tmp_path}/b.shelf").store
    before = transfer.stored_lines(open_store(shelf).store, "one")
    assert transfer.same(transfer.stored_lines(copied, "one"), before)
    missing = CliRunner().invoke(main, ["sessions", "--store", f"shelf:{tmp_path}/none.shelf"])
    assert missing.exit_code == 1 and "does not exist" in missing.output
    refused = CliRunner().invoke(
        main, ["sessions", "backup", str(tmp_path / "c"), "--store", f"shelf:{shelf}"]
    )
    assert refused.exit_code == 2 and "backup" in refused.output


def test_powers_are_told_by_protocols(tmp_path: Path) -> None:
    powers = (Store, Lines, Placed, Examinable, Backups, Searchable)
    has = {
        name: [
            power.__name__ for power in powers if isinstance(open_store(f"{name}:{tmp_path}/x").store, power)
        ]
        for name in KINDS
        if not name.startswith("postgres")  # tests/postgres
    }
    assert has == {
        "sqlite": ["Store", "Lines", "Placed", "Examinable", "Backups", "Searchable"],
        "jsonl": ["Store", "Lines", "Placed", "Examinable"],
        "memory": ["Store", "Lines"],
        "shelf": ["Store", "Placed", "Examinable"],
    }


def test_nothing_outside_its_own_modules_asks_which_store_it_is() -> None:
    """Only a kind's own modules and the composition name its class."""
    source = Path(refold.__file__).parent
    named = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        for line in path.read_text().splitlines()
        if any(kind in line for kind in ("JsonlStore", "SqliteStore", "MemoryStore", "PostgresStore"))
    }
    own = {f"stores/{name}.py" for name in ("jsonl", "sqlite", "memory")}
    own |= {f"stores/postgres/{name}.py" for name in ("__init__", "store")}
    assert named - {"testing/store_contract.py"} == own


def test_a_store_of_an_installed_package_is_known_everywhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delitem(KINDS, "shelf")
    about = tmp_path / "shelves-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shelves\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[refold.stores]\nshelf = tests.stores.toy_store:KIND\nbad = nowhere:X\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    refold.open(f"shelf:{tmp_path}/a.shelf", id="one").append(m.user("hello"))
    monkeypatch.delitem(KINDS, "shelf")
    assert [one["id"] for one in run("sessions", "--store", f"shelf:{tmp_path}/a.shelf")["sessions"]] == [
        "one"
    ]
    with pytest.raises(UsageError, match=r"the store 'bad' \(nowhere:X\) cannot be loaded"):
        open_store("bad:x")
