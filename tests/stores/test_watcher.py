"""Seeing what others append, in a store that does not tell: by looking again."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from refold import Session
from refold.errors import UsageError
from refold.registry.sessions import stored
from refold.stores import watcher
from refold.stores.memory import MemoryStore

from . import kit

S = kit.S


@pytest.fixture(params=["memory", *kit.REAL])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param != "memory":
        made = kit.begin(request.param, tmp_path)
        request.addfinalizer(made.close)
        return made
    store = MemoryStore()
    store.create(kit.SessionInfo(id=S))
    return store


def test_what_another_appends_is_seen_once(store: Any) -> None:
    store.append(S, [kit.said("a", None)], after=None)
    watch = watcher.watch(stored(store, S))
    assert watch.wait(0) is False, "what was there before is nothing new"
    store.append(S, [kit.said("b", "a")], after="a")
    assert watch.wait(0) is True
    assert watch.wait(0) is False
    watch.close()


def test_who_waits_is_told_soon_and_waits_no_longer_than_he_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "POLL_SECONDS", 0.01)
    store = MemoryStore()
    store.create(kit.SessionInfo(id=S))
    watch = watcher.watch(stored(store, S))
    assert watch.wait(0.05) is False
    threading.Timer(0.03, lambda: store.append(S, [kit.said("a", None)], after=None)).start()
    assert watch.wait(120) is True


def test_a_session_without_a_store_has_no_others() -> None:
    with pytest.raises(UsageError, match="open a stored session"):
        watcher.watch(Session())
