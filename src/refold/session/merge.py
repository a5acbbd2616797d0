"""Taking over a list of messages that some framework hands back.

Frameworks keep the conversation as a list and give us all of it every time, and something new at its end.
What they kept is what we showed the model (summaries included), now or some folds ago, or everything that
was said. The list is compared with each of these piece by piece, so that it does not matter how a dialect
joined or split messages on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec

from refold import entries as e
from refold.messages import Assistant, Call, Image, Message, Result, System, Text, compact_json
from refold.session.invariants import repair
from refold.session.items import Item
from refold.session.tree import Session
from refold.session.view import active_folds, project

OLDER = 16
"""How many folds back a list may be."""


class Piece(NamedTuple):
    """The smallest thing that is compared: a text, a call, a result, a picture."""

    said: tuple[str, ...]
    owner: int
    """Index of the message or item it belongs to."""


class Merged(msgspec.Struct, frozen=True):
    appended: tuple[e.AnyEntry, ...]
    """Message entries that are new."""
    branched: bool = False
    """The list departed from the path, so the new entries are on a branch."""


class Reading(NamedTuple):
    """A list beside one state of the session that it may have grown from."""

    items: Sequence[Item]
    ours: Sequence[Piece]
    messages: Sequence[Message]
    theirs: Sequence[Piece]
    same: int
    """How many pieces they begin with in common."""

    @property
    def is_sure(self) -> bool:
        """The list is that state, a part of it, or goes on from it."""
        return self.same == len(self.theirs) or 0 < self.same == len(self.ours)


def merge(session: Session, given: Iterable[Message]) -> Merged:
    """Find the longest common beginning of the list and what we know; append the rest, on a branch if the
    two differ before the end."""
    items, ours, messages, theirs, same = _read(session, list(given))
    if same == len(theirs):
        return Merged(())  # what we have, or an older state of it
    if same == len(ours):
        return Merged(tuple(session.append(message) for message in _unseen(messages, theirs, same)))
    same = _back_to_message(ours, theirs, same)
    _branch(session, items, ours[same].owner)
    rest = messages[theirs[same].owner :]
    return Merged(tuple(session.append(message) for message in rest), branched=True)


def _read(session: Session, messages: list[Message]) -> Reading:
    """The reading under which most of the list is known; the newest view where that decides nothing."""
    best: Reading | None = None
    messages = messages[_prompts(messages) :]
    theirs = pieces(messages)
    for items in _states(session):
        known = [item.message for item in items]
        front = _prompts(known)
        ours = [piece for piece in pieces(known) if piece.owner >= front]
        reading = Reading(items, ours, messages, theirs, _common(ours, theirs))
        if best is None or reading.same > best.same or reading.is_sure > best.is_sure:
            best = reading
        if reading.is_sure:
            break
    assert best is not None  # the view is always a state
    return best


def _states(session: Session) -> Iterator[list[Item]]:
    """What a list may have grown from, likeliest first: the view, all that was said, the view as it was
    before the last folds."""
    folds = active_folds(session.path)
    yield from _as_sent([item for _, item in project(session, folds)])
    said = (entry for entry in session.path if isinstance(entry, e.MessageEntry))
    yield from _as_sent([Item(entry.message, (entry.id,)) for entry in said])
    for known in range(len(folds) - 1, max(-1, len(folds) - 1 - OLDER), -1):
        yield from _as_sent([item for _, item in project(session, folds[:known])])


def _as_sent(items: list[Item]) -> Iterator[list[Item]]:
    """A state as it is and, where that differs, as it was repaired for the wire: stand-ins, notes and ids."""
    yield items
    for dialect in ("openai", "responses"):
        sent = repair(items, dialect)
        if any(a is not b for a, b in zip_longest(items, sent)):
            yield sent


def pieces(messages: Sequence[Message]) -> list[Piece]:
    found: list[Piece] = []
    for owner, message in enumerate(messages):
        side = "assistant" if isinstance(message, Assistant) else "user"
        if isinstance(message, Result):
            found.append(Piece(("result", message.call_id, message.text.strip()), owner))
            continue
        for part in message.parts:
            match part:
                case Text(text=text) if text.strip():
                    found.append(Piece((side, text.strip()), owner))
                case Call(id=id, name=name):
                    arguments = part.raw if part.raw is not None else compact_json(part.arguments)
                    found.append(Piece(("call", id, name, arguments), owner))
                case Image():
                    found.append(Piece((side, "image", part.data or part.url or ""), owner))
                case _:
                    pass
    return found


def _prompts(messages: Sequence[Message]) -> int:
    """How many system prompts stand in front. They are not compared: those of the log stay, any others belong
    to the call, and some dialects keep them outside of the list."""
    return next((n for n, message in enumerate(messages) if not isinstance(message, System)), len(messages))


def _common(ours: Sequence[Piece], theirs: Sequence[Piece]) -> int:
    same = 0
    for mine, yours in zip(ours, theirs, strict=False):
        if mine.said != yours.said:
            break
        same += 1
    return same


def _back_to_message(ours: Sequence[Piece], theirs: Sequence[Piece], same: int) -> int:
    """Where the two part, moved back to where a message begins on both sides."""
    while same > 0 and (
        (same < len(ours) and ours[same - 1].owner == ours[same].owner)
        or (same < len(theirs) and theirs[same - 1].owner == theirs[same].owner)
    ):
        same -= 1
    return same


def _unseen(messages: Sequence[Message], theirs: Sequence[Piece], same: int) -> list[Message]:
    """Their messages after the common beginning; of a message that we have in part, only the new parts."""
    if same >= len(theirs):
        return []
    owner = theirs[same].owner
    first = messages[owner]
    seen = sum(1 for piece in theirs[:same] if piece.owner == owner)
    if seen and not isinstance(first, Result):
        parts = [p for p in first.parts if pieces([_holding(first, p)])]
        first = _holding(first, *parts[seen:])
    return [first, *messages[owner + 1 :]]


def _holding(message: Message, *parts: Any) -> Any:
    return msgspec.structs.replace(message, content=parts)


def _branch(session: Session, items: Sequence[Item], known: int) -> None:
    """Move the leaf to the end of what is common. Folds that lie wholly before it come along, as they hold
    for the same messages."""
    target = next((item.entries[-1] for item in reversed(items[:known]) if item.entries), None)
    if target is None:
        session.move(None)
        return
    folds = active_folds(session.path)
    session.move(target)
    for fold in folds:
        inside = all(session.position(edit.last) is not None for edit in fold.edits)
        if session.position(fold.id) is None and inside:
            copied = msgspec.structs.replace(
                fold, id=session.new_id(), parent=session.leaf, time=session.clock(), usage=None, requests=0
            )
            session.append(copied)
