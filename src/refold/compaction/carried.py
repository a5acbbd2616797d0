"""What every fold carries, computed from the whole path: constraints, pins, trail, abridged history.

Because it is computed from the log and not from the last summary, the tenth fold carries what the first
one did.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from refold import entries as e
from refold.compaction.told import told_by
from refold.messages import Message, User
from refold.preserve import abridged, pins
from refold.preserve.state import WorkState
from refold.protocols import TokenCounter
from refold.session import Session
from refold.session.view import said_by
from refold.text.frames import defuse, frame

if TYPE_CHECKING:
    from refold.preserve.constraints import Constraint


@dataclass(frozen=True)
class Read:
    """What the first `length` entries of a path say; extended as the path grows."""

    epoch: int
    trail: WorkState
    length: int = 0
    constraints: tuple[Constraint, ...] = ()


_known: WeakKeyDictionary[Session, Read] = WeakKeyDictionary()


def reading(session: Session) -> Read:
    """Trail and constraints of the whole path; costs what is new since the last call."""
    known = _known.get(session)
    if known is None or known.epoch != session.epoch:
        known = Read(session.epoch, WorkState(session.info.cwd or ""))
    if known.length < len(session.path):
        from refold.preserve import constraints  # late: compiling its patterns takes longer than all else

        fresh = list(said(session, known.length))
        for number, entry in enumerate(session.path[known.length :], known.length):
            message = told_by(entry)
            if message is not None:
                known.trail.take(message, number, entry.id)
        known = Read(
            session.epoch,
            known.trail,
            len(session.path),
            constraints.extend(known.constraints, users_words(session, fresh)),
        )
        _known[session] = known
    return known


def users_words(session: Session, said: list[tuple[str, Message]]) -> Iterator[tuple[str, Message]]:
    """Only what the user said: notes of programs travel in the user's role but are not the user's words."""
    return (
        (id, message)
        for id, message in said
        if isinstance(message, User) and isinstance(session[id], e.MessageEntry)
    )


def said(session: Session, first: int = 0, last: int | None = None) -> Iterator[tuple[str, Message]]:
    """Entry ids and messages of a part of the path."""
    for entry in session.path[first:last]:
        message = told_by(entry)
        if message is not None:
            yield entry.id, message


def pinned(session: Session) -> list[tuple[str, Message]]:
    found = ((id, said_by(session[id])) for id in session.pins if id in session)
    return [(id, message) for id, message in found if message is not None]


def pins_text(session: Session) -> str:
    """All pins, ready to be shown: defused, and what the user did not say framed as a record."""
    return "\n\n".join(pin_text(session[id], message) for id, message in pinned(session))


def pin_text(entry: e.Entry, message: Message) -> str:
    if isinstance(entry, e.MessageEntry) and isinstance(message, User):
        return defuse(pins.block(entry.id, message))
    source, text = pins.who(message), pins.verbatim(message)
    return frame("pin", text, source=source, key=e.key(entry.id))


def history(session: Session, last: int, budget: int, counter: TokenCounter) -> str:
    """One block per turn before path position `last`, within a budget, newest first in choice."""
    groups = abridged.groups(said(session, 0, last))
    return abridged.compact(groups, budget, counter)


def current_request(session: Session) -> tuple[int, e.MessageEntry] | None:
    """The newest thing the user asked for, and its position."""
    if not session.turns:
        return None
    position = session.turns[-1]
    entry = session.path[position]
    return (position, entry) if isinstance(entry, e.MessageEntry) else None
