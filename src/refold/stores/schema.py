"""The tables of a SQLite store, their version, and migrations."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from refold.errors import FormatError, NewerFormat, StorageError

if TYPE_CHECKING:
    import apsw

C = TypeVar("C")
SCHEMA_VERSION = 1
APPLICATION_ID = 0x52464C44  # RFLD
LINE_COLUMN, VERSION_COLUMN = "coalesce(CAST(line AS BLOB), x'')", "coalesce(CAST(version AS INTEGER), 0)"
"""Columns of an entry, cast to their type: one flipped bit can turn them into a number or null."""
SHIFT = 36
"""Row of an entry = key of its session << SHIFT | its place in the session, so that a session is a range of
rows, in the log and in the word index alike."""


def row_of(key: int, place: int = 0) -> int:
    """The row of an entry of the session with that key."""
    return (key << SHIFT) + place


TABLES = """
CREATE TABLE sessions(
  key INTEGER PRIMARY KEY, id ANY NOT NULL UNIQUE, created REAL NOT NULL, updated REAL NOT NULL,
  name ANY, cwd ANY, entries INTEGER NOT NULL, bytes INTEGER NOT NULL, bad INTEGER NOT NULL, tip ANY
) STRICT;
CREATE TABLE entries(
  row INTEGER PRIMARY KEY, id ANY, version INTEGER NOT NULL, line BLOB NOT NULL
) STRICT;
"""
WORDS_TABLE = """
CREATE VIRTUAL TABLE words USING fts5(
  text, content='', contentless_delete=1, tokenize="porter unicode61 remove_diacritics 2"
);
"""

MIGRATIONS: dict[int, Callable[[apsw.Connection], None]] = {}
"""`MIGRATIONS[n]` copies the tables of version n into tables of version n + 1 and drops the old ones, in a
transaction that is kept only if every line is still there."""


def prepare_tables(connection: apsw.Connection, path: str) -> None:
    """Creates the tables of a new database, upgrades an older one, refuses a newer one."""
    if version(connection) == SCHEMA_VERSION and _application(connection) == APPLICATION_ID:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = version(connection)
        if found == 0 and connection.execute("SELECT count(*) FROM sqlite_schema").get == 0:
            connection.execute(f"{TABLES}{WORDS_TABLE}PRAGMA application_id={APPLICATION_ID}")
        elif _application(connection) != APPLICATION_ID:
            raise FormatError(f"{path} is a database of another program: choose another file")
        else:
            migrate(connection, path, found, SCHEMA_VERSION, MIGRATIONS, lines_digest)
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def select(connection: apsw.Connection, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    return cast("list[tuple[Any, ...]]", connection.execute(sql, values).fetchall())


def version(connection: apsw.Connection) -> int:
    return int(str(connection.execute("PRAGMA user_version").get))


def _application(connection: apsw.Connection) -> int:
    return int(str(connection.execute("PRAGMA application_id").get))


def check_schema_version(what: str, found: int, known: int) -> None:
    """Checks the version inside a transaction: another process may have migrated it."""
    if found > known:
        raise NewerFormat(what, found, known)
    if found < known:
        raise StorageError(f"{what} changed its version while it was open: open it again")


def migrate(
    connection: C,
    what: str,
    found: int,
    newest: int,
    steps: Mapping[int, Callable[[C], None]],
    digest: Callable[[C], tuple[int, str]],
) -> None:
    """Migrates step by step, inside the caller's transaction."""
    if found > newest:
        raise NewerFormat(what, found, newest)
    for step in range(found, newest):
        if step not in steps:
            raise FormatError(f"{what} names a version that never was ({step}): its first page is damaged")
        before = digest(connection)
        steps[step](connection)
        if digest(connection) != before:
            raise StorageError(
                f"{what} could not be brought from version {step} to {step + 1}: it is unchanged"
            )


def lines_digest(connection: apsw.Connection) -> tuple[int, str]:
    """The number of lines, and a hash of the content of each session, in order. Lines have their own format
    version and are upgraded when read, so a migration keeps every byte."""
    return hashed(
        connection.execute(
            "SELECT s.id, e.id, e.line FROM entries e"
            f" JOIN sessions s ON s.key = e.row >> {SHIFT} ORDER BY e.row"
        )
    )


def hashed(rows: Iterable[Iterable[object]]) -> tuple[int, str]:
    """The number of rows, and a hash of their content, in order."""
    count, total = 0, hashlib.blake2b(digest_size=16)
    for row in rows:
        count += 1
        for piece in row:
            data = piece if isinstance(piece, bytes) else repr(piece).encode()
            total.update(len(data).to_bytes(8, "big") + data)
    return count, total.hexdigest()


def decoded_text(value: Any) -> str | None:
    if not isinstance(value, bytes):
        return cast("str | None", value)
    try:
        return value.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # damaged
        return value.decode("utf-8", "backslashreplace")
