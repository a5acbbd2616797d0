"""Packets to be recorded, kept in files beside the store until they are. A killed worker or gateway does not
lose them, and a slow store does not fill the memory.

A segment is a file of packets as they are sent. The gateway that writes it holds a lock on it and deletes it
once all packets are recorded. An unlocked segment was left by a gateway that died: its packets are sent
again.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from refold.stores import beside_postgres, default_database
from refold.stores.disk import spool_folder

try:
    import fcntl
except ImportError:  # not POSIX: an abandoned file could not be recognised, so all is kept in memory
    fcntl = None

SEGMENT_BYTES = 64 * 1024 * 1024
"""Size at which a new segment is started."""
MEMORY = 256 * 1024 * 1024
"""Bytes kept in memory if there is no folder, or the disk is full."""
ENDING = ".letters"


class Full(Exception):
    """Raised if there is no room for another packet."""


class PacketPosition(NamedTuple):
    segment: _Segment | None
    at: int
    size: int
    data: bytes = b""
    """The packet itself, if it is not in a file."""


class _Segment:
    def __init__(self, folder: Path) -> None:
        self.path = folder / f"{os.getpid()}-{secrets.token_hex(8)}{ENDING}"
        self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        _lock(self.file)
        self.size = self.kept = 0

    def remove(self) -> None:
        with suppress(OSError):
            self.path.unlink()
        os.close(self.file)


class Spool:
    """Packets to be recorded; in memory if `folder` is None."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._segment, self._in_memory = folder, None, 0

    def add(self, packet: bytes) -> PacketPosition:
        """Adds a packet. It survives if the process is killed after this returns. Raises `Full`."""
        try:
            segment = self._current()
            if segment is not None:
                at = segment.size
                _write(segment.file, packet, at)
                segment.size += len(packet)
                segment.kept += 1
                return PacketPosition(segment, at, len(packet))
        except OSError:
            pass
        if self._in_memory + len(packet) > MEMORY:
            raise Full
        self._in_memory += len(packet)
        return PacketPosition(None, 0, len(packet), packet)

    @property
    def is_crowded(self) -> bool:
        """True if the disk is full and half of the memory is used."""
        return self._in_memory > MEMORY // 2

    def read(self, place: PacketPosition) -> bytes:
        return place.data if place.segment is None else os.pread(place.segment.file, place.size, place.at)

    def done(self, place: PacketPosition) -> None:
        """Removes a packet that is recorded."""
        segment = place.segment
        if segment is None:
            self._in_memory -= place.size
            return
        segment.kept -= 1
        if segment.kept:
            return
        if segment is self._segment:
            os.ftruncate(segment.file, 0)
            segment.size = 0
        else:
            segment.remove()

    def close(self) -> None:
        """Closes the files; packets that are not recorded stay for the next gateway."""
        if self._segment is not None:
            if self._segment.kept:
                os.close(self._segment.file)
            else:
                self._segment.remove()
            self._segment = None

    def left(self) -> Iterator[Iterator[bytes]]:
        """Packets of gateways that died. Each file is deleted once its packets have been taken."""
        for path in sorted(self._folder.glob(f"*{ENDING}")) if self._folder is not None else ():
            with suppress(OSError):
                file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    _lock(file)
                    yield _packets(file)
                    path.unlink()
                finally:
                    os.close(file)

    def _current(self) -> _Segment | None:
        if self._folder is None:
            return None
        if self._segment is None or self._segment.size > SEGMENT_BYTES:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._segment = _Segment(self._folder)
        return self._segment


def _lock(file: int) -> None:
    """Locks a file; raises `OSError` if another process holds the lock."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _write(file: int, data: bytes, at: int) -> None:
    while data:
        written = os.pwrite(file, data, at)
        data, at = data[written:], at + written


def _packets(file: int) -> Iterator[bytes]:
    """The complete packets of a file; the last one may be cut off."""
    at, end = 0, os.fstat(file).st_size
    while at + 4 <= end:
        size = int.from_bytes(os.pread(file, 4, at), "big")
        if at + 4 + size > end:
            return
        yield os.pread(file, size, at + 4)
        at += 4 + size


def folder_of(store: str) -> Path | None:
    """The folder beside the files of a store; None for a store in memory."""
    kind, _, rest = store.partition(":")
    if kind == "memory" or fcntl is None:
        return None
    if kind in ("postgres", "postgresql"):
        return spool_folder(beside_postgres())
    given = rest if kind in ("sqlite", "jsonl") else store
    path = Path(given.partition("#")[0]).expanduser() if given else default_database()
    return spool_folder(path)
