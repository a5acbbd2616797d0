"""One I/O call that fails: the n-th one, in a chosen way."""

from __future__ import annotations

import errno
import itertools
import os
from pathlib import Path
from typing import Any

import apsw

from refold.stores.disk import Disk

FAULTS = ("EIO", "ENOSPC", "short")
_SPACE = ("write", "truncate", "open", "link", "xWrite")
_CHANGES = (
    *_SPACE,
    "replace",
    "unlink",
    "restrict",
    "sync",
    "sync_folder",
    "xOpen",
    "xDelete",
    "xTruncate",
    "xSync",
)
REACH: dict[str, tuple[str, ...]] = {
    "EIO": (),
    "ENOSPC": _SPACE,
    "EDQUOT": _SPACE,
    "short": _SPACE,
    "EROFS": _CHANGES,
}
"""The calls that a fault can happen to; none named: all."""
_count = itertools.count()


class Trigger:
    """Counts calls; at number `at` the call fails, `times` in a row."""

    def __init__(self, fault: str, at: int, times: int = 1, only: tuple[str, ...] = ()) -> None:
        self.fault, self.at, self.times, self.only = fault, at, times, only
        self.calls = 0
        self.fired: list[str] = []

    def now(self, call: str) -> bool:
        self.calls += 1
        if not self.at <= self.calls < self.at + self.times or (self.only and call not in self.only):
            return False
        if REACH[self.fault] and call not in REACH[self.fault]:
            return False
        self.fired.append(call)
        return True


class FaultyDisk(Disk):
    def __init__(self, trigger: Trigger) -> None:
        self.trigger = trigger

    def _maybe(self, call: str) -> None:
        if self.trigger.now(call):
            number = getattr(errno, self.trigger.fault, errno.ENOSPC)
            raise OSError(number, os.strerror(number))

    def open(self, path: Path, flags: int) -> int:
        self._maybe("open")
        return super().open(path, flags)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        self._maybe("read")
        return super().read(fd, size, offset)

    def write(self, fd: int, data: bytes) -> int:
        if self.trigger.fault == "short" and self.trigger.now("write"):
            return super().write(fd, data[: len(data) // 2])
        self._maybe("write")
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        self._maybe("sync")

    def truncate(self, fd: int, size: int) -> None:
        self._maybe("truncate")
        super().truncate(fd, size)

    def restrict(self, fd: int) -> None:
        self._maybe("restrict")
        super().restrict(fd)

    def link(self, source: Path, target: Path) -> None:
        self._maybe("link")
        super().link(source, target)

    def replace(self, source: Path, target: Path) -> None:
        self._maybe("replace")
        super().replace(source, target)

    def unlink(self, path: Path) -> None:
        self._maybe("unlink")
        super().unlink(path)

    def sync_folder(self, folder: Path) -> None:
        self._maybe("sync_folder")

    def close(self, fd: int) -> None:
        super().close(fd)
        self._maybe("close")


class FaultyVfs(apsw.VFS):
    """SQLite's own VFS retries EINTR itself, below this seam; a short write is reported as a full disk."""

    def __init__(self, trigger: Trigger) -> None:
        self.trigger = trigger
        self.label = f"faulty{next(_count)}"
        super().__init__(self.label, "")

    def xOpen(self, name: Any, flags: list[int]) -> FaultyFile:
        self.maybe("xOpen", apsw.SQLITE_CANTOPEN)
        return FaultyFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.maybe("xDelete", apsw.SQLITE_IOERR_DELETE)
        super().xDelete(filename, syncdir)

    def maybe(self, call: str, code: int) -> None:
        if self.trigger.now(call):
            full = self.trigger.fault == "ENOSPC"
            raise apsw.exception_for(apsw.SQLITE_FULL if full else code)


class FaultyFile(apsw.VFSFile):
    def __init__(self, vfs: FaultyVfs, name: Any, flags: list[int]) -> None:
        self.vfs = vfs
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:
        self.vfs.maybe("xRead", apsw.SQLITE_IOERR_READ)
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        if self.vfs.trigger.fault == "short" and self.vfs.trigger.now("xWrite"):
            super().xWrite(bytes(data)[: len(data) // 2], offset)
            raise apsw.exception_for(apsw.SQLITE_FULL)
        self.vfs.maybe("xWrite", apsw.SQLITE_IOERR_WRITE)
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self.vfs.maybe("xTruncate", apsw.SQLITE_IOERR_TRUNCATE)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        self.vfs.maybe("xSync", apsw.SQLITE_IOERR_FSYNC)

    def xFileSize(self) -> int:
        self.vfs.maybe("xFileSize", apsw.SQLITE_IOERR_FSTAT)
        return super().xFileSize()
