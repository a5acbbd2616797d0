"""Sessions that other programs keep as files, copied into a database of refold so that they can be searched.

The database is a cache: a changed file is read again, a deleted file is removed from it, and deleting the
database only costs the time of reading everything again. The files themselves are never written.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager, nullcontext
from pathlib import Path

import msgspec

from refold.errors import RefoldError, UnknownName
from refold.protocols import Grouping, SessionInfo, Store
from refold.registry.client_sessions import folders
from refold.stores import data_folder, open_store
from refold.stores.disk import Disk, locked, make_folder, place_file
from refold.transcripts import read_all
from refold.transcripts.importing import append_all, find_transcripts

MAX_SYNCED_BYTES = 256 * 1024 * 1024
RESCAN_SECONDS = 20.0
"""Interval of checks for changed files."""
SAVED = 50
"""Number of files after which progress is saved."""


class SyncedFile(msgspec.Struct):
    """A file as it was last read."""

    size: int
    time: int
    ids: list[str]


class SyncedSessions:
    """The sessions of one program. Several servers may share one database; one at a time reads."""

    def __init__(self, program: str, folder: Path, database: Path) -> None:
        self.program, self.folder = program, folder
        make_folder(Disk(), database.parent)
        self.store: Store = open_store(f"sqlite:{database}").store
        self._notes = database.with_suffix(".files.json")
        self._known: dict[str, SyncedFile] = {}
        self._last = float("-inf")
        self._lock = threading.Lock()
        self.ready = threading.Event()
        """Set when everything was read once."""

    @property
    def stale(self) -> bool:
        """True if the files should be checked again."""
        return time.monotonic() - self._last >= RESCAN_SECONDS

    def place_of(self, id: str) -> str | None:
        """The name of a session for commands: its file, with a number if that has several."""
        for name, known in list(self._known.items()):
            if id in known.ids:
                return f"{name}#{known.ids.index(id)}" if len(known.ids) > 1 else name
        return None

    def refresh(self) -> None:
        """Reads changed files, unless another thread or process is doing so."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            with self._alone():
                self._known = self._remembered()
                self._read(path for path, _ in find_transcripts([self.folder]))
            self.ready.set()
        except (RefoldError, OSError):
            pass  # another server reads, or the disk is full: what is there is served
        finally:
            self._last = time.monotonic()
            self._lock.release()

    @contextmanager
    def _alone(self) -> Generator[None]:
        fd = os.open(self._notes.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            with locked(fd, self._notes, shared=False, timeout=0.0):
                yield
        finally:
            os.close(fd)

    def _read(self, paths: Iterable[Path]) -> None:
        found: dict[str, os.stat_result] = {}
        for path in paths:
            try:
                if _is_readable(path):
                    found[str(path)] = path.stat()
            except OSError:
                continue  # gone since it was listed
        for name in [name for name in self._known if name not in found]:
            self._drop(self._known.pop(name).ids)
        taken = {id for known in self._known.values() for id in known.ids}
        changed = 0
        for name, state in found.items():
            known = self._known.get(name)
            if known and (known.size, known.time) == (state.st_size, state.st_mtime_ns):
                continue
            # Until all of it is read, readers see what was there before.
            with self.store.grouped() if isinstance(self.store, Grouping) else nullcontext():
                if known:
                    self._drop(known.ids)
                    taken.difference_update(known.ids)
                ids = self._take(Path(name), taken) if state.st_size <= MAX_SYNCED_BYTES else []
            self._known[name] = SyncedFile(state.st_size, state.st_mtime_ns, ids)
            changed += 1
            if changed % SAVED == 0:
                self._remember()
        self._remember()

    def _remember(self) -> None:
        notes = json.dumps(msgspec.to_builtins(self._known))  # of names that are no UTF-8, too
        place_file(Disk(), self._notes, notes.encode(), replace=True)

    def _take(self, path: Path, taken: set[str]) -> list[str]:
        """Reads a file; `taken` has the ids of all existing sessions and is extended."""
        ids: list[str] = []
        try:
            for _, loaded in read_all(path):
                info = loaded.info or SessionInfo(id=path.stem)
                if not any(entry.on_path for entry in loaded.entries):
                    ids.append("")  # commands count this one, too
                    continue
                id = info.id
                if id in taken:  # several files may hold copies of one session, and one file several of an id
                    id = f"{id}~{_mark(path, len(ids))}"
                self._drop([id])  # of a reading that was broken off
                self.store.create(msgspec.structs.replace(info, id=id))
                ids.append(id)
                taken.add(id)
                append_all(self.store, id, loaded.entries)
        except RefoldError:
            pass  # no transcript, or a damaged one: what was read of it stays
        return ids

    def _drop(self, ids: Iterable[str]) -> None:
        for id in ids:
            try:
                self.store.delete(id)
            except UnknownName:
                continue

    def _remembered(self) -> dict[str, SyncedFile]:
        try:
            return msgspec.convert(json.loads(self._notes.read_bytes()), dict[str, SyncedFile])
        except (OSError, ValueError):
            for info in list(self.store.sessions()):  # it is unknown which files these came from
                self.store.delete(info.id)
            return {}


def _is_readable(path: Path) -> bool:
    """May this process read it? What it may not is looked at again next time."""
    return os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids)


def _mark(path: Path, number: int) -> str:
    """Which conversation of which file."""
    name = f"{path}#{number}" if number else str(path)
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def synced_collections() -> list[SyncedSessions]:
    """One collection per program with sessions on this machine."""
    base = data_folder() / "found"
    return [
        SyncedSessions(name, path, base / f"{name}.db") for name, path in folders().items() if path.exists()
    ]
