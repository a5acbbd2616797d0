"""Poolers and standbys: what may stand between a store and the server that writes."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator

import pytest

from refold import messages as m
from refold.errors import ReadOnly, UnknownName
from refold.protocols import SessionInfo
from refold.registry.sessions import stored
from refold.session.forget import forget
from refold.stores import doctor, watcher
from refold.stores.postgres.store import PostgresStore
from tests.batch.contract import until
from tests.postgres.pooler import Pooler
from tests.postgres.server import Server
from tests.stores import kit

S = kit.S


@pytest.fixture
def pooled(server: Server) -> Iterator[str]:
    pooler = Pooler(server.port)
    yield server.at("127.0.0.1", pooler.port)
    pooler.close()


def test_through_a_pooler_of_transactions_every_store_keeps_its_own(pooled: str, server: Server) -> None:
    """Each transaction gets another connection, whose settings and prepared statements are others'."""
    names = [f"pooled{n}" for n in range(3)]
    stores = [PostgresStore(f"{pooled}?schema={name}", size=2) for name in names]
    for store in stores:
        store.create(SessionInfo(id=S))

    def use(store: PostgresStore) -> None:
        session = stored(store, S)
        for number in range(8):
            session.append(m.user(f"{store.address.schema} says {number}"))
            assert len(store.search(["says"])) == number + 1

    threads = [threading.Thread(target=use, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store, name in zip(stores, names, strict=True):
        texts = [entry.message.text for entry in stored(PostgresStore(f"{server.url}?schema={name}"), S).path]
        assert texts == [f"{name} says {number}" for number in range(8)]
        store.close()


def test_through_a_pooler_all_powers_work(pooled: str) -> None:
    store = PostgresStore(f"{pooled}?schema=powers")
    store.create(SessionInfo(id=S))
    session = stored(store, S)
    key = session.append(m.user("a secret")).id
    watch = watcher.watch(session)
    assert not watch.wait(0.1)
    other = stored(store, S)
    other.append(m.assistant("I see."))
    assert watch.wait(120) and session.refresh() == 1
    watch.close()
    forget(session, [key])
    assert "[forgotten]" in stored(store, S).path[0].message.text
    store.run(lambda link: link.ask("UPDATE sessions SET entries = 1"))
    store.run(lambda link: link.ask("DROP INDEX entries_words"))
    assert {finding.state for finding in doctor.examine(store, repair=True)} == {"repaired"}
    assert doctor.examine(store) == []
    assert [info.id for info in store.beginning(S[:3], 5)] == [S]
    store.delete(S)
    assert list(store.sessions()) == []
    store.close()


@pytest.fixture
def standby(server: Server) -> Iterator[Server]:
    """A server that follows the other one."""
    folder = server.data.parent / "standby"
    folder.mkdir()
    owner = server.owner
    if owner:
        shutil.chown(folder, owner["user"], owner["group"])
    copy = [str(server.binaries / "pg_basebackup"), "-D", str(folder / "data"), "-d", server.url]
    subprocess.run([*copy, "-R", "-c", "fast"], check=True, cwd=folder, timeout=60, **owner)
    follower = Server(folder)
    yield follower
    follower.stop()
    shutil.rmtree(folder)


def test_a_standby_is_read_searched_and_watched(server: Server, standby: Server) -> None:
    store = PostgresStore(f"{server.url}?schema=followed")
    store.create(SessionInfo(id=S))
    store.append(S, [kit.said("a", None)], after=None)
    reader = PostgresStore(f"{standby.url}?schema=followed")
    until(lambda: _there(reader))
    session = stored(reader, S)
    assert [entry.id for entry in session.path] == ["a"] and reader.search(["é"])
    assert doctor.examine(reader) == []
    watch = watcher.watch(session)
    store.append(S, [kit.said("b", "a")], after="a")
    assert watch.wait(60) and session.refresh() == 1
    watch.close()
    with pytest.raises(ReadOnly):
        session.append(m.user("x"))
    for each in (store, reader):
        each.close()


def _there(reader: PostgresStore) -> bool:
    try:
        return bool(reader.load(S).entries)
    except (UnknownName, ReadOnly):  # its tables have not come yet
        return False
