"""Stores for the fault runs: the real ones, and ones with a bug planted to show that the runs would see it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from refold import messages as m
from refold.entries import AnyEntry, MessageEntry
from refold.protocols import SessionInfo
from refold.stores import database
from refold.stores import disk as calls
from refold.stores.disk import Disk
from refold.stores.jsonl import JsonlStore
from refold.stores.sqlite import SqliteStore

S = "session"


class UnsyncedDisk(Disk):
    """Planted: never waits for the medium."""

    def sync(self, fd: int) -> None:
        pass


class BufferedDisk(Disk):
    """Planted: keeps small writes to itself for a while."""

    def __init__(self) -> None:
        self.held = b""

    def write(self, fd: int, data: bytes) -> int:
        self.held += data
        if len(self.held) > 8192:
            os.write(fd, self.held)
            self.held = b""
        return len(data)


class SlowDisk(Disk):
    """Not wrong, but it gives others time to come in between."""

    def write(self, fd: int, data: bytes) -> int:
        time.sleep(0.001)
        return super().write(fd, data)


class TrustingStore(JsonlStore):
    """Planted: believes what it remembers of the file, since it wrote all of it itself."""

    def _catch_up(self, path: Path, fd: int) -> Any:
        return self._known.get(path) or super()._catch_up(path, fd)


class UnsyncedSqlite(SqliteStore):
    SYNCHRONOUS = "OFF"


class NormalSqlite(SqliteStore):
    """Planted: what many recommend for WAL; a commit is then not durable."""

    SYNCHRONOUS = "NORMAL"


class PlainBegin(SqliteStore):
    BEGIN = "BEGIN"


class LateSqlite(SqliteStore):
    """Planted: acknowledges at once, writes several appends together later."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.waiting: list[AnyEntry] = []

    def append(self, session: str, entries: Sequence[AnyEntry], *, after: str | None) -> None:
        self.waiting += entries
        if len(self.waiting) >= 8:
            held, self.waiting = self.waiting, []
            with self.reading() as connection:
                tip = database.tally(connection, session)[1].tip
            super().append(session, held, after=tip)


KINDS: dict[str, Any] = {
    "jsonl": lambda place, **more: JsonlStore(place / "s.jsonl", folder=False, **more),
    "jsonl-unsynced": lambda place, **more: JsonlStore(place / "s.jsonl", folder=False, disk=UnsyncedDisk()),
    "jsonl-buffered": lambda place, **more: JsonlStore(place / "s.jsonl", folder=False, disk=BufferedDisk()),
    "jsonl-unlocked": lambda place, **more: JsonlStore(place / "s.jsonl", folder=False, disk=SlowDisk()),
    "jsonl-trusting": lambda place, **more: TrustingStore(place / "s.jsonl", folder=False, **more),
    "sqlite": lambda place, **more: SqliteStore(place / "s.db", **more),
    "sqlite-unsynced": lambda place, **more: UnsyncedSqlite(place / "s.db", **more),
    "sqlite-normal": lambda place, **more: NormalSqlite(place / "s.db", **more),
    "sqlite-plain": lambda place, **more: PlainBegin(place / "s.db", **more),
    "sqlite-late": lambda place, **more: LateSqlite(place / "s.db", **more),
}
REAL = ("jsonl", "sqlite")


def make(kind: str, place: Path, **more: Any) -> Any:
    """A store of that kind in the folder `place`."""
    if kind == "jsonl-unlocked":
        calls.locked = lambda *_, **__: contextlib.nullcontext()  # only ever in a process of its own
    return KINDS[kind](place, **more)


def begin(kind: str, place: Path, **more: Any) -> Any:
    store = make(kind, place, **more)
    store.create(SessionInfo(id=S, created=1.0))
    return store


def said(id: str, parent: str | None, size: int = 100) -> MessageEntry:
    """A message whose text can be checked against its id."""
    return MessageEntry(id=id, parent=parent, message=m.user(text_of(id, size)))


def text_of(id: str, size: int) -> str:
    return (f"{id} é\u2028 " * (size // 4 + 1))[:size]


def is_intact(entry: AnyEntry) -> bool:
    if not isinstance(entry, MessageEntry):
        return False
    text = entry.message.text
    return text == text_of(entry.id, len(text))


@contextlib.contextmanager
def ram_folder() -> Iterator[Path]:
    """A folder in memory where there is one: for runs in which the medium does not matter."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="refold-", dir=base))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
