"""Checks and repairs of a SQLite database. Uses only its own connection: opening the file otherwise would
drop the locks of writers in this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol, cast

import apsw

from refold.errors import FormatError, RefoldError, StorageError
from refold.protocols import Finding, Lines, SessionInfo, Store
from refold.stores import database, rows, schema, search_text
from refold.stores.database import Database
from refold.stores.doctor import check_tally, done, rights
from refold.stores.schema import decoded_text

_ENTRIES = f"SELECT row, {schema.VERSION_COLUMN}, {schema.LINE_COLUMN} FROM entries"
_REPAIR = "; with --repair, what can be read is saved"
_LINE = f"SELECT {schema.LINE_COLUMN} FROM entries WHERE row = ?"


class Target(Store, Lines, Protocol):
    """A store that accepts lines as they are."""


def examine(store: Database, repair: bool, create: Callable[[Path], Target]) -> list[Finding]:
    """Checks a database. `create` makes the store to which a damaged one is salvaged."""
    return list(_database(store, repair, create))


def _database(store: Database, repair: bool, create: Callable[[Path], Target]) -> Iterator[Finding]:
    for suffix in ("", "-wal", "-shm"):
        yield from rights(store.path.with_name(store.path.name + suffix), repair)
    where = str(store.path)
    try:
        with store.writing() if repair else store.reading() as connection:
            broken = [str(text) for (text,) in connection.execute("PRAGMA integrity_check(20)")]
            words_broken = any("words" in text for text in broken)
            # A value of another kind in a column (" value in …") is a damaged entry, told with its session.
            broken = [x for x in broken if x != "ok" and "words" not in x and " value in " not in x]
            if not broken:
                yield from _orphans(connection, where, repair)
                yield from _sessions(connection, where, repair)
                yield from _words(connection, where, repair, words_broken)
                return
        yield Finding(where, f"damaged: {'; '.join(broken[:3])}{'' if repair else _REPAIR}", "lasting")
    except FormatError as error:
        hint = _REPAIR if isinstance(error.__cause__, apsw.CorruptError) and not repair else ""
        yield Finding(where, _without_advice(error) + hint, "lasting")
    except StorageError as error:
        yield Finding(where, str(error), "lasting")
        return
    if repair:
        yield from _salvage(store, create)


def _without_advice(error: RefoldError) -> str:
    """The error without the advice to call this doctor."""
    damage = error.__cause__
    return f"damaged: {damage}" if isinstance(damage, apsw.CorruptError) else str(error)


def _orphans(connection: apsw.Connection, where: str, repair: bool) -> Iterator[Finding]:
    found = schema.select(
        connection,
        f"""SELECT DISTINCT row >> {schema.SHIFT} FROM entries
            WHERE row >> {schema.SHIFT} NOT IN (SELECT key FROM sessions)""",
    )
    for (key,) in found:
        if repair:
            connection.execute(
                "INSERT INTO sessions VALUES (?,?,0,0,NULL,NULL,0,0,0,NULL)", (key, f"recovered-{key}")
            )
        yield Finding(where, f"entries without a session; they belong to recovered-{key}", done(repair))


def _sessions(connection: apsw.Connection, where: str, repair: bool) -> Iterator[Finding]:
    for key, tally in database.tallies(connection):
        found = [row for _, row in database.session_rows(connection, key, tally)]
        here = f"{where}#{tally.id}"
        if not schema.select(connection, "SELECT 1 FROM sessions WHERE id = ?", database.sql_of(tally.id)):
            if repair:
                database.put_tally(connection, key, tally)
            yield Finding(here, "its id is damaged; this is its new id", done(repair))
        put = partial(database.put_tally, connection, key) if repair else None
        yield from check_tally(here, tally, found, put)


def _words(connection: apsw.Connection, where: str, repair: bool, broken: bool) -> Iterator[Finding]:
    text = "the index of words is damaged"
    if not broken:
        try:
            connection.execute(
                "SELECT 1 FROM words WHERE words MATCH 'a' LIMIT 1"
            ).fetchall()  # its tokenizer
            there = {cast("int", row) for (row,) in connection.execute("SELECT rowid FROM words")}
            entries = connection.execute(_ENTRIES)
            wanted = {row for row, said in _texts(cast("Iterable[tuple[int, int, bytes]]", entries)) if said}
            if there == wanted:
                return
            missing, extra = len(wanted - there), len(there - wanted)
            text = f"the index of words lacks {missing:,} entries and has {extra:,} too many"
        except (apsw.CorruptError, apsw.SQLError):
            pass
    if repair:
        reindex(connection)
    yield Finding(where, text, done(repair))


def _texts(entries: Iterable[tuple[int, int, bytes]]) -> Iterator[tuple[int, str]]:
    for row, version, line in entries:
        entry = rows.of_line(line, version).entry
        yield row, search_text.of_entry(entry) if entry is not None else ""


def reindex(connection: apsw.Connection) -> None:
    """Rebuilds the word index from the entries."""
    connection.execute("DROP TABLE IF EXISTS words")
    connection.execute(schema.WORDS_TABLE)
    entries = schema.select(connection, _ENTRIES)
    for row, text in _texts(cast("list[tuple[int, int, bytes]]", entries)):
        if text:
            connection.execute("INSERT INTO words(rowid, text) VALUES (?,?)", (row, text))


def _salvage(store: Database, create: Callable[[Path], Target]) -> Iterator[Finding]:
    """Copies what can be read into a new database beside the damaged one, which is unchanged."""
    path = store.path.with_name(f"{store.path.stem}.salvaged-{time.strftime('%Y%m%d-%H%M%S')}.db")
    saved = lost = 0
    target = create(path)
    try:
        with store.connection() as connection:
            for session, lines, missing in _readable(connection):
                target.create(SessionInfo(id=session))
                target.append_lines(session, lines, after=None)
                saved, lost = saved + len(lines), lost + missing
    except RefoldError as error:
        yield Finding(str(store.path), f"no more could be saved: {_without_advice(error)}", "lasting")
    finally:
        target.close()
    if saved:
        yield Finding(str(path), f"{saved} entries were recovered; {lost} could not be read", "repaired")
    else:
        path.unlink(missing_ok=True)


def _readable(connection: apsw.Connection) -> Iterator[tuple[str, list[bytes], int]]:
    """(session, lines, number of missing ones), row by row, so that one damaged page does not hide others."""
    names = "SELECT CAST(id AS BLOB), key, entries + bad FROM sessions"
    for id, key, count in schema.select(connection, names):
        lines: list[bytes] = []
        for place in range(database.claimed(connection, count)):
            try:
                row = connection.execute(_LINE, (schema.row_of(key, place),)).fetchone()
            except apsw.CorruptError:
                continue
            if row is not None:
                lines.append(cast("bytes", row[0]))
        yield decoded_text(id) or "", lines, max(count - len(lines), 0) if isinstance(count, int) else 0
