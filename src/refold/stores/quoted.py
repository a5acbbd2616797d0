"""Entries that a database finds, read by themselves: a question to a thousand sessions opens none of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from refold.entries import AnyEntry
from refold.protocols import Store
from refold.stores import rows, words
from refold.stores.schema import LINE, LINE_VERSION, SHIFT, select
from refold.stores.sqlite import SqliteStore, text_of


class Quoted(NamedTuple):
    session: str
    entry: AnyEntry
    score: float


def quoted(store: Store, terms: Iterable[str], *, limit: int, every: bool = False) -> list[Quoted] | None:
    """The entries in which any of the terms occurs (`every`: all of them), best first; None: this kind of
    store cannot say."""
    if not isinstance(store, SqliteStore):
        return None
    wanted = words.query(terms)
    wanted = wanted.replace('" OR "', '" AND "') if every else wanted
    if not wanted:
        return []
    with store.reading() as connection:
        found = select(
            connection,
            f"""SELECT s.id, best.score, {LINE}, {LINE_VERSION}, e.id
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
