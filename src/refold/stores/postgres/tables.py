"""The rows of the tables in PostgreSQL, shared by the store and its doctor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from psycopg import errors

from refold.errors import UnknownName
from refold.stores import rows
from refold.stores.postgres import schema
from refold.stores.postgres.connections import Link
from refold.stores.rows import SessionTally, StoredLine
from refold.stores.schema import check_schema_version, decoded_text

FETCH_SIZE = 500
"""Number of entries fetched at once."""
TALLY_SELECT = f"(SELECT version FROM about), key, {rows.TALLY_COLUMNS}"


def session_rows(
    link: Link, key: int, tally: SessionTally, first: int = 0
) -> Iterator[tuple[int, StoredLine]]:
    """(place, row) of a session's rows from a place on."""

    def select(first: int, end: int) -> Iterator[tuple[int, str | None, int, bytes]]:
        try:
            for place, id, version, line in select_rows(link, key, first, end):
                yield place, decoded_text(id), version, line
        except errors.InternalError:
            link.rollback()  # the snapshot is over; what follows is read without one
            raise

    return rows.rows_by_place(select, first, tally.entries + tally.bad, errors.InternalError)


def tally(link: Link, session: str, how: str = "") -> tuple[int, SessionTally]:
    found = link.ask(f"SELECT {TALLY_SELECT} FROM sessions WHERE id = %s {how}", bytes_of(session))
    if not found:
        raise UnknownName("session", session)
    return checked_tally(link, found[0])


def tallies(link: Link) -> list[tuple[int, SessionTally]]:
    """Keys and tallies of all sessions, newest first."""
    found = link.ask(f"SELECT {TALLY_SELECT} FROM sessions ORDER BY updated DESC, key DESC")
    return [checked_tally(link, row) for row in found]


def put_tally(link: Link, key: int, tally: SessionTally) -> None:
    marks = ", ".join(["%s"] * 9)
    link.ask(
        f"UPDATE sessions SET ({rows.TALLY_COLUMNS}) = ({marks}) WHERE key = %s",
        *rows.tally_values(tally, bytes_of),
        key,
    )


def checked_tally(link: Link, row: tuple[Any, ...]) -> tuple[int, SessionTally]:
    version, key, *columns = row
    check_schema_version(str(link.address), version, schema.SCHEMA_VERSION)
    return key, rows.of_columns(columns)


def select_rows(link: Link, key: int, first: int, end: int) -> Iterator[tuple[Any, ...]]:
    while first < end:
        page = link.ask(
            "SELECT place, id, version, line FROM entries"
            " WHERE session = %s AND place >= %s AND place < %s ORDER BY place LIMIT %s",
            *(key, first, end, FETCH_SIZE),
        )
        yield from page
        first = page[-1][0] + 1 if len(page) == FETCH_SIZE else end


def place_of(link: Link, key: int, start: int) -> int:
    """The place of entry number `start` in a session that also has lines that are not entries."""
    found = link.ask(
        "SELECT place FROM entries WHERE session = %s AND id IS NOT NULL ORDER BY place LIMIT 1 OFFSET %s",
        *(key, start),
    )
    return found[0][0] if found else rows.LAST_PLACE


def bytes_of(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogatepass")
