"""Clients, backends and servers are killed, the network breaks at any byte: what was acknowledged is there,
once."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from refold.entries import Label
from refold.errors import StorageError
from refold.protocols import SessionInfo
from refold.stores.postgres.store import PostgresStore
from tests.postgres import server as servers
from tests.postgres.processes import Writer, acknowledged, start, wrong
from tests.postgres.proxy import Fault, Proxy
from tests.postgres.server import Server
from tests.stores import kit
from tests.timing import alarm

S = kit.S
FAULTS: tuple[Fault, ...] = ("cut", "reset", "stall", "swallow")


@pytest.fixture
def begun(url: str) -> str:
    store = PostgresStore(url)
    store.create(SessionInfo(id=S))
    store.close()
    return url


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    proxy = Proxy(server.port)
    yield proxy
    proxy.close()


def through(proxy: Proxy, url: str) -> str:
    return f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres?{url.partition('?')[2]}"


# ── many writers ────────────────────────────────────────────────────────────────────────────────


def crowd(url: str, sessions: str, writers: int, count: int) -> list[str]:
    started = [start(url, sessions, f"w{n}", count, 60) for n in range(writers)]
    return acknowledged(started, 3000)


def test_many_processes_take_turns(begun: str) -> None:
    told = crowd(begun, S, 4, 20)
    assert len(told) == 80 and wrong(begun, S, told) == {}


@pytest.mark.torture
def test_eight_processes_of_a_thousand_take_turns(begun: str) -> None:
    told = crowd(begun, S, 8, 1000)
    assert len(told) == 8000 and wrong(begun, S, told) == {}


@pytest.mark.torture
def test_eight_processes_on_two_hundred_sessions(begun: str) -> None:
    store = PostgresStore(begun)
    for n in range(200):
        store.create(SessionInfo(id=f"s{n}"))
    assert len(crowd(begun, "s*200", 8, 10)) == 8 * 200 * 10
    wanted = [f"w{writer}.{number}" for writer in range(8) for number in range(10)]
    assert [problem for n in range(200) if (problem := wrong(begun, f"s{n}", wanted))] == []
    store.close()


# ── kills ───────────────────────────────────────────────────────────────────────────────────────


def test_a_killed_client_loses_nothing_and_leaves_no_lock(begun: str) -> None:
    chance, told = random.Random(1), list[str]()
    for number in range(4):
        writer = start(begun, S, f"k{number}", 100_000, 60)
        assert writer.stdout is not None
        told.append(writer.stdout.readline().strip())
        time.sleep(chance.random() * 0.2)
        writer.kill()
        told += [line for line in writer.communicate()[0].split("\n")[:-1] if line]
        assert wrong(begun, S, told) == {}
    assert len(told) > 4


def test_killed_backends_are_not_noticed(begun: str, server: Server) -> None:
    """`pg_terminate_backend` in the middle of whatever it does."""
    stop, killed = threading.Event(), [0]

    def kill() -> None:
        with psycopg.connect(server.url, autocommit=True) as admin:
            while not stop.wait(0.2):
                ended = admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'refold'"
                )
                killed[0] += len(ended.fetchall())

    killer = threading.Thread(target=kill)
    killer.start()
    store = PostgresStore(begun)
    writer = Writer(store, S)
    ids: list[str] = []
    while len(ids) < 300 or killed[0] < 4:
        ids.append(f"e{len(ids)}")
        writer.add(ids[-1])
    stop.set()
    killer.join()
    assert wrong(begun, S, ids) == {} and writer.errors == 0
    store.close()


@pytest.fixture
def mortal() -> Iterator[Server]:
    """A server of one's own."""
    if servers.binaries() is None:
        pytest.skip(servers.MISSING)
    with servers.running() as server:
        yield server


def kill_server(server: Server, kills: int, writers: int) -> list[str]:
    store = PostgresStore(server.url)
    store.create(SessionInfo(id=S))
    store.close()
    started = [start(server.url, S, f"w{n}", 60 * kills, 60) for n in range(writers)]
    chance = random.Random(3)
    try:
        for _ in range(kills):
            time.sleep(0.3 + chance.random() * 0.5)
            server.kill()
            time.sleep(chance.random() * 0.3)
            server.start()
        return acknowledged(started, 3000)
    finally:
        for writer in started:
            writer.kill()


@pytest.mark.postgres
def test_a_killed_server_comes_back_with_everything(mortal: Server) -> None:
    told = kill_server(mortal, 3, 2)
    assert len(told) == 360 and wrong(mortal.url, S, told) == {}


@pytest.mark.torture
def test_a_server_killed_fifty_times_comes_back_with_everything(mortal: Server) -> None:
    told = kill_server(mortal, 50, 4)
    assert len(told) == 12_000 and wrong(mortal.url, S, told) == {}


# ── the network ─────────────────────────────────────────────────────────────────────────────────


def shaken(
    proxy: Proxy, url: str, faults: int, kinds: tuple[Fault, ...], timeout: float, seed: int = 5
) -> list[str]:
    """What one appends while the network breaks so many times and more."""
    store = PostgresStore(through(proxy, url), timeout=timeout)
    list(store.sessions())
    stop = threading.Event()
    trouble = threading.Thread(target=proxy.restless, args=(stop, seed, kinds))
    trouble.start()
    writer, ids = Writer(store, S), list[str]()
    while len(ids) < 40 or proxy.faults < faults:
        ids.append(f"e{len(ids)}")
        writer.add(ids[-1])
    stop.set()
    trouble.join()
    proxy.calm()
    store.close()
    return ids


def test_a_network_that_cuts_and_resets_loses_and_doubles_nothing(begun: str, proxy: Proxy) -> None:
    ids = shaken(proxy, begun, 2, ("cut", "reset"), 30)
    assert wrong(begun, S, ids) == {}


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(3))
def test_a_network_that_does_everything_loses_and_doubles_nothing(
    begun: str, proxy: Proxy, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refold.stores.postgres.connections.IDLE", 0.2)
    monkeypatch.setattr("refold.stores.postgres.schema.IDLE", 1)
    ids = shaken(proxy, begun, 6, FAULTS, 0.3, seed)
    assert wrong(begun, S, ids) == {}


@pytest.mark.parametrize("moving", [True, False], ids=["a message", "an annotation"])
@pytest.mark.parametrize("fault", ["cut", "swallow"])
def test_a_commit_whose_answer_was_lost_is_recognised_not_repeated(
    begun: str, proxy: Proxy, fault: Fault, moving: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from refold.stores.postgres.connections import Link

    store = PostgresStore(through(proxy, begun), timeout=20)
    store.load(S)
    plain, commits = Link.say, [0]

    def say(self: Link, sql: str) -> None:
        if sql == "COMMIT":
            commits[0] += 1
            if commits[0] == 1:
                self.limit = 0.5
                lost(proxy, self, fault)
        plain(self, sql)

    monkeypatch.setattr(Link, "say", say)
    entry = kit.said("once", None) if moving else Label(id="once", text="x")
    store.append(S, [entry], after=None)
    assert commits[0] == 2 and [e.id for e in store.load(S).entries] == ["once"]
    store.close()


def lost(proxy: Proxy, link: psycopg.Connection[tuple[object, ...]], fault: Fault) -> None:
    """The COMMIT arrives; its answer does not."""
    proxy.trouble("swallow")
    threading.Timer(0.1, proxy.calm).start()
    if fault == "cut":
        threading.Timer(0.2, link.pgconn.finish).start()


def test_a_commit_that_never_arrived_is_made_again(
    begun: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    from refold.stores.postgres.connections import Link

    store = PostgresStore(through(proxy, begun), timeout=20)
    store.load(S)
    plain, commits = Link.say, [0]

    def say(self: Link, sql: str) -> None:
        commits[0] += sql == "COMMIT"
        if sql == "COMMIT" and commits[0] == 1:
            proxy.trouble("cut")
            threading.Timer(0.1, proxy.calm).start()
        plain(self, sql)

    monkeypatch.setattr(Link, "say", say)
    store.append(S, [kit.said("once", None)], after=None)
    assert commits[0] == 2 and [e.id for e in store.load(S).entries] == ["once"]
    store.close()


@pytest.mark.parametrize("fault", ["stall", "swallow"])
def test_nobody_waits_for_ever(
    begun: str, proxy: Proxy, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network swallows everything: an error, soon."""
    monkeypatch.setattr("refold.stores.postgres.connections.IDLE", 0.5)
    monkeypatch.setattr("refold.stores.postgres.connections.CONNECT", 2)
    store = PostgresStore(through(proxy, begun), timeout=0.5)
    store.load(S)
    proxy.trouble(fault)
    for act in (lambda: store.load(S), lambda: store.append(S, [kit.said("a", None)], after=None)):
        with alarm(120), pytest.raises(StorageError, match=r"cannot be reached|did not answer"):
            act()
    proxy.calm()
    store.append(S, [kit.said("b", None)], after=None)
    store.close()


def test_a_server_that_is_not_there_is_said_at_once() -> None:
    with alarm(120), pytest.raises(StorageError, match=r"cannot be reached"):
        list(PostgresStore(f"postgresql://bob:secret@127.0.0.1:{servers.free_port()}/x").sessions())


def test_a_planted_store_that_believes_no_one_doubles(
    begun: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check above sees what it looks for: without looking first, annotations are doubled."""
    monkeypatch.setattr(PostgresStore, "_is_there", lambda *_: False)
    with contextlib.suppress(AssertionError):
        test_a_commit_whose_answer_was_lost_is_recognised_not_repeated(
            begun, proxy, "swallow", False, monkeypatch
        )
        raise pytest.fail.Exception("it was not seen")
