"""Sessions of many processes and hosts in one PostgreSQL database.

An append is one transaction: it locks the session's row (the compare-and-swap; other appends wait), adds the
entries with their words, and commits before it returns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from psycopg import errors

from refold.entries import AnyEntry
from refold.errors import Conflict, ReadOnly, SessionExists, StorageError, UnknownName
from refold.format import VERSION
from refold.protocols import AppendWatch, Candidate, Finding, Loaded, SessionInfo
from refold.stores import beside_postgres, rows
from refold.stores.disk import check_spool
from refold.stores.entry_search import Quoted, candidates, quoted_rows
from refold.stores.postgres import doctor, notifications, schema, search, tables
from refold.stores.postgres.connections import Address, Link, Links, Unanswered, snapshot, transaction
from refold.stores.postgres.tables import TALLY_SELECT, bytes_of, place_of, select_rows
from refold.stores.rows import SessionTally, StoredLine, rows_to_replace
from refold.stores.watcher import PollingWatch

T = TypeVar("T")
SIZE = 10
"""Maximum number of connections of one store."""
BEGINNING = f"SELECT {TALLY_SELECT} FROM sessions WHERE id >= %s AND id < %s ORDER BY id LIMIT %s"

_APPEND = """
WITH owner AS (
  UPDATE sessions SET updated = %s, name = coalesce(%s, name), cwd = coalesce(%s, cwd),
    entries = entries + %s, bytes = bytes + %s, bad = bad + %s, tip = coalesce(%s, tip)
  WHERE id = %s AND (NOT %s OR tip IS NOT DISTINCT FROM %s) AND (SELECT version FROM about) = %s
  RETURNING key, greatest(
    entries + bad - %s, (SELECT coalesce(max(place) + 1, 0) FROM entries WHERE session = key)) AS place
), added AS (
  INSERT INTO entries(session, place, id, version, line, words)
  SELECT key, place + number - 1, new.id, %s, line, words::tsvector FROM owner,
    unnest(%b::bytea[], %b::bytea[], %s::text[]) WITH ORDINALITY AS new(id, line, words, number)
)
SELECT key, place, CASE WHEN NOT pg_try_advisory_xact_lock(%s, (key %% 2147483647)::int)
  THEN pg_notify('refold_' || key, '') END FROM owner
"""
"""Sends a notification only if a watcher holds the session's lock. (Sending takes a server-wide lock until
the commit is on disk.)"""


class PostgresStore:
    """The sessions in one schema of a database; tables are created on first use."""

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 60.0,
        size: int = SIZE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.address = Address(url)
        self._clock = clock
        self._statistics = search.Statistics()
        self._links = Links(self.address, timeout=timeout, size=size, set_up=self._set_up)

    def __repr__(self) -> str:
        return f"<PostgresStore {self.address}>"

    # ── the protocol ────────────────────────────────────────────────────────────────────────────

    def create(self, info: SessionInfo) -> None:
        values = rows.tally_values(rows.new_tally(info, self._clock()), bytes_of)
        marks, sent = ", ".join(["%s"] * len(values)), list[bool]()

        def work(link: Link) -> None:
            try:
                with transaction(link):
                    link.ask(f"INSERT INTO sessions({rows.TALLY_COLUMNS}) VALUES ({marks})", *values)
                    sent.append(True)
            except errors.UniqueViolation:
                found = link.ask(f"SELECT {rows.TALLY_COLUMNS} FROM sessions WHERE id = %s", values[0])
                if not sent or found != [values]:
                    raise SessionExists(info.id) from None

        self._links.run(work)

    def append(self, session: str, entries: Sequence[AnyEntry], *, after: str | None) -> None:
        self._add(session, rows.of_entries(entries), after)

    def append_lines(self, session: str, lines: Sequence[bytes], *, after: str | None) -> None:
        self._add(session, rows.of_lines(lines), after)

    def load(self, session: str, start: int = 0) -> Loaded:
        def work(link: Link) -> Loaded:
            with snapshot(link), rows.decoding():
                key, tally = tables.tally(link, session)
                first = place_of(link, key, start) if tally.bad else start
                found = (
                    (f"row {place + 1}", row) for place, row in tables.session_rows(link, key, tally, first)
                )
                return rows.loaded(found, 0, tally)

        return self._links.run(work)

    def lines(self, session: str) -> Iterator[bytes]:
        def work(link: Link) -> list[bytes]:
            with snapshot(link):
                key, _ = tables.tally(link, session)
                found = select_rows(link, key, 0, rows.LAST_PLACE)
                return [rows.upgraded_line(line, version) for _, _, version, line in found]

        return iter(self._links.run(work))

    def sessions(self) -> Iterator[SessionInfo]:
        """The sessions, newest first."""
        return iter(self._links.run(lambda link: [tally.info for _, tally in tables.tallies(link)]))

    def beginning(self, text: str, limit: int) -> list[SessionInfo]:
        bounds = rows.span(text)

        def work(link: Link) -> list[SessionInfo]:
            return [tables.checked_tally(link, row)[1].info for row in link.ask(BEGINNING, *bounds, limit)]

        return self._links.run(work)

    def delete(self, session: str) -> None:
        sent: list[int] = []

        def work(link: Link) -> None:
            try:
                with transaction(link):
                    key, _ = tables.tally(link, session, "FOR UPDATE")
                    if sent and key != sent[0]:  # ours is gone, and another one was made
                        return
                    link.ask("DELETE FROM entries WHERE session = %s", key)
                    link.ask("DELETE FROM sessions WHERE key = %s", key)
                    sent.append(key)
            except UnknownName:
                if not sent:
                    raise

        self._links.run(work)

    def replace(self, session: str, entries: Mapping[str, AnyEntry], *, after: str | None) -> None:
        """Replaces entries. Updated rows remain as dead ones until their partition is rewritten."""
        check_spool(beside_postgres())

        def change(link: Link) -> int:
            with transaction(link):
                key, tally = tables.tally(link, session, "FOR UPDATE")
                tally.check(after)
                found = tables.session_rows(link, key, tally)
                for place, new in rows_to_replace(found, entries, tally):
                    link.ask(
                        "UPDATE entries SET version = %s, line = %b, words = %s::tsvector"
                        " WHERE session = %s AND place = %s",
                        *(VERSION, new.line, search.vector(new.entry), key, place),
                    )
                tables.put_tally(link, key, tally)
                return key

        key = self._links.run(change)
        try:
            self._links.run(lambda link: _rewrite(link, key))
        except StorageError as error:
            raise StorageError(
                f"the entries say nothing any more, but what they said is still in the files of "
                f"{self.address} ({error}): forget them once more, as the owner of the tables"
            ) from error

    def close(self) -> None:
        self._links.close()

    # ── searching ───────────────────────────────────────────────────────────────────────────────

    def search(
        self, terms: Iterable[str], *, session: str | None = None, limit: int = 200
    ) -> list[Candidate]:
        """Entries in which any of the terms occurs, best first."""
        asked = tuple(terms)

        def work(link: Link) -> list[Candidate]:
            key = None if session is None else tables.tally(link, session)[0]
            return candidates(search.best_entries(link, asked, limit, self._statistics.common(link), key=key))

        return self._links.run(work)

    def quoted(self, terms: Iterable[str], *, limit: int, every: bool = False) -> list[Quoted]:
        asked = tuple(terms)
        found = self._links.run(
            lambda link: search.best_entries(link, asked, limit, self._statistics.common(link), every=every)
        )
        return quoted_rows(found)

    # ── other powers ────────────────────────────────────────────────────────────────────────────

    def watch(self, session: str) -> AppendWatch:
        try:
            return notifications.Listener(self._links, lambda link: tables.tally(link, session)[0])
        except (notifications.NoNotifications, ReadOnly):  # a pooler between, or a standby: no notifications
            return PollingWatch(self, session)

    def grouped(self) -> AbstractContextManager[None]:
        return self._links.grouped()

    def examine(self, *, repair: bool = False) -> list[Finding]:
        return doctor.examine(self._links, repair)

    # ── beyond the protocol ─────────────────────────────────────────────────────────────────────

    def run(self, work: Callable[[Link], T]) -> T:
        """The result of `work` with a connection; `work` may be called again."""
        return self._links.run(work)

    def _add(self, session: str, new: list[StoredLine], after: str | None) -> None:
        if not new:
            return
        values = self._appended(session, new, after)
        sent: list[tuple[int, int]] = []

        def work(link: Link) -> None:
            with transaction(link):
                if sent and self._is_there(link, session, new, *sent[-1]):
                    return
                found = link.ask(_APPEND, *values)
                if not found:
                    tally = tables.tally(link, session)[1]
                    raise Conflict(after, tally.tip)
                sent.append(found[0][:2])

        try:
            self._links.run(work)
        except StorageError as error:
            if isinstance(error.__cause__, Unanswered) or (sent and not isinstance(error, Conflict)):
                raise StorageError(
                    f"{self.address} did not answer, and the entries may be there or not: "
                    "call session.refresh() and look before they are appended again"
                ) from error
            raise

    def _appended(self, session: str, new: list[StoredLine], after: str | None) -> tuple[Any, ...]:
        more = SessionTally(id=session)
        more.add(new)
        ids = [None if row.entry is None else bytes_of(row.entry.id) for row in new]
        return (
            rows.newest_time(new) or self._clock(),
            *map(bytes_of, (more.name, more.cwd)),
            *(more.entries, more.bytes, more.bad, bytes_of(more.tip)),
            *(bytes_of(session), any(row.moves for row in new), bytes_of(after), schema.SCHEMA_VERSION),
            *(len(new), VERSION),
            *(ids, [row.line for row in new], [search.vector(row.entry) for row in new]),
            notifications.WATCH_LOCK,
        )

    def _is_there(self, link: Link, session: str, new: list[StoredLine], key: int, place: int) -> bool:
        """True if the entries appended there are ours. Waits for the session's row lock: its holder may be
        the transaction whose answer was lost."""
        link.ask("SELECT 1 FROM sessions WHERE id = %s FOR UPDATE", bytes_of(session))
        found = select_rows(link, key, place, place + len(new))
        return [line for *_, line in found] == [row.line for row in new]

    def _set_up(self, link: Link) -> None:
        schema.prepare_tables(link, self.address.schema, self._links.timeout)


_PART = """
SELECT format('%%I.%%I', relnamespace::regnamespace::text, relname), pg_relation_filenode(oid)
FROM pg_class WHERE oid = (SELECT tableoid FROM entries WHERE session = %s LIMIT 1)"""
_NAMES = """
SELECT format('%I.%I', relnamespace::regnamespace::text, relname)
FROM pg_class WHERE oid = 'sessions'::regclass"""


def _rewrite(link: Link, key: int) -> None:
    """Rewrites the partition of that session, and the table of names. The server only warns a role without
    the right to do so."""
    [(part, file)], [(names,)] = link.ask(_PART, key), link.ask(_NAMES)
    try:
        link.limit = 1e6
        if not link.local:
            link.say("SET statement_timeout = 0")
        link.say(f"VACUUM (FULL, ANALYZE) {part}")
        if link.ask(_PART, key)[0][1] == file:
            raise ReadOnly(f"this role may not write {part} anew")
        link.say(f"VACUUM (FULL, ANALYZE) {names}")
    finally:
        link.close()  # with its settings
