"""System calls of a JSONL store, in one place: what may fail, and what makes bytes durable."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sys
import time
from collections.abc import Generator
from pathlib import Path

from refold.errors import StorageError

_BINARY: int = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_LOCK_BYTE = 1 << 40
"""The byte that Windows locks: beyond any data, since its locks also forbid reading."""


def spool_folder(path: Path) -> Path:
    """Where a gateway keeps what it has yet to write to the store in this file or folder."""
    return path.with_name(f"{path.name}.spool")


def check_spool(path: Path) -> None:
    """Raises `StorageError` if a gateway has something yet to write to the store: it would bring back what is
    forgotten."""
    folder = spool_folder(path)
    with contextlib.suppress(FileNotFoundError):
        if any(file.stat().st_size for file in folder.glob("*")):
            raise StorageError(
                f"{folder} has exchanges that a gateway did not record yet, nothing was forgotten: start "
                "`refold serve` with this store, stop it, and try again"
            )


class Disk:
    """Plain calls of the operating system. Tests replace it to record writes or to make them fail."""

    def open(self, path: Path, flags: int) -> int:
        return os.open(path, flags | _BINARY, 0o600)

    def close(self, fd: int) -> None:
        os.close(fd)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        if sys.platform == "win32":
            os.lseek(fd, offset, os.SEEK_SET)
            return os.read(fd, size)
        return os.pread(fd, size, offset)

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def sync(self, fd: int) -> None:
        """Returns when the bytes (and the length) of the file are on the medium."""
        if sys.platform == "darwin":
            import fcntl

            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # fsync alone leaves them in the drive's cache
        elif hasattr(os, "fdatasync"):
            os.fdatasync(fd)
        else:
            os.fsync(fd)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def restrict(self, fd: int) -> None:
        """Restricts the file to its owner, whatever the umask."""
        if hasattr(os, "fchmod"):
            os.fchmod(fd, 0o600)

    def link(self, source: Path, target: Path) -> None:
        os.link(source, target)

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def sync_folder(self, folder: Path) -> None:
        """Makes names in the folder durable. Windows does that automatically."""
        if sys.platform == "win32":
            return
        fd = os.open(folder, os.O_RDONLY | _BINARY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


# ── on top of the calls ─────────────────────────────────────────────────────────────────────────


def write_all(disk: Disk, fd: int, data: bytes) -> None:
    """Writes everything in one call; a short write is an error, which the caller undoes. Python repeats
    interrupted calls."""
    written = disk.write(fd, data)
    if written != len(data):
        raise OSError(errno.ENOSPC, f"only {written:,} of {len(data):,} bytes were written")


def make_folder(disk: Disk, folder: Path) -> None:
    """Creates the folder and its parents, durably and for the owner only, whatever the umask."""
    if folder.is_dir():
        return
    make_folder(disk, folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        folder.chmod(0o700)
        disk.sync_folder(folder.parent)


def target(path: Path) -> Path:
    """The file that a link points to, because a rename would replace the link."""
    try:
        return Path(os.path.realpath(path)) if path.is_symlink() else path
    except OSError:
        return path  # opening it raises the same error


@contextlib.contextmanager
def os_errors_translated(path: Path) -> Generator[None]:
    """Errors of the operating system become refold's."""
    try:
        yield
    except OSError as error:
        raise unopened(path, error) from error


def place_file(disk: Disk, path: Path, data: bytes, *, replace: bool) -> None:
    """Writes a whole new file at `path`, durably and atomically. Without `replace`, an existing file is a
    `FileExistsError`."""
    try:
        _place(disk, target(path), data, replace=replace)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # instead of the temporary name
        raise


def _place(disk: Disk, path: Path, data: bytes, *, replace: bool) -> None:
    temporary = path.with_name(f".{path.name[:180]}.{secrets.token_hex(4)}.new")
    fd = disk.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        try:
            disk.restrict(fd)
            write_all(disk, fd, data)
            disk.sync(fd)
        finally:
            disk.close(fd)
        if replace:
            _exchange(disk, temporary, path)
        else:
            _link(disk, temporary, path)
            try:
                disk.sync_folder(path.parent)
            except OSError:
                with contextlib.suppress(OSError):
                    disk.unlink(path)
                raise
    finally:
        with contextlib.suppress(OSError):
            disk.unlink(temporary)


def _exchange(disk: Disk, new: Path, path: Path) -> None:
    """Replaces `path` with `new`. If that cannot be made durable, the old file is restored."""
    old = new.with_suffix(".old")
    with contextlib.suppress(OSError):
        disk.link(path, old)
    try:
        disk.replace(new, path)
    except OSError:
        with contextlib.suppress(OSError):
            disk.unlink(old)
        raise
    try:
        disk.sync_folder(path.parent)
    except OSError as error:
        try:
            disk.replace(old, path)
        except OSError:
            raise Undecided(error, old) from error
        raise
    with contextlib.suppress(OSError):
        disk.unlink(old)


def _link(disk: Disk, source: Path, target: Path) -> None:
    try:
        disk.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        # A file system without hard links: the check and the rename are two steps there.
        if target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        disk.replace(source, target)


@contextlib.contextmanager
def locked(fd: int, path: Path, *, shared: bool, timeout: float) -> Generator[None]:
    """Holds the file's lock; `StorageError` if another process keeps it for longer than `timeout` seconds."""
    deadline = time.monotonic() + timeout
    pause = 0.0005
    while not _try_lock(fd, shared):
        if time.monotonic() > deadline:
            raise StorageError(
                f"{path} has been locked by another process for {timeout:g} s; try again later"
            )
        time.sleep(pause)
        pause = min(pause * 1.5, 0.003)
    try:
        yield
    finally:
        _unlock(fd)


if sys.platform == "win32":
    import msvcrt

    def _at_lock_byte(fd: int, mode: int) -> None:
        os.lseek(fd, _LOCK_BYTE, os.SEEK_SET)
        msvcrt.locking(fd, mode, 1)

    def _try_lock(fd: int, shared: bool) -> bool:  # noqa: ARG001  (there is no shared kind)
        try:
            _at_lock_byte(fd, msvcrt.LK_NBLCK)
        except OSError:
            return False
        return True

    def _unlock(fd: int) -> None:
        _at_lock_byte(fd, msvcrt.LK_UNLCK)

else:
    import fcntl

    def _try_lock(fd: int, shared: bool) -> bool:
        # flock belongs to the open file, not to the process: threads exclude each other as well, and closing
        # another descriptor of the same file does not drop it.
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES, errno.EINTR):
                return False
            raise
        return True

    def _unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


def same_file(fd: int, path: Path) -> bool:
    """False once another file has taken the name (a repair replaced it meanwhile)."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(fd), there)


class Undecided(OSError):
    """Raised if a new file is in its place, but perhaps not durably, and the `old` one could not be
    restored."""

    def __init__(self, error: OSError, old: Path) -> None:
        super().__init__(error.errno, error.strerror)
        self.old = old


_ADVICE = {
    errno.ENOSPC: "free some space and try again",
    errno.EDQUOT: "free some of your quota and try again",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f) and try again",
    errno.EROFS: "its file system is read-only; check why, or choose another place",
    errno.EACCES: "check its name and its permissions",
    errno.EPERM: "check its name and its permissions",
    errno.EMFILE: "close some files, or raise the limit (ulimit -n), and try again",
    errno.ENFILE: "close some files and try again",
}


def advice(error: OSError) -> str:
    """What the user can do about an error of the operating system."""
    return _ADVICE.get(error.errno or 0, "check its name and the disk, and try again")


def unopened(path: Path, error: OSError) -> StorageError:
    return StorageError(f"{path} cannot be opened ({error.strerror or error}): {advice(error)}")


def disk_error(path: Path, error: OSError, *, undone: bool = True) -> StorageError:
    why = error.strerror or error
    if undone and not isinstance(error, Undecided):
        return StorageError(f"{path} could not be written ({why}); nothing was added: {advice(error)}")
    return StorageError(
        f"{path} could not be written ({why}), nor could that be taken back: "
        "check the disk, and whether the entry is there when it works again"
    )
