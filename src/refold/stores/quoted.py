"""Entries that a database finds, read by themselves: a question to a thousand sessions opens none of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from refold.entries import AnyEntry
from refold.stores import rows, words
from refold.stores.schema import LINE, LINE_VERSION, SHIFT, select, text_of

if TYPE_CHECKING:
    import apsw


class Quoted(NamedTuple):
    session: str
    entry: AnyEntry
    score: float


@runtime_checkable
class Quoting(Protocol):
    """A store that finds entries and reads them in one question."""

    def quoted(self, terms: Iterable[str], *, limit: int, every: bool = False) -> list[Quoted]:
        """The entries in which any of the terms occurs (`every`: all of them), best first."""
        ...


def found_in(connection: apsw.Connection, terms: Iterable[str], limit: int, every: bool) -> list[Quoted]:
    wanted = words.query(terms)
    wanted = wanted.replace('" OR "', '" AND "') if every else wanted
    if not wanted:
        return []
    found = select(
        connection,
        f"""SELECT CAST(s.id AS BLOB), best.score, {LINE}, {LINE_VERSION}, CAST(e.id AS BLOB)
            FROM (SELECT rowid AS row, -rank AS score FROM words WHERE words MATCH ?
                  ORDER BY rank LIMIT ?) best
            JOIN entries e ON e.row = best.row JOIN sessions s ON s.key = best.row >> {SHIFT}
            ORDER BY best.score DESC""",
        wanted,
        limit,
    )
    made = (
        (session, rows.of_line(line, version, text_of(id)).entry, float(score))
        for session, score, line, version, id in found
    )
    return [Quoted(text_of(session) or "", entry, score) for session, entry, score in made if entry]
