"""Whether what a fold puts into the conversation is sound (R17), whoever made it."""

from __future__ import annotations

from refold import entries as e
from refold.messages import Message, System, User
from refold.session.edits import Path, Position, said_by
from refold.text.structure import forged


def objection(fold: e.Fold, path: Path, position: Position) -> str:
    """Why a fold must not be appended to this path; empty where it may."""
    for edit in fold.edits:
        first, last = position(edit.first), position(edit.last)
        if first is None or last is None or first > last:
            return f"{edit.first!r} … {edit.last!r} is no stretch of the path"
        originals = [said_by(entry) for entry in path[first : last + 1]] if edit.put else []
        for message in edit.put:
            if _speaks(message, originals) and (why := forged(message.text)):
                return f"what it puts in place of {edit.first!r} is not safe: {why}"
    return ""


def _speaks(message: Message, originals: list[Message | None]) -> bool:
    """Does it say others' words as the user or the system? What is shown as it was said, or a single message
    in a shorter form, is nobody else's."""
    if not isinstance(message, (User, System)) or message in originals:
        return False
    return len(originals) != 1 or type(originals[0]) is not type(message)
