"""The doctor repairs what can be repaired and says what cannot."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from refold import format as fmt
from refold.errors import FormatError
from refold.protocols import Finding, SessionInfo
from refold.stores import doctor
from refold.stores.jsonl import JsonlStore
from refold.stores.memory import MemoryStore
from refold.stores.sqlite import SqliteStore

from . import kit

S = kit.S


@pytest.fixture(params=kit.REAL)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    store = kit.begin(request.param, tmp_path)
    store.append(S, [kit.said(f"e{n}", None) for n in range(30)], after=None)
    return store


def states(found: list[Finding]) -> list[str]:
    return [finding.state for finding in found]


def test_a_healthy_store_has_no_findings(store: Any) -> None:
    assert doctor.examine(store) == doctor.examine(store, repair=True) == []
    assert len(store.load(S).entries) == 30


def test_memory_is_always_well() -> None:
    assert doctor.examine(MemoryStore()) == []


def test_lax_rights_are_tightened(store: Any) -> None:
    store.path.chmod(0o644)
    assert states(doctor.examine(store)) == ["repairable"]
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o644
    assert states(doctor.examine(store, repair=True)) == ["repaired"]
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600


def test_doubled_ids_are_said(store: Any) -> None:
    store.append(S, [kit.said("e3", "e29")], after="e29")
    found = doctor.examine(store, repair=True)
    assert {finding.state for finding in found} == {"lost"} and "e3" in found[-1].text


# ── files ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def file(tmp_path: Path) -> JsonlStore:
    store = kit.begin("jsonl", tmp_path)
    store.append(S, [kit.said("a", None), kit.said("b", "a")], after=None)
    return store


def test_bad_lines_are_moved_beside_the_file(file: JsonlStore) -> None:
    for number in range(2):
        with file.path.open("ab") as handle:
            handle.write(b"garbage %d\r\n{torn" % number)
        assert states(doctor.examine(file)) == ["repairable", "repairable"]
        assert states(doctor.examine(file, repair=True)) == ["repaired", "lost"]  # torn; perhaps an entry
        assert doctor.examine(file) == []
        assert [e.id for e in file.load(S).entries] == ["a", "b"]
    aside = file.path.with_name("s.jsonl.bad")
    assert aside.read_bytes() == b"garbage 0\r\n{torn\ngarbage 1\r\n{torn\n"


def test_a_destroyed_header_is_made_again(file: JsonlStore) -> None:
    lines = file.path.read_bytes().split(b"\n")
    file.path.write_bytes(b"\n".join([lines[0][:20], *lines[1:]]))
    assert states(doctor.examine(file, repair=True)) == ["repaired"]
    assert [e.id for e in JsonlStore(file.path).load("s").entries] == ["a", "b"]  # named after the file


@pytest.mark.parametrize(
    "content",
    [
        b'{"type":"session","version":3,"id":"x","timestamp":"2026-01-01T00:00:00Z","cwd":"/"}\n{"type":"m","id":"1"}\n',
        b'{"type":"user","uuid":"1"}\n',
        b'{"type":"session","version":99,"id":"x"}\nfuture\n',
    ],
)
def test_a_foreign_file_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign.jsonl"
    path.write_bytes(content)
    path.chmod(0o644)
    assert states(doctor.examine(JsonlStore(path), repair=True)) == ["lasting"]
    assert path.read_bytes() == content and stat.S_IMODE(path.stat().st_mode) == 0o644


def test_half_made_files_are_cleared_when_old(file: JsonlStore) -> None:
    half = file.path.with_name(".s.jsonl.abcd.new")
    half.write_bytes(b"x")
    half.chmod(0o600)
    assert doctor.examine(file, repair=True) == []
    old = time.time() - 10_000
    os.utime(half, (old, old))
    assert states(doctor.examine(file, repair=True)) == ["repaired"]
    assert not half.exists()


# ── databases ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def database(tmp_path: Path) -> SqliteStore:
    store = kit.begin("sqlite", tmp_path)
    store.append(S, [kit.said(f"e{n}", None, 2000) for n in range(200)], after=None)
    return store


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        ("DELETE FROM words WHERE rowid % 2", "index of words"),
        ("DROP TABLE words", "words"),
        ("UPDATE words_data SET block = zeroblob(20) WHERE id > 10", "words"),
        ("UPDATE sessions SET entries = 3, tip = 'e1'", "row says 3"),
        ("DELETE FROM sessions", "without a session"),
    ],
)
def test_what_can_be_made_again_is(database: SqliteStore, damage: str, word: str) -> None:
    with database.connection() as connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(damage)
    database.close()
    before = doctor.examine(database)
    assert word in str(before) and set(states(before)) == {"repairable"}, before
    assert set(states(doctor.examine(database, repair=True))) == {"repaired"}
    assert doctor.examine(database) == []
    (info,) = database.sessions()
    assert info.entries == 200 and len(database.load(info.id).entries) == 200
    assert [hit.entry_id for hit in database.search(["e17"])] == ["e17"]
    database.append(info.id, [kit.said("next", None)], after="e199")


def test_unreadable_rows_are_said_and_kept(database: SqliteStore) -> None:
    database.append_lines(S, [b"{broken"], after="e199")
    assert states(doctor.examine(database, repair=True)) == ["lost"]
    assert list(database.lines(S))[-1] == b"{broken"


def test_from_a_damaged_database_the_rest_is_salvaged(database: SqliteStore) -> None:
    database.close()
    with database.path.open("r+b") as file:  # nothing has it open now
        file.seek(4096 * 30)
        file.write(os.urandom(4096 * 3))
    found = doctor.examine(database, repair=True)
    assert found[0].state == "lasting" and "damaged" in found[0].text
    assert found[-1].state == "repaired", found
    saved = SqliteStore(found[-1].where)
    entries = saved.load(S).entries
    assert 150 < len(entries) < 200 and all(kit.is_intact(entry) for entry in entries)


def test_a_damaged_database_names_the_store_and_the_doctor_does_not_name_itself(
    database: SqliteStore,
) -> None:
    database.close()
    with database.path.open("r+b") as file:
        file.truncate(4096 * 30)
    with pytest.raises(FormatError, match=f"refold sessions doctor --store sqlite:{database.path}`"):
        database.sessions()
    found = doctor.examine(SqliteStore(database.path))
    assert states(found) == ["lasting"] and "with --repair" in found[0].text
    found += doctor.examine(SqliteStore(database.path), repair=True)
    assert not any("sessions doctor" in each.text for each in found)


def test_an_entry_that_is_missing_is_not_said_to_have_bytes_somewhere(file: JsonlStore) -> None:
    file.append(S, [kit.said("c", "b")], after="b")
    lines = file.path.read_bytes().splitlines(keepends=True)
    file.path.write_bytes(b"".join([*lines[:2], b"garbage\n", *lines[3:]]))
    texts = [each.text for each in doctor.examine(file)]
    assert "entry 'b' is missing: only what refers to it is left" in texts, texts
    assert any(text.startswith("1 line without an entry (") for text in texts), texts


def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_bytes(b"no database" * 1000)
    (tmp_path / "s.db").chmod(0o600)
    found = doctor.examine(SqliteStore(tmp_path / "s.db"), repair=True)
    assert set(states(found)) == {"lasting"}
    assert [p.name for p in tmp_path.iterdir()] == ["s.db"]


def test_the_doctor_waits_for_its_turn(database: SqliteStore) -> None:
    other = SqliteStore(database.path, timeout=0.05)
    with database.writing():
        assert doctor.examine(other) == []
        assert states(doctor.examine(other, repair=True)) == ["lasting"]


def test_other_sessions_are_looked_at_too(database: SqliteStore) -> None:
    database.create(SessionInfo(id="other"))
    database.append_lines("other", [b"[]", fmt.encode(kit.said("x", None))], after=None)
    assert "other" in str(doctor.examine(database))
