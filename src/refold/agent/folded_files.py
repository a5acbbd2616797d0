"""Files that a fold took out of the view, shown again as they are now (R18): the model goes on from what is
on the disk, and need not ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refold import entries as e
from refold.agent.interrupted_turn import open_calls
from refold.compaction.details import FILES, TOKENS, reinjection
from refold.messages import content
from refold.registry.engine import Engine
from refold.session import Session
from refold.tools.workspace import ToolRefused, Workspace

FILES_DIVISOR = 4
"""Files get one part in so many of the room that the fold left: the rest is for going on."""
MIN_FILE_TOKENS = 200
"""Tokens; a file of which not even so much could be shown is left out."""
LARGE = 64_000
"""Bytes; a larger file is better read in pieces."""


def bring_back(
    engine: Engine, session: Session, fold: e.Fold, files: Workspace, *, system: str, tools: Sequence[Any]
) -> None:
    """Append the newest versions of the files most recently read, as far as there is room. Nothing while
    calls wait for their results: those come first."""
    if open_calls(session):
        return
    used = engine.view(session, system=system, tools=tools).tokens
    each = min(TOKENS, (engine.preset_for(session).budget - used) // FILES_DIVISOR // FILES)
    if each < MIN_FILE_TOKENS:
        return
    note = reinjection(fold, lambda path: _text(files, path), engine.counter, tokens=each)
    if note is not None:
        session.append(session.make(e.Note, content=content(note), kind="files"))


def _text(files: Workspace, path: str) -> str | None:
    """A text file of the workspace; None where it is gone, large, none of ours, or no text."""
    try:
        with files.open(path) as file:
            data = file.read(LARGE + 1)
        return data.decode() if len(data) <= LARGE else None
    except (ToolRefused, OSError, UnicodeDecodeError):
        return None
