"""Stores at the edges of what they promise: locks, places by platform, forks, rows of a damaged database, quotes."""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from refold import entries as e
from refold import format as fmt
from refold import messages as m
from refold.errors import FormatError, StorageError, UnknownName
from refold.protocols import SessionInfo
from refold.stores import (
    connections,
    damage,
    data_folder,
    disk,
    doctor,
    jsonl,
    lines,
    open_store,
    rows,
    schema,
)
from refold.stores.entry_search import Quoting
from refold.stores.jsonl import JsonlStore
from refold.stores.memory import MemoryStore
from refold.stores.sqlite import SqliteStore

from . import kit

S = kit.S
LINE = fmt.encode(kit.said("a", None))
NEXT = fmt.encode(kit.said("b", "a"))


# ── where things are ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("platform", "variable", "value", "folder"),
    [
        ("linux", "XDG_DATA_HOME", "", "~/.local/share/refold"),
        ("linux", "XDG_DATA_HOME", "relative", "~/.local/share/refold"),
        ("linux", "XDG_DATA_HOME", "/data", "/data/refold"),
        ("darwin", "XDG_DATA_HOME", "/data", "~/Library/Application Support/refold"),
        ("win32", "LOCALAPPDATA", "/app", "/app/refold"),
        ("win32", "LOCALAPPDATA", "", "~/AppData/Local/refold"),
    ],
)
def test_the_data_folder_is_where_the_system_wants_it(
    monkeypatch: pytest.MonkeyPatch, platform: str, variable: str, value: str, folder: str
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv(variable, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert data_folder() == Path(folder.replace("~", "/home/me"))


def test_a_name_of_one_letter_is_a_drive_and_a_longer_one_a_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_store("c:x.db").store.path.name == "c:x.db"
    for name in ("ab", "redis", "n" * 300):
        with pytest.raises(UnknownName, match=f"unknown store .{name[:40]}"):
            open_store(f"{name}:x.db")
    with pytest.raises(StorageError, match="too long"):
        open_store("n" * 300 + ".db")


def test_a_path_that_ends_with_a_slash_is_a_folder_of_sessions(tmp_path: Path) -> None:
    assert open_store(f"jsonl:{tmp_path}/new/").store.is_folder
    assert not open_store(f"jsonl:{tmp_path}/new").store.is_folder


def test_a_database_is_open_while_a_store_has_it(tmp_path: Path) -> None:
    store = kit.begin("sqlite", tmp_path)
    (tmp_path / "other.db").write_bytes(b"")
    assert connections.is_open(store.path)
    assert not connections.is_open(tmp_path / "other.db")
    assert not connections.is_open(tmp_path / "nothing")
    store.close()


# ── files ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def file(tmp_path: Path) -> Iterator[JsonlStore]:
    store = JsonlStore(tmp_path / "s.jsonl", folder=False, timeout=0.01)
    store.create(SessionInfo(id=S))
    store.append(S, [kit.said("a", None)], after=None)
    yield store
    store.close()


READ: tuple[Callable[[JsonlStore], Any], ...] = (
    lambda store: store.load(S),
    lambda store: list(store.lines(S)),
    lambda store: next(store.sessions()),
    lambda store: store.session_id,
)
WRITE: tuple[Callable[[JsonlStore], Any], ...] = (
    lambda store: store.append(S, [kit.said("b", "a")], after="a"),
    lambda store: store.replace(S, {"a": kit.said("a", None, 20)}, after="a"),
    lambda store: store.delete(S),
)


@pytest.mark.parametrize("work", READ)
def test_readers_share_a_file(file: JsonlStore, work: Callable[[JsonlStore], Any]) -> None:
    fd = os.open(file.path, os.O_RDONLY)
    with disk.locked(fd, file.path, shared=True, timeout=0):
        assert work(file)
    os.close(fd)


@pytest.mark.parametrize("work", WRITE)
def test_a_writer_waits_for_readers(file: JsonlStore, work: Callable[[JsonlStore], Any]) -> None:
    before = file.path.read_bytes()
    fd = os.open(file.path, os.O_RDONLY)
    with (
        disk.locked(fd, file.path, shared=True, timeout=0),
        pytest.raises(StorageError, match="locked by another"),
    ):
        work(file)
    os.close(fd)
    assert file.path.read_bytes() == before
    work(file)
    assert not file.path.exists() or file.path.read_bytes() != before


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="check"):
        jsonl.write_session_file(tmp_path / "missing" / "x.jsonl", SessionInfo(id=S), [])
    jsonl.write_session_file(tmp_path / "x.jsonl", SessionInfo(id=S), [])
    with pytest.raises(StorageError, match="choose another name"):
        jsonl.write_session_file(tmp_path / "x.jsonl", SessionInfo(id=S), [])


def test_a_folder_is_the_owners_from_the_first_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []

    def look(path: Path, mode: int) -> None:
        modes.append(stat.S_IMODE(path.stat().st_mode))
        path_chmod(path, mode)

    path_chmod = Path.chmod
    monkeypatch.setattr(Path, "chmod", look)
    before = os.umask(0)
    try:
        disk.make_folder(disk.Disk(), tmp_path / "new")
    finally:
        os.umask(before)
    assert modes == [0o700]


def test_names_in_a_folder_are_synced_and_reading_moves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda fd: folders.append(stat.S_ISDIR(os.fstat(fd).st_mode)))
    disk.Disk().sync_folder(tmp_path)
    assert folders == [True]
    (tmp_path / "f").write_bytes(b"0123")
    fd = os.open(tmp_path / "f", os.O_RDONLY)
    assert disk.Disk().read(fd, 2, 1) == b"12" and os.lseek(fd, 0, os.SEEK_CUR) == 0
    os.close(fd)


@pytest.mark.parametrize("more", range(1, 40))
def test_a_line_is_too_long_by_however_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    monkeypatch.setattr(lines, "_CHUNK", 16)
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 160)
    (tmp_path / "f").write_bytes(b"{" * (160 + more) + b"\n" + LINE[:20])
    fd = os.open(tmp_path / "f", os.O_RDONLY)
    known = lines.ReadState((0, 0), 0, 1, rows.SessionTally(id="s"))
    found = [row for _, row in lines.read_rows(disk.Disk(), fd, known)]
    os.close(fd)
    assert [row.why for row in found] == ["a line longer than 160 bytes", damage.INTERRUPTED_APPEND]


def test_a_line_may_be_a_list_of_one(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"[" + LINE + b"]\n[" + NEXT + b"," + LINE + b"]\n")
    fd = os.open(tmp_path / "f", os.O_RDONLY)
    known = lines.ReadState((0, 0), 0, 1, rows.SessionTally(id="s"))
    found = [row.entry and row.entry.id for _, row in lines.read_rows(disk.Disk(), fd, known)]
    os.close(fd)
    assert found == ["a", "b", "a"]
    assert rows.split_line(b'[{"a":"\\ud800"}]') == [b'{"a":"\\ud800"}']


def test_a_header_that_says_when_it_was_made_is_ours() -> None:
    header = b'{"type":"session","version":1,"id":"s","created":2.5,"timestamp":"x","name":"n","cwd":"/c"}'
    tally, version = rows.parse_header(header, "f")
    assert (tally.id, tally.created, tally.name, tally.cwd, version) == ("s", 2.5, "n", "/c", 1)
    bare, _ = rows.parse_header(b'{"type":"session","version":1,"id":"s","created":"x","name":5}', "f")
    assert (bare.created, bare.name, bare.cwd) == (0.0, None, None)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (b"[" + LINE + b"," + NEXT + b"5", [LINE, NEXT]),
        (b"[" + LINE + b"," + NEXT + b" ]", [LINE, NEXT]),
        (b"[x," + NEXT + b"]", [b"x", NEXT]),
        (b"[" + LINE + b',{"type":"message","id":"c}]', [LINE, b'{"type":"message","id":"c}']),
        (b"[" + LINE + b"," + NEXT, [b"[" + LINE + b"," + NEXT]),
    ],
)
def test_where_one_entry_of_several_is_damaged_the_others_are_read(line: bytes, parts: list[bytes]) -> None:
    assert damage.entries_in_damaged_line(line) == parts


# ── databases ───────────────────────────────────────────────────────────────────────────────────


def test_rows_behind_a_damaged_page_are_read_one_by_one() -> None:
    there = {0: LINE, 1: LINE, 4: NEXT, 5: b"\0", 7: NEXT}

    def select(first: int, last: int) -> Any:
        for place in range(first, min(last, 9)):
            if place in (2, 6):
                raise OSError
            if place in there:
                yield place, f"n{place}", fmt.VERSION, there[place]

    found = dict(rows.rows_by_place(select, 0, 9, OSError))
    damaged, missing = "its page of the database is damaged", "the row is missing"
    assert {place: row.why for place, row in found.items() if not row.line} == {
        2: damaged,
        3: missing,
        6: damaged,
        8: missing,
    }
    assert [row.entry and row.entry.id for row in found.values()] == [
        "a",
        "a",
        None,
        None,
        "b",
        "n5",
        None,
        "b",
        None,
    ]


def test_the_newest_entry_with_a_date_says_when() -> None:
    said = [e.Info(id=f"i{n}", time=time) for n, time in enumerate((7.0, 0.5, 0.0, -1.0))]
    assert rows.newest_time(rows.of_entries(said)) == 7.0
    assert rows.newest_time(rows.of_entries(said[2:])) == 0.0


def test_new_rows_stand_behind_those_that_are_missing(tmp_path: Path) -> None:
    store = kit.begin("sqlite", tmp_path)
    store.append(S, [kit.said(f"e{n}", None) for n in range(4)], after=None)
    store.append_lines(S, [b"no entry"], after=None)
    with store.connection() as connection:
        connection.execute("DELETE FROM entries WHERE id = 'e3' OR id IS NULL")
    store.append(S, [kit.said("new", "e3")], after="e3")
    loaded = store.load(S)
    assert [entry.id for entry in loaded.entries] == ["e0", "e1", "e2", "new"]
    assert [problem.text for problem in loaded.problems] == ["2 rows are missing"]
    store.close()


def test_a_lost_row_does_not_take_the_tip_from_a_session() -> None:
    found = [rows.of_line(LINE), rows.of_line(b"\0")]
    tally = rows.SessionTally(id="s", tip="b")
    tally.add(found)
    tally.tip = "b"
    assert [finding.text for finding in doctor.check_tally("s", tally, found, None)] == [
        "1 row without an entry (" + found[1].why + "); their bytes stay where they are"
    ]
    put: list[rows.SessionTally] = []
    wrong = rows.SessionTally(id="s", tip="b", name="n", cwd="/c", entries=7)
    last = [*doctor.check_tally("s", wrong, found, put.append)][-1]
    assert last.text == "its row says 7 entries; there are 1"
    assert [(t.tip, t.entries, t.bad, t.name, t.cwd) for t in put] == [("b", 1, 1, "n", "/c")]


def test_a_database_of_another_program_is_left_as_it_was(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "x.db"))
    connection.execute("CREATE TABLE other(x)")
    with pytest.raises(FormatError, match="choose another file"):
        schema.prepare_tables(connection, "x.db")
    assert not connection.in_transaction and schema.version(connection) == 0
    connection.close()


def test_a_digest_counts_lines_and_depends_on_each(tmp_path: Path) -> None:
    store = kit.begin("sqlite", tmp_path)
    digests: list[tuple[int, str]] = []
    for n in range(3):
        with store.connection() as connection:
            digests.append(schema.lines_digest(connection))
        store.append(S, [kit.said(f"e{n}", None)], after=None if n == 0 else f"e{n - 1}")
    assert [count for count, _ in digests] == [0, 1, 2] and len({hash for _, hash in digests}) == 3
    store.close()


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (apsw.BusyError("x"), StorageError, "try again later"),
        (apsw.LockedError("x"), StorageError, "try again later"),
        (apsw.FullError("x"), StorageError, "free some space"),
        (apsw.CorruptError("x"), FormatError, "refold sessions doctor"),
        (apsw.NotADBError("x"), FormatError, "choose another file"),
        (apsw.ReadOnlyError("x"), StorageError, "check its permissions"),
        (apsw.CantOpenError("x"), StorageError, "check its permissions"),
        (apsw.PermissionsError("x"), StorageError, "check its permissions"),
        (apsw.IOError("x"), StorageError, "check the disk"),
        (apsw.SQLError("odd"), StorageError, "odd"),
    ],
)
def test_what_sqlite_says_is_told_with_what_to_do(error: apsw.Error, kind: type, words: str) -> None:
    said = connections.translated(error, Path("/f.db"))
    assert type(said) is kind and "/f.db" in str(said) and words in str(said)
    tainted = connections.translated(error, Path("/f.db"), tainted=True)
    assert "nor could that be taken back" in str(tainted)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_goes_on_with_the_database_of_its_parent(tmp_path: Path) -> None:
    store = kit.begin("sqlite", tmp_path)
    store.append(S, [kit.said("a", None)], after=None)
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            store.append(S, [kit.said("b", "a")], after="a")
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert [entry.id for entry in store.load(S).entries] == ["a", "b"]
    store.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize(
    "make", [lambda _: MemoryStore(), lambda path: JsonlStore(path / "s.jsonl", folder=False)]
)
def test_a_child_does_not_wait_for_a_lock_of_its_parents(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    store = make(tmp_path)
    store.create(SessionInfo(id=S))
    store._mutex.acquire()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(120)
        threading.Thread(target=lambda: os._exit(len(store.load(S).entries))).start()
        time.sleep(120)
    assert os.waitpid(pid, 0)[1] == 0
    store._mutex.release()


def test_rows_that_nobody_counted_are_not_written_over(tmp_path: Path) -> None:
    store = kit.begin("sqlite", tmp_path)
    store.append(S, [kit.said(f"e{n}", None) for n in range(4)], after=None)
    with store.connection() as connection:
        connection.execute("UPDATE sessions SET entries = 1")
    store.append(S, [kit.said("new", "e3")], after="e3")
    assert [entry.id for entry in store.load(S).entries] == ["e0", "e1", "e2", "e3", "new"]
    store.close()


def test_sessions_are_found_by_how_their_ids_begin(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    ids = ["a", "ab", "ab1", "ac", "a\ud7ff1", "a\ue000", "b", "\U0010ffff", "\U0010ffffx"]
    for id in ids:
        store.create(SessionInfo(id=id))
    for text in ("a", "ab", "a\ud7ff", "\U0010ffff", "", "x", "a\ud83d1"):
        assert [x.id for x in store.beginning(text, 99)] == sorted(id for id in ids if id.startswith(text))
    assert len(store.beginning("a", 2)) == 2
    store.create(SessionInfo(id="a\ud83d1"))
    assert [x.id for text in ("a\ud83d", "a\ud83d1", "a\ud83d2") for x in store.beginning(text, 99)] == [
        "a\ud83d1"
    ] * 2
    store.close()


def test_a_backup_that_fails_leaves_no_file_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = kit.begin("sqlite", tmp_path)
    target = tmp_path / "copy.db"
    with monkeypatch.context() as patch, pytest.raises(StorageError):
        patch.setattr(SqliteStore, "_set_up", lambda *_: (_ for _ in ()).throw(apsw.IOError("broken")))
        store.close()
        store.backup(target)
    assert not list(tmp_path.glob("copy.db*"))
    store.backup(target)
    copy = SqliteStore(target)
    assert next(copy.sessions()).id == S
    with pytest.raises(StorageError, match="choose another name"):
        store.backup(target)
    copy.close()
    store.close()


# ── searching ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def library(tmp_path: Path) -> Iterator[SqliteStore]:
    """Three sessions that all speak of a kettle, the second the most."""
    store = SqliteStore(tmp_path / "s.db")
    texts = {
        "s1": "a red kettle and more words beside it",
        "s2": "kettle kettle",
        "s3": "the blue kettle lid",
    }
    for id, text in texts.items():
        store.create(SessionInfo(id=id))
        store.append(id, [e.MessageEntry(id=f"in {id}", message=m.user(text))], after=None)
    yield store
    store.close()


def test_a_search_in_one_session_finds_nothing_of_its_neighbours(library: SqliteStore) -> None:
    for id in ("s1", "s2", "s3"):
        found = library.search(["kettle"], session=id)
        assert [(one.session, one.entry_id) for one in found] == [(id, f"in {id}")]
    assert {one.session for one in library.search(["kettle"])} == {"s1", "s2", "s3"}
    assert len(library.search(["kettle"], limit=1)) == 1
    assert library.search(["kettle"], limit=0) == library.search([]) == []


def test_quotes_come_best_first_with_what_was_said(library: SqliteStore) -> None:
    found = library.quoted(["kettle"], limit=9)
    assert [one.session for one in found] == ["s2", "s3", "s1"]
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert found[0].entry == library.load("s2").entries[0]
    assert [one.session for one in library.quoted(["kettle"], limit=2)] == ["s2", "s3"]
    assert {one.session for one in library.quoted(["red", "blue"], limit=9)} == {"s1", "s3"}
    assert [one.session for one in library.quoted(["kettle", "blue"], limit=9, every=True)] == ["s3"]
    assert library.quoted(["red", "blue"], limit=9, every=True) == []
    assert library.quoted(["-"], limit=9) == []
    assert isinstance(library, Quoting) and not isinstance(MemoryStore(), Quoting)


def test_the_doctor_changes_the_index_only_where_it_may(library: SqliteStore) -> None:
    with library.connection() as connection:
        connection.execute("DELETE FROM words WHERE rowid IN (SELECT min(rowid) FROM words)")
    [found] = library.examine()
    assert "lacks 1 entries and has 0 too many" in found.text
    assert len(library.search(["kettle"])) == 2
    assert library.examine() == [found], "looking mends nothing"
    library.examine(repair=True)
    assert len(library.search(["kettle"])) == 3 and library.examine() == []


def test_a_database_that_was_replaced_is_refused_once_and_then_read_as_it_is(tmp_path: Path) -> None:
    store, other = SqliteStore(tmp_path / "a.db"), SqliteStore(tmp_path / "b.db")
    store.create(SessionInfo(id=S, created=1.0))
    other.create(SessionInfo(id="another", created=1.0))
    other.close()
    (tmp_path / "b.db").replace(tmp_path / "a.db")
    (tmp_path / "a.db-wal").unlink()
    with pytest.raises(StorageError, match="was removed or replaced"):
        list(store.sessions())
    assert [info.id for info in store.sessions()] == ["another"]
    store.close()
