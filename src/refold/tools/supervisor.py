"""A process between the agent and a command: it confines the command and ends everything the command started.

    python supervisor.py '{"read": […], "write": […], "network": false}' bash -c '…'
    python supervisor.py null bash -c '…'                    # nothing is confined, everything is still ended

Standard library only. Confining is Landlock (files, TCP, signals), a filter of system calls (other sockets)
and, where that is permitted, shared memory and terminals of its own. Whatever the command left running is a
child of this process sooner or later, however it hid, and is ended when the command has ended, when this
process is told to (SIGTERM) or when the agent is gone.
"""

import ctypes
import errno
import json
import os
import platform
import signal
import stat
import sys
from contextlib import suppress
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_PR_CAPBSET_DROP = 24
_NEW_MOUNTS, _NEW_USER = 0x20000, 0x10000000
_NO_SETUID, _NO_DEVICES, _NO_PROGRAMS, _ALL_OF_IT, _PRIVATE = 2, 4, 8, 0x4000, 0x40000
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 22, 36, 38
_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read files, read folders
_ALL = (1 << 16) - 1
_WRITE = _ALL & ~(1 << 6 | 1 << 11)  # without making devices
_ON_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # what can be allowed for a single file
_TCP, _SCOPES = 0b11, 0b11  # scopes keep signals inside: Linux 6.12
_ARCHITECTURES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""Audit architecture, and the number of `socket`."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("yes", ctypes.c_uint8),
        ("no", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction)))


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def own_devices() -> list[str]:
    """Private shared memory and terminals, and what may be used of `/dev` because of them. None if the
    system does not permit it, which a child process tests."""
    trial = os.fork()
    if trial == 0:
        try:
            _mount_devices()
            os._exit(0)
        except BaseException:
            os._exit(1)
    if os.waitpid(trial, 0)[1] != 0:
        return []
    _mount_devices()
    return ["/dev/shm", "/dev/pts", "/dev/ptmx"]


def _mount_devices() -> None:
    user, group = os.getuid(), os.getgid()
    if LIBC.unshare(_NEW_MOUNTS) != 0:
        _checked(LIBC.unshare(_NEW_MOUNTS | _NEW_USER))
        maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
        for name, text in maps.items():
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    for kind, place, flags, options in (
        (None, b"/", _ALL_OF_IT | _PRIVATE, None),
        (b"tmpfs", b"/dev/shm", _NO_SETUID | _NO_DEVICES | _NO_PROGRAMS, b"mode=1777"),
        (b"devpts", b"/dev/pts", _NO_SETUID | _NO_PROGRAMS, b"newinstance,ptmxmode=0666,mode=0620"),
    ):
        _checked(LIBC.mount(kind, place, kind, ctypes.c_ulong(flags), options))


def confine(rules: Any) -> None:
    """Restricts this process and its children to reading `read` and changing `write`."""
    own = own_devices()
    _checked(LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _no_capabilities()
    attributes = _Ruleset(_ALL, 0 if rules["network"] else _TCP, _SCOPES)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    ruleset = _checked(LIBC.syscall(_CREATE, ctypes.byref(attributes), size, 0))
    for paths, access in ((rules["read"], _READ), ([*rules["write"], *own], _WRITE)):
        for path in paths:
            _allow(ruleset, path, access)
    _checked(LIBC.syscall(_RESTRICT, ruleset, 0))
    os.close(ruleset)
    _no_sockets(rules["network"])


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # not there: nothing to allow
    if not stat.S_ISDIR(os.fstat(parent).st_mode):
        access &= _ON_FILES
    rule = _Beneath(access, parent)
    _checked(LIBC.syscall(_ADD, ruleset, 1, ctypes.byref(rule), 0))
    os.close(parent)


def _no_capabilities() -> None:
    """Drops root's capabilities, also after running another program."""
    for capability in range(64):
        LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    _checked(LIBC.capset(header, (ctypes.c_uint32 * 6)()))


def _no_sockets(network: bool) -> None:
    """Blocks sockets, since Landlock only knows TCP: all families but the kernel's own, and local ones
    even with network access, because a privileged server may listen behind a path (docker)."""
    architecture, socket = _ARCHITECTURES[platform.machine()]
    load, equal, reach, give = 0x20, 0x15, 0x35, 0x06
    allowed, refused = 0x7FFF0000, 0x00050000
    rows = (
        (load, 0, 0, 4), (equal, 0, 7, architecture),
        (load, 0, 0, 0), (reach, 6, 0, 0x40000000),  # the other numbering of x86_64
        (equal, 5, 0, 425),  # io_uring makes sockets, too
        (equal, 0, 5, socket),
        (load, 0, 0, 16), (equal, 1, 0, 1), (equal, 2, 2 if network else 0, 16),
        (give, 0, 0, refused | errno.EACCES), (give, 0, 0, refused | errno.ENOSYS), (give, 0, 0, allowed),
    )  # fmt: skip
    filter = (_Instruction * len(rows))(*(_Instruction(*row) for row in rows))
    program = _Program(len(rows), filter)
    _checked(LIBC.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0))


def _children() -> list[int]:
    own = os.getpid()
    found: list[int] = []
    with os.scandir("/proc") as processes:
        names = [process.name for process in processes if process.name.isdigit()]
    for name in names:
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            if int(file.read().rpartition(b")")[2].split()[1]) == own:
                found.append(int(name))
    return found


def end_all() -> None:
    """Ends every child, including orphans, until none is left."""
    while children := _children():
        for pid in children:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for pid in children:
            with suppress(OSError):
                os.waitpid(pid, 0)


def _start(rules: Any, command: list[str]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        if rules is not None:
            confine(rules)
        os.execvp(command[0], command)
    except BaseException as error:
        os.write(2, f"the command could not be confined: {error}\n".encode())
        os._exit(126)


def main() -> int:
    rules, command = json.loads(sys.argv[1]), sys.argv[2:]

    def ended(*_: object) -> None:
        end_all()
        os._exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, ended)
    agent = os.getppid()
    _checked(LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    _checked(LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0))
    if os.getppid() != agent:
        return 128 + signal.SIGTERM
    pid = _start(rules, command)
    while True:
        finished, status = os.waitpid(-1, 0)
        if finished == pid:
            end_all()
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
