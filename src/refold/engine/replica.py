"""Reading a session in another thread: the history that planning has of it, brought up to a snapshot."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeVar

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
    snapshot; nothing else changes it."""

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
