"""Temporary folders that are removed with their process, even if it is killed: each is locked while its
process lives, and the user's next process removes unlocked ones."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # not POSIX: whether a process lives cannot be seen, so folders of others stay
    fcntl = None

SCRATCH_PREFIX = "refold-scratch-"


def folder_for(owner: object) -> Path:
    """A new folder, removed with its owner or at the end of the process."""
    path, locked = _made()
    weakref.finalize(owner, _remove, path, locked, os.getpid())
    return path


@contextmanager
def scratch_folder() -> Generator[Path]:
    """A new folder, removed with the block."""
    path, locked = _made()
    try:
        yield path
    finally:
        _remove(path, locked, os.getpid())


def _made() -> tuple[Path, int | None]:
    _remove_left()
    while True:
        path = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX)).resolve()
        locked = _locked(path)
        if locked is not None or fcntl is None:  # otherwise another process took it for one that was left
            return path, locked


def _remove_left() -> None:
    """Removes folders of this user whose process is dead. Links are not followed."""
    for path in Path(tempfile.gettempdir()).glob(f"{SCRATCH_PREFIX}*") if fcntl is not None else ():
        if (locked := _locked(path)) is not None:
            _remove(path, locked, os.getpid())


def _locked(path: Path) -> int | None:
    """The locked descriptor of a folder; None if it is gone, or belongs to another user or process."""
    if fcntl is None:
        return None
    with suppress(OSError):
        found = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with suppress(OSError):
            fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
            about = os.fstat(found)
            if about.st_uid == os.geteuid() and os.path.samestat(about, path.lstat()):
                return found
        os.close(found)
    return None


def _remove(path: Path, locked: int | None, process: int) -> None:
    """Removes a folder, but not a parent's in a forked child."""
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)
    if locked is not None:
        os.close(locked)
