"""What millions of entries cost: PostgreSQL, as one table and in partitions, beside SQLite, in one run on one machine.

    python -m benchmarks.scale [--entries 1000000 10000000] [--place FOLDER] [--store]
    python -m benchmarks.scale --writers 8

Needs `make test-postgres` (its server). All databases lie on the disk of FOLDER and wait for it; what is there already from a run that
ended early is not filled again. Appends, refreshes and questions are timed in turn on each store, so that whoever else uses the machine
disturbs all of them alike. Appends are timed with and without the list of new words that an index of PostgreSQL keeps (`fastupdate`), in
turn, and then in batches that make that list overflow. `--store` writes `benchmarks/results/scale.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.postgres import processes
from tests.postgres.server import Server

from benchmarks import results, scale_rows
from benchmarks.scale_rows import OWN, SESSION, Rows, own
from refold import messages as m
from refold.entries import MessageEntry
from refold.protocols import Candidate, SessionInfo
from refold.registry.search import search_sessions
from refold.registry.sessions import find_session
from refold.stores.postgres.connections import Link
from refold.stores.postgres.store import PostgresStore
from refold.stores.rows import LAST_PLACE
from refold.stores.sqlite import SqliteStore

SIZES = (1_000_000, 10_000_000)
ONE, PARTS, SQLITE = "one table", "16 partitions", "SQLite"
SETTINGS = ("shared_buffers=1GB", "max_wal_size=8GB", "work_mem=16MB")
BULK = ("fsync=off", "wal_level=minimal", "max_wal_senders=0", "maintenance_work_mem=1GB")
"""While a database is filled."""
APPENDS, BLOCKS, BATCHES, BATCH = 1000, 5, 120, 50
LISTS = {"": True, ", no list": False}
QUESTIONS = {"a rare word": 60, "words said together": 40, "common words": 20}
PATIENCE = 300.0
"""Seconds for the questions of one kind; then fewer are asked."""
BOTH, OTHER = 2_000_000, ONE
"""Up to so many entries both layouts of PostgreSQL are measured; beyond, the other one would take another hour."""
Store = PostgresStore | SqliteStore


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


class Times:
    """Milliseconds by what was done and by whom."""

    def __init__(self) -> None:
        self._each: dict[str, dict[str, list[float]]] = {}

    def add(self, what: str, who: str, spent: float) -> None:
        self._each.setdefault(what, {}).setdefault(who, []).append(spent)

    def time(self, what: str, who: str, work: Callable[..., Any], *given: Any, **named: Any) -> None:
        self.add(what, who, timed(lambda: work(*given, **named)))

    @property
    def figures(self) -> dict[str, dict[str, dict[str, float]]]:
        return {
            what: {who: quantiles(times) for who, times in each.items()} for what, each in self._each.items()
        }


def quantiles(times: Sequence[float]) -> dict[str, float]:
    ordered = sorted(times)
    marks = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    found = {name: round(ordered[int(share * (len(ordered) - 1))], 2) for name, share in marks.items()}
    return {**found, "max": round(ordered[-1], 2), "n": len(ordered)}


# ── databases ───────────────────────────────────────────────────────────────────────────────────


def opened(url: str, folder: Path, entries: int) -> dict[str, Store]:
    stores: dict[str, Store] = {
        SQLITE: SqliteStore(folder / "s.db"),
        PARTS: PostgresStore(f"{url}?schema=sixteen"),
        ONE: PostgresStore(f"{url}?schema=one"),
    }
    return {name: store for name, store in stores.items() if entries <= BOTH or name != OTHER}


def filled(folder: Path, rows: Rows, entries: int) -> dict[str, Any]:
    """Databases with so many entries in a folder, unless they are there already; seconds and load of each."""
    note = folder / "filled.json"
    done: dict[str, Any] = json.loads(note.read_text()) if note.exists() else {}
    folder.mkdir(parents=True, exist_ok=True)
    server = Server(folder, *SETTINGS, *BULK)
    try:
        stores = opened(server.url, folder, entries)
        for name, store in stores.items():
            if name not in done:
                done[name] = {"seconds": round(timed(lambda: fill(store, name, rows, entries)) / 1000)}  # noqa: B023
                done[name]["load"] = results.load()[0]
                note.write_text(json.dumps(done))
                print(entries, name, done[name], flush=True)
        if "compared" not in done:
            done["compared"] = scale_rows.compare(stores, rows, entries, folder)
            note.write_text(json.dumps(done))
        for store in stores.values():
            store.close()
    finally:
        server.stop()
    return done


def fill(store: Store, name: str, rows: Rows, entries: int) -> None:
    list(store.sessions())
    if isinstance(store, SqliteStore):
        scale_rows.fill_sqlite(store, rows, entries)
    else:
        if name == ONE:
            scale_rows.undivided(store)
        scale_rows.fill_postgres(store, rows, entries)


def size_of(store: Store) -> int:
    if isinstance(store, SqliteStore):
        return store.path.stat().st_size
    query = """SELECT sum(pg_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
               WHERE nspname = %s"""
    return store.run(lambda link: link.ask(query, store.address.schema))[0][0]


def list_new_words(stores: dict[str, Store], on: bool) -> None:
    """Whether the indexes of PostgreSQL keep a list of new words. It is empty afterwards."""

    def work(link: Link) -> None:
        link.limit = 1e6
        link.say("SET statement_timeout = 0")
        found = link.ask(
            "SELECT c.oid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam"
            " WHERE amname = 'gin' AND relkind = 'i' AND relnamespace = current_schema()::regnamespace"
        )
        for (name,) in found:
            link.say(f"ALTER INDEX {name} SET (fastupdate = {'on' if on else 'off'})")
            link.ask("SELECT gin_clean_pending_list(%s::regclass)", name)
        link.close()

    for store in stores.values():
        if isinstance(store, PostgresStore):
            store.run(work)


# ── measuring ───────────────────────────────────────────────────────────────────────────────────


class Measure:
    """The same steps on all stores of one size, in turn."""

    def __init__(self, stores: dict[str, Store], rows: Rows, entries: int) -> None:
        self.stores, self.rows, self.entries = stores, rows, entries
        self.times = Times()
        self._chance = random.Random(2)
        self._number = 0
        self.load: list[float] = []

    def run(self) -> dict[str, Any]:
        for _ in range(BLOCKS):
            for how, on in LISTS.items():
                list_new_words(self.stores, on)
                self._appends(how)
        for how, on in LISTS.items():
            list_new_words(self.stores, on)
            self._batches(how)
        list_new_words(self.stores, True)
        self._questions()
        self._names()
        return {"load": [min(self.load), max(self.load)], "ms": self.times.figures}

    def _new(self, parent: str | None) -> MessageEntry:
        self._number += 1
        text = self._chance.choice(self.rows.texts).replace(OWN, own(self.entries + self._number))
        return MessageEntry(id=f"new{self._number}", parent=parent, message=m.user(text))

    def _appends(self, how: str) -> None:
        self._note("appends" + how)
        for _ in range(APPENDS // BLOCKS):
            session = f"s{self._chance.randrange(self.entries // SESSION)}"
            entry = self._new(tip_of(self.stores[SQLITE], session))
            for name, store in self._turn():
                tip, count = tip_of(store, session), len(store.load(session).entries)
                self.times.time(f"append{how}", name, store.append, session, [entry], after=tip)
                self.times.time(f"refresh{how}", name, store.load, session, count)

    def _batches(self, how: str) -> None:
        """Many at once into one session: so its index has to write its list down at some time."""
        self._note("batches" + how)
        for _ in range(BATCHES):
            entries = [self._new(None) for _ in range(BATCH)]
            for name, store in self._turn():
                tip = tip_of(store, "s7")
                self.times.time(f"append of {BATCH}{how}", name, store.append, "s7", entries, after=tip)

    def _questions(self) -> None:
        for kind, asked in questions(self._chance, self.rows, self.entries).items():
            self._note(f"questions, {kind}")
            began = time.monotonic()
            for question in asked:
                for name, store in self._turn():
                    heard = Heard(store)
                    self.times.time(f"recall, {kind}", name, search_sessions, heard, question, limit=10)
                    self.times.add(f"candidates, {kind}", name, heard.spent)
                if time.monotonic() - began > PATIENCE:
                    break

    def _names(self) -> None:
        self._note("names")
        for number in range(40):
            id = f"s{self._chance.randrange(self.entries // SESSION // 10, self.entries // SESSION)}"
            for name, store in self._turn():
                self.times.time("a session by the beginning of its id", name, find_session, store, id)
                if number < 3:
                    self.times.time("the list of all sessions", name, _listed, store)

    def _turn(self) -> list[tuple[str, Store]]:
        return self._chance.sample(list(self.stores.items()), len(self.stores))

    def _note(self, what: str) -> None:
        self.load.append(results.load()[0])
        print(time.strftime("%H:%M:%S"), self.entries, what, self.load[-1], flush=True)


def _listed(store: Store) -> list[SessionInfo]:
    return list(store.sessions())


def tip_of(store: Store, session: str) -> str | None:
    tip = store.load(session, LAST_PLACE).tip
    return tip if isinstance(tip, str) else None


class Heard:
    """A store, and how long it looked for candidates."""

    def __init__(self, store: Store) -> None:
        self._store, self.spent = store, 0.0

    def search(self, *terms: Any, **conditions: Any) -> list[Candidate]:
        began = time.perf_counter()
        found = self._store.search(*terms, **conditions)
        self.spent += (time.perf_counter() - began) * 1000
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def questions(chance: random.Random, rows: Rows, entries: int) -> dict[str, list[str]]:
    """One word of one entry; three words that were said together; two of the most common words alone."""
    common = scale_rows.vocabulary(random.Random(1))[:20]
    made: dict[str, Callable[[], str]] = {
        "a rare word": lambda: own(chance.randrange(entries)),
        "words said together": lambda: " ".join(chance.sample(chance.choice(rows.texts).split()[:-1], 3)),
        "common words": lambda: " ".join(chance.sample(common, 2)),
    }
    return {kind: [made[kind]() for _ in range(count)] for kind, count in QUESTIONS.items()}


def forgetting(stores: dict[str, Store], folder: Path) -> dict[str, float]:
    """Seconds until an entry is out of PostgreSQL's files: its table is written anew."""
    note = folder / "forgotten.json"
    found: dict[str, float] = json.loads(note.read_text()) if note.exists() else {}
    for name, store in stores.items():
        if isinstance(store, PostgresStore) and name not in found:
            new = {"e5": MessageEntry(id="e5", parent="e4", message=m.user("[forgotten]"))}
            tip = tip_of(store, "s11")
            found[name] = round(timed(lambda: store.replace("s11", new, after=tip)) / 1000, 1)  # noqa: B023
            note.write_text(json.dumps(found))
    return found


def run(sizes: Sequence[int], place: Path) -> dict[str, Any]:
    """One size after the other. What a run that ended early has measured is kept in `place`."""
    rows, found = Rows(), list[dict[str, Any]]()
    for entries in sizes:
        note = place / f"refold-scale-{entries}.json"
        if not note.exists():
            folder = place / f"refold-scale-{entries}"
            filling = filled(folder, rows, entries)
            os.sync()
            measured = measure(folder, rows, entries, forget=entries == min(sizes))
            note.write_text(json.dumps({"entries": entries, "filled": filling, **measured}))
            shutil.rmtree(folder, ignore_errors=True)
        found.append(json.loads(note.read_text()))
    return {"sizes": found}


def measure(folder: Path, rows: Rows, entries: int, *, forget: bool) -> dict[str, Any]:
    server = Server(folder, *SETTINGS)
    try:
        stores = opened(server.url, folder, entries)
        measured = Measure(stores, rows, entries).run()
        sizes = {name: size_of(store) for name, store in stores.items()}
        gone = forgetting(stores, folder) if forget else {}
        for store in stores.values():
            store.close()
        return {"bytes": sizes, "forget_s": gone, **measured}
    finally:
        server.stop()


# ── many writers ────────────────────────────────────────────────────────────────────────────────


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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    parser.add_argument("--entries", type=int, nargs="+", default=SIZES)
    parser.add_argument("--place", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--store", action="store_true", help="write benchmarks/results/scale.json")
    parser.add_argument("--writers", type=int, help="only how much so many processes append together")
    chosen = parser.parse_args()
    if chosen.writers:
        print(json.dumps(together(chosen.place, chosen.writers)))
        return
    before, began = results.load(), time.perf_counter()
    found = run(chosen.entries, chosen.place)
    if chosen.store:
        seconds = time.perf_counter() - began
        print(results.write("scale", found, seconds=seconds, before=before, quick=False))


if __name__ == "__main__":
    main()
