"""Checks and repairs of a schema of PostgreSQL: changes by hand, and damage of a disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from refold.errors import FormatError, StorageError
from refold.protocols import Finding
from refold.stores.doctor import check_tally, done
from refold.stores.postgres import schema, search, tables
from refold.stores.postgres.connections import Link, Links, transaction
from refold.stores.rows import SessionTally

IDLE_TIMEOUT_SQL = "SET LOCAL idle_in_transaction_session_timeout = '10min'"
"""No idle timeout, because checking a long session takes a while."""


def examine(links: Links, repair: bool) -> list[Finding]:
    """Checks session by session, each in its own transaction, so that others can keep writing."""
    where = str(links.address)
    try:
        found = links.run(lambda link: list(_index(link, where, repair)))
        with suppress(FormatError):  # a damaged page; its session says so
            found += links.run(lambda link: _orphans(link, where, repair))
        for _, tally in links.run(tables.tallies):
            found += links.run(partial(_session, id=tally.id, repair=repair))
            with suppress(FormatError):
                found += links.run(partial(_words, id=tally.id, repair=repair))
    except StorageError as error:
        return [Finding(where, str(error), "lasting")]
    return found


def _index(link: Link, where: str, repair: bool) -> Iterator[Finding]:
    [(there,)] = link.ask("SELECT to_regclass('entries_words') IS NOT NULL")
    if not there:
        if repair:
            with transaction(link):
                link.say(f"SET LOCAL statement_timeout = 0; {schema.WORDS_INDEX}")
        yield Finding(where, "the index of words is missing: every search reads all entries", done(repair))


def _orphans(link: Link, where: str, repair: bool) -> list[Finding]:
    keys = link.ask(
        "SELECT DISTINCT session FROM entries"
        " WHERE session NOT IN (SELECT key FROM sessions) ORDER BY session"
    )
    for (key,) in keys if repair else ():
        link.ask(
            "INSERT INTO sessions(key, id, created, updated) OVERRIDING SYSTEM VALUE VALUES (%s, %s, 0, 0)",
            *(key, f"recovered-{key}".encode()),
        )
    text = "entries without a session; they belong to recovered-{}"
    return [Finding(where, text.format(key), done(repair)) for (key,) in keys]


def _session(link: Link, *, id: str, repair: bool) -> list[Finding]:
    with transaction(link):
        link.say(IDLE_TIMEOUT_SQL)
        key, tally = tables.tally(link, id, "FOR UPDATE" if repair else "")
        found = [row for _, row in tables.session_rows(link, key, tally)]
        put: Callable[[SessionTally], None] | None = partial(tables.put_tally, link, key) if repair else None
        return list(check_tally(f"{link.address}#{id}", tally, found, put))


def _words(link: Link, *, id: str, repair: bool) -> list[Finding]:
    with transaction(link):
        link.say(IDLE_TIMEOUT_SQL)
        key, tally = tables.tally(link, id, "FOR UPDATE" if repair else "")
        rows = link.ask("SELECT place FROM entries WHERE session = %s AND words IS NOT NULL", key)
        there = {place for (place,) in rows}
        texts = ((place, search.vector(row.entry)) for place, row in tables.session_rows(link, key, tally))
        wanted = {place: text for place, text in texts if text is not None}
        if there == wanted.keys():
            return []
        for place in there.symmetric_difference(wanted) if repair else ():
            link.ask(
                "UPDATE entries SET words = %s::tsvector WHERE session = %s AND place = %s",
                *(wanted.get(place), key, place),
            )
    lacks, more = len(wanted.keys() - there), len(there - wanted.keys())
    text = f"the index of words lacks {lacks} entries, {more} are too many"
    return [Finding(f"{link.address}#{id}", text, done(repair))]
