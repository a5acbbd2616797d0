"""The rows of the tables in PostgreSQL: what the store and its doctor share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from psycopg import errors

from refold.errors import UnknownName
from refold.stores import rows
from refold.stores.postgres import schema
from refold.stores.postgres.links import Address, Link
from refold.stores.rows import Row, Tally
from refold.stores.schema import check, text_of

PAGE = 500
"""Entries that are fetched at once."""
READ = f"(SELECT version FROM about), key, {rows.COLUMNS}"


class Tables:
    """Sessions and entries of the schema at `address`."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def rows(self, link: Link, key: int, tally: Tally, first: int = 0) -> Iterator[tuple[int, Row]]:
        """(place, row) of a session's rows from a place on."""

        def select(first: int, end: int) -> Iterator[tuple[int, str | None, int, bytes]]:
            try:
                for place, id, version, line in select_rows(link, key, first, end):
                    yield place, text_of(id), version, line
            except errors.InternalError:
                link.rollback()  # the snapshot is over; what follows is read without one
                raise

        return rows.placed(select, first, tally.entries + tally.bad, errors.InternalError)

    def tally(self, link: Link, session: str, how: str = "") -> tuple[int, Tally]:
        found = link.ask(f"SELECT {READ} FROM sessions WHERE id = %s {how}", bytes_of(session))
        if not found:
            raise UnknownName("session", session)
        return self.checked(found[0])

    def tallies(self, link: Link) -> list[tuple[int, Tally]]:
        """Keys and tallies of all sessions, newest first."""
        found = link.ask(f"SELECT {READ} FROM sessions ORDER BY updated DESC, key DESC")
        return [self.checked(row) for row in found]

    def put_tally(self, link: Link, key: int, tally: Tally) -> None:
        marks = ", ".join(["%s"] * 9)
        link.ask(
            f"UPDATE sessions SET ({rows.COLUMNS}) = ({marks}) WHERE key = %s",
            *rows.columns(tally, bytes_of),
            key,
        )

    def checked(self, row: tuple[Any, ...]) -> tuple[int, Tally]:
        version, key, *columns = row
        check(str(self.address), version, schema.VERSION)
        return key, rows.of_columns(columns)


def select_rows(link: Link, key: int, first: int, end: int) -> Iterator[tuple[Any, ...]]:
    while first < end:
        page = link.ask(
            "SELECT place, id, version, line FROM entries"
            " WHERE session = %s AND place >= %s AND place < %s ORDER BY place LIMIT %s",
            *(key, first, end, PAGE),
        )
        yield from page
        first = page[-1][0] + 1 if len(page) == PAGE else end


def place_of(link: Link, key: int, start: int) -> int:
    """Where the entry number `start` is, in a session that also holds lines that are no entries."""
    found = link.ask(
        "SELECT place FROM entries WHERE session = %s AND id IS NOT NULL ORDER BY place LIMIT 1 OFFSET %s",
        *(key, start),
    )
    return found[0][0] if found else rows.END


def bytes_of(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogatepass")
