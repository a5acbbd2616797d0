"""Millions of entries in PostgreSQL and SQLite within minutes: the rows that the stores would have written.

Rows are made once in Python (`Rows`) and go in by COPY and by one transaction, around the stores; the index of words of PostgreSQL is
built afterwards. `compare` writes some of the same sessions through the stores and looks whether what lies in the tables is the same.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from refold import format as fmt
from refold import messages as m
from refold.entries import MessageEntry
from refold.protocols import SessionInfo
from refold.stores import database, search_text
from refold.stores.postgres import schema, search, tables
from refold.stores.postgres.connections import Link
from refold.stores.postgres.store import PostgresStore
from refold.stores.schema import SHIFT, row_of
from refold.stores.sqlite import SqliteStore
from refold.text.words import stem

TEMPLATES = 20_000
SESSION = 100
"""Entries of a session."""
OWN, ID, PARENT = "zzown", "ID-OF-ENTRY", "ID-OF-PARENT"
"""Stand for the word that only one entry has, for the entry's name and for that of the one before it."""
LETTERS = str.maketrans("0123456789abcdef", "bcdfghjklmnpqrtv")


def vocabulary(chance: random.Random, count: int = 50_000) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        word = "".join(
            chance.choice("bdfgklmnprtv") + chance.choice("aeiou") for _ in range(chance.randint(2, 4))
        )
        if stem(word) == word:
            found[word] = None
    return list(found)


def texts(chance: random.Random) -> Iterator[str]:
    """10 to 80 words; the word at rank r is said about 1/r as often as the first."""
    known = vocabulary(chance)
    weights = list(itertools.accumulate(1 / rank for rank in range(5, len(known) + 5)))
    for _ in range(TEMPLATES):
        said = chance.choices(known, cum_weights=weights, k=chance.randint(10, 80))
        yield f"{' '.join(said)} {OWN}"


def own(number: int) -> str:
    """A word of letters for a number, and no other."""
    return OWN + f"{number:08x}".translate(LETTERS)


class Rows:
    """Entry by entry: 20,000 different texts, with a word of its own in each copy."""

    def __init__(self) -> None:
        self.texts = list(texts(random.Random(1)))
        made = [MessageEntry(id=ID, message=m.user(text)) for text in self.texts]
        self._first = [fmt.encode(entry).decode() for entry in made]
        made = [MessageEntry(id=ID, parent=PARENT, message=m.user(text)) for text in self.texts]
        self._later = [fmt.encode(entry).decode() for entry in made]
        self._vectors = [search.vector(entry) or "" for entry in made]
        self._words = [search_text.of_entry(entry) for entry in made]

    def entry(self, number: int) -> MessageEntry:
        place = number % SESSION
        text = self.texts[self._which(number)].replace(OWN, own(number))
        parent = f"e{place - 1}" if place else None
        return MessageEntry(id=f"e{place}", parent=parent, message=m.user(text))

    def line(self, number: int) -> bytes:
        place, which = number % SESSION, self._which(number)
        line = self._later[which].replace(PARENT, f"e{place - 1}") if place else self._first[which]
        return line.replace(ID, f"e{place}").replace(OWN, own(number)).encode()

    def vector(self, number: int) -> str:
        return self._vectors[self._which(number)].replace(OWN, own(number))

    def words(self, number: int) -> str:
        return self._words[self._which(number)].replace(OWN, own(number))

    def _which(self, number: int) -> int:
        return number * 7919 % TEMPLATES


# ── filling ─────────────────────────────────────────────────────────────────────────────────────


def fill_postgres(store: PostgresStore, rows: Rows, entries: int) -> None:
    def work(link: Link) -> None:
        sizes = [0] * (entries // SESSION)
        with link.cursor().copy(b"COPY entries(session, place, id, version, line, words) FROM STDIN") as copy:
            for number in range(entries):
                key, place = divmod(number, SESSION)
                line = rows.line(number)
                sizes[key] += len(line) + 1
                name = f"e{place}".encode().hex()
                copy.write(
                    f"{key + 1}\t{place}\t\\\\x{name}\t{fmt.VERSION}\t\\\\x{line.hex()}\t{rows.vector(number)}\n"
                )
        tip = f"e{SESSION - 1}".encode().hex()
        with link.cursor().copy(
            b"COPY sessions(key, id, created, updated, entries, bytes, tip) FROM STDIN"
        ) as copy:
            for key, size in enumerate(sizes, 1):
                id = f"s{key - 1}".encode().hex()
                copy.write(f"{key}\t\\\\x{id}\t{key}\t{key}\t{SESSION}\t{size}\t\\\\x{tip}\n")

    _in_bulk(store, work)


def _in_bulk(store: PostgresStore, work: Callable[[Link], None]) -> None:
    """The index of words is built when all is there. (A table that was emptied in the same transaction needs
    no log where `wal_level` is minimal.)"""

    def whole(link: Link) -> None:
        link.limit = 1e6
        link.say(
            "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0"
        )
        link.say("BEGIN; DROP INDEX IF EXISTS entries_words; TRUNCATE entries, sessions")
        work(link)
        link.ask("SELECT setval(pg_get_serial_sequence('sessions', 'key'), (SELECT max(key) FROM sessions))")
        link.say("COMMIT")
        for sql in (
            schema.WORDS_INDEX,
            "VACUUM (ANALYZE, INDEX_CLEANUP off) entries",
            "VACUUM ANALYZE sessions",
            "CHECKPOINT",
        ):
            link.say(sql)
        link.close()

    store.run(whole)


def fill_sqlite(store: SqliteStore, rows: Rows, entries: int) -> None:
    list(store.sessions())
    with store.connection() as connection:
        connection.execute(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-500000"
        ).fetchall()
        connection.execute("INSERT INTO words(words, rank) VALUES ('hashsize', 67108864)")
        sizes = [0] * (entries // SESSION)
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO entries VALUES (?,?,?,?)", _rows(rows, entries, sizes))
        texts = ((_at(number), rows.words(number)) for number in range(entries))
        connection.executemany("INSERT INTO words(rowid, text) VALUES (?,?)", texts)
        for key, size in enumerate(sizes, 1):
            row = (key, f"s{key - 1}", key, key, None, None, SESSION, size, 0, f"e{SESSION - 1}")
            connection.execute("INSERT INTO sessions VALUES (?,?,?,?,?,?,?,?,?,?)", row)
        connection.execute("COMMIT")
        connection.execute("INSERT INTO words(words, rank) VALUES ('hashsize', 1048576)")
    store.close()  # with its settings


def _rows(rows: Rows, entries: int, sizes: list[int]) -> Iterator[tuple[Any, ...]]:
    for number in range(entries):
        key, place = divmod(number, SESSION)
        line = rows.line(number)
        sizes[key] += len(line) + 1
        yield _at(number), f"e{place}", fmt.VERSION, line


def _at(number: int) -> int:
    key, place = divmod(number, SESSION)
    return (key + 1 << SHIFT) + place


def undivided(store: PostgresStore) -> None:
    """A new schema gets one table of entries instead of partitions."""

    def work(link: Link) -> None:
        link.say(
            "CREATE TABLE whole (LIKE entries INCLUDING ALL EXCLUDING INDEXES, PRIMARY KEY (session, place))"
        )
        link.say(f"DROP TABLE entries; ALTER TABLE whole RENAME TO entries; {schema.WORDS_INDEX}")

    store.run(work)


# ── the same as through the stores ──────────────────────────────────────────────────────────────


def compare(stores: dict[str, Any], rows: Rows, entries: int, folder: Path) -> int:
    """Write some sessions through a new store of each kind: what lies in the tables must be the same, and what
    their words find. How many sessions were compared."""
    numbers = random.Random(entries).sample(range(entries // SESSION), 20)
    for name, store in stores.items():
        scratch: Any = (
            SqliteStore(folder / f"scratch{entries}.db", clock=lambda: 0.0)
            if isinstance(store, SqliteStore)
            else PostgresStore(f"{store.address}".partition("?")[0] + f"?schema=scratch_{name}_{entries}")
        )
        for number in numbers:
            said = [rows.entry(n) for n in range(number * SESSION, (number + 1) * SESSION)]
            scratch._clock = lambda number=number: number + 1.0
            scratch.create(SessionInfo(id=f"s{number}"))
            scratch.append(f"s{number}", said, after=None)
            assert _stored(store, f"s{number}") == _stored(scratch, f"s{number}"), (name, number)
            assert store.load(f"s{number}") == scratch.load(f"s{number}"), (name, number)
            for question in (own(number * SESSION + 7), *said[3].message.text.split()[:3]):
                found = [
                    sorted(c.entry_id for c in s.search([question], session=f"s{number}"))
                    for s in (store, scratch)
                ]
                assert found[0] == found[1] != [], (name, question)
        scratch.close()
    return len(numbers)


def _stored(store: Any, session: str) -> list[Any]:
    """The rows of a session, without the keys."""
    if isinstance(store, SqliteStore):
        with store.reading() as connection:
            key, tally = database.tally(connection, session)
            span = (row_of(key), row_of(key + 1))
            query = (
                f"SELECT row & {(1 << SHIFT) - 1}, id, version, line FROM entries WHERE row >= ? AND row < ?"
            )
            return [tally, *connection.execute(query, span).fetchall()]

    def work(link: Link) -> list[Any]:
        key, tally = tables.tally(link, session)
        query = "SELECT place, id, version, line, words::text FROM entries WHERE session = %s ORDER BY place"
        return [tally, *link.ask(query, key)]

    return store.run(work)
