"""Entries replaced in the files of a store: no byte of the old ones stays in them (`refold forget`)."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from refold.entries import AnyEntry
from refold.errors import StorageError
from refold.format import VERSION
from refold.stores import rows, words
from refold.stores.rows import Row, Tally
from refold.stores.schema import row_of

if TYPE_CHECKING:
    import apsw

    from refold.stores.jsonl import JsonlStore
    from refold.stores.sqlite import SqliteStore


def in_file(store: JsonlStore, path: Path, entries: Mapping[str, AnyEntry], after: str | None) -> None:
    """A new file takes the place of the old one in one step; the old bytes are in no file afterwards."""
    with store.exclusive(path) as (header, found):
        tally = Tally("")
        tally.add(found)
        tally.check(after)
        store.rewrite(path, [header, *(replaced(row, entries).line for row in found)])
        for older in path.parent.glob(f"{glob.escape(path.name)}.v[0-9]*"):
            older.unlink()  # what an upgrade kept


def in_database(store: SqliteStore, session: str, entries: Mapping[str, AnyEntry], after: str | None) -> None:
    """Rows, the index of words, free pages and the write-ahead log. Needs the database for itself: whoever
    else has it open could still hold, and write, what is to be forgotten."""
    store.close()  # idle connections of this process's other threads; they come back when they are needed
    with store.connection() as connection:
        _alone(connection, store)
        try:
            with store.writing() as connection:
                _replace(connection, store, session, entries, after)
            # Old words live on in the segments of the index until they are merged, old rows in free pages.
            connection.execute("INSERT INTO words(words) VALUES ('optimize')")
            connection.execute("VACUUM")
        finally:
            connection.execute("PRAGMA journal_mode=WAL").fetchall()


def _alone(connection: apsw.Connection, store: SqliteStore) -> None:
    """Leaving the write-ahead log takes a lock that nobody gets while others are connected."""
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
    store: SqliteStore,
    session: str,
    entries: Mapping[str, AnyEntry],
    after: str | None,
) -> None:
    key, tally = store.tally(connection, session)
    tally.check(after)
    for place, row in list(store.rows(connection, key, tally)):
        new = replaced(row, entries)
        if new is row:
            continue
        at = row_of(key, place)
        connection.execute("UPDATE entries SET version = ?, line = ? WHERE row = ?", (VERSION, new.line, at))
        connection.execute("DELETE FROM words WHERE rowid = ?", (at,))
        text = words.of_entry(new.entry) if new.entry is not None else ""
        if text:
            connection.execute("INSERT INTO words(rowid, text) VALUES (?,?)", (at, text))
        tally.bytes += len(new.line) - len(row.line)
    store.put_tally(connection, key, tally)


def replaced(row: Row, entries: Mapping[str, AnyEntry]) -> Row:
    new = entries.get(row.entry.id) if row.entry is not None else None
    return row if new is None else rows.of_entries([new])[0]
