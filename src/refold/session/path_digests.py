"""Digests of paths, and the position of a list of messages in a session by digest.

The digest of an entry covers every part of everything on its path, so a list has nothing in common with a
path after the first difference. Used where users share a session and must not learn what they did not say;
`refold.session.merge` is less strict with lists of a framework.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import accumulate

from refold import entries as e
from refold.messages import Message
from refold.session.edits import said_by
from refold.session.merge import MessagePiece, message_pieces
from refold.session.repair import parent_of
from refold.session.tree import Session

EMPTY_DIGEST = b""
"""The digest of an empty path."""


class _Digests:
    """The digest of each path entry of a log, in log order."""

    def __init__(self) -> None:
        self.of: dict[str | None, bytes] = {None: EMPTY_DIGEST}
        self.places: dict[str | None, int] = {None: -1}
        self.read = 0


def digest_at(session: Session, id: str | None) -> bytes:
    """The digest of the path to an entry. Folds and notes of programs do not change it."""
    return _indexed(session).of[id]


def write_list(session: Session, messages: Sequence[Message], since: str | None = None) -> list[bytes]:
    """Makes the path consist of everything up to `since` and then of the list. What the session already has
    is not written again. Returns the digests after each message of the list."""
    index = _indexed(session)
    after = digests(messages, index.of[since])
    place, known = _place_of(session, index, after, since)
    session.move(place)
    new: list[e.MessageEntry] = []
    for message in messages[known:]:
        parent = new[-1].id if new else place
        new.append(session.make(e.MessageEntry, message=message, parent=parent))
    ends = [each[-1] for each in after]
    for entry, made, digest in zip(session.extend(new), new, ends[known:], strict=True):
        if entry is made:  # taken as it is: nothing has to be read again
            index.of[entry.id] = digest
    return ends


def _place_of(
    session: Session, index: _Digests, after: Sequence[Sequence[bytes]], since: str | None
) -> tuple[str | None, int]:
    """The entry at or below `since` whose path has most of the list, and the number of these messages. Of
    several, the newest."""
    start = index.of[since]
    inside = {digest for each in after for digest in each}
    ends = {start: 0} | {each[-1]: count for count, each in enumerate(after, 1)}
    best = (ends[start], index.places[since], since)
    below = [since]
    for parent in below:
        for id in session.children(parent):
            digest = index.of[id]
            if digest == start or digest in inside:
                below.append(id)
            if digest in ends:
                best = max(best, (ends[digest], index.places[id], id))
    return best[2], best[0]


def digests(messages: Iterable[Message], since: bytes = EMPTY_DIGEST) -> list[list[bytes]]:
    """The digests after each message, continuing from a digest. They do not depend on how parts are spread
    over messages."""
    after: list[list[bytes]] = []
    for message in messages:
        after.append([*accumulate(message_pieces([message]), _extended, initial=since)])
        since = after[-1][-1]
    return after


def _indexed(session: Session) -> _Digests:
    index = session.derived.of(_Digests, _Digests)
    entries = session.entries
    for place in range(index.read, len(entries)):
        entry = entries[place]
        if entry.on_path:
            if entry.id not in index.of:
                said = None if isinstance(entry, e.Note) else said_by(entry)
                before = index.of[parent_of(entry)]
                index.of[entry.id] = before if said is None else digests([said], before)[0][-1]
            index.places[entry.id] = place
    index.read = len(entries)
    return index


def _extended(digest: bytes, piece: MessagePiece) -> bytes:
    said = blake2b(digest, digest_size=32)
    for field in (piece.hint, *piece.content):
        data = b"" if field is None else field.encode("utf-8", "surrogatepass")
        said.update(b"%d:" % (-1 if field is None else len(data)) + data)
    return said.digest()
