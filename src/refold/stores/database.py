"""A SQLite database of sessions: its transactions and rows, shared by the store, its doctor and
forgetting."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, ClassVar, cast

import apsw

from refold.errors import UnknownName
from refold.stores import rows, schema
from refold.stores.connections import Connections
from refold.stores.rows import SessionTally, StoredLine
from refold.stores.schema import decoded_text, row_of

LEAST_ROW = 8
"""Bytes of the smallest row."""
TALLY_BYTES_COLUMNS = re.sub(r"\b(id|name|cwd|tip)\b", r"CAST(\1 AS BLOB)", rows.TALLY_COLUMNS)
"""Texts as bytes: a damaged one is not valid UTF-8 and must not hide its row."""


class Database:
    """The database at `path`: one connection per thread, and transactions on them."""

    SYNCHRONOUS: ClassVar[str] = "FULL"
    BEGIN: ClassVar[str] = "BEGIN IMMEDIATE"

    def __init__(self, path: Path, *, timeout: float, vfs: str | None) -> None:
        self.path = path
        self._pool = Connections(path, timeout=timeout, vfs=vfs, set_up=self._set_up)

    @property
    def timeout(self) -> float:
        """Seconds to wait for other writers, for connections opened from now on."""
        return self._pool.timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self._pool.timeout = seconds

    def connection(self) -> contextlib.AbstractContextManager[apsw.Connection]:
        """This thread's connection, outside any transaction."""
        return self._pool.use()

    @contextlib.contextmanager
    def impatient(self) -> Generator[apsw.Connection]:
        """The same; other programs are not waited for."""
        with self._pool.use() as connection:
            connection.set_busy_timeout(100)
            try:
                yield connection
            finally:
                connection.set_busy_timeout(int(self.timeout * 1000))

    def writing(self) -> contextlib.AbstractContextManager[apsw.Connection]:
        """A write transaction: committed when the block ends, rolled back if it fails. Nested ones are part
        of the outer one."""
        return self._transaction(self.BEGIN)

    def reading(self) -> contextlib.AbstractContextManager[apsw.Connection]:
        """A read transaction: all statements of the block see the same state."""
        return self._transaction("BEGIN")

    def close(self) -> None:
        self._pool.close()

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
        schema.prepare_tables(connection, str(self.path))

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Generator[apsw.Connection]:
        with self._pool.use() as connection:
            if connection.in_transaction:
                with connection:  # a savepoint: what fails takes back itself alone
                    yield connection
                return
            connection.execute(begin)
            try:
                schema.check_schema_version(str(self.path), schema.version(connection), schema.SCHEMA_VERSION)
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


def _roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        with contextlib.suppress(apsw.Error):
            connection.execute("ROLLBACK")


def tally(connection: apsw.Connection, session: str) -> tuple[int, SessionTally]:
    found = schema.select(
        connection, f"SELECT key, {TALLY_BYTES_COLUMNS} FROM sessions WHERE id = ?", sql_of(session)
    )
    if not found:
        raise UnknownName("session", session)
    return found[0][0], rows.of_columns(found[0][1:])


def tallies(connection: apsw.Connection) -> list[tuple[int, SessionTally]]:
    """Keys and tallies of all sessions, newest first."""
    found = schema.select(
        connection, f"SELECT key, {TALLY_BYTES_COLUMNS} FROM sessions ORDER BY updated DESC, key DESC"
    )
    return [(row[0], rows.of_columns(row[1:])) for row in found]


def put_tally(connection: apsw.Connection, key: int, tally: SessionTally) -> None:
    connection.execute(
        f"UPDATE sessions SET ({rows.TALLY_COLUMNS}) = (?,?,?,?,?,?,?,?,?) WHERE key = ?",
        (*rows.tally_values(tally, sql_of), key),
    )


def session_rows(
    connection: apsw.Connection, key: int, tally: SessionTally, first: int = 0
) -> Iterator[tuple[int, StoredLine]]:
    """(place, row) of a session's rows from a place on."""

    def select(first: int, end: int) -> Iterator[tuple[int, str | None, int, bytes]]:
        found = select_rows(connection, row_of(key, first), row_of(key, end))
        return ((row - row_of(key), decoded_text(id), version, line) for row, id, version, line in found)

    return rows.rows_by_place(
        select, first, claimed(connection, tally.entries + tally.bad), apsw.CorruptError
    )


def select_rows(connection: apsw.Connection, first: int, end: int) -> Iterator[tuple[int, Any, int, bytes]]:
    found = connection.execute(
        f"SELECT row, CAST(id AS BLOB), {schema.VERSION_COLUMN}, {schema.LINE_COLUMN} FROM entries"
        " WHERE row >= ? AND row < ? ORDER BY row",
        (first, end),
    )
    return cast("Iterator[tuple[int, Any, int, bytes]]", found)


def claimed(connection: apsw.Connection, count: object) -> int:
    """The number of rows that a session's own row claims, at most what the file has room for; that maximum if
    the row is damaged."""
    [(pages,)] = schema.select(connection, "PRAGMA page_count")
    [(size,)] = schema.select(connection, "PRAGMA page_size")
    room = cast("int", pages) * cast("int", size) // LEAST_ROW
    return min(count, room) if isinstance(count, int) else room


def next_row(connection: apsw.Connection, key: int, count: int) -> int:
    """The row after the last one, allowing for missing rows as far as the count is credible."""
    query = "SELECT max(row) FROM entries WHERE row >= ? AND row < ?"
    last = cast("int | None", connection.execute(query, (row_of(key), row_of(key + 1))).get)
    free = row_of(key) if last is None else last + 1
    return free if free == row_of(key, count) else max(free, row_of(key, claimed(connection, count)))


def place_of(connection: apsw.Connection, key: int, start: int) -> int:
    """The place of entry number `start` in a session that also has lines that are not entries."""
    found = connection.execute(
        "SELECT row FROM entries WHERE row >= ? AND row < ? AND id IS NOT NULL ORDER BY row LIMIT 1 OFFSET ?",
        (row_of(key), row_of(key + 1), start),
    ).fetchone()
    return (1 << schema.SHIFT) - 1 if found is None else cast("int", found[0]) - row_of(key)


def sql_of(text: str | None) -> str | bytes | None:
    """Text as SQLite stores it: UTF-8, or bytes if that is impossible."""
    try:
        if text is not None:
            text.encode()
    except UnicodeEncodeError:
        return cast("str", text).encode("utf-8", "surrogatepass")
    return text
