"""Reading a session in another thread: the history that planning has of it, brought up to a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

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
