"""Reading a session in another thread: the history that planning has of it, brought up to a snapshot. And one
`prepare` after the other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from itertools import islice
from typing import TypeVar
from weakref import WeakKeyDictionary

from refold import entries as e
from refold import worker
from refold.session import History, Session, Snapshot

T = TypeVar("T")


class _Copy(History):
    """A history that is read under a lock, and grows when it is brought up to a snapshot."""

    def __init__(self, snapshot: Snapshot, lock: threading.RLock) -> None:
        super().__init__(snapshot.id, snapshot.info, snapshot.counts)
        self.lock = lock

    def follow(self, snapshot: Snapshot) -> None:
        """Take in what a snapshot has more."""
        news = islice(snapshot.log, len(self._log), snapshot.length)
        if self._log:
            for entry in news:
                self._take(entry)
        else:
            self._take_all(news)
        self.info, self.generation = snapshot.info, snapshot.generation


class Replica:
    """The history of a session that planning reads. Reading holds the lock, and first brings it up to a
    snapshot first; nothing else changes it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._log: Sequence[e.AnyEntry] = ()
        self._copy: _Copy | None = None

    def at(self, snapshot: Snapshot) -> History:
        """The history at a snapshot: what is new since the last one is taken in."""
        copy = self._copy
        if copy is None or self._log is not snapshot.log or len(copy) > snapshot.length:
            copy = self._copy = _Copy(snapshot, self.lock)
            self._log = snapshot.log
        copy.follow(snapshot)
        return copy


def at_replica(session: Session, snapshot: Snapshot, work: Callable[[History], T]) -> T:
    """The result of work that reads what a session held at a snapshot. Nothing changes that meanwhile."""
    replica = session.derived.of(Replica, Replica)
    with replica.lock:
        return work(replica.at(snapshot))


async def on_replica(session: Session, work: Callable[[History], T]) -> T:
    """The same in the worker, for what the session holds now."""
    snapshot = session.snapshot()
    return await worker.run_in_worker(lambda: at_replica(session, snapshot, work))


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
