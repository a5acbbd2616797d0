"""The memory file: one writer at a time, replaced as a whole, never half written."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from refold import memory
from refold.errors import Conflict, RefoldError, StorageError
from refold.protocols import Request
from refold.stores.disk import Disk, locked, make_folder, place_file

AskModel = Callable[[Request], Awaitable[str]]
"""Returns the text of a model's answer; raises `ModelError`s."""
MAX_MEMORY_BYTES = 64 * 1024 * 1024
LOCK_TIMEOUT = 30.0


class MemoryFile:
    """A memory text at `path`. Every change takes a lock (a file beside it, since the text itself is
    replaced), reads, and replaces atomically, so that concurrent writers lose nothing."""

    def __init__(self, path: str | os.PathLike[str], *, disk: Disk | None = None) -> None:
        self.path = Path(path).absolute()
        self._disk = disk or Disk()

    def read(self) -> str:
        """The text; empty if there is no file yet."""
        try:
            if self.path.stat().st_size > MAX_MEMORY_BYTES:
                raise StorageError(
                    f"{self.path} is larger than {MAX_MEMORY_BYTES >> 20} MB: it is not a memory file"
                )
            return self.path.read_bytes().decode()
        except FileNotFoundError:
            return ""
        except UnicodeDecodeError as error:
            raise StorageError(
                f"{self.path} is not UTF-8 text (byte {error.start}): it was not changed"
            ) from error

    def update(self, change: Callable[[str], str]) -> str:
        """Replaces the text with `change(text)` under the lock and returns the new one. If `change` raises,
        the file is unchanged; an equal text is not written."""
        make_folder(self._disk, self.path.parent)
        lock = self.path.with_name(f".{self.path.name[:180]}.lock")
        fd = self._disk.open(lock, os.O_RDWR | os.O_CREAT)
        try:
            with locked(fd, self.path, shared=False, timeout=LOCK_TIMEOUT):
                before = self.read()
                after = change(before)
                if after != before:
                    place_file(self._disk, self.path, after.encode("utf-8", "replace"), replace=True)
                return after
        finally:
            self._disk.close(fd)

    def add(self, line: str) -> str:
        if "\n" in line.rstrip("\n"):
            raise StorageError("a note is one line")
        return self.update(lambda text: f"{_ended(text)}{line.rstrip(chr(10))}\n")

    def exchange(self, expected: str, text: str) -> str:
        """Replaces `expected` with `text`. Notes that others appended meanwhile are kept after it; any other
        change is a `Conflict`."""

        def change(now: str) -> str:
            if not _ended(now).startswith(_ended(expected)):
                raise Conflict("the memory that was compressed", "another one")
            return _ended(text) + _ended(now)[len(_ended(expected)) :]

        return self.update(change)

    async def compress(
        self,
        params: memory.MemoryParams = memory.MemoryParams(),
        ask: AskModel | None = None,
        *,
        force: bool = False,
    ) -> memory.Compressed | memory.Untouched:
        """Compresses the notes if there are too many (`force`: always), with the answer of `ask` or, without
        it, by built-in rules. If anything fails, the file is unchanged."""
        before = self.read()
        if not (force or memory.needs_compression(before, params)):
            return memory.Untouched(
                "few", f"nothing to compress: no more than {params.max_lines} notes, or a blank prompt"
            )
        if ask is None:
            outcome = memory.compress(before, params)
        else:
            try:
                outcome = memory.accept(await ask(memory.build_request(before, params)), before, params)
            except RefoldError as error:
                return memory.Untouched("failed", f"{error}; the memory is as it was")
        if outcome:
            self.exchange(before, outcome.text)
        return outcome


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"
