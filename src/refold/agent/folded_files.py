"""Files that a fold took out of the view, shown again as they are now (R18): the model goes on from what is
on the disk, and need not ask for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from refold import entries as e
from refold.agent.interrupted_turn import open_calls
from refold.compaction.details import FoldDetails
from refold.messages import content
from refold.protocols import TokenCounter
from refold.registry.engine import Engine
from refold.session import Session
from refold.text.frames import RECORD_NOTE, frame
from refold.tokens.fitting import fit
from refold.tools.workspace import ToolRefused, Workspace

FILES = 5
"""Files that are shown again, at most."""
TOKENS = 5_000
"""Tokens of one of them, at most."""
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


def reinjection(
    fold: e.Fold, read: Callable[[str], str | None], counter: TokenCounter, *, tokens: int = TOKENS
) -> str | None:
    """A note with the newest versions of the files whose text a fold took out of the view: at most `FILES` of
    them and `tokens` each, most recently read first. `read` gives a file's text as it is now, or None (gone,
    denied, binary): such a file is left out."""
    blocks: list[str] = []
    for path in reversed(FoldDetails.of(fold).reads_left):
        if len(blocks) == FILES:
            break
        text = read(path)
        if text is None or not text.strip() or "\x00" in text:
            continue
        blocks.append(frame("file", fit(text, tokens, counter), source=path))
    if not blocks:
        return None
    return "\n\n".join((RECORD_NOTE, "Files in play, as they are now:", *reversed(blocks)))


def _text(files: Workspace, path: str) -> str | None:
    """A text file of the workspace; None where it is gone, large, none of ours, or no text."""
    try:
        with files.open(path) as file:
            data = file.read(LARGE + 1)
        return data.decode() if len(data) <= LARGE else None
    except (ToolRefused, OSError, UnicodeDecodeError):
        return None
