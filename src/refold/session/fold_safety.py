"""Whether the messages that a fold puts into the conversation are safe (R17)."""

from __future__ import annotations

from refold import entries as e
from refold.messages import Message, System, Text, User
from refold.session.edits import Path, Position, said_by
from refold.text.structure import forged


def objection(fold: e.Fold, path: Path, position: Position) -> str:
    """Why a fold must not be appended to this path; empty where it may."""
    for edit in fold.edits:
        first, last = position(edit.first), position(edit.last)
        if first is None or last is None or first > last:
            return f"{edit.first!r} … {edit.last!r} is no stretch of the path"
        stretch = path[first : last + 1] if edit.put else ()
        for message in edit.put:
            if _speaks(message, stretch) and (why := _forged(message)) and not _said(message, stretch):
                return f"what it puts in place of {edit.first!r} is not safe: {why}"
    return ""


def _forged(message: Message) -> str:
    """Every part of a message is sound by itself."""
    return next((why for part in message.parts if isinstance(part, Text) and (why := forged(part.text))), "")


def _speaks(message: Message, stretch: Path) -> bool:
    """Whether a message of the user or the system tells what others said. In place of a single message of the
    same role it is that message, shortened."""
    if not isinstance(message, (User, System)):
        return False
    return len(stretch) != 1 or type(said_by(stretch[0])) is not type(message)


def _said(message: Message, stretch: Path) -> bool:
    """Whether it is shown as it was said. Checked last: a stretch may be nearly the whole log."""
    return any(said_by(entry) == message for entry in stretch)
