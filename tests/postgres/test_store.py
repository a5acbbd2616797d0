"""What is special about the PostgreSQL store."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from click.testing import CliRunner

import refold
from refold import format as fmt
from refold import messages as m
from refold.cli import main
from refold.entries import Info, MessageEntry
from refold.errors import (
    Conflict,
    NewerFormat,
    ReadOnly,
    RefoldError,
    SessionExists,
    StorageError,
    UsageError,
)
from refold.protocols import SessionInfo
from refold.registry.search import search_sessions
from refold.registry.sessions import find_session, save, stored
from refold.session.forget import forget
from refold.stores import doctor, open_store, rows, transfer, watcher, without_password
from refold.stores.jsonl import JsonlStore
from refold.stores.postgres import schema, search
from refold.stores.postgres.connections import Link
from refold.stores.postgres.store import BEGINNING, PostgresStore
from refold.stores.sqlite import SqliteStore
from refold.testing.store_contract import hostile_entries, nested
from tests.postgres.server import Server
from tests.stores import kit, searches
from tests.stores.processes import ROOT
from tests.timing import alarm

S = kit.S


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url)
    store.create(SessionInfo(id=S))
    yield store
    store.close()


def command(*arguments: str) -> Any:
    done = CliRunner().invoke(main, [*arguments, "--json"], catch_exceptions=False)
    assert done.exit_code in (0, 1), done.output
    return json.loads(done.stdout)


# ── names and passwords ─────────────────────────────────────────────────────────────────────────


def test_it_opens_by_both_names_and_with_a_session_behind_a_hash(url: str) -> None:
    first = refold.open(url, id="one")
    first.append(m.user("hello"))
    other = refold.open(url.replace("postgresql://", "postgres://") + "#one")
    assert [entry.message.text for entry in other.path] == ["hello"]
    assert len(refold.open(url).path) == 0


SECRET = "s3cr3t%2Fword"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://bob:{SECRET}@127.0.0.1:1/db",
        f"postgresql://bob:{SECRET.replace('%2F', '/')}@127.0.0.1:1/db",
        f"postgresql://127.0.0.1:1/db?user=bob&password={SECRET}",
        f"postgresql://bob:{SECRET}@127.0.0.1:none/db",
        f"postgresql://bob:{SECRET}@127.0.0.1:1/db?nonsense={SECRET}",
    ],
)
def test_no_message_shows_a_password(url: str) -> None:
    assert "s3cr3t" not in without_password(url).replace(f"nonsense={SECRET}", "")
    with pytest.raises(StorageError) as caught:
        store = PostgresStore(url)
        assert "s3cr3t" not in repr(store)
        list(store.sessions())
    chain: BaseException | None = caught.value
    while chain is not None:
        assert "s3cr3t" not in str(chain) + repr(chain)
        chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)


def test_commands_show_no_password(url: str, tmp_path: Path) -> None:
    named = url.replace("postgres@", "postgres:s3cr3t@")
    refold.open(named, id="one").append(m.user("hello"))
    calls = (
        ["sessions", "--store", named],
        ["sessions", "copy", "one", "--store", named, "--to", f"sqlite:{tmp_path}/a.db"],
        ["sessions", "copy", "one", "--store", f"sqlite:{tmp_path}/a.db", "--to", named + "x"],
        ["import", str(tmp_path), "--to", named],
    )
    for arguments in calls:
        for more in ([], ["--json"]):
            done = CliRunner().invoke(main, [*arguments, *more])
            assert "s3cr3t" not in done.output and "Traceback" not in done.output, done.output


def test_without_psycopg_a_sentence_says_what_to_install() -> None:
    script = """
import sys
sys.modules["psycopg"] = None
import refold
refold.open("postgres://localhost/x")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert 'StorageError: PostgreSQL needs psycopg: run pip install "refold[postgres]" first' in done.stderr


@pytest.mark.parametrize("wrong", ["connect_timeout=soon", "nonsense=1"])
def test_an_option_that_means_nothing_is_said(server: Server, wrong: str) -> None:
    with pytest.raises(StorageError, match="not a URL of a PostgreSQL database"):
        list(PostgresStore(f"{server.url}?{wrong}").sessions())


def test_a_password_with_a_hash_is_no_session(server: Server) -> None:
    named = server.url.replace("postgres@", "postgres:12#34@")
    assert isinstance(open_store(named).store, PostgresStore) and open_store(named).session is None
    assert open_store(f"{named}#a@b").session == "a@b"
    assert open_store(f"postgres://127.0.0.1:{server.port}/postgres#a@b").session == "a@b"


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_in_another_encoding_is_refused(server: Server, encoding: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as admin:
        sql = f"CREATE DATABASE of_{encoding} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
        admin.execute(sql.encode())
    with pytest.raises(StorageError, match=f"encoded as {encoding}: make one with the encoding UTF8"):
        list(PostgresStore(server.url.removesuffix("postgres") + f"of_{encoding.lower()}").sessions())


def test_tables_of_another_program_stay_as_they_are(server: Server) -> None:
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("CREATE SCHEMA other; CREATE TABLE other.about(x text)")
    with pytest.raises(StorageError, match="tables of another program: name another schema"):
        list(PostgresStore(f"{server.url}?schema=other").sessions())


def test_a_database_that_is_not_there_is_said(server: Server) -> None:
    with pytest.raises(StorageError, match='"nowhere" does not exist'):
        list(PostgresStore(server.url.removesuffix("postgres") + "nowhere").sessions())


# ── roles ───────────────────────────────────────────────────────────────────────────────────────


def test_a_reader_reads_and_cannot_write(store: PostgresStore, server: Server, url: str) -> None:
    store.append(S, [kit.said("a", None)], after=None)
    name = store.address.schema
    with psycopg.connect(server.url, autocommit=True) as admin:
        for sql in (
            f"CREATE ROLE reader_{name} LOGIN",
            f"GRANT USAGE ON SCHEMA {name} TO reader_{name}",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO reader_{name}",
        ):
            admin.execute(sql.encode())
    reader = PostgresStore(url.replace("postgres@", f"reader_{name}@"))
    session = stored(reader, S)
    assert [entry.id for entry in session.path] == ["a"]
    assert [hit.entry_id for hit in reader.search(["é"])] == ["a"]
    assert doctor.examine(reader) == []
    watch = reader.watch(S)
    store.append(S, [kit.said("b", "a")], after="a")
    assert watch.wait(120) and session.refresh() == 1
    watch.close()
    for act in (
        lambda: session.append(m.user("x")),
        lambda: reader.create(SessionInfo(id="new")),
        lambda: reader.delete(S),
        lambda: reader.replace(S, {"a": kit.said("a", None)}, after="b"),
    ):
        with pytest.raises(ReadOnly, match="may only be read by this role"):
            act()
    assert [entry.id for entry in store.load(S).entries] == ["a", "b"]
    reader.close()


def test_a_server_that_takes_no_writes_is_read(store: PostgresStore, url: str) -> None:
    """Such as a standby."""
    reader = PostgresStore(f"{url}&options=-cdefault_transaction_read_only%3Don")
    assert reader.load(S).entries == ()
    with pytest.raises(ReadOnly):
        reader.append(S, [kit.said("a", None)], after=None)
    reader.close()


# ── versions ────────────────────────────────────────────────────────────────────────────────────


def test_of_many_who_come_to_a_new_database_one_makes_it(url: str) -> None:
    stores = [PostgresStore(url) for _ in range(6)]
    errors: list[BaseException] = []

    def use(store: PostgresStore) -> None:
        try:
            assert list(store.sessions()) == []
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=use, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread, store in zip(threads, stores, strict=True):
        thread.join()
        store.close()
    assert errors == []


def test_a_newer_schema_is_refused_also_while_open(store: PostgresStore, url: str) -> None:
    store.run(lambda link: link.say("UPDATE about SET version = 99"))
    for act in (
        lambda: store.load(S),
        lambda: store.append(S, [kit.said("a", None)], after=None),
        lambda: list(PostgresStore(url).sessions()),
    ):
        with pytest.raises(NewerFormat, match="99"):
            act()


def _to_two(link: Link) -> None:
    link.say("ALTER TABLE entries ADD COLUMN extra integer DEFAULT 7")


def _to_two_losing_one(link: Link) -> None:
    _to_two(link)
    link.say("DELETE FROM entries WHERE id = 'e3'")


def test_an_older_schema_is_brought_forward(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append(S, [kit.said(f"e{n}", None) for n in range(10)], after=None)
    before = store.load(S).entries
    store.close()
    monkeypatch.setattr(schema, "SCHEMA_VERSION", 2)
    with monkeypatch.context() as patch:
        patch.setitem(schema.MIGRATIONS, 1, _to_two_losing_one)
        with pytest.raises(StorageError, match="it is unchanged"):
            PostgresStore(url).load(S)
    monkeypatch.setitem(schema.MIGRATIONS, 1, _to_two)
    newer = PostgresStore(url)
    assert newer.load(S).entries == before
    assert newer.run(lambda link: link.ask("SELECT DISTINCT extra FROM entries")) == [(7,)]
    newer.close()


# ── moving ──────────────────────────────────────────────────────────────────────────────────────


def hostile_lines(seed: int) -> list[bytes]:
    """A session that is unkind in its own way: some of everything, in some order, damaged here and there."""
    chance = random.Random(seed)
    kinds = {name: e for name, e in hostile_entries().items() if name not in ("ten-megabytes", "deep")}
    lines = [fmt.encode(entry) for entry in chance.sample(list(kinds.values()), 5)]
    text = "".join(
        chr(chance.choice((0, 7, 10, 0x2028, 0xD800, 0xDFFF, 0x6771, 0x1F600, 65))) for _ in range(40)
    )
    lines.append(fmt.encode(MessageEntry(id=f"own{seed}", message=m.user(text))))
    lines.append(b'{"type":"of-tomorrow","id":"dup%d","a":1,"a":{"b":1,"b":2},"n":%s}' % (seed, b"7" * 5_000))
    deep = json.dumps({"type": "of-tomorrow", "id": f"deep{seed}", "d": nested(chance.choice((5, 900)))})
    lines += [deep.encode(), b'{"no":"entry"}', b"not json \xff\x00 %d" % seed]
    chance.shuffle(lines)
    return lines


def there_and_back(url: str, place: Path, numbers: range) -> None:
    """JSONL → SQLite → PostgreSQL → JSONL."""
    first, last = JsonlStore(place / "first", folder=True), JsonlStore(place / "last", folder=True)
    middle, database = SqliteStore(place / "s.db"), PostgresStore(url)
    for number in numbers:
        id = f"s{number}"
        first.create(SessionInfo(id=id, created=1.0, name="n\0" if number % 7 == 0 else "name"))
        tip = None
        for line in hostile_lines(number):
            first.append_lines(id, [line], after=tip)
            tip = first.load(id).tip
        for source, target in ((first, middle), (middle, database), (database, last)):
            transfer.copy_session(source, id, target)
        assert list(last.lines(id)) == list(first.lines(id)) == list(database.lines(id))
    files = {path.name: path.read_bytes() for path in (place / "first").iterdir()}
    assert len(files) == len(numbers)
    assert files == {path.name: path.read_bytes() for path in (place / "last").iterdir()}
    database.close()


def test_jsonl_sqlite_postgres_jsonl_is_identical(url: str, tmp_path: Path) -> None:
    there_and_back(url, tmp_path, range(15))


@pytest.mark.torture
def test_a_thousand_hostile_sessions_come_back_identical(url: str, tmp_path: Path) -> None:
    for first in range(0, 1000, 25):  # a copy looks through the whole folder for its session
        there_and_back(url, tmp_path / str(first), range(first, first + 25))


# ── searching ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def searched(server: Server) -> Iterator[PostgresStore]:
    # Tests are handed from worker to worker: one may come back here.
    store = PostgresStore(f"{server.url}?schema=searched_{uuid4().hex[:8]}")
    store.create(SessionInfo(id=S))
    store.append(S, searches.ENTRIES, after=None)
    yield store
    store.close()


@pytest.mark.parametrize(("terms", "id"), searches.FOUND)
def test_what_was_said_is_found(searched: PostgresStore, terms: list[str], id: str) -> None:
    for hits in (searched.search(terms), searched.search(terms, session=S)):
        assert [hit.entry_id for hit in hits][:1] == [id] and hits[0].session == S and hits[0].score > 0
    assert searched.quoted(terms, limit=1, every=True)[0].entry.id == id


@pytest.mark.parametrize(
    "term", ['"', "'", "a*", "\\", "a\\'b", ":*", "!", "-", "\0", "\ud800", "", " ", "&", "(" * 500]
)
def test_any_query_is_safe(searched: PostgresStore, term: str) -> None:
    assert isinstance(searched.search([term, term]), list)
    assert isinstance(searched.quoted([term], limit=5, every=True), list)


def test_words_of_the_longest_entries_fit(store: PostgresStore) -> None:
    """PostgreSQL takes no more than a megabyte of lexemes for an entry."""
    chance = random.Random(1)
    chinese = "".join(chr(chance.randrange(0x4E00, 0x9FFF)) for _ in range(300_000))
    store.append(S, [MessageEntry(id="long", message=m.user(f"needle {chinese}"))], after=None)
    assert [hit.entry_id for hit in store.search(["needle"])] == ["long"]


def test_common_words_weigh_but_do_not_choose_where_there_are_many(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [MessageEntry(id=f"e{n}", message=m.user(f"the file number{n} of work")) for n in range(600)]
    store.append(S, entries, after=None)
    assert len(store.search(["file", "number77"])) == 200
    store.run(lambda link: link.say("ANALYZE entries"))
    store._statistics = search.Statistics()  # as after ten minutes
    common = store.run(store._statistics.common)
    assert 500 < common["file"] < 700  # not twice
    monkeypatch.setattr(search, "TARGET_ROWS", 100)
    assert [hit.entry_id for hit in store.search(["file", "number77", "work"])] == ["e77"]
    assert len(store.search(["file", "work"])) == 200  # nothing rarer is asked for
    assert len(store.search(["file", "number77"], session=S)) == 200


def test_recall_over_it_finds_what_sqlite_finds(store: PostgresStore, tmp_path: Path) -> None:
    other = SqliteStore(tmp_path / "s.db")
    chance = random.Random(4)
    nouns = [
        "cache",
        "parser",
        "invoice",
        "tunnel",
        "window",
        "ledger",
        "clarinet",
        "資料庫",
        "東京",
        "migration",
        "server",
        "token",
    ]
    for number in range(30):
        said = [m.user(" ".join(chance.choices(nouns, k=6)) + f" case{number}") for _ in range(4)]
        entries = [MessageEntry(id=f"e{n}", message=message) for n, message in enumerate(said)]
        for each in (store, other):
            each.create(SessionInfo(id=f"s{number}"))
            each.append(f"s{number}", entries, after=None)
    for query in ("the parser of case7", "資料庫", "clarinet invoice", "case12 東京"):
        best = [(found.session, found.hit.entry_id) for found in search_sessions(other, query, limit=3)]
        assert [
            (found.session, found.hit.entry_id) for found in search_sessions(store, query, limit=3)
        ] == best


# ── others ──────────────────────────────────────────────────────────────────────────────────────


def test_a_session_open_elsewhere_hears_of_new_entries(store: PostgresStore, url: str) -> None:
    session = stored(PostgresStore(url), S)
    watch = watcher.watch(session)
    assert not watch.wait(0.05)
    script = "import refold, sys; refold.open(sys.argv[1], 'session').append('hello')"
    other = subprocess.Popen([sys.executable, "-c", script, url], cwd=ROOT)
    assert watch.wait(120) and session.refresh() == 1 and session.path[-1].message.text == "hello"
    assert other.wait(120) == 0 and not watch.wait(0.05)
    watch.close()


def test_who_listens_hears_again_after_the_connection_broke(store: PostgresStore, server: Server) -> None:
    watch = store.watch(S)
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%lock_shared%'"
            " AND pid <> pg_backend_pid()"
        )
    assert watch.wait(120)  # something may have come
    store.append(S, [kit.said("a", None)], after=None)
    assert watch.wait(120)
    watch.close()


def test_nobody_is_told_where_nobody_listens(store: PostgresStore) -> None:
    """Telling takes a lock of the whole server."""
    store.create(SessionInfo(id="other"))
    watch = store.watch("other")
    heard = store._links.connect()
    [(key,)] = heard.ask("SELECT key FROM sessions WHERE id = 'session'")
    heard.say(f"LISTEN refold_{key}")
    store.append(S, [kit.said("a", None)], after=None)
    assert not watch.wait(0.1) and list(heard.notifies(timeout=0.1)) == []
    heard.close()
    watch.close()


FORK = """
import os, sys
from tests.stores import kit
from refold.protocols import SessionInfo
from refold.stores.postgres.store import BEGINNING, PostgresStore
store = PostgresStore(sys.argv[1])
store.append(kit.S, [kit.said("parent", None)], after=None)
for round in range(5):
    last = store.load(kit.S).entries[-1].id
    pid = os.fork()
    if pid == 0:
        store.append(kit.S, [kit.said(f"child{round}", last)], after=last)
        store.close()
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    last = f"child{round}"
    store.append(kit.S, [kit.said(f"again{round}", last)], after=last)
assert len(store.load(kit.S).entries) == 11
assert len(store._links._idle) == 1
"""


def test_no_connection_crosses_a_fork(store: PostgresStore, url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORK, url], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_a_store_has_no_more_connections_than_it_may(store: PostgresStore, url: str) -> None:
    few = PostgresStore(url, size=2, timeout=0.3)
    inside, leave = threading.Barrier(3), threading.Event()

    def hold(_: Link) -> None:
        inside.wait()
        leave.wait(120)

    threads = [threading.Thread(target=few.run, args=(hold,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    inside.wait()
    with pytest.raises(StorageError, match="2 connections"):
        few.load(S)
    leave.set()
    for thread in threads:
        thread.join()
    assert few.load(S).entries == ()
    few.close()


def test_a_writer_that_stands_still_is_not_waited_for_long(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "IDLE", 1)
    still = PostgresStore(url)
    link = still._links.connect()
    link.say("BEGIN")
    link.ask("SELECT 1 FROM sessions FOR UPDATE")
    with alarm(120):
        store.append(S, [kit.said("a", None)], after=None)
    link.close()
    still.close()


# ── damage, the doctor, forgetting ──────────────────────────────────────────────────────────────


def test_the_doctor_repairs_what_somebody_changed_by_hand(store: PostgresStore) -> None:
    store.append(S, [kit.said(f"e{n}", None) for n in range(30)], after=None)
    assert doctor.examine(store) == []
    for harm in (
        "UPDATE sessions SET entries = 7, tip = 'e3'",
        "DELETE FROM sessions",
        "UPDATE entries SET words = NULL WHERE place < 5",
        "DROP INDEX entries_words",
    ):
        store.run(lambda link, sql=harm: link.say(sql))
        assert {finding.state for finding in doctor.examine(store)} == {"repairable"}, harm
        assert {finding.state for finding in doctor.examine(store, repair=True)} == {"repaired"}
        assert doctor.examine(store) == []
    (info,) = store.sessions()
    assert info.entries == len(store.load(info.id).entries) == 30
    assert store.search(["e3"])[0].entry_id == "e3"


def test_what_is_lost_is_a_hole_and_the_rest_opens(store: PostgresStore) -> None:
    ids = [f"e{n}" for n in range(10)]
    store.append(S, [kit.said(id, ids[n - 1] if n else None) for n, id in enumerate(ids)], after=None)
    store.run(lambda link: link.say("DELETE FROM entries WHERE place IN (4, 9)"))
    store.run(lambda link: link.say("UPDATE entries SET line = substr(line, 1, 40) WHERE place = 6"))
    session = stored(store, S)
    assert [entry.id for entry in session.path][:9] == ids[:9]
    assert {finding.state for finding in doctor.examine(store)} >= {"lost"}
    session.append(m.user("It goes on."))
    assert stored(store, S).path[-1].id == session.leaf


def test_damaged_pages_hide_only_what_is_on_them(server: Server, store: PostgresStore) -> None:
    """Bytes of the table's own file are overwritten, as a disk would; the checksum tells."""
    ids = [f"e{n}" for n in range(300)]
    store.append(S, [kit.said(id, ids[n - 1] if n else None, 300) for n, id in enumerate(ids)], after=None)
    store.run(lambda link: link.say("CHECKPOINT"))
    [(part,)] = store.run(lambda link: link.ask("SELECT tableoid::regclass::text FROM entries LIMIT 1"))
    [(path,)] = store.run(lambda link: link.ask("SELECT pg_relation_filepath(%s)", part))
    with (server.data / path).open("r+b") as file:
        file.seek(3 * 8192 + 4000)
        file.write(b"\xff" * 500)
    # The server's own copy of the page is given up.
    store.run(lambda link: link.say("CREATE EXTENSION IF NOT EXISTS pg_buffercache SCHEMA public"))
    store.run(lambda link: link.ask("SELECT public.pg_buffercache_evict_relation(%s::regclass)", part))
    session = stored(store, S)
    there = [entry for entry in session.path if isinstance(entry, MessageEntry)]
    assert 200 < len(there) < 300 and session.path[-1].id == "e299"
    assert {finding.state for finding in doctor.examine(store)} >= {"lost"}
    session.append(m.user("It goes on."))


@contextmanager
def no_vacuum_beside(store: PostgresStore) -> Generator[None]:
    """The server keeps what an older transaction might still read, and its own cleaning is one."""

    def configure(text: str) -> None:
        store.run(lambda link: link.say(text))
        store.run(lambda link: link.ask("SELECT pg_reload_conf()"))

    configure("ALTER SYSTEM SET autovacuum = off")
    asked = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'"
    with alarm(120):
        while store.run(lambda link: link.ask(asked)) != [(0,)]:
            time.sleep(0.05)
    yield
    configure("ALTER SYSTEM RESET autovacuum")


def test_what_is_forgotten_is_in_no_file_of_the_tables(store: PostgresStore, server: Server) -> None:
    secret = "ghp_" + "q1W2e3R4t5Y6u7I8o9" * 2
    session = stored(store, S)
    key = session.append(m.user(f"The key is {secret}.")).id
    session.append(m.assistant("I see."))
    session.append(session.make(Info, name=f"The key is {secret}…"))
    store.run(lambda link: link.say("CHECKPOINT"))
    assert holding(server, secret)
    with no_vacuum_beside(store):
        forget(session, [key])
    store.run(lambda link: link.say("CHECKPOINT"))
    assert holding(server, secret) == []
    again = stored(store, S)
    assert again.name is None
    assert "[forgotten]" in again.path[0].message.text and store.search(["key"]) == []
    with pytest.raises(Conflict):
        store.replace(S, {key: kit.said(key, None)}, after="nobody")


def test_what_is_still_in_the_files_is_said(store: PostgresStore, server: Server, url: str) -> None:
    """Whoever does not own a table may empty its rows, and the server does not write it anew for them."""
    key = stored(store, S).append(m.user("a secret")).id
    name = store.address.schema
    with psycopg.connect(server.url, autocommit=True) as admin:
        for sql in (
            f"CREATE ROLE writer_{name} LOGIN",
            f"GRANT USAGE ON SCHEMA {name} TO writer_{name}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {name} TO writer_{name}",
        ):
            admin.execute(sql.encode())
    writer = PostgresStore(url.replace("postgres@", f"writer_{name}@"))
    with pytest.raises(StorageError, match=r"still in the files .*may not write .* anew.* as the owner"):
        forget(stored(writer, S), [key])
    writer.close()
    reading = PostgresStore(url)
    link = reading._links.connect()
    link.say("BEGIN; SELECT 1 FROM entries")
    impatient = PostgresStore(url, timeout=0.5)
    with pytest.raises(StorageError, match=r"still in the files .*for too long"):
        forget(stored(impatient, S), [key])
    link.close()
    forget(stored(impatient, S), [key])
    for each in (reading, impatient):
        each.close()


def holding(server: Server, text: str) -> list[str]:
    files = (path for path in (server.data / "base").rglob("*") if path.is_file())
    found: list[str] = []
    for path in files:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            continue
        if text.encode() in data or text.lower().encode() in data:
            found.append(path.name)
    return found


# ── the command line ────────────────────────────────────────────────────────────────────────────


def test_the_commands_work_on_it(url: str, tmp_path: Path) -> None:
    session = refold.open(url, id="one")
    for n in range(4):
        session.append(m.user(f"question {n} about the clarinet"))
        session.append(m.assistant(f"answer {n}"))
    assert [row["id"] for row in command("sessions", "--store", url)["sessions"]] == ["one"]
    assert command("sessions", "--store", url, "--search", "clarinet")["sessions"][0]["id"] == "one"
    assert command("sessions", "doctor", "--store", url)["findings"] == []
    assert command("recall", f"{url}#one", "clarinet")
    assert command("stats", f"{url}#one")
    command("sessions", "copy", "one", "--store", url, "--to", f"jsonl:{tmp_path}/out.jsonl")
    assert len(refold.load(tmp_path / "out.jsonl").path) == 8
    (tmp_path / "in").mkdir()
    save(session, tmp_path / "in" / "two.jsonl")
    imported = command("import", str(tmp_path / "in"), "--to", url + "b")
    assert imported["imported"] == 1
    assert command("sessions", "delete", "one", "--yes", "--store", url)["deleted"] == ["one"]
    refused = CliRunner().invoke(main, ["sessions", "backup", str(tmp_path / "c"), "--store", url])
    assert refused.exit_code == 2 and "pg_dump" in refused.output


def test_a_session_is_looked_up_by_the_beginning_of_its_id_in_the_index(store: PostgresStore) -> None:
    def look(link: Link) -> str:
        link.say(
            "INSERT INTO sessions(id, created, updated)"
            " SELECT ('s' || n)::bytea, 0, 0 FROM generate_series(1, 5000) n"
        )
        link.say("ANALYZE sessions")
        return str(link.ask(f"EXPLAIN {BEGINNING}", *rows.span("s123"), 100))

    plan = store.run(look)
    assert "Index Scan on sessions_id_key" in plan and "Seq Scan on sessions" not in plan
    assert [info.id for info in store.beginning("s123", 3)] == ["s123", "s1230", "s1231"]
    assert find_session(store, "s123").id == "s123" and find_session(store, "s4999").id == "s4999"
    store.delete("s499")
    for beginning, number in (("s499", "10"), ("s", "100 or more")):
        with pytest.raises(UsageError, match=f"{number} session ids begin with {beginning}"):
            find_session(store, beginning)


def test_an_id_is_taken_once_also_if_the_first_answer_was_lost(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, lost = Link.say, [False]

    def say(self: Link, sql: str) -> None:
        plain(self, sql)
        if sql == "COMMIT" and not lost[0]:
            lost[0] = True
            self.close()
            raise psycopg.OperationalError("the answer is lost")

    monkeypatch.setattr(Link, "say", say)
    store.create(SessionInfo(id="new"))
    assert lost[0]
    with pytest.raises(SessionExists):
        store.create(SessionInfo(id="new"))
    lost[0] = False
    store.delete("new")
    with pytest.raises(RefoldError, match="new"):
        store.load("new")
