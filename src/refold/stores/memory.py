"""Sessions in memory: for tests, for notebooks and for conversations that may be forgotten."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from refold.entries import AnyEntry
from refold.errors import SessionExists, UnknownName
from refold.protocols import Loaded, SessionInfo
from refold.stores import Opened, forks, rows
from refold.stores.rows import SessionTally, StoredLine


class MemoryStore:
    """Keeps the same lines the other stores keep, so nothing a caller changes later reaches the log."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        forks.call_after_fork(self)
        self._lines: dict[str, list[bytes]] = {}
        self._tallies: dict[str, SessionTally] = {}

    def create(self, info: SessionInfo) -> None:
        with self._mutex:
            if info.id in self._lines:
                raise SessionExists(info.id)
            self._lines[info.id] = []
            self._tallies[info.id] = rows.new_tally(info, self._clock())

    def append(self, session: str, entries: Sequence[AnyEntry], *, after: str | None) -> None:
        self._add(session, rows.of_entries(entries), after)

    def append_lines(self, session: str, lines: Sequence[bytes], *, after: str | None) -> None:
        self._add(session, rows.of_lines(lines), after)

    def _add(self, session: str, new: list[StoredLine], after: str | None) -> None:
        with self._mutex:
            tally = self._tally(session)
            tally.guard(new, after)
            self._lines[session].extend(row.line for row in new)
            tally.add(new)
            tally.updated = rows.newest_time(new) or self._clock()

    def load(self, session: str, start: int = 0) -> Loaded:
        with self._mutex:
            tally, lines = msgspec.structs.replace(self._tally(session)), tuple(self._lines[session])
        numbered = ((f"line {n}", rows.of_line(line)) for n, line in enumerate(lines, 1))
        return rows.loaded(numbered, start, tally)

    def lines(self, session: str) -> Iterator[bytes]:
        with self._mutex:
            self._tally(session)
            return iter(tuple(self._lines[session]))

    def sessions(self) -> Iterator[SessionInfo]:
        with self._mutex:
            found = [tally.info for tally in self._tallies.values()]
        return iter(sorted(found, key=lambda info: -info.updated))

    def delete(self, session: str) -> None:
        with self._mutex:
            self._tally(session)
            del self._lines[session], self._tallies[session]

    def replace(self, session: str, entries: Mapping[str, AnyEntry], *, after: str | None) -> None:
        with self._mutex:
            tally = self._tally(session)
            tally.check(after)
            found = [rows.replaced(rows.of_line(line), entries) for line in self._lines[session]]
            self._lines[session] = [row.line for row in found]
            tally.name = rows.told_name(found)

    def close(self) -> None:
        """Nothing to do; the sessions stay until the store is forgotten."""

    def after_fork(self) -> None:
        self._mutex = threading.Lock()

    def _tally(self, session: str) -> SessionTally:
        try:
            return self._tallies[session]
        except KeyError:
            raise UnknownName("session", session) from None


def opened(_: str) -> Opened:
    return Opened(MemoryStore())
