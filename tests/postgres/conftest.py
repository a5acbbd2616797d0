"""One server for all tests of a process; every test has a schema of its own. Tests that need the server are marked
`postgres`: `make test` executes the same tests whether it is installed or not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.postgres import server as servers
from tests.postgres.server import Server

_numbers = itertools.count()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/postgres/") and "server" in getattr(item, "fixturenames", ()):
            item.add_marker("postgres")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    if servers.binaries() is None:
        pytest.skip(servers.MISSING)
    with servers.running() as server:
        yield server


@pytest.fixture
def url(server: Server) -> str:
    return f"{server.url}?schema=test{next(_numbers)}"
