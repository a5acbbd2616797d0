"""Sessions of Claude Code and Codex, where these programs keep them.

    from refold.registry.client_sessions import InPlace

    place = InPlace("~/.claude/projects/…/ID.jsonl")        # refuses a session that is in use
    await engine.prepare(place.session)                     # or plan and apply
    done = place.write()                                    # backs the file up, then appends
    done.command                                            # cd … && claude --resume ID

What the program wrote stays byte for byte; its own record of a compaction and what the model sees now follow.
"""

from __future__ import annotations

import io
import os
import shlex
import time
from pathlib import Path

import msgspec

from refold.entries import Fold, MessageEntry
from refold.errors import StorageError, UsageError
from refold.registry.client_activity import user_of
from refold.session import Session
from refold.stores.disk import Disk, make_folder, place_file
from refold.transcripts import detect, read_stream
from refold.transcripts.base import HEAD_BYTES, Head, TranscriptFile
from refold.transcripts.programs import WRITERS, json_lines, page_of, writer
from refold.transcripts.read_back import refuse_unlike
from refold.transcripts.resume import Resumable

RESUMABLE_CLIENTS = {"claude-code": "claude", "codex": "codex", "opencode": "opencode"}
"""Format of a program's sessions → its name for `refold compact --resume`."""


def home(program: str) -> Path:
    """The program's own folder on this machine."""
    chosen = writer(program)
    named = os.environ.get(chosen.home_variable)
    return Path(named) if named else Path.home() / chosen.home_folder


def folders() -> dict[str, Path]:
    """Program → where it keeps its sessions on this machine: a folder, or one database."""
    user, env = Path.home(), os.environ
    pi, copilot, data = (env.get(name) for name in ("PI_CODING_AGENT_DIR", "COPILOT_HOME", "XDG_DATA_HOME"))
    return {
        "claude-code": home("claude-code") / "projects",
        "codex": home("codex") / "sessions",
        "pi": (Path(pi) if pi else user / ".pi" / "agent") / "sessions",
        "gemini": user / ".gemini" / "tmp",
        "opencode": (Path(data) if data else user / ".local" / "share") / "opencode" / "opencode.db",
        "copilot": (Path(copilot) if copilot else user / ".copilot") / "session-state",
    }


def install_session(exported: Resumable, folder: Path | None = None) -> Path:
    """Writes a session into its program's folder, under a new name."""
    path = (folder or home(exported.program)) / exported.place
    make_folder(Disk(), path.parent)
    place_file(Disk(), path, exported.data, replace=False)
    return path


class Written(msgspec.Struct, frozen=True, kw_only=True):
    file: Path
    backup: Path
    added: int
    """Number of bytes appended."""
    id: str
    command: str
    """The command that resumes the session."""


class InPlace:
    """A session file of Claude Code or Codex, to be folded in place."""

    def __init__(self, path: str | os.PathLike[str], *, folder: Path | None = None) -> None:
        self.path = Path(os.path.realpath(Path(path).expanduser()))
        self._data = _bytes(self.path)
        self.program = detect(
            Head(self._data[:HEAD_BYTES], whole=len(self._data) < HEAD_BYTES), name=str(path)
        )
        if self.program not in WRITERS:
            known = " and ".join(WRITERS)
            hint = "leave out --in-place" if self.program == "refold" else "use -o FILE"
            raise UsageError(f"{path} is in the format {self.program}; --in-place is for {known}: {hint}")
        self._folder = folder
        self._writer = writer(self.program)
        self._records = [record for _, record in TranscriptFile(io.BytesIO(self._data)).records()]
        self._ticket = self._writer.ticket_of(self._records, time.time())
        self._refuse_use()
        self.session = Session.of(
            read_stream(io.BytesIO(self._data), name=str(self.path), format=self.program)
        )
        self._known = len(self.session.entries)

    @property
    def command(self) -> str:
        move = f"cd {shlex.quote(self._ticket.cwd)} && " if self._ticket.cwd else ""
        return move + self._writer.resume_command(self._ticket.id)

    def write(self) -> Written | None:
        """Appends what was folded since the file was read; None if nothing was. A changed file is refused."""
        entries = self.session.entries[self._known :]
        if not any(isinstance(entry, Fold) for entry in entries):
            return None
        if any(isinstance(entry, MessageEntry) for entry in entries):
            raise UsageError(
                "messages were added to this session; only folds can be written back into its file"
            )
        ticket = msgspec.structs.replace(self._ticket, now=time.time())
        page = msgspec.structs.replace(page_of(self.session, self._writer), entries=entries)
        ended = self._data if self._data.endswith(b"\n") else self._data + b"\n"
        added = json_lines(self._writer.compaction_records(page, self._records, ticket))
        refuse_unlike(added, self.program, page, ticket, before=ended)
        self._refuse_use()
        backup = self._backup()
        if _bytes(self.path) != self._data:
            raise StorageError(f"{self.path} changed during the fold; it was not written: try again")
        mode = self.path.stat().st_mode & 0o777
        place_file(Disk(), self.path, ended + added, replace=True)
        self.path.chmod(mode)
        return Written(file=self.path, backup=backup, added=len(added), id=ticket.id, command=self.command)

    def _refuse_use(self) -> None:
        user = user_of(self.path, self.program, self._folder or home(self.program), self._ticket)
        if user is not None:
            raise StorageError(f"{self.path} is in use: {user}. Close it and try again; nothing was changed")

    def _backup(self) -> Path:
        """Copies the file beside itself, under a name that neither program considers a session."""
        for number in range(1, 10_000):
            backup = self.path.with_name(f"{self.path.name}.{number}.bak")
            try:
                place_file(Disk(), backup, self._data, replace=False)
            except FileExistsError:
                continue
            return backup
        raise StorageError(f"too many backups of {self.path}: delete or move some")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path} could not be read: {error.strerror}") from error
