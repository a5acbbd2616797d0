"""Whether Claude Code or Codex has a session open, as far as these programs leave a trace.

- Claude Code keeps no file open; while it runs, `sessions/PID.json` in its folder names its session. Releases
  without that folder are found by their name and the folder they run in.
- Codex holds a lock on `thread-writer-locks/ID.lock`; releases without it keep the file itself open.
- Any process of this user that has the file open counts.
- Where a system does not show its processes (there is no `/proc`), only those traces and the time of the last
  change are left: a file that changed in the last minute counts as in use.

None of this sees a program on another machine that shares the folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from refold.transcripts.base import loads
from refold.transcripts.programs import Ticket
from refold.transcripts.values import as_object

PROCESSES = Path("/proc")
QUIET = 60.0
"""Seconds without a change, if there is no better evidence."""


def user_of(path: Path, program: str, home: Path, ticket: Ticket) -> str | None:
    """The program that uses the session in this file, as a sentence; None if none is found."""
    traces = _claude_code if program == "claude-code" else _codex
    found = traces(home, ticket)
    if found is not None:
        return found
    if PROCESSES.is_dir():
        return next((f"process {pid} has the file open" for pid in _holders(path)), None)
    if abs(time.time() - path.stat().st_mtime) < QUIET:
        return (
            f"it changed in the last {QUIET:.0f} seconds, and this system does not show which program did it"
        )
    return None


def _claude_code(home: Path, ticket: Ticket) -> str | None:
    claims = home / "sessions"
    if not claims.is_dir():
        folder = os.path.realpath(ticket.cwd) if ticket.cwd else None
        pids = (pid for pid in _pids() if _name(pid) == "claude")
        here = (pid for pid in pids if _link(PROCESSES / str(pid) / "cwd") == folder)
        return next((f"Claude Code (process {pid}) runs in {ticket.cwd}" for pid in here), None)
    for file in sorted(claims.glob("*.json")):
        try:
            claim = as_object(loads(file.read_bytes()))
        except (OSError, ValueError):
            continue
        pid = claim.get("pid")
        if claim.get("sessionId") == ticket.id and isinstance(pid, int) and _lives(pid):
            return f"Claude Code (process {pid}) has this session open"
    return None


def _codex(home: Path, ticket: Ticket) -> str | None:
    file = home / "thread-writer-locks" / f"{ticket.id}.lock"
    if os.name != "posix" or not file.exists():
        return None
    import fcntl

    handle = os.open(file, os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return "Codex has this session open"
    finally:
        os.close(handle)
    return None


def _holders(path: Path) -> Iterator[int]:
    """Other processes that have the file open."""
    wanted = os.path.realpath(path)
    for pid in _pids():
        with suppress(OSError):
            handles = list((PROCESSES / str(pid) / "fd").iterdir())
            if any(_link(handle) == wanted for handle in handles):
                yield pid


def _pids() -> Iterator[int]:
    with suppress(OSError):
        names = [file.name for file in PROCESSES.iterdir()]
        yield from (int(name) for name in names if name.isdigit() and int(name) != os.getpid())


def _lives(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)  # it may be another user's
    return True


def _name(pid: int) -> str:
    with suppress(OSError):
        return (PROCESSES / str(pid) / "comm").read_text().strip()
    return ""


def _link(path: Path) -> str:
    with suppress(OSError):
        return str(path.readlink())
    return ""
