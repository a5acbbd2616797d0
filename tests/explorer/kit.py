"""An explorer in this process over stores that a test made, and sessions for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from refold import loop, registry
from refold.entries import MessageEntry
from refold.explorer.server import TOKEN_HEADER, Explorer
from refold.explorer.session_list import SessionList
from refold.mcp.collections import Collection, Collections
from refold.mcp.synced_sessions import SyncedSessions
from refold.messages import Usage
from refold.protocols import SessionInfo, Store
from refold.registry.engine import Engine
from refold.session import Session
from refold.stores import open_store
from refold.stores.memory_file import MemoryFile


def collection_list(*collection: Collection, specs: dict[str, str] | None = None) -> SessionList:
    return SessionList(Collections(collection, MemoryFile(Path("never-written.md"))), specs)


def own(store: Store) -> SessionList:
    return collection_list(Collection("refold", store))


def synced_collection(files: Path, database: Path) -> Collection:
    synced = SyncedSessions("claude-code", files, database)
    return Collection("claude-code", synced.store, synced)


def database(path: Path) -> Store:
    return open_store(f"sqlite:{path}").store


def put(
    store: Store, source: Session, *, id: str, fold_at: tuple[int, ...] = (), budget: int = 2_000
) -> Session:
    """A copy of a session in a store, folded at some of its messages."""
    store.create(SessionInfo(id=id, created=1.0, cwd="/home/ann/project"))
    session = Session(id=id, store=store)
    engine = Engine(registry.preset("refold", {}, budget=budget))
    for number, entry in enumerate(source.path):
        assert isinstance(entry, MessageEntry)
        usage = Usage(input=100, output=20, cache_read=900) if entry.message.role == "assistant" else None
        session.append(entry.message, usage=usage, model="anthropic:claude-sonnet-5" if usage else None)
        if number in fold_at:
            loop.run(engine.apply(session, engine.plan(session, force=True)))
    return session


class Page:
    """What a browser that was given the address asks."""

    def __init__(self, explorer: Explorer, client: aiohttp.ClientSession) -> None:
        self.explorer, self.client = explorer, client

    async def get(self, what: str, **values: Any) -> Any:
        async with self.client.get(f"{self.explorer.url}api/{what}", params=values) as reply:
            told = await reply.json()
            assert reply.status == 200, told
            return told

    async def fails(self, what: str, **values: Any) -> tuple[int, dict[str, str]]:
        async with self.client.get(f"{self.explorer.url}api/{what}", params=values) as reply:
            return reply.status, await reply.json()

    async def change(self, **values: str) -> tuple[int, Any]:
        headers = {TOKEN_HEADER: self.explorer.token, "Origin": f"http://127.0.0.1:{self.explorer.port}"}
        async with self.client.post(f"{self.explorer.url}api/change", json=values, headers=headers) as reply:
            return reply.status, await reply.json()


@asynccontextmanager
async def page(over: SessionList, **given: Any) -> AsyncGenerator[Page]:
    async with Explorer(over, **given) as explorer, aiohttp.ClientSession() as client:
        yield Page(explorer, client)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(120):
            await work()

    asyncio.run(limited())
