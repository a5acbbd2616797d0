"""The folder in which tools work: every path is opened relative to its descriptor and cannot leave it."""

from __future__ import annotations

import errno
import os
import posixpath
import secrets
import stat
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from refold.tools import safe_open
from refold.tools.safe_open import MOST_LINKS, PATH_ONLY

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER = PATH_ONLY | os.O_DIRECTORY
_NAMED = PATH_ONLY or _READ
_KINDS = {
    stat.S_IFDIR: "a folder: use LS",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
TEMPORARY = ".refold-"
"""Prefix of files that are about to be renamed; one is left behind only by a crash."""


class ToolRefused(Exception):
    """Raised if a tool cannot do what was asked: a code for programs, a sentence for the model."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Version(NamedTuple):
    """Identity of a file when it was read."""

    mtime_ns: int
    size: int

    @classmethod
    def of(cls, status: os.stat_result) -> Version:
        return cls(status.st_mtime_ns, status.st_size)


class Workspace:
    """A folder, and the files in it that were read. Relative paths and commands start there."""

    def __init__(self, root: str | Path = ".") -> None:
        self._given = os.path.abspath(root)  # noqa: PTH100 (as it was spelled, links kept)
        self.root = Path(root).resolve(strict=True)
        self.descriptor = os.open(self.root, _FOLDER | os.O_CLOEXEC)
        self._close = weakref.finalize(self, os.close, self.descriptor)
        self._apart = {Path(path).stat().st_dev for path in ("/proc", "/sys") if os.path.ismount(path)}
        """Devices of files that belong to the kernel."""
        self.seen: dict[str, Version] = {}
        """Files that were read or written, by name, with their versions. In memory only (E13)."""

    def close(self) -> None:
        """Also called by garbage collection; may be called twice."""
        self._close()

    # ── names ───────────────────────────────────────────────────────────────────────────────────

    def name(self, path: str) -> str:
        """The path relative to the root, normalised as text, as it is shown and remembered."""
        return posixpath.normpath(self._inner(path))

    def _inner(self, path: str) -> str:
        """The path relative to the root as it is opened; the kernel resolves its `..`."""
        if not path.startswith("/"):
            return path or "."
        for base in (str(self.root), self._given):
            if path == base or path.startswith(base.rstrip("/") + "/"):
                return path[len(base) :].strip("/") or "."
        raise self._outside(path)

    def _outside(self, path: str) -> ToolRefused:
        return ToolRefused(
            "outside_workspace",
            f"`{path}` is outside of the workspace {self.root}: only paths inside of it can be used.",
        )

    # ── opening ─────────────────────────────────────────────────────────────────────────────────

    def open(self, path: str) -> BinaryIO:
        """A regular file, for reading."""
        with self._explained(path), self._named(path, stat.S_IFREG) as named:
            return os.fdopen(_reopened(named, _READ), "rb")

    def folder(self, path: str) -> int:
        """The descriptor of a folder, for reading; the caller closes it."""
        with self._explained(path), self._named(path, stat.S_IFDIR) as named:
            return _reopened(named, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    @contextmanager
    def _named(self, path: str, kind: int) -> Generator[int]:
        """A descriptor that names a file, if it is of this kind and a real file."""
        flags = _FOLDER if kind == stat.S_IFDIR else _NAMED
        named = safe_open.open_beneath(self.descriptor, self._inner(path), flags)
        try:
            status = os.fstat(named)
            _check_kind(path, status, kind)
            if status.st_dev in self._apart:
                raise ToolRefused("not_a_file", f"`{path}` belongs to the kernel and cannot be used.")
            yield named
        finally:
            os.close(named)

    # ── writing ─────────────────────────────────────────────────────────────────────────────────

    def write(self, path: str, data: bytes) -> bool:
        """Replaces a file atomically, or creates it and its folders; returns whether it is new. The mode
        is kept.

        The data is written to the folder's descriptor under a temporary name and replaces the old name,
        never the target of a link.
        """
        with self._explained(path):
            folder, name = self._slot(path)
            try:
                self._not_of_git(path, folder)
                old = _status(name, folder)
                self._writable(path, old)
                temporary = TEMPORARY + secrets.token_hex(8)
                try:
                    _fill(temporary, folder, data, old)
                    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                except BaseException:
                    with suppress(FileNotFoundError):
                        os.unlink(temporary, dir_fd=folder)
                    raise
                self.seen[self.name(path)] = Version.of(os.stat(name, dir_fd=folder, follow_symlinks=False))
                return old is None
            finally:
                os.close(folder)

    def _not_of_git(self, path: str, folder: int) -> None:
        """Refuses to edit git's data, which names programs that git runs outside the sandbox."""
        real = str(Path(f"/proc/self/fd/{folder}").readlink()) if PATH_ONLY else ""  # where links led to
        inside = real.removeprefix(str(self.root)).split("/")
        if ".git" in (name.casefold() for name in (*inside, *self.name(path).split("/"))):
            raise self._of_git(path)
        top, around = os.fstat(self.descriptor), os.dup(folder)
        name = posixpath.basename(self.name(path))
        try:
            while not _is_repository(around, name):
                if os.path.samestat(os.fstat(around), top):
                    return
                outer = os.open("..", _FOLDER | os.O_CLOEXEC, dir_fd=around)
                os.close(around)
                around, name = outer, ""
            raise self._of_git(path)
        finally:
            os.close(around)

    def _of_git(self, path: str) -> ToolRefused:
        return ToolRefused("refused", f"`{path}` belongs to git: change it with git commands.")

    def _writable(self, path: str, old: os.stat_result | None) -> None:
        if old is None:
            return
        _check_kind(path, old, stat.S_IFREG)
        if not old.st_mode & 0o222:
            raise ToolRefused("read_only", f"`{path}` is read-only: its owner does not want it changed.")

    def _slot(self, path: str) -> tuple[int, str]:
        """The folder (as a descriptor) and the name in it for a write, links followed."""
        inner = self._inner(path)
        for _ in range(MOST_LINKS):
            folder, _, name = inner.rpartition("/")
            if name in ("", ".", ".."):
                raise ToolRefused("not_a_file", f"`{path}` is a folder: give the name of a file.")
            parent = self._made(folder or ".")
            try:
                target = os.readlink(name, dir_fd=parent)
            except OSError:
                if os.fstat(parent).st_dev in self._apart:
                    os.close(parent)
                    raise self._outside(path) from None
                return parent, name
            os.close(parent)
            inner = posixpath.join(folder, target)
            if target.startswith("/"):
                raise self._outside(path)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)

    def _made(self, folder: str) -> int:
        """The descriptor of a folder; missing folders are created."""
        try:
            return safe_open.open_beneath(self.descriptor, folder, _FOLDER)
        except FileNotFoundError:
            outer, _, name = folder.rstrip("/").rpartition("/")
            parent = self._made(outer or ".")
        try:
            if _is_repository(parent, name):
                raise self._of_git(folder)
            with suppress(FileExistsError):  # another process was faster; what it is shows in a moment
                os.mkdir(name, dir_fd=parent)
        finally:
            os.close(parent)
        return safe_open.open_beneath(self.descriptor, folder, _FOLDER)

    # ── what was read ───────────────────────────────────────────────────────────────────────────

    def changed(self, path: str, version: Version) -> bool:
        """True if the file was read before and has changed since."""
        return self.seen.get(self.name(path), version) != version

    def versions(self) -> dict[str, Version]:
        """The files that were read, with their current versions; without deleted ones."""
        found: dict[str, Version] = {}
        for name in self.seen:
            with suppress(OSError):
                descriptor = safe_open.open_beneath(self.descriptor, name, PATH_ONLY)
                found[name] = Version.of(os.fstat(descriptor))
                os.close(descriptor)
        return found

    @contextmanager
    def own_changes(self) -> Generator[None]:
        """Changes within the block do not count as changes from outside."""
        before = self.versions()
        try:
            yield
        finally:
            for name, version in self.versions().items():
                if before.get(name) == self.seen.get(name):
                    self.seen[name] = version

    @contextmanager
    def _explained(self, path: str) -> Generator[None]:
        """Turns system errors into sentences."""
        try:
            yield
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise self._outside(path) from None
            code, sentence = _SENTENCES.get(error.errno or 0, ("io", f"cannot be used: {error.strerror}"))
            raise ToolRefused(code, f"`{path}` {sentence}.") from None
        except ValueError:  # a NUL, or half of a character
            raise ToolRefused("invalid_arguments", f"{path!r} is no path.") from None


_SENTENCES = {
    errno.ENOENT: ("not_found", "does not exist: look with LS or Glob"),
    errno.ENOTDIR: ("not_found", "does not exist: something before the last / is no folder"),
    errno.EISDIR: ("not_a_file", "is a folder: use LS"),
    errno.ELOOP: ("not_found", "is a link that leads nowhere"),
    errno.EACCES: ("no_permission", "may not be used: the system does not permit it"),
    errno.EPERM: ("no_permission", "may not be used: the system does not permit it"),
    errno.ENAMETOOLONG: ("invalid_arguments", "is too long for a path"),
    errno.ENXIO: ("not_a_file", "is a device or a socket"),
    errno.ENOSPC: ("io", "was not written: the disk is full"),
}


def read_regular(path: Path, most: int) -> bytes:
    """The beginning of a file anywhere; `OSError` for a pipe or a device, which could block."""
    with open(os.open(path, _READ), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "is not a file", str(path))
        return file.read(most)


def read_contained(root: Path, name: str, most: int) -> bytes:
    """The beginning of a regular file inside a folder, opened as tools do; empty if it is none."""
    try:
        workspace = Workspace(root)
    except OSError:
        return b""
    try:
        with workspace.open(name) as file:
            return file.read(most)
    except (ToolRefused, OSError):
        return b""
    finally:
        workspace.close()


def _is_repository(folder: int, name: str) -> bool:
    """True if git considers a folder a repository, or would with one more name in it."""
    names = ("HEAD", "commondir", "objects", "refs")
    there = {each for each in names if each == name or _status(each, folder)}
    return "HEAD" in there and ("commondir" in there or {"objects", "refs"} <= there)


def _check_kind(path: str, status: os.stat_result, kind: int) -> None:
    found = stat.S_IFMT(status.st_mode)
    if found != kind:
        raise ToolRefused("not_a_file", f"`{path}` is {_KINDS.get(found, 'not a file')}.")


def _reopened(named: int, flags: int) -> int:
    """Reopens exactly this file; resolving the path again could find another one."""
    return os.open(f"/proc/self/fd/{named}", flags) if PATH_ONLY else os.dup(named)


def _status(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _fill(name: str, folder: int, data: bytes, old: os.stat_result | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o666, dir_fd=folder), "wb") as file:
        file.write(data)
        file.flush()
        if old is not None:
            _own(file.fileno(), old)
        os.fsync(file.fileno())


def _own(descriptor: int, old: os.stat_result) -> None:
    """Sets the owner, if possible, then the mode, because changing the owner drops bits of it."""
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except PermissionError:
            os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & 0o777)
            return
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
