"""Thousands of sessions in one SQLite database, with a word index of their messages.

Every append is one write transaction (BEGIN IMMEDIATE), synced before it returns (WAL, synchronous=FULL). The
word index is written in the same transaction.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import apsw

from refold.entries import AnyEntry
from refold.errors import SessionExists, StorageError
from refold.format import VERSION
from refold.protocols import Candidate, Finding, Loaded, SessionInfo
from refold.stores import (
    Opened,
    data_folder,
    database,
    default_database,
    doctor_sqlite,
    rows,
    schema,
    search_text,
)
from refold.stores.database import Database, sql_of
from refold.stores.disk import check_spool, os_errors_translated
from refold.stores.entry_search import Quoted, best_entries, candidates, search_entries
from refold.stores.rows import StoredLine
from refold.stores.schema import row_of

_BEGINNING = "id >= ? AND id < ? OR id >= ? AND id < ?"
BEGINNING = f"SELECT key, {database.TALLY_BYTES_COLUMNS} FROM sessions WHERE {_BEGINNING} ORDER BY id LIMIT ?"


class SqliteStore(Database):
    """The database at `path`, created on first use."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        timeout: float = 60.0,
        vfs: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(Path(path).absolute(), timeout=timeout, vfs=vfs)
        with os_errors_translated(self.path):
            if self.path.is_dir():
                raise StorageError(f"{self.path} is a folder: name a database file")
        self._clock = clock

    # ── the protocol ────────────────────────────────────────────────────────────────────────────

    def create(self, info: SessionInfo) -> None:
        tally = rows.new_tally(info, self._clock())
        with self.writing() as connection:
            try:
                connection.execute(
                    f"INSERT INTO sessions({rows.TALLY_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)",
                    rows.tally_values(tally, sql_of),
                )
            except apsw.ConstraintError:
                raise SessionExists(info.id) from None

    def append(self, session: str, entries: Sequence[AnyEntry], *, after: str | None) -> None:
        self._add(session, rows.of_entries(entries), after)

    def append_lines(self, session: str, lines: Sequence[bytes], *, after: str | None) -> None:
        self._add(session, rows.of_lines(lines), after)

    def load(self, session: str, start: int = 0) -> Loaded:
        with self.reading() as connection, rows.decoding():
            key, tally = database.tally(connection, session)
            first = database.place_of(connection, key, start) if tally.bad else start
            found = (
                (f"row {place + 1}", row)
                for place, row in database.session_rows(connection, key, tally, first)
            )
            return rows.loaded(found, 0, tally)

    def lines(self, session: str) -> Iterator[bytes]:
        with self.reading() as connection:
            key, _ = database.tally(connection, session)
            found = database.select_rows(connection, row_of(key), row_of(key + 1))
            return iter([rows.upgraded_line(line, version) for _, _, version, line in found])

    def sessions(self) -> Iterator[SessionInfo]:
        """The sessions, newest first."""
        with self.reading() as connection:
            return iter([tally.info for _, tally in database.tallies(connection)])

    def beginning(self, text: str, limit: int) -> list[SessionInfo]:
        """Sessions whose id begins with a text. Ids are texts, or bytes if they are not valid UTF-8; each has
        its own order in the index."""
        first, end = rows.span(text)
        with self.reading() as connection:
            span = (sql_of(text), _text_behind(text), first, end)
            found = schema.select(connection, BEGINNING, *span, limit)
            return [rows.of_columns(row[1:]).info for row in found]

    def delete(self, session: str) -> None:
        with self.writing() as connection:
            key, _ = database.tally(connection, session)
            span = (row_of(key), row_of(key + 1))
            connection.execute("DELETE FROM words WHERE rowid >= ? AND rowid < ?", span)
            connection.execute("DELETE FROM entries WHERE row >= ? AND row < ?", span)
            connection.execute("DELETE FROM sessions WHERE key = ?", (key,))
        with contextlib.suppress(StorageError), self.impatient() as connection:
            # What was deleted should not live on in the write-ahead log.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def replace(self, session: str, entries: Mapping[str, AnyEntry], *, after: str | None) -> None:
        """Replaces entries so that no byte of the old ones stays in the files: rows, the word index, free
        pages and the write-ahead log are cleared. Needs exclusive access: another program could still hold,
        and write, the old data."""
        check_spool(self.path)
        self.close()  # idle connections of this process's other threads; they come back when they are needed
        with self.connection() as connection:
            self._leave_wal()
            try:
                with self.writing() as connection:
                    key, tally = database.tally(connection, session)
                    tally.check(after)
                    found = database.session_rows(connection, key, tally)
                    for place, new in rows.rows_to_replace(found, entries, tally):
                        _overwrite(connection, row_of(key, place), new)
                    database.put_tally(connection, key, tally)
                # Old words live on in the index until its segments are merged, old rows in free pages.
                connection.execute("INSERT INTO words(words) VALUES ('optimize')")
                connection.execute("VACUUM")
            finally:
                connection.execute("PRAGMA journal_mode=WAL").fetchall()

    def _leave_wal(self) -> None:
        """Fails while others are connected."""
        try:
            with self.impatient() as connection:
                mode = connection.execute("PRAGMA journal_mode=DELETE").get
        except Exception:
            mode = None
        if mode != "delete":
            others = "close the other programs and try again"
            raise StorageError(f"{self.path} is open elsewhere, nothing was forgotten: {others}")

    # ── searching ───────────────────────────────────────────────────────────────────────────────

    def search(
        self, terms: Iterable[str], *, session: str | None = None, limit: int = 200
    ) -> list[Candidate]:
        """Entries in which any of the terms occurs, best first."""
        with self.reading() as connection:
            key = None if session is None else database.tally(connection, session)[0]
            return candidates(best_entries(connection, search_text.query(terms), limit, key=key))

    def quoted(self, terms: Iterable[str], *, limit: int, every: bool = False) -> list[Quoted]:
        with self.reading() as connection:
            return search_entries(connection, terms, limit, every)

    # ── other powers ────────────────────────────────────────────────────────────────────────────

    def examine(self, *, repair: bool = False) -> list[Finding]:
        return doctor_sqlite.examine(self, repair, SqliteStore)

    def backup(self, target: str | os.PathLike[str]) -> None:
        """Makes a complete copy in a new file while others may write."""
        path = Path(target).absolute()
        with os_errors_translated(path):
            if path.exists():
                raise StorageError(f"{path} already exists: choose another name")
        other = SqliteStore(path)
        try:
            with self.connection() as source, other.connection() as copy:
                work = copy.backup("main", source, "main")
                with work:
                    work.step(-1)  # in one go: a snapshot, however busy the writers are
        except BaseException:
            other.close()
            for suffix in ("", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            raise
        other.close()

    def grouped(self) -> contextlib.AbstractContextManager[apsw.Connection]:
        return self.writing()

    def _add(self, session: str, new: list[StoredLine], after: str | None) -> None:
        if not new:
            return
        texts = [search_text.of_entry(row.entry) if row.entry is not None else "" for row in new]
        with self.writing() as connection:
            key, tally = database.tally(connection, session)
            tally.guard(new, after)
            at = database.next_row(connection, key, tally.entries + tally.bad)
            for row, text in zip(new, texts, strict=True):
                id = None if row.entry is None else sql_of(row.entry.id)
                connection.execute(
                    "INSERT INTO entries(row, id, version, line) VALUES (?,?,?,?)",
                    (at, id, VERSION, row.line),
                )
                if text:
                    connection.execute("INSERT INTO words(rowid, text) VALUES (?,?)", (at, text))
                at += 1
            tally.add(new)
            tally.updated = rows.newest_time(new) or self._clock()
            database.put_tally(connection, key, tally)


def _overwrite(connection: apsw.Connection, at: int, new: StoredLine) -> None:
    connection.execute("UPDATE entries SET version = ?, line = ? WHERE row = ?", (VERSION, new.line, at))
    connection.execute("DELETE FROM words WHERE rowid = ?", (at,))
    text = search_text.of_entry(new.entry) if new.entry is not None else ""
    if text:
        connection.execute("INSERT INTO words(rowid, text) VALUES (?,?)", (at, text))


def opened(rest: str) -> Opened:
    """Without a path: the user's own database, in a folder that is for its owner only."""
    if rest:
        return Opened(SqliteStore(Path(rest).expanduser()))
    path = default_database()
    store = SqliteStore(path)
    folder = path.parent
    if folder == data_folder() and folder.is_dir() and os.name == "posix":
        with contextlib.suppress(OSError):  # another user's
            folder.chmod(0o700)  # also where it was made with laxer rights
    return Opened(store)


def _text_behind(text: str) -> str | bytes:
    """The first text behind all that begin so. (Bytes are behind all texts.)"""
    kept = text.rstrip("\U0010ffff")
    if not kept:
        return b""
    code = ord(kept[-1]) + 1
    return sql_of(kept[:-1] + chr(0xE000 if 0xD800 <= code < 0xE000 else code)) or b""
