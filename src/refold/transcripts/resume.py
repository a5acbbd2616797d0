"""Sessions that Claude Code and Codex resume.

    exported = resumable(session, "claude-code", cwd="/home/me/project")
    exported.place                      # projects/-home-me-project/ID.jsonl, below the program's own folder
    exported.command                    # cd /home/me/project && claude --resume ID

What does not read back as it was said is refused here, before anything is written.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from refold import entries as e
from refold import messages as m
from refold.compaction.record import go_on
from refold.errors import UsageError
from refold.session import Session, dialects
from refold.session.edits import said_by
from refold.transcripts.exported import Exported, ending, export_losses
from refold.transcripts.programs import Ticket, json_lines, page_of, writer
from refold.transcripts.read_back import refuse_unlike, unchanged


class Resumable(Exported, frozen=True, kw_only=True):
    program: str
    id: str
    place: PurePosixPath
    folder: str
    """Where it is resumed; on this machine it may not exist."""
    command: str
    """What a user types to go on, in the folder of the session."""


def resumable(
    session: Session,
    program: str,
    *,
    cwd: str | os.PathLike[str] | None = None,
    view: bool = False,
    server: Sequence[str] = (),
    clock: Callable[[], float] = time.time,
) -> Resumable:
    """The session as a new one of `program`, to be resumed in the folder `cwd` (its own, unless given).
    `view=True` leaves out what stands before the boundary. `server`: the command of the MCP server that the
    resumed program starts; records then say how its model reads messages again."""
    if view and server:
        raise UsageError("--with-mcp needs all messages in the exported file: leave out --view")
    chosen = writer(program)
    folder = os.path.realpath(cwd or session.info.cwd or Path.cwd())
    ticket = Ticket(id=chosen.new_id(), cwd=folder, now=clock(), new_id=chosen.new_id)
    session = ending(session, go_on(chosen.RECALL_TOOL if server else "", f"{program}:{ticket.id}"))
    page = page_of(session, chosen, history=not view)
    dialect = dialects.get(chosen.dialect)
    if not dialect.parse_list(dialect.render(page.view)):
        raise UsageError("this session cannot be resumed: it has no messages")
    records, places = chosen.spoken(page, ticket)
    if page.said:
        # With the path as it is, for when the file is read again: what its records say as the entries do is
        # only named, everything else is written into the record of the compaction.
        path = session.path
        told = unchanged(path, program, records, places)
        page = replace(page, entries=[*map(_bare, path)], places=told)
        records = [*records, *chosen.compaction_records(page, records, ticket)]
    data = json_lines(records)
    refuse_unlike(data, program, page, ticket)
    lost = export_losses(session, dialect, page.said or page.view, view=True, keeps=chosen.keeps)
    if any(isinstance(said_by(entry), m.System) for entry in session.path):
        lost.append("system prompt not exported: the program has its own")
    started = chosen.with_server(server) if server else ""
    return Resumable(
        program=program,
        data=data,
        id=ticket.id,
        place=chosen.place(ticket),
        folder=folder,
        command=f"cd {shlex.quote(folder)} && {chosen.resume_command(ticket.id)}{started}",
        lost=tuple(lost),
    )


def _bare(entry: e.AnyPathEntry) -> e.AnyPathEntry:
    """Without what another program kept beside the conversation."""
    match entry:
        case e.Other():
            return replace(entry, raw={})
        case e.MessageEntry() | e.Note() | e.ModelChange() | e.BranchSummary():
            return replace(entry, meta={})
        case _:
            return entry
