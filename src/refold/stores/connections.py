"""Connections to one SQLite database: one per thread, none across a fork, files for the owner only.

POSIX drops all of a process's locks on a file when any descriptor of it is closed. While a database is open
here, nothing else in this process may open its files, not even to copy them or read their first bytes;
`is_open` tells.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import threading
import time
import weakref
from collections.abc import Callable, Generator
from pathlib import Path

import apsw

from refold.errors import FormatError, RefoldError, StorageError
from refold.stores.disk import Disk, make_folder, unopened

OLDEST = (3, 51, 3)
"""The first SQLite release in which a WAL reset cannot corrupt the database."""

_opening = threading.Lock()
"""Held while a database file is created, so that no other thread opens it too early."""
_pools: weakref.WeakSet[Connections] = weakref.WeakSet()


class _Slot:
    """The connection of one thread."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.connection: apsw.Connection | None = None
        self.pid = os.getpid()
        self.file: os.stat_result | None = None
        """The database as it was opened."""
        self.uses = 0
        self.is_broken = False
        """True if it is to be closed after use."""
        self.tainted = False
        """True if a commit failed and its pages in the write-ahead log have not been overwritten yet."""


class Connections:
    def __init__(
        self,
        path: Path,
        *,
        timeout: float,
        vfs: str | None,
        set_up: Callable[[apsw.Connection], None],
    ) -> None:
        check_library(apsw.sqlite_lib_version())
        self.path = path
        self.timeout = timeout
        self._vfs = vfs
        self._set_up = set_up
        self._is_made = False
        self._local = threading.local()
        self._slots: weakref.WeakSet[_Slot] = weakref.WeakSet()
        self._mutex = threading.Lock()
        self._held: list[_Slot] = []
        _pools.add(self)

    @contextlib.contextmanager
    def use(self) -> Generator[apsw.Connection]:
        """This thread's connection. Errors of SQLite become refold's."""
        slot = self._slot()
        with slot.lock:
            if not _fork.is_safe or (slot.connection is not None and slot.pid != os.getpid()):
                raise StorageError(
                    f"this process was forked in the middle of a write to {self.path}: "
                    "fork outside of store calls, or start workers with the spawn method"
                )
            slot.uses += 1
            try:
                if slot.connection is not None and not self._is_there(slot.file):
                    slot.is_broken = True
                    raise StorageError(
                        f"{self.path} was removed or replaced while it was open; nothing was added: "
                        "restore it and open the session again"
                    )
                if slot.connection is None:
                    slot.connection, slot.pid, slot.file = self._open(), os.getpid(), self.path.stat()
                if slot.tainted:
                    take_back(slot)
                    if slot.tainted:
                        raise StorageError(f"{self.path} still ends with a failed append: check the disk")
                yield slot.connection
            except (apsw.IOError, apsw.FullError, apsw.CorruptError, apsw.NotADBError) as error:
                # Start from what is really on the disk next time. But a log with a failed commit at its end
                # must not be read again: the next opener would believe that commit.
                slot.is_broken = not slot.tainted
                raise translated(error, self.path, tainted=slot.tainted) from error
            except apsw.Error as error:
                raise translated(error, self.path) from error
            finally:
                slot.uses -= 1
                if slot.is_broken and not slot.uses:
                    _close(slot)

    def failed_commit(self, connection: apsw.Connection) -> None:
        """Handles a failed commit, which may have left all its pages in the write-ahead log, only not synced:
        they are overwritten, so that they are never found later."""
        slot = self._slot()
        if slot.connection is connection:
            slot.tainted = True
            take_back(slot)

    def close(self) -> None:
        with self._mutex:
            slots = list(self._slots)
        for slot in slots:
            with slot.lock:
                if slot.tainted:
                    take_back(slot)
                _close(slot)

    def _slot(self) -> _Slot:
        slot: _Slot | None = getattr(self._local, "slot", None)
        if slot is None:
            slot = self._local.slot = _Slot()
            with self._mutex:
                self._slots.add(slot)
        return slot

    def _is_there(self, opened: os.stat_result | None) -> bool:
        """True if the file is still the one that was opened. SQLite keeps writing to a deleted file, and
        everything written is lost."""
        try:
            now = self.path.stat()
        except OSError:
            return False
        return opened is None or (os.path.samestat(opened, now) and now.st_size >= min(opened.st_size, 1))

    def _open(self) -> apsw.Connection:
        if not self._is_made:  # one that is gone is not made anew: its sessions are not there
            make_file(self.path)
        deadline = time.monotonic() + self.timeout
        while True:
            connection = apsw.Connection(
                str(self.path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=self._vfs, statementcachesize=64
            )
            try:
                connection.set_busy_timeout(int(self.timeout * 1000))
                self._set_up(connection)
                self._is_made = True
                return connection
            except (apsw.BusyError, apsw.LockedError):
                # Changing to WAL needs the database alone, and SQLite does not wait for that.
                connection.close(True)
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
            except BaseException:
                connection.close(True)
                raise

    @property
    def is_inside(self) -> bool:
        """True if this thread is in the middle of a call."""
        slot: _Slot | None = getattr(self._local, "slot", None)
        return slot is not None and slot.uses > 0

    def before_fork(self) -> None:
        self._mutex.acquire()
        self._held = [slot for slot in self._slots if _waited_for(slot)]
        for slot in self._held:
            if not slot.uses:
                _close(slot)

    def after_fork(self) -> None:
        for slot in self._held:
            slot.lock.release()
        self._held = []
        self._mutex.release()

    def after_fork_in_child(self) -> bool:
        """False if another thread was inside SQLite: its locks stay locked in the child."""
        self._mutex = threading.Lock()
        left = [slot for slot in self._slots if slot not in self._held and slot.connection is not None]
        for slot in left:
            _abandoned.append(slot.connection)  # closing it would end the locks of the parent's
            slot.connection, slot.lock = None, threading.RLock()
        for slot in self._held:
            slot.lock.release()
        self._held = []
        return not left


def take_back(slot: _Slot) -> None:
    """Writes a commit that changes nothing over the one that failed, at the same place of the write-ahead
    log, so that the checksums of what follows become wrong. Works without a sync, in case that is what fails.
    """
    connection = slot.connection
    if connection is None:
        return
    for synchronous in ("FULL", "OFF"):
        try:
            connection.execute(f"PRAGMA wal_autocheckpoint=0; PRAGMA synchronous={synchronous}").fetchall()
            connection.execute("BEGIN IMMEDIATE")
            version = connection.execute("PRAGMA user_version").get
            connection.execute(f"PRAGMA user_version={version}; COMMIT").fetchall()
            slot.tainted = False
            return
        except apsw.Error:
            if connection.in_transaction:
                with contextlib.suppress(apsw.Error):
                    connection.execute("ROLLBACK")
        finally:
            with contextlib.suppress(apsw.Error):
                connection.execute("PRAGMA wal_autocheckpoint=1000; PRAGMA synchronous=FULL").fetchall()


def _close(slot: _Slot) -> None:
    slot.is_broken = slot.tainted = False
    connection, slot.connection = slot.connection, None
    if connection is not None:
        # Closing tries to empty the write-ahead log into the database. If it cannot, nothing is lost: the log
        # is read again when the database is opened next.
        with contextlib.suppress(apsw.Error):
            connection.close(True)


class _Fork:
    """The fork in progress: one at a time, since each holds all locks of all pools."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.pools: list[Connections] = []
        self.is_safe = True
        """False in a child that was forked while another thread was inside SQLite."""
        self.impatient = 0
        """Threads that wait to fork in the middle of a call; other threads do not wait for them."""


_fork = _Fork()
_abandoned: list[apsw.Connection | None] = []


def _waited_for(slot: _Slot) -> bool:
    """Takes the slot once its thread is out of SQLite, unless that thread itself waits to fork."""
    while not slot.lock.acquire(timeout=0.02):
        if _fork.impatient:
            return slot.lock.acquire(blocking=False)
    return True


def _before_fork() -> None:
    """Waits until no thread is inside SQLite, and closes all connections."""
    inside = any(pool.is_inside for pool in list(_pools))
    _fork.impatient += inside
    _fork.turn.acquire()
    _fork.impatient -= inside
    _fork.pools = list(_pools)
    for pool in _fork.pools:
        pool.before_fork()
    _opening.acquire()


def _after_fork() -> None:
    _opening.release()
    for pool in _fork.pools:
        pool.after_fork()
    _fork.pools = []
    _fork.turn.release()


def _after_fork_in_child() -> None:
    global _fork
    _opening.release()
    whole = [pool.after_fork_in_child() for pool in _fork.pools]
    _fork = _Fork()
    _fork.is_safe = all(whole)


if hasattr(os, "register_at_fork"):
    # SQLite keeps its locks in the memory of the process: a child would believe it holds its parent's.
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)


def is_open(path: str | os.PathLike[str]) -> bool:
    """True if this process has a store on that database, so that its file must not be opened otherwise."""
    try:
        there = os.stat(path)  # noqa: PTH116  (a PathLike)
    except OSError:
        return False
    for pool in list(_pools):
        with contextlib.suppress(OSError):
            if os.path.samestat(there, pool.path.stat()):
                return True
    return False


def check_library(version: str) -> None:
    numbers = tuple(int(piece) for piece in version.split(".")[:3])
    if numbers < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise StorageError(
            f"apsw is linked with SQLite {version}, which can corrupt a database in WAL mode: "
            f"install an apsw with SQLite {wanted} or newer (pip install --upgrade apsw)"
        )


def make_file(path: Path) -> None:
    """Creates an empty file that only its owner can read: SQLite gives -wal and -shm the same permissions."""
    try:
        with _opening:
            if path.exists():
                return
            disk = Disk()
            make_folder(disk, path.parent)
            fd = disk.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR)
            try:
                disk.restrict(fd)
            finally:
                disk.close(fd)
            disk.sync_folder(path.parent)
    except FileExistsError:
        return
    except OSError as error:
        raise unopened(path, error) from error


def translated(error: apsw.Error, path: Path, *, tainted: bool = False) -> RefoldError:
    if tainted:
        return StorageError(
            f"{path} could not be written ({error}), nor could that be taken back: "
            "check the disk, and whether the entry is there when it works again"
        )
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StorageError(f"{path} has been in use by another process for too long; try again later")
    if isinstance(error, apsw.FullError):
        return StorageError(f"the disk with {path} is full, nothing was added: free some space and try again")
    if isinstance(error, apsw.CorruptError):
        store = shlex.quote(f"sqlite:{path}")
        return FormatError(f"{path} is damaged ({error}): run `refold sessions doctor --store {store}`")
    if isinstance(error, apsw.NotADBError):
        return FormatError(f"{path} is not a SQLite database: choose another file")
    if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError):
        return StorageError(f"{path} cannot be opened for writing: check its permissions ({error})")
    if isinstance(error, apsw.IOError):
        state = f"({error}), nothing was added: check the disk"
        return StorageError(f"{path} could not be read or written {state}")
    return StorageError(f"{path}: {error}")
