"""Undoing, redoing and pinning: small entries that change what the next view shows."""

from __future__ import annotations

from refold import entries as e
from refold.compaction.ledger import undone
from refold.errors import FoldError, SessionError
from refold.messages import content
from refold.session import Projection, Session
from refold.session.find import find
from refold.session.view import active_folds, said_by


def undo(session: Session, fold_id: str | None) -> e.Undo:
    active = [fold.id for fold in active_folds(session.path)]
    chosen = fold_id or (active[-1] if active else None)
    if chosen is None:
        raise FoldError("there is no fold to undo on this path")
    if chosen not in active:
        _must_be_fold(session, chosen)
        raise FoldError(f"fold {chosen!r} is not active on this path: nothing to undo")
    mark = session.make(e.Undo, fold=chosen)
    session.append(mark)
    return mark


def redo(session: Session, fold_id: str | None) -> e.Redo:
    gone = [fold.id for fold in undone(session.path)]
    chosen = fold_id or (gone[-1] if gone else None)
    if chosen is None:
        raise FoldError("there is no undone fold on this path")
    if chosen not in gone:
        _must_be_fold(session, chosen)
        raise FoldError(f"fold {chosen!r} was not undone on this path: nothing to redo")
    mark = session.make(e.Redo, fold=chosen)
    session.append(mark)
    return mark


def pin(session: Session, id: str, shown: Projection) -> e.Pin:
    """An entry that `shown` does not show verbatim is shown again, as a note at the end."""
    entry = find(session, id)
    message = said_by(entry)
    if message is None:
        raise SessionError(f"{id!r} is nothing the model sees: only messages and notes can be pinned")
    mark = session.make(e.Pin, target=entry.id)
    new: list[e.AnyEntry] = [mark]
    if not any(item.fold is None and item.entries[0] == entry.id for item in shown.items):
        text = f"[Pinned, from earlier in this conversation (key {e.key(entry.id)}):]\n{message.text}"
        new.append(session.make(e.Note, content=content(text), kind="pinned"))
    session.extend(new)
    return mark


def unpin(session: Session, id: str) -> e.Unpin:
    entry = find(session, id)
    if entry.id not in session.pins:
        raise SessionError(f"{id!r} is not pinned")
    mark = session.make(e.Unpin, target=entry.id)
    session.append(mark)
    return mark


def _must_be_fold(session: Session, id: str) -> None:
    if not isinstance(session[id], e.Fold):
        raise FoldError(f"{id!r} is not a fold")
