"""Reading a session in another thread: the history that planning has of it, brought up to a snapshot. And one
`prepare` after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TypeVar
from weakref import WeakKeyDictionary

from refold import worker
from refold.session import History, Session, Snapshot

T = TypeVar("T")


def at_replica(session: Session, snapshot: Snapshot, work: Callable[[History], T]) -> T:
    """The result of work that reads what a session held at a snapshot. Nothing changes that meanwhile."""
    replica = session.replica
    with replica.lock:
        return work(replica.at(snapshot))


async def on_replica(session: Session, work: Callable[[History], T]) -> T:
    """The same in the worker, for what the session holds now."""
    snapshot = session.snapshot()
    return await worker.run(lambda: at_replica(session, snapshot, work))


_preparing: ContextVar[frozenset[int]] = ContextVar("preparing", default=frozenset())


class Turns:
    """One after the other for each session, on each event loop."""

    def __init__(self) -> None:
        self._locks: WeakKeyDictionary[Session, WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]]
        self._locks = WeakKeyDictionary()

    @asynccontextmanager
    async def of(self, session: Session) -> AsyncGenerator[None]:
        """The turn of the caller. A hook that is called within a turn is not kept waiting for its end."""
        held = _preparing.get()
        if id(session) in held:
            yield
            return
        loops = self._locks.setdefault(session, WeakKeyDictionary())
        async with loops.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            token = _preparing.set(held | {id(session)})
            try:
                yield
            finally:
                _preparing.reset(token)
