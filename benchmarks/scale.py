"""What millions of entries cost: PostgreSQL beside SQLite, in one run on one machine.

    python -m benchmarks.scale [--entries 10000000] [--place FOLDER] [--parts 16] [--plain] [--only postgres]
    python -m benchmarks.scale --writers 8

Needs `make test-postgres` (its server). Both databases lie on the disk of FOLDER and wait for it. They are filled
by themselves, from 20,000 different entries with a word of its own in each copy; then single appends, refreshes and
questions are timed, in turn on either. `--plain`: without the list that PostgreSQL's index keeps of new words
(`fastupdate`). Prints one JSON object.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.postgres import processes
from tests.postgres.server import Server

from refold import format as fmt
from refold import messages as m
from refold.entries import MessageEntry
from refold.protocols import SessionInfo
from refold.registry.search import across
from refold.stores import words
from refold.stores.postgres import schema, search
from refold.stores.postgres.links import Link
from refold.stores.postgres.store import PostgresStore
from refold.stores.schema import SHIFT
from refold.stores.sqlite import SqliteStore
from refold.text.words import stem

TEMPLATES = 20_000
SESSION = 100
"""Entries of a session."""
OWN = "zzown"
"""Stands for the word that only one entry has."""
SETTINGS = ("shared_buffers=1GB", "maintenance_work_mem=512MB", "max_wal_size=8GB", "work_mem=16MB")


def vocabulary(chance: random.Random, count: int = 50_000) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        word = "".join(
            chance.choice("bdfgklmnprtv") + chance.choice("aeiou") for _ in range(chance.randint(2, 4))
        )
        if stem(word) == word:
            found[word] = None
    return list(found)


def templates(chance: random.Random) -> Iterator[MessageEntry]:
    """Messages of 10 to 80 words; the word at rank r is said about 1/r as often as the first."""
    known = vocabulary(chance)
    weights = list(itertools.accumulate(1 / rank for rank in range(5, len(known) + 5)))
    for _ in range(TEMPLATES):
        said = chance.choices(known, cum_weights=weights, k=chance.randint(10, 80))
        yield MessageEntry(id="e", message=m.user(f"{' '.join(said)} {OWN}"))


def own(number: int) -> str:
    """A word of letters for a number, and no other."""
    letters = "bcdfghjklmnpqrtv"
    return OWN + "".join(letters[(number >> shift) & 15] for shift in range(28, -1, -4))


OWN_SQL = "'" + OWN + "' || translate(lpad(to_hex({n}), 8, '0'), '0123456789abcdef', 'bcdfghjklmnpqrtv')"


def fill_postgres(store: PostgresStore, made: list[MessageEntry], entries: int) -> None:
    list(store.sessions())

    def work(link: Link) -> None:
        link.limit = 1e6
        link.say("SET statement_timeout = 0; SET synchronous_commit = off")
        link.say("CREATE UNLOGGED TABLE made(number integer PRIMARY KEY, line text, words tsvector)")
        with link.cursor().copy("COPY made FROM STDIN") as copy:
            for n, entry in enumerate(made):
                vector = search.vector(entry) or ""
                copy.write_row((n, fmt.encode(entry).decode(), vector.replace(f"'{OWN}'", "")))
        link.say("DROP INDEX entries_words; ALTER TABLE entries DROP CONSTRAINT entries_pkey")
        link.say(
            f"""INSERT INTO sessions(id, created, updated, entries, bytes, tip)
                SELECT convert_to('s' || n, 'UTF8'), n, n, {SESSION}, 30000, 'e{SESSION - 1}'
                FROM generate_series(0, {entries // SESSION - 1}) n"""
        )
        word = OWN_SQL.format(n="n")
        link.say(
            f"""INSERT INTO entries(session, place, id, version, line, words)
                SELECT 1 + n / {SESSION}, n % {SESSION}, convert_to('e' || n % {SESSION}, 'UTF8'), {fmt.VERSION},
                  convert_to(replace(replace(line, '"id":"e"', '"id":"e' || n % {SESSION} || '"'), '{OWN}', {word}), 'UTF8'),
                  made.words || array_to_tsvector(ARRAY[{word}])
                FROM generate_series(0, {entries - 1}) AS n JOIN made ON made.number = n * 7919::bigint % {TEMPLATES}"""
        )
        link.say("ALTER TABLE entries ADD PRIMARY KEY (session, place)")
        link.say(schema.WORDS)
        link.say("DROP TABLE made; ANALYZE; CHECKPOINT")
        link.close()

    store.run(work)


def fill_sqlite(store: SqliteStore, made: list[MessageEntry], entries: int) -> None:
    with store.connection() as connection:
        connection.execute("PRAGMA synchronous=OFF; PRAGMA cache_size=-500000; BEGIN").fetchall()
        lines = [fmt.encode(entry).decode() for entry in made]
        texts = [words.of_entry(entry) for entry in made]
        for number in range(entries):
            key, place = divmod(number, SESSION)
            at, word, which = (key + 1 << SHIFT) + place, own(number), number * 7919 % TEMPLATES
            line = lines[which].replace('"id":"e"', f'"id":"e{place}"').replace(OWN, word)
            connection.execute(
                "INSERT INTO entries VALUES (?,?,?,?)", (at, f"e{place}", fmt.VERSION, line.encode())
            )
            connection.execute(
                "INSERT INTO words(rowid, text) VALUES (?,?)", (at, texts[which].replace(OWN, word))
            )
            if place == 0:
                row = (key + 1, f"s{key}", key, key, None, None, SESSION, 30000, 0, f"e{SESSION - 1}")
                connection.execute("INSERT INTO sessions VALUES (?,?,?,?,?,?,?,?,?,?)", row)
            if number % 100_000 == 99_999:
                connection.execute("COMMIT")
                connection.execute("BEGIN")
        connection.execute(
            "COMMIT; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA synchronous=FULL; PRAGMA cache_size=-16000"
        ).fetchall()


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def quantiles(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    marks = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    found = {name: round(ordered[int(share * (len(ordered) - 1))], 2) for name, share in marks.items()}
    return {**found, "max": round(ordered[-1], 2), "n": len(ordered)}


def questions(chance: random.Random, made: list[MessageEntry], entries: int) -> dict[str, list[str]]:
    """One word of one entry; three words that were said together; two of the most common words alone."""

    def said(entry: MessageEntry) -> list[str]:
        return entry.message.text.split()[:-1]

    common = vocabulary(random.Random(1))[:20]
    return {
        "a rare word": [own(chance.randrange(entries)) for _ in range(60)],
        "words said together": [" ".join(chance.sample(said(chance.choice(made)), 3)) for _ in range(60)],
        "common words": [" ".join(chance.sample(common, 2)) for _ in range(20)],
    }


def measure(stores: dict[str, Any], made: list[MessageEntry], entries: int, appends: int) -> dict[str, Any]:
    chance = random.Random(2)
    found: dict[str, Any] = {name: {} for name in stores}
    times: dict[tuple[str, str], list[float]] = {}
    for number in range(appends):
        session = f"s{chance.randrange(entries // SESSION)}"
        entry = MessageEntry(id=f"new{number}", parent=f"e{SESSION - 1}", message=chance.choice(made).message)
        for name, store in stores.items():
            tip = store.load(session, 1 << 30).tip
            spent = timed(lambda: store.append(session, [entry], after=tip))  # noqa: B023
            times.setdefault((name, "append"), []).append(spent)
            spent = timed(lambda: store.load(session, SESSION))  # noqa: B023
            times.setdefault((name, "refresh"), []).append(spent)
    for kind, asked in questions(chance, made, entries).items():
        for question in asked:
            for name, store in stores.items():
                spent = timed(lambda: store.search(question.split(), limit=400))  # noqa: B023
                times.setdefault((name, f"candidates: {kind}"), []).append(spent)
                spent = timed(lambda: across(store, question, limit=10))  # noqa: B023
                times.setdefault((name, f"recall: {kind}"), []).append(spent)
    for name, store in stores.items():
        times[name, "list of all sessions"] = [timed(lambda: list(store.sessions())) for _ in range(3)]  # noqa: B023
    for (name, what), each in times.items():
        found[name][what] = quantiles(each)
    return found


def run(
    entries: int, place: Path, *, parts: int, plain: bool, appends: int, only: str | None = None
) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="refold-scale-", dir=place))
    schema.PARTS = parts
    server = Server(folder, *SETTINGS)
    try:
        made = list(templates(random.Random(1)))
        stores: dict[str, Any] = {
            "postgres": PostgresStore(server.url),
            "sqlite": SqliteStore(folder / "s.db"),
        }
        stores = {name: store for name, store in stores.items() if only in (None, name)}
        fill: dict[str, Any] = {"postgres": fill_postgres, "sqlite": fill_sqlite}
        filled = {
            name: timed(lambda: fill[name](store, made, entries)) / 1000  # noqa: B023
            for name, store in stores.items()
        }
        print(json.dumps(filled), flush=True)
        if plain:
            for part in range(parts):
                sql = f"ALTER INDEX entries_{part}_words_idx SET (fastupdate = off)"
                stores["postgres"].run(lambda link, sql=sql: link.say(sql))
        found = measure(stores, made, entries, appends)
        sizes = {name: bytes_of(name, store) for name, store in stores.items()}
        for store in stores.values():
            store.close()
        return {
            "entries": entries,
            "parts": parts,
            "fastupdate": not plain,
            "filled": filled,
            "bytes": sizes,
            **found,
        }
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def bytes_of(name: str, store: Any) -> int:
    if name == "sqlite":
        return store.path.stat().st_size
    return store.run(lambda link: link.ask("SELECT pg_database_size(current_database())"))[0][0]


def together(place: Path, writers: int, count: int = 300) -> dict[str, float]:
    """Appends in a second by so many processes, each to a session of its own, unwatched and watched."""
    folder = Path(tempfile.mkdtemp(prefix="refold-scale-", dir=place))
    server = Server(folder, *SETTINGS)
    store = PostgresStore(server.url, size=2)
    found: dict[str, float] = {}
    try:
        for how in ("unwatched", "watched"):
            names = [f"{how}{n}" for n in range(writers)]
            for name in names:
                store.create(SessionInfo(id=name))
            watches = [store.watch(name) for name in names if how == "watched"]
            started = [processes.start(server.url, name, "w", count, 60) for name in names]
            for process in started:
                assert process.stdout is not None
                process.stdout.readline()
            began = time.perf_counter()
            processes.acknowledged(started)
            found[how] = round(writers * (count - 1) / (time.perf_counter() - began), 1)
            for watch in watches:
                watch.close()
        return found
    finally:
        store.close()
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    parser.add_argument("--entries", type=int, default=10_000_000)
    parser.add_argument("--place", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--parts", type=int, default=schema.PARTS)
    parser.add_argument("--appends", type=int, default=2000)
    parser.add_argument("--only", choices=("postgres", "sqlite"))
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--writers", type=int, help="only how much so many processes append together")
    chosen = vars(parser.parse_args())
    writers: int | None = chosen.pop("writers")
    print(json.dumps(together(chosen["place"], writers) if writers else run(**chosen), indent=1))
