"""What is special about the SQLite store."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest

from refold import messages as m
from refold.entries import MessageEntry
from refold.errors import FormatError, NewerFormat, RefoldError, StorageError
from refold.protocols import SessionInfo
from refold.stores import connections, schema
from refold.stores.sqlite import BEGINNING, SqliteStore
from tests.stores import searches

from . import kit
from .processes import ROOT

S = kit.S


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    store = SqliteStore(tmp_path / "s.db")
    store.create(SessionInfo(id=S))
    return store


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_only_the_owner_can_read_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        store = SqliteStore(tmp_path / "new" / "deeper" / "s.db")
        store.create(SessionInfo(id=S))
        store.append(S, [kit.said("a", None)], after=None)
    finally:
        os.umask(before)
    assert mode(store.path.parent) == mode(store.path.parent.parent) == 0o700
    for suffix in ("", "-wal", "-shm"):
        assert mode(store.path.with_name(f"s.db{suffix}")) == 0o600
    store.close()


def test_the_database_is_as_durable_as_sqlite_can(store: SqliteStore) -> None:
    with store.connection() as connection:
        assert connection.execute("PRAGMA journal_mode").get == "wal"
        assert connection.execute("PRAGMA synchronous").get == 2
        for pragma in ("fullfsync", "checkpoint_fullfsync", "secure_delete"):
            assert connection.execute(f"PRAGMA {pragma}").get == 1


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2", "3.7"])
def test_an_old_sqlite_is_refused(version: str) -> None:
    with pytest.raises(StorageError, match=r"3\.51\.3"):
        connections.check_library(version)


def test_a_new_sqlite_is_taken() -> None:
    connections.check_library("3.51.3")
    connections.check_library("4.0")
    connections.check_library(apsw.sqlite_lib_version())


def test_each_thread_has_its_own_connection(store: SqliteStore) -> None:
    seen: list[int] = []

    def look() -> None:
        with store.connection() as connection:
            seen.append(id(connection))
            barrier.wait()

    barrier = threading.Barrier(3)
    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 3


# ── versions ────────────────────────────────────────────────────────────────────────────────────


def test_a_newer_database_is_refused_and_untouched(store: SqliteStore) -> None:
    with store.connection() as connection:
        connection.execute("PRAGMA user_version=99")
    with pytest.raises(NewerFormat, match="upgrade refold"):
        store.load(S)
    store.close()
    with pytest.raises(NewerFormat, match="99"):
        SqliteStore(store.path).load(S)


def test_a_foreign_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE things(x)")
    connection.close()
    with pytest.raises(FormatError, match="another program"):
        list(SqliteStore(path).sessions())
    (tmp_path / "text.db").write_text("this is not a database, but it is long enough to look like one" * 50)
    with pytest.raises(FormatError, match="not a SQLite database"):
        list(SqliteStore(tmp_path / "text.db").sessions())
    with pytest.raises(StorageError, match="folder"):
        SqliteStore(tmp_path)


def _to_two(connection: apsw.Connection) -> None:
    connection.execute(
        """CREATE TABLE entries_2(row INTEGER PRIMARY KEY, id ANY, version INTEGER, line BLOB, extra INTEGER);
           INSERT INTO entries_2 SELECT *, 7 FROM entries; DROP TABLE entries;
           ALTER TABLE entries_2 RENAME TO entries"""
    )


def _to_two_losing_one(connection: apsw.Connection) -> None:
    _to_two(connection)
    connection.execute("DELETE FROM entries WHERE id = 'e3'")


def test_an_older_database_is_brought_forward(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.append(S, [kit.said(f"e{n}", None) for n in range(10)], after=None)
    before = store.load(S).entries
    store.close()
    monkeypatch.setattr(schema, "SCHEMA_VERSION", 2)
    monkeypatch.setitem(schema.MIGRATIONS, 1, _to_two)
    newer = SqliteStore(store.path)
    assert newer.load(S).entries == before
    with newer.connection() as connection:
        assert connection.execute("SELECT DISTINCT extra FROM entries").get == 7
        assert schema.version(connection) == 2
    newer.close()


def test_a_migration_that_loses_something_changes_nothing(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append(S, [kit.said(f"e{n}", None) for n in range(10)], after=None)
    before = store.load(S).entries
    store.close()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "SCHEMA_VERSION", 2)
        patch.setitem(schema.MIGRATIONS, 1, _to_two_losing_one)
        with pytest.raises(StorageError, match="it is unchanged"):
            SqliteStore(store.path).load(S)
    assert SqliteStore(store.path).load(S).entries == before


def test_an_open_store_notices_a_migration(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process, of a newer release, migrated the database meanwhile."""
    with store.connection() as connection:
        connection.execute("PRAGMA user_version=2")
    with pytest.raises(NewerFormat):
        store.append(S, [kit.said("a", None)], after=None)


# ── forks ───────────────────────────────────────────────────────────────────────────────────────

FORK = """
import os, sys
from pathlib import Path
from tests.stores import kit
from refold.stores.sqlite import SqliteStore
from refold.errors import StorageError
store = kit.begin("sqlite", Path(sys.argv[1]))
store.append(kit.S, [kit.said("parent", None)], after=None)
def descriptors():
    links = [f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd")]
    return [os.readlink(link) for link in links if os.path.exists(link)]
assert any("s.db" in name for name in descriptors())
"""
CHILD_WORKS = """
pid = os.fork()
if pid == 0:
    assert not any("s.db" in name for name in descriptors()), descriptors()
    store.append(kit.S, [kit.said("child", "parent")], after="parent")
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
store.append(kit.S, [kit.said("again", "child")], after="child")
assert [e.id for e in store.load(kit.S).entries] == ["parent", "child", "again"]
"""
INSIDE = """
with store.writing() as connection:
    pid = os.fork()
    if pid == 0:
        try:
            store.append(kit.S, [kit.said("child", "parent")], after="parent")
        except StorageError as error:
            os._exit(0 if "forked in the middle" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
store.append(kit.S, [kit.said("again", "parent")], after="parent")
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks at /proc")
@pytest.mark.parametrize("script", [CHILD_WORKS, INSIDE], ids=["between calls", "inside a transaction"])
def test_no_connection_crosses_a_fork(tmp_path: Path, script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK + script, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


# ── searching ───────────────────────────────────────────────────────────────────────────────────


def filled(store: SqliteStore) -> SqliteStore:
    store.append(S, searches.ENTRIES, after=None)
    return store


@pytest.mark.parametrize(("terms", "id"), searches.FOUND)
def test_what_was_said_is_found(store: SqliteStore, terms: list[str], id: str) -> None:
    hits = filled(store).search(terms)
    assert [hit.entry_id for hit in hits][:1] == [id] and hits[0].session == S and hits[0].score > 0


@pytest.mark.parametrize(
    "term", ['"', "'", "a*", "NEAR(", "text:", "-", "\0", "\ud800", "", " ", "AND", "(" * 500]
)
def test_any_query_is_safe(store: SqliteStore, term: str) -> None:
    assert isinstance(filled(store).search([term, term]), list)


def test_a_search_can_stay_in_one_session(store: SqliteStore) -> None:
    store.create(SessionInfo(id="other"))
    for session in (S, "other"):
        store.append(session, [MessageEntry(id=f"in-{session}", message=m.user("needle"))], after=None)
    assert {hit.entry_id for hit in store.search(["needle"])} == {f"in-{S}", "in-other"}
    assert [hit.entry_id for hit in store.search(["needle"], session="other")] == ["in-other"]
    assert len(store.search(["needle"], limit=1)) == 1
    store.delete("other")
    assert [hit.entry_id for hit in store.search(["needle"])] == [f"in-{S}"]
    with pytest.raises(RefoldError):
        store.search(["needle"], session="other")


def test_a_session_is_looked_up_by_the_beginning_of_its_id_in_the_index(store: SqliteStore) -> None:
    with store.reading() as connection:
        plan = schema.select(connection, f"EXPLAIN QUERY PLAN {BEGINNING}", "a", "b", b"a", b"b", 100)
    steps = [str(step[3]) for step in plan]
    assert sum("SEARCH sessions USING INDEX" in step for step in steps) == 2, steps
    assert not any("SCAN" in step for step in steps), steps


def test_a_refused_append_leaves_no_words(store: SqliteStore) -> None:
    with pytest.raises(RefoldError):
        store.append(S, [MessageEntry(id="x", message=m.user("needle"))], after="nobody")
    assert store.search(["needle"]) == []


def test_a_backup_is_a_complete_store(store: SqliteStore, tmp_path: Path) -> None:
    filled(store).backup(tmp_path / "copy.db")
    copy = SqliteStore(tmp_path / "copy.db")
    assert copy.load(S).entries == store.load(S).entries
    assert [hit.entry_id for hit in copy.search(["zebra"])] == ["call"]
    assert mode(copy.path) == 0o600
    with pytest.raises(StorageError, match="exists"):
        store.backup(tmp_path / "copy.db")
