"""Replaces entries in a SQLite database so that no byte of the old ones stays in its files (`refold
forget`)."""

from __future__ import annotations

from collections.abc import Mapping

import apsw

from refold.entries import AnyEntry
from refold.errors import StorageError
from refold.format import VERSION
from refold.stores import database, search_text
from refold.stores.database import Database
from refold.stores.disk import check_spool
from refold.stores.rows import rows_to_replace
from refold.stores.schema import row_of


def replace(store: Database, session: str, entries: Mapping[str, AnyEntry], after: str | None) -> None:
    """Clears rows, the word index, free pages and the write-ahead log. Needs exclusive access: another
    program could still hold, and write, the old data."""
    check_spool(store.path)
    store.close()  # idle connections of this process's other threads; they come back when they are needed
    with store.connection() as connection:
        _alone(connection, store)
        try:
            with store.writing() as connection:
                _replace(connection, session, entries, after)
            # Old words live on in the segments of the index until they are merged, old rows in free pages.
            connection.execute("INSERT INTO words(words) VALUES ('optimize')")
            connection.execute("VACUUM")
        finally:
            connection.execute("PRAGMA journal_mode=WAL").fetchall()


def _alone(connection: apsw.Connection, store: Database) -> None:
    """Leaves WAL mode, which fails while others are connected."""
    connection.set_busy_timeout(100)
    try:
        mode = connection.execute("PRAGMA journal_mode=DELETE").get
    except Exception as error:
        raise StorageError(_OTHERS.format(path=store.path)) from error
    finally:
        connection.set_busy_timeout(60_000)
    if mode != "delete":
        raise StorageError(_OTHERS.format(path=store.path))


_OTHERS = "{path} is open elsewhere, nothing was forgotten: close the other programs and try again"


def _replace(
    connection: apsw.Connection,
    session: str,
    entries: Mapping[str, AnyEntry],
    after: str | None,
) -> None:
    key, tally = database.tally(connection, session)
    tally.check(after)
    for place, new in rows_to_replace(database.session_rows(connection, key, tally), entries, tally):
        at = row_of(key, place)
        connection.execute("UPDATE entries SET version = ?, line = ? WHERE row = ?", (VERSION, new.line, at))
        connection.execute("DELETE FROM words WHERE rowid = ?", (at,))
        text = search_text.of_entry(new.entry) if new.entry is not None else ""
        if text:
            connection.execute("INSERT INTO words(rowid, text) VALUES (?,?)", (at, text))
    database.put_tally(connection, key, tally)
