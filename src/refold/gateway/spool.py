"""What is to be written down, kept until it is: in files beside the store, so that neither a worker nor a
gateway that is killed takes it along, and memory does not fill while a store is slow.

A segment is a file of packets as they are sent. It is locked by the gateway that writes it and removed once
all of its packets are written down; one that is not locked was left by a gateway that died: its packets are
sent again.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from refold.stores import default_database

try:
    import fcntl
except ImportError:  # not POSIX: an abandoned file could not be recognised, so all is kept in memory
    fcntl = None

SEGMENT_BYTES = 64 * 1024 * 1024
"""Bytes after which another file is begun."""
MEMORY = 256 * 1024 * 1024
"""Bytes that are kept in memory where there is no folder, or where it is full."""
ENDING = ".letters"


class Full(Exception):
    """There is no room for more."""


class PacketPosition(NamedTuple):
    """Where a packet is."""

    segment: _Segment | None
    at: int
    size: int
    data: bytes = b""
    """The packet itself, where it is in no file."""


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
    """`folder` None: in memory."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._segment, self._in_memory = folder, None, 0

    def add(self, packet: bytes) -> PacketPosition:
        """Once this returns, killing the process does not lose it. Raises `Full`."""
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
        """The disk takes nothing, and half of the room in memory is used."""
        return self._in_memory > MEMORY // 2

    def read(self, place: PacketPosition) -> bytes:
        return place.data if place.segment is None else os.pread(place.segment.file, place.size, place.at)

    def done(self, place: PacketPosition) -> None:
        """It is written down."""
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
        """What is not written down stays for the next gateway."""
        if self._segment is not None:
            if self._segment.kept:
                os.close(self._segment.file)
            else:
                self._segment.remove()
            self._segment = None

    def left(self) -> Iterator[Iterator[bytes]]:
        """The packets of gateways that died. Each file is removed once its packets have been taken."""
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
    """`OSError` where another process holds it."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _write(file: int, data: bytes, at: int) -> None:
    while data:
        written = os.pwrite(file, data, at)
        data, at = data[written:], at + written


def _packets(file: int) -> Iterator[bytes]:
    """Whole ones: what was being written when the gateway died is half."""
    at, end = 0, os.fstat(file).st_size
    while at + 4 <= end:
        size = int.from_bytes(os.pread(file, 4, at), "big")
        if at + 4 + size > end:
            return
        yield os.pread(file, size, at + 4)
        at += 4 + size


def folder_of(store: str) -> Path | None:
    """Beside the files of a store; None: it ends with the process, as all that is to be written there."""
    kind, _, rest = store.partition(":")
    if kind == "memory" or fcntl is None:
        return None
    if kind in ("postgres", "postgresql"):
        return default_database().with_name("gateway.spool")
    given = rest if kind in ("sqlite", "jsonl") else store
    path = Path(given.partition("#")[0]).expanduser() if given else default_database()
    return path.with_name(f"{path.name}.spool")
