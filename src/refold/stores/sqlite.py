"""Thousands of sessions in one SQLite database, with the words of their messages.

Every append is one transaction, taken for writing from its first statement (BEGIN IMMEDIATE), and synced
before it returns (WAL, synchronous=FULL). The index of words is written in the same transaction.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import apsw

from refold.entries import AnyEntry
from refold.errors import SessionExists, StorageError, UnknownName
from refold.format import VERSION
from refold.protocols import Candidate, Finding, Loaded, SessionInfo
from refold.stores import Opened, data_folder, default_database, rows, schema, words
from refold.stores.connections import Connections
from refold.stores.disk import told
from refold.stores.quoted import Quoted, best, found_in
from refold.stores.rows import Row, Tally
from refold.stores.schema import row_of, text_of

LEAST_ROW = 8
"""Bytes of a database that the smallest row takes."""
_READ = re.sub(r"\b(id|name|cwd|tip)\b", r"CAST(\1 AS BLOB)", rows.COLUMNS)
"""Texts as bytes: one that is damaged is no UTF-8 any more, and must not hide its row."""
BEGINNING = (
    f"SELECT key, {_READ} FROM sessions WHERE id >= ? AND id < ? OR id >= ? AND id < ? ORDER BY id LIMIT ?"
)


class SqliteStore:
    """The database at `path`, made on first use."""

    SYNCHRONOUS: ClassVar[str] = "FULL"
    BEGIN: ClassVar[str] = "BEGIN IMMEDIATE"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        timeout: float = 60.0,
        vfs: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path).absolute()
        with told(self.path):
            if self.path.is_dir():
                raise StorageError(f"{self.path} is a folder: name a database file")
        self._clock = clock
        self._timeout = timeout
        self._pool = Connections(self.path, timeout=timeout, vfs=vfs, set_up=self._set_up)

    @property
    def timeout(self) -> float:
        """Seconds to wait for others who write."""
        return self._timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        """Holds for connections that are opened from now on."""
        self._timeout = self._pool.timeout = seconds

    # ── the protocol ────────────────────────────────────────────────────────────────────────────

    def create(self, info: SessionInfo) -> None:
        tally = rows.fresh(info, self._clock())
        with self.writing() as connection:
            try:
                connection.execute(
                    f"INSERT INTO sessions({rows.COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)",
                    rows.columns(tally, sql_of),
                )
            except apsw.ConstraintError:
                raise SessionExists(info.id) from None

    def append(self, session: str, entries: Sequence[AnyEntry], *, after: str | None) -> None:
        self._add(session, rows.of_entries(entries), after)

    def append_lines(self, session: str, lines: Sequence[bytes], *, after: str | None) -> None:
        self._add(session, rows.of_lines(lines), after)

    def load(self, session: str, start: int = 0) -> Loaded:
        with self.reading() as connection, rows.decoding():
            key, tally = self.tally(connection, session)
            first = _place(connection, key, start) if tally.bad else start
            found = ((f"row {place + 1}", row) for place, row in self.rows(connection, key, tally, first))
            return rows.loaded(found, 0, tally)

    def lines(self, session: str) -> Iterator[bytes]:
        with self.reading() as connection:
            key, _ = self.tally(connection, session)
            found = _select(connection, row_of(key), row_of(key + 1))
            return iter([rows.current(line, version) for _, _, version, line in found])

    def sessions(self) -> Iterator[SessionInfo]:
        """The sessions, newest first."""
        with self.reading() as connection:
            return iter([tally.info for _, tally in self.tallies(connection)])

    def beginning(self, text: str, limit: int) -> list[SessionInfo]:
        """Ids are texts, or bytes where they cannot be; either has an order of its own in the index."""
        first, end = rows.span(text)
        with self.reading() as connection:
            span = (sql_of(text), _text_behind(text), first, end)
            found = schema.select(connection, BEGINNING, *span, limit)
            return [rows.of_columns(row[1:]).info for row in found]

    def delete(self, session: str) -> None:
        with self.writing() as connection:
            key, _ = self.tally(connection, session)
            span = (row_of(key), row_of(key + 1))
            connection.execute("DELETE FROM words WHERE rowid >= ? AND rowid < ?", span)
            connection.execute("DELETE FROM entries WHERE row >= ? AND row < ?", span)
            connection.execute("DELETE FROM sessions WHERE key = ?", (key,))
        with contextlib.suppress(StorageError), self._pool.use() as connection:
            # What was deleted should not live on in the write-ahead log.
            connection.set_busy_timeout(100)
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                connection.set_busy_timeout(int(self._timeout * 1000))

    def replace(self, session: str, entries: Mapping[str, AnyEntry], *, after: str | None) -> None:
        from refold.stores import forgetting

        forgetting.in_database(self, session, entries, after)

    def close(self) -> None:
        self._pool.close()

    # ── searching ───────────────────────────────────────────────────────────────────────────────

    def search(
        self, terms: Iterable[str], *, session: str | None = None, limit: int = 200
    ) -> list[Candidate]:
        """Entries in which any of the terms occurs, best first."""
        with self.reading() as connection:
            key = None if session is None else self.tally(connection, session)[0]
            found = best(connection, words.query(terms), limit, key=key)
        return [Candidate(text_of(owner) or "", text_of(id) or "", score) for owner, id, score in found]

    def quoted(self, terms: Iterable[str], *, limit: int, every: bool = False) -> list[Quoted]:
        with self.reading() as connection:
            return found_in(connection, terms, limit, every)

    # ── other powers ────────────────────────────────────────────────────────────────────────────

    def examine(self, *, repair: bool = False) -> list[Finding]:
        from refold.stores import doctor_sqlite

        return doctor_sqlite.examine(self, repair)

    def backup(self, target: str | os.PathLike[str]) -> None:
        """A complete copy in a new file, taken while others may write."""
        path = Path(target).absolute()
        with told(path):
            if path.exists():
                raise StorageError(f"{path} exists already: choose another name")
        other = SqliteStore(path)
        try:
            with self._pool.use() as source, other._pool.use() as copy:
                work = copy.backup("main", source, "main")
                with work:
                    work.step(-1)  # in one go: a snapshot, however busy the writers are
        except BaseException:
            other.close()
            for suffix in ("", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            raise
        other.close()

    # ── beyond the protocol ─────────────────────────────────────────────────────────────────────

    def rows(
        self, connection: apsw.Connection, key: int, tally: Tally, first: int = 0
    ) -> Iterator[tuple[int, Row]]:
        """(place, row) of a session's rows from a place on."""

        def select(first: int, end: int) -> Iterator[tuple[int, str | None, int, bytes]]:
            found = _select(connection, row_of(key, first), row_of(key, end))
            return ((row - row_of(key), text_of(id), version, line) for row, id, version, line in found)

        return rows.placed(select, first, claimed(connection, tally.entries + tally.bad), apsw.CorruptError)

    def connection(self) -> contextlib.AbstractContextManager[apsw.Connection]:
        """This thread's connection, outside of any transaction."""
        return self._pool.use()

    def writing(self) -> contextlib.AbstractContextManager[apsw.Connection]:
        """A transaction for writing: kept if the block ends, taken back if it fails."""
        return self._transaction(self.BEGIN)

    def reading(self) -> contextlib.AbstractContextManager[apsw.Connection]:
        """A transaction for reading: all statements of the block see the same moment."""
        return self._transaction("BEGIN")

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Generator[apsw.Connection]:
        with self._pool.use() as connection:
            connection.execute(begin)
            try:
                schema.check(str(self.path), schema.version(connection), schema.VERSION)
                yield connection
            except BaseException:
                _roll_back(connection)
                raise
            try:
                connection.execute("COMMIT")
            except BaseException:
                _roll_back(connection)
                self._pool.failed_commit(connection)
                raise

    def tally(self, connection: apsw.Connection, session: str) -> tuple[int, Tally]:
        found = schema.select(connection, f"SELECT key, {_READ} FROM sessions WHERE id = ?", sql_of(session))
        if not found:
            raise UnknownName("session", session)
        return found[0][0], rows.of_columns(found[0][1:])

    def tallies(self, connection: apsw.Connection) -> list[tuple[int, Tally]]:
        """Keys and tallies of all sessions, newest first."""
        found = schema.select(
            connection, f"SELECT key, {_READ} FROM sessions ORDER BY updated DESC, key DESC"
        )
        return [(row[0], rows.of_columns(row[1:])) for row in found]

    def _add(self, session: str, new: list[Row], after: str | None) -> None:
        if not new:
            return
        texts = [words.of_entry(row.entry) if row.entry is not None else "" for row in new]
        with self.writing() as connection:
            key, tally = self.tally(connection, session)
            tally.guard(new, after)
            at = _next_row(connection, key, tally.entries + tally.bad)
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
            tally.updated = rows.newest(new) or self._clock()
            self.put_tally(connection, key, tally)

    def put_tally(self, connection: apsw.Connection, key: int, tally: Tally) -> None:
        connection.execute(
            f"UPDATE sessions SET ({rows.COLUMNS}) = (?,?,?,?,?,?,?,?,?) WHERE key = ?",
            (*rows.columns(tally, sql_of), key),
        )

    def _set_up(self, connection: apsw.Connection) -> None:
        for pragma in (
            "journal_mode=WAL",
            f"synchronous={self.SYNCHRONOUS}",
            "fullfsync=ON",  # macOS: plain fsync leaves data in the drive's cache
            "checkpoint_fullfsync=ON",
            "secure_delete=ON",
            "cache_size=-16000",
            "temp_store=MEMORY",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        schema.prepare(connection, str(self.path))


def opened(rest: str) -> Opened:
    """Without a path: the user's own database, in a folder that is for its owner only."""
    if rest:
        return Opened(SqliteStore(Path(rest).expanduser()))
    path = default_database()
    store = SqliteStore(path)
    folder = path.parent
    if folder == data_folder() and folder.is_dir() and os.name == "posix":
        with contextlib.suppress(OSError):  # somebody else's
            folder.chmod(0o700)  # also where it was made with laxer rights
    return Opened(store)


def _roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        with contextlib.suppress(apsw.Error):
            connection.execute("ROLLBACK")


def _select(connection: apsw.Connection, first: int, end: int) -> Iterator[tuple[int, Any, int, bytes]]:
    found = connection.execute(
        f"SELECT row, CAST(id AS BLOB), {schema.LINE_VERSION}, {schema.LINE} FROM entries"
        " WHERE row >= ? AND row < ? ORDER BY row",
        (first, end),
    )
    return cast("Iterator[tuple[int, Any, int, bytes]]", found)


def _text_behind(text: str) -> str | bytes:
    """The first text behind all that begin so. (Bytes are behind all texts.)"""
    kept = text.rstrip("\U0010ffff")
    if not kept:
        return b""
    code = ord(kept[-1]) + 1
    return sql_of(kept[:-1] + chr(0xE000 if 0xD800 <= code < 0xE000 else code)) or b""


def claimed(connection: apsw.Connection, count: object) -> int:
    """The number of rows that a session's own row claims, but no more than the file has room for; as many as
    that where the row is damaged and claims nothing."""
    [(pages,)] = schema.select(connection, "PRAGMA page_count")
    [(size,)] = schema.select(connection, "PRAGMA page_size")
    room = cast("int", pages) * cast("int", size) // LEAST_ROW
    return min(count, room) if isinstance(count, int) else room


def _next_row(connection: apsw.Connection, key: int, count: int) -> int:
    """Behind the last row there is, and behind those that are missing as far as that can be believed."""
    query = "SELECT max(row) FROM entries WHERE row >= ? AND row < ?"
    last = cast("int | None", connection.execute(query, (row_of(key), row_of(key + 1))).get)
    free = row_of(key) if last is None else last + 1
    return free if free == row_of(key, count) else max(free, row_of(key, claimed(connection, count)))


def _place(connection: apsw.Connection, key: int, start: int) -> int:
    """Where the entry number `start` is, in a session that also holds lines that are no entries."""
    found = connection.execute(
        "SELECT row FROM entries WHERE row >= ? AND row < ? AND id IS NOT NULL ORDER BY row LIMIT 1 OFFSET ?",
        (row_of(key), row_of(key + 1), start),
    ).fetchone()
    return (1 << schema.SHIFT) - 1 if found is None else cast("int", found[0]) - row_of(key)


def sql_of(text: str | None) -> str | bytes | None:
    """SQLite text is UTF-8; what cannot be is stored as bytes."""
    try:
        if text is not None:
            text.encode()
    except UnicodeEncodeError:
        return cast("str", text).encode("utf-8", "surrogatepass")
    return text
