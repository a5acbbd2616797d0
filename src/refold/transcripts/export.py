"""Exports sessions for other programs.

    exported = export(session, "openai")
    exported.data                       # bytes of the file
    exported.lost                       # sentences: what that format cannot hold

By default the whole active path is written in its original form; `view=True` writes what the model sees now.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, cast

from refold.compaction.record import go_on
from refold.entries import MessageEntry
from refold.errors import UnknownName, UsageError
from refold.format import dump_json
from refold.session import Item, Projection, Session, dialects, redacted
from refold.session.dialects import Dialect
from refold.session.invariants import repair_by
from refold.transcripts import markdown, opencode_write, pi_write, refold_jsonl
from refold.transcripts.exported import Exported, ending, export_losses, spoken_items
from refold.transcripts.programs import WRITERS
from refold.transcripts.resume import resumable

__all__ = ["Exported", "export", "spoken_items", "targets"]


def targets() -> tuple[str, ...]:
    """Formats that can be written: message lists of every dialect, and those of programs."""
    return (*dialects.names(), *WRITERS, "opencode", "pi", "markdown", "jsonl")


def export(
    session: Session,
    to: str,
    *,
    view: bool = False,
    redact: bool = False,
    cwd: str | os.PathLike[str] | None = None,
    server: Sequence[str] = (),
) -> Exported:
    """The session in the format `to` (one of `targets()`). `redact` removes secrets (Markdown never has any).
    For Claude Code and Codex it is a `Resumable`, for opencode an `Importable`; `cwd` is the folder in which
    it will be resumed, default: the session's own. `server`: the command of refold's MCP server, which Claude
    Code and Codex then start."""
    if server and to not in WRITERS:
        raise UsageError(f"--with-mcp works for {' and '.join(WRITERS)}, not for {to}")
    if redact or to == "markdown":
        said = (entry.message for entry in session.entries if isinstance(entry, MessageEntry))
        info, known = redacted.values(session.info), redacted.KnownSecrets(said)
        session = Session(map(known.entry, session.entries), id=session.id, info=info)

    if to in WRITERS:
        return resumable(session, to, view=view, cwd=cwd, server=server)
    if to not in ("pi", "jsonl"):
        session = ending(session, go_on(""))
    if to == "opencode":
        return opencode_write.importable(session, view=view, cwd=cwd, now=time.time())
    if to == "pi":
        data, lost = pi_write.write_pi_session(session.entries, session.info)
        return Exported(data, tuple(lost))
    if to == "jsonl":
        return Exported(refold_jsonl.write_own_session(session.entries, session.info))
    if to not in targets():
        raise UnknownName("export format", to, targets())
    items = Projection(session).items if view else spoken_items(session)
    if to == "markdown":
        data, dialect = markdown.write_markdown(items, session.name or session.id), None
    else:
        dialect = dialects.get(to)
        data = _list(items, dialect)
    return Exported(data, tuple(export_losses(session, dialect, items, view=view)))


def _list(items: Sequence[Item], dialect: Dialect) -> bytes:
    """The messages in a provider's format, one per line."""
    rendered: Any = dialect.render(repair_by(dialect.rules, items))
    request: dict[str, Any] = {dialect.field: rendered} if isinstance(rendered, list) else rendered
    members: list[str] = []
    for key, member in request.items():
        if isinstance(member, list) and member:
            rows = ",\n  ".join(map(dump_json, cast("list[Any]", member)))
            members.append(f"{dump_json(key)}: [\n  {rows}\n ]")
        else:
            members.append(f"{dump_json(key)}: {dump_json(member)}")
    return ("{" + ",\n ".join(members) + "}\n").encode("utf-8")
