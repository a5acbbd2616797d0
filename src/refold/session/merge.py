"""Taking over a list of messages that some framework hands back.

Frameworks keep the conversation as a list and give us all of it every time, and something new at its end.
What they kept is what we showed the model (summaries included), now or some folds ago, or everything that
was said. The list is compared with each of these piece by piece, so that it does not matter how a dialect
joined or split messages on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any, NamedTuple

import msgspec

from refold import entries as e
from refold import messages as m
from refold.session.dialects import DIALECTS
from refold.session.dialects.common import WireRules
from refold.session.edits import Path, Position, active_folds, outermost, project, said_by
from refold.session.invariants import repair_by
from refold.session.items import Item

OLDER = 16
"""How many folds back a list may be."""
BRANCHES = 16
"""How many other branches a list is looked for on, the newest first."""


class Tree(NamedTuple):
    """What the path is one of several ways through."""

    log: Sequence[e.Entry]
    children: Callable[[str | None], Sequence[str]]
    path_to: Callable[[str], Path]

    def branches(self, id: str | None, position: Position) -> Iterator[Path]:
        """The paths through an entry that end elsewhere than this one, the newest first."""
        below = list(self.children(id))
        for child in below:
            below += self.children(child)
        ends = {id for id in below if position(id) is None and not self.children(id)}
        return (self.path_to(entry.id) for entry in reversed(self.log) if entry.id in ends)


class Piece(NamedTuple):
    """The smallest thing that is compared: a text, a call, a result, a picture."""

    content: tuple[str, ...]
    owner: int
    """Index of the message or item it belongs to."""


class Merged(msgspec.Struct, frozen=True):
    """What became of a list."""

    appended: tuple[e.MessageEntry, ...]
    """Message entries that are new."""
    branched: bool = False
    """The list departed from the path, so the new entries are on a branch."""


class Difference(msgspec.Struct, frozen=True):
    """What a list holds beyond a path."""

    messages: Sequence[m.Message] = ()
    """What is new, to be appended."""
    branches: bool = False
    """The list departs from the path before its end."""
    target: str | None = None
    """Where it departs: the last entry they have in common."""
    folds: Sequence[e.Fold] = ()
    """Folds behind that entry which hold for what is common, too."""


class Reading(NamedTuple):
    """A list beside one state of the session that it may have grown from."""

    path: Path
    position: Position
    items: Sequence[Item]
    ours: Sequence[Piece]
    messages: Sequence[m.Message]
    theirs: Sequence[Piece]
    same: int
    """How many pieces they begin with in common."""

    @property
    def is_sure(self) -> bool:
        """The list is that state, a part of it, or goes on from it."""
        return self.same == len(self.theirs) or 0 < self.same == len(self.ours)


def difference(
    path: Path, position: Position, given: list[m.Message], tree: Tree, *, exactly: bool = False
) -> Difference:
    """What comes behind the longest common beginning of the list and what we know: of this path or, where
    more of the list is there, of another one; on a branch if the two differ before the end, or (`exactly`)
    if we hold more than the list does."""
    here = _read(path, position, given)
    reading = _read_elsewhere(here, given, tree) if here.same < len(here.theirs) else here
    news = _beyond(reading, exactly)
    if reading is here or news.branches:
        return news
    return msgspec.structs.replace(news, branches=True, target=reading.path[-1].id)


def _beyond(reading: Reading, exactly: bool) -> Difference:
    path, position, _, ours, messages, theirs, same = reading
    if same == len(theirs) and not (exactly and same < len(ours)):
        return Difference()  # what we have, or an older state of it
    origins = _origins(path)
    if same == len(ours):
        rest = _unseen(messages, theirs, same)
        return Difference([_known(message, origins) for message in rest])
    same, target = _departure(reading)
    folds = _folds_within(path, position, target) if target else ()
    rest = messages[theirs[same].owner :] if same < len(theirs) else ()
    return Difference([_known(message, origins) for message in rest], True, target, folds)


def _departure(reading: Reading) -> tuple[int, str | None]:
    """Where a list departs that does not go on from the end: so many pieces, and the last common entry."""
    same = _back_to_message(reading.ours, reading.theirs, reading.same)
    before = reversed(reading.items[: reading.ours[same].owner])
    return same, next((item.entries[-1] for item in before if item.entries), None)


def _read_elsewhere(here: Reading, given: list[m.Message], tree: Tree) -> Reading:
    """The reading on that path of the tree on which most of the list is known."""
    goes_on = here.same == len(here.ours)
    at = here.path[-1].id if goes_on and here.path else None if goes_on else _departure(here)[1]
    best = here
    for path in islice(tree.branches(at, here.position), BRANCHES):
        places = {entry.id: place for place, entry in enumerate(path)}
        reading = _read(path, places.get, given, older=0)
        best = reading if reading.same > best.same else best
        if best.same == len(best.theirs):
            break
    return best


def _read(path: Path, position: Position, messages: list[m.Message], older: int = OLDER) -> Reading:
    """The reading under which most of the list is known; the newest view where that decides nothing."""
    best: Reading | None = None
    messages = messages[prompts(messages) :]
    theirs = pieces(messages)
    for items in _states(path, position, older):
        known = [item.message for item in items]
        front = prompts(known)
        ours = [piece for piece in pieces(known) if piece.owner >= front]
        reading = Reading(path, position, items, ours, messages, theirs, _common(ours, theirs))
        if best is None or reading.same > best.same or reading.is_sure > best.is_sure:
            best = reading
        if reading.is_sure:
            break
    assert best is not None  # the view is always a state
    return best


def _states(path: Path, position: Position, older: int) -> Iterator[list[Item]]:
    """What a list may have grown from, likeliest first: the view, all that was said, the view as it was
    before the last folds."""
    folds = active_folds(path)
    yield from _as_sent([item for _, item in project(path, outermost(folds, position))])
    messages = (entry for entry in path if isinstance(entry, e.MessageEntry))
    yield from _as_sent([Item(entry.message, (entry.id,)) for entry in messages])
    for count in range(len(folds) - 1, max(-1, len(folds) - 1 - older), -1):
        yield from _as_sent([item for _, item in project(path, outermost(folds[:count], position))])


def _as_sent(items: list[Item]) -> Iterator[list[Item]]:
    """A state as it is and, where that differs, as it was repaired for the wire: stand-ins, notes and ids."""
    yield items
    # Whether sides took turns does not matter: the pieces are the same.
    for unique in dict.fromkeys(dialect.rules.unique_ids for dialect in DIALECTS.values()):
        sent = repair_by(WireRules(unique), items)
        if any(a is not b for a, b in zip_longest(items, sent)):
            yield sent


def pieces(messages: Sequence[m.Message]) -> list[Piece]:
    parts: list[Piece] = []
    for owner, message in enumerate(messages):
        side = "assistant" if isinstance(message, m.Assistant) else "user"
        if isinstance(message, m.Result):
            parts.append(Piece(("result", message.call_id, message.text.strip()), owner))
            continue
        for part in message.parts:
            match part:
                case m.Text(text=text) if text.strip():
                    parts.append(Piece((side, text.strip()), owner))
                case m.Call(id=id, name=name):
                    arguments = part.raw if part.raw is not None else m.compact_json(part.arguments)
                    parts.append(Piece(("call", id, name, arguments), owner))
                case m.Image():
                    parts.append(Piece((side, "image", part.data or part.url or ""), owner))
                case _:
                    pass
    return parts


def contents(messages: Sequence[m.Message]) -> list[tuple[str, ...]]:
    """What messages say, however they are joined or split."""
    return [piece.content for piece in pieces(messages)]


def prompts(messages: Sequence[m.Message]) -> int:
    """How many system prompts stand in front. They are not compared: those of the log stay, any others belong
    to the call, and some dialects keep them outside of the list."""
    return next((n for n, message in enumerate(messages) if not isinstance(message, m.System)), len(messages))


def _common(ours: Sequence[Piece], theirs: Sequence[Piece]) -> int:
    same = 0
    for mine, yours in zip(ours, theirs, strict=False):
        if mine.content != yours.content:
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


def _unseen(messages: Sequence[m.Message], theirs: Sequence[Piece], same: int) -> list[m.Message]:
    """Their messages after the common beginning; of a message that we have in part, only the new parts."""
    if same >= len(theirs):
        return []
    owner = theirs[same].owner
    first = messages[owner]
    seen = sum(1 for piece in theirs[:same] if piece.owner == owner)
    if seen and not isinstance(first, m.Result):
        parts = [p for p in first.parts if pieces([_holding(first, p)])]
        first = _holding(first, *parts[seen:])
    return [first, *messages[owner + 1 :]]


def _holding(message: m.Message, *parts: Any) -> Any:
    return msgspec.structs.replace(message, content=parts)


def _folds_within(path: Path, position: Position, target: str) -> list[e.Fold]:
    """Folds that were made behind `target` and lie wholly before it."""
    end = position(target) or 0

    def within(id: str) -> bool:
        at = position(id)
        return at is not None and at <= end

    folds = (fold for fold in active_folds(path) if not within(fold.id))
    return [fold for fold in folds if all(within(edit.last) for edit in fold.edits)]


def _origins(path: Path) -> dict[str, m.Origin]:
    """Texts of the path in the user's role that the user did not type. A framework hands them back without
    saying so."""
    found: dict[str, m.Origin] = {}
    typed: set[str] = set()
    for message, otherwise in _shown_on(path):
        for part in message.content if isinstance(message, m.User) else ():
            if not isinstance(part, m.Text):
                continue
            origin = part.origin or otherwise
            if origin == "typed":
                typed.add(part.text.strip())
            else:
                found[part.text.strip()] = origin
    return {text: origin for text, origin in found.items() if text not in typed}


def _shown_on(path: Path) -> Iterator[tuple[m.Message | None, m.Origin]]:
    """What entries say by themselves and what folds put, with the origin where a text names none."""
    for entry in path:
        yield said_by(entry), "typed"
        for edit in entry.edits if isinstance(entry, e.Fold) else ():
            for message in edit.put:
                yield message, "summary" if edit.kind == "summary" else "typed"


def _known(message: m.Message, origins: Mapping[str, m.Origin]) -> m.Message:
    """The message with the origins we know of its texts."""
    if not origins or not isinstance(message, m.User):
        return message
    parts = (
        m.Text(part.text, origins.get(part.text.strip()))
        if isinstance(part, m.Text) and not part.origin
        else part
        for part in message.content
    )
    return m.User(tuple(parts))
