"""Opens a path that cannot leave a folder, even if the folder changes meanwhile.

Linux has a system call for it (`openat2`, 5.6). Elsewhere, or if a container forbids it, the path is
walked component by component without following unchecked links. Both refuse the same: `..` above the
folder (EXDEV), links with an absolute target (EXDEV), magic links of `/proc`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

Opener: TypeAlias = Callable[[int, str, int], int]
"""(folder, path, flags) → descriptor"""
PATH_ONLY: int = getattr(os, "O_PATH", os.O_RDONLY)
"""A descriptor that only names a file: opening a device or a pipe like this has no effect on it."""
MOST_LINKS = 40
_OPENAT2 = 437
_NO_MAGIC_LINKS, _BENEATH = 0x02, 0x08
_TRIES = 64
"""The kernel gives up (EAGAIN) when something is renamed while it resolves `..`."""


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def by_kernel(folder: int, path: str, flags: int) -> int:
    how = _How(flags | os.O_CLOEXEC, 0, _NO_MAGIC_LINKS | _BENEATH)
    if "\0" in path:
        raise ValueError("a path has no NUL in it")  # C would take it for the end
    name, size = os.fsencode(path), ctypes.c_size_t(ctypes.sizeof(how))
    for _ in range(_TRIES):
        found: int = _LIBC.syscall(_OPENAT2, folder, name, ctypes.byref(how), size)
        if found >= 0:
            return found
        if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
            break
    code = ctypes.get_errno()
    raise OSError(code, os.strerror(code), path)


def by_walking(folder: int, path: str, flags: int) -> int:
    if path.startswith("/"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    way = [os.dup(folder)]
    try:
        return _walk(way, _components(path), flags)
    finally:
        for descriptor in way:
            os.close(descriptor)


def _walk(way: list[int], left: list[str], flags: int) -> int:
    """`way` are the folders passed, `left` the remaining components, the next one last."""
    links = 0
    while left:
        name = left.pop()
        if name == ".":
            continue
        if name == "..":
            if len(way) == 1:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), name)
            os.close(way.pop())
        elif (target := _link(name, way[-1])) is not None:
            links += 1
            if target.startswith("/") or links > MOST_LINKS:
                code = errno.EXDEV if links <= MOST_LINKS else errno.ELOOP
                raise OSError(code, os.strerror(code), name)
            left += _components(target)
        elif left:
            way.append(_open(name, PATH_ONLY | os.O_DIRECTORY, way[-1]))
        else:
            return _open(name, flags, way[-1])
    return _open(".", flags, way[-1])


def _components(path: str) -> list[str]:
    """The components, the next one last. What precedes a `/` must be a folder."""
    return [name or "." for name in reversed(path.split("/"))]


def _link(name: str, folder: int) -> str | None:
    with suppress(OSError):
        return os.readlink(name, dir_fd=folder)
    return None


def _open(name: str, flags: int, folder: int) -> int:
    """Opens a name without following a link, which may have appeared just now."""
    found = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    if stat.S_ISLNK(os.fstat(found).st_mode):
        os.close(found)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    return found


def _opener() -> Opener:
    if sys.platform != "linux":
        return by_walking
    try:
        here = os.open("/", PATH_ONLY | os.O_DIRECTORY)
        try:
            os.close(by_kernel(here, ".", PATH_ONLY))
        finally:
            os.close(here)
    except (OSError, AttributeError):
        return by_walking
    return by_kernel


_LIBC = ctypes.CDLL(None, use_errno=True)
open_beneath: Opener = _opener()
