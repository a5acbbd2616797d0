"""Power failures, simulated: record what a store tells the operating system, then build the disks that a
failure at any moment could leave behind.

What is written before a file's last sync is there. Of later writes any subset may be there, each whole, cut at
a sector or not at all. A new name is there only once its folder was synced (SQLite's own VFS syncs the
folder with the first sync of a new -wal file). An acknowledgement is recorded like a call.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from refold.stores.disk import Disk

SECTOR = 512
_count = itertools.count()


@dataclass
class Tape:
    """Calls in order: (name, file, …). Files are numbered; names point at them."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def note(self, *call: Any) -> None:
        self.calls.append(call)

    def acknowledge(self, *ids: str) -> None:
        self.note("ack", ids)


# ── recording: JSONL ────────────────────────────────────────────────────────────────────────────


class RecordingDisk(Disk):
    def __init__(self, tape: Tape, *, syncs: bool = True) -> None:
        self.tape, self.syncs = tape, syncs
        self.files: dict[int, int] = {}

    def open(self, path: Path, flags: int) -> int:
        new = not path.exists()
        fd = super().open(path, flags)
        self.files[fd] = os.fstat(fd).st_ino
        if new and flags & os.O_CREAT:
            self.tape.note("name", path.name, self.files[fd])
        return fd

    def write(self, fd: int, data: bytes) -> int:
        self.tape.note("write", self.files[fd], os.fstat(fd).st_size, data)  # always at the end
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        if self.syncs:
            self.tape.note("sync", self.files[fd])
            super().sync(fd)

    def truncate(self, fd: int, size: int) -> None:
        self.tape.note("truncate", self.files[fd], size)
        super().truncate(fd, size)

    def link(self, source: Path, target: Path) -> None:
        self.tape.note("name", target.name, source.stat().st_ino)
        super().link(source, target)

    def replace(self, source: Path, target: Path) -> None:
        self.tape.note("rename", source.name, target.name, source.stat().st_ino)
        super().replace(source, target)

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self.tape.note("unname", path.name)

    def sync_folder(self, folder: Path) -> None:
        if self.syncs:
            self.tape.note("sync folder")


# ── recording: SQLite ───────────────────────────────────────────────────────────────────────────


class RecordingVfs(apsw.VFS):
    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.label = f"record{next(_count)}"
        self.files: dict[str, int] = {}
        self.numbers = itertools.count(1)
        super().__init__(self.label, "")

    def xOpen(self, name: Any, flags: list[int]) -> RecordingFile:
        return RecordingFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.files.pop(filename, None)
        self.tape.note("unname", Path(filename).name)
        if syncdir:
            self.tape.note("sync folder")

    def number(self, path: str) -> int:
        if path not in self.files:
            self.files[path] = next(self.numbers)
            self.tape.note("name", Path(path).name, self.files[path])
            if not path.endswith("-wal"):
                self.tape.note("sync folder")  # the store makes and syncs the file before SQLite opens it
        return self.files[path]


class RecordingFile(apsw.VFSFile):
    def __init__(self, vfs: RecordingVfs, name: Any, flags: list[int]) -> None:
        self.tape = vfs.tape
        path = name if isinstance(name, str) else name.filename() if name is not None else ""
        self.number = vfs.number(path)
        self.is_wal = path.endswith("-wal")
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self.tape.note("write", self.number, offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self.tape.note("truncate", self.number, newsize)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        self.tape.note("sync", self.number)
        if self.is_wal:
            self.tape.note("sync folder")


# ── what may be left ────────────────────────────────────────────────────────────────────────────


@dataclass
class Left:
    """A disk after the failure, and what had been acknowledged before it."""

    files: dict[str, bytes]
    promised: list[str]
    at: int


def failures(tape: Tape, *, each: int, seed: int, step: int = 1) -> Iterator[Left]:
    """For every moment (every `step`-th): nothing unsynced is there, all of it is, and `each` random mixtures."""
    chance = random.Random(seed)
    for at in range(0, len(tape.calls) + 1, step):
        yield _left(tape, at, lambda _: "none")
        yield _left(tape, at, lambda _: "all")
        for _ in range(each):
            yield _left(tape, at, lambda _: chance.choice(("none", "all", "torn")), chance)


def _left(tape: Tape, at: int, fate: Any, chance: random.Random | None = None) -> Left:
    calls = tape.calls[:at]
    synced = {call[1]: place for place, call in enumerate(calls) if call[0] == "sync"}
    folder = max((place for place, call in enumerate(calls) if call[0] == "sync folder"), default=-1)
    content: dict[int, bytearray] = {}
    names: dict[str, int] = {}
    names_end = False
    for place, call in enumerate(calls):
        kind = call[0]
        if kind in ("write", "truncate"):
            certain = place < synced.get(call[1], -1)
            _change(content.setdefault(call[1], bytearray()), call, "all" if certain else fate(call), chance)
        elif kind in ("name", "rename", "unname"):
            # Names reach the medium in their order, so one that is lost takes the later ones along.
            names_end = names_end or (place > folder and fate(call) == "none")
            if not names_end:
                _rename(names, call)
    promised = [id for call in calls if call[0] == "ack" for id in call[1]]
    files = {name: bytes(content.get(number, b"")) for name, number in names.items()}
    return Left(files, promised, at)


def _change(data: bytearray, call: tuple[Any, ...], fate: str, chance: random.Random | None) -> None:
    if fate == "none":
        return
    if call[0] == "truncate":
        del data[call[2] :]
        return
    offset, new = call[2], call[3]
    if fate == "torn" and chance is not None:
        new = new[: chance.randrange(0, len(new) // SECTOR + 1) * SECTOR]
    if len(data) < offset:
        data.extend(bytes(offset - len(data)))
    data[offset : offset + len(new)] = new


def _rename(names: dict[str, int], call: tuple[Any, ...]) -> None:
    if call[0] == "name":
        names[call[1]] = call[2]
    elif call[0] == "rename":
        names.pop(call[1], None)
        names[call[2]] = call[3]
    else:
        names.pop(call[1], None)
