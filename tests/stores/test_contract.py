"""The same rules for every store."""

from __future__ import annotations

from pathlib import Path

from refold.protocols import Lines, Searchable, Store
from refold.stores.jsonl import JsonlStore
from refold.stores.memory import MemoryStore
from refold.stores.sqlite import SqliteStore
from refold.testing.store_contract import StoreContract


class TestMemory(StoreContract):
    durable = False

    def make(self, place: Path) -> Store:
        return MemoryStore()


class TestJsonlFolder(StoreContract):
    def make(self, place: Path) -> Store:
        return JsonlStore(place / "sessions", folder=True)


class TestSqlite(StoreContract):
    def make(self, place: Path) -> Store:
        return SqliteStore(place / "deep" / "sessions.db")


def test_stores_have_the_powers_they_claim(tmp_path: Path) -> None:
    stores: list[Store] = [MemoryStore(), JsonlStore(tmp_path / "a.jsonl"), SqliteStore(tmp_path / "a.db")]
    for store in stores:
        assert isinstance(store, Store) and isinstance(store, Lines)
    assert isinstance(stores[2], Searchable)
