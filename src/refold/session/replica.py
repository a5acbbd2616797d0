"""A copy of a session's history that planning reads in another thread."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import islice

from refold import entries as e
from refold.session.history import History, Snapshot


class Replica(History):
    """The history of a session that planning reads, beside the session itself: under its lock, and first
    brought up to a snapshot, or back to one. Nothing else changes it."""

    def __init__(self, snapshot: Snapshot, lock: AbstractContextManager[object]) -> None:
        super().__init__(snapshot.id, snapshot.info)
        self.lock = lock
        self._source: Sequence[e.AnyEntry] = ()

    def follow(self, snapshot: Snapshot) -> None:
        """Take in what a snapshot has more; everything, where the past changed or the snapshot is older."""
        if self._source is not snapshot.log or len(self) > snapshot.length:
            self._clear()
            self._source, self._counts = snapshot.log, snapshot.counts
        news = islice(snapshot.log, len(self), snapshot.length)
        if self._log:
            for entry in news:
                self._take(entry)
        else:
            self._take_all(news)
        self.info, self.generation = snapshot.info, snapshot.generation

    def back_to(self, length: int, generation: int) -> None:
        """As it was with so many entries, where others have read on since."""
        self.follow(Snapshot(self.id, self.info, self._source, length, generation, self._counts))
