"""The rules of every store, held by PostgreSQL; and with them what SQLite's own tests ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from refold.protocols import Backups, Examinable, Forgets, Lines, Placed, Searchable, Store, Watches
from refold.stores.postgres.store import PostgresStore
from refold.testing.store_contract import StoreContract


class TestPostgres(StoreContract):
    @pytest.fixture(autouse=True)
    def _where(self, url: str) -> None:
        self.url = url

    def make(self, place: Path) -> Store:
        return PostgresStore(self.url)


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    store.close()


def test_it_has_the_powers_of_a_database_and_is_no_file(store: PostgresStore) -> None:
    powers = (Store, Lines, Searchable, Examinable, Forgets, Watches)
    assert all(isinstance(store, power) for power in powers)
    assert not isinstance(store, Placed | Backups)
