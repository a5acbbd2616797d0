"""Entries that a database finds and reads directly, without opening their sessions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from refold.entries import AnyEntry
from refold.protocols import Candidate
from refold.stores import rows, search_text
from refold.stores.schema import LINE_COLUMN, SHIFT, VERSION_COLUMN, decoded_text, row_of, select

if TYPE_CHECKING:
    import apsw


class Quoted(NamedTuple):
    session: str
    entry: AnyEntry
    score: float


@runtime_checkable
class Quoting(Protocol):
    """A store that finds and reads entries in one query."""

    def quoted(self, terms: Iterable[str], *, limit: int, every: bool = False) -> list[Quoted]:
        """The entries with any of the terms (`every`: all of them), best first."""
        ...


def best_entries(
    connection: apsw.Connection, wanted: str, limit: int, columns: str = "", key: int | None = None
) -> list[tuple[Any, ...]]:
    """(session id, entry id, score, further `columns` …) found by the word index, best first; `key`: in one
    session."""
    if not wanted or limit <= 0:
        return []
    span = (0, (1 << 63) - 1) if key is None else (row_of(key), row_of(key + 1) - 1)
    return select(
        connection,
        f"""SELECT CAST(s.id AS BLOB), CAST(e.id AS BLOB), best.score{columns}
            FROM (SELECT rowid AS row, -rank AS score FROM words
                  WHERE words MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rank LIMIT ?) best
            JOIN entries e ON e.row = best.row JOIN sessions s ON s.key = best.row >> {SHIFT}
            ORDER BY best.score DESC""",
        *(wanted, *span, limit),
    )


def search_entries(
    connection: apsw.Connection, terms: Iterable[str], limit: int, every: bool
) -> list[Quoted]:
    wanted = search_text.query(terms)
    wanted = wanted.replace('" OR "', '" AND "') if every else wanted
    return quoted_rows(best_entries(connection, wanted, limit, f", {VERSION_COLUMN}, {LINE_COLUMN}"))


def quoted_rows(found: Iterable[tuple[Any, ...]]) -> list[Quoted]:
    """The entries in rows of (session id, entry id, score, version, line)."""
    made = (
        (session, rows.of_line(line, version, decoded_text(id)).entry, score)
        for session, id, score, version, line in found
    )
    return [Quoted(decoded_text(session) or "", entry, score) for session, entry, score in made if entry]


def candidates(found: Iterable[tuple[Any, ...]]) -> list[Candidate]:
    """The same rows, unread."""
    return [Candidate(decoded_text(row[0]) or "", decoded_text(row[1]) or "", row[2]) for row in found]
