"""The rows of a SQLite database of sessions, shared by the store and its doctor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import apsw

from refold.errors import UnknownName
from refold.stores import rows, schema
from refold.stores.rows import SessionTally, StoredLine
from refold.stores.schema import decoded_text, row_of

LEAST_ROW = 8
"""Bytes of the smallest row."""
TALLY_BYTES_COLUMNS = re.sub(r"\b(id|name|cwd|tip)\b", r"CAST(\1 AS BLOB)", rows.TALLY_COLUMNS)
"""Texts as bytes: a damaged one is not valid UTF-8 and must not hide its row."""


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
