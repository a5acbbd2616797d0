"""Undoing, redoing and pinning: small entries that change what the next view shows."""

from __future__ import annotations

from collections.abc import Callable

from refold import entries as e
from refold.compaction.record import pin_text
from refold.errors import FoldError, SessionError, expect
from refold.messages import content
from refold.session import Projection, Session
from refold.session.edits import active_folds, said_by, undone_folds
from refold.session.find import find

NEEDS_SESSION = "pass the Session whose folds these are"


def undo(session: Session, fold_id: str | None) -> e.Undo:
    expect(session, Session, NEEDS_SESSION)
    active = [fold.id for fold in active_folds(session.path)]
    return session.append(session.make(e.Undo, fold=_chosen(session, fold_id, active, "undo")))


def redo(session: Session, fold_id: str | None) -> e.Redo:
    expect(session, Session, NEEDS_SESSION)
    gone = [fold.id for fold in undone_folds(session.path)]
    return session.append(session.make(e.Redo, fold=_chosen(session, fold_id, gone, "redo")))


def _chosen(session: Session, fold_id: str | None, folds: list[str], action: str) -> str:
    """The fold that is named, or the last of those that this can be done to."""
    if fold_id is None:
        if not folds:
            raise FoldError(f"there is no fold to {action}")
        return folds[-1]
    if fold_id not in folds:
        if not isinstance(session[fold_id], e.Fold):
            raise FoldError(f"{fold_id!r} is not a fold")
        why = "it is undone already" if action == "undo" else "it is not undone"
        raise FoldError(f"cannot {action} fold {fold_id!r}: {why}, or on another branch")
    return fold_id


def pin(session: Session, id: str, shown: Callable[[], Projection]) -> e.Pin:
    """An entry that `shown` does not show verbatim is shown again, as a note at the end."""
    entry = find(session, id)
    message = said_by(entry)
    if message is None:
        raise SessionError(f"{id!r} is nothing the model sees: only messages and notes can be pinned")
    mark = session.make(e.Pin, target=entry.id)
    entries: list[e.AnyEntry] = [mark]
    if not any(item.fold is None and item.entries[0] == entry.id for item in shown().items):
        text = f"[Pinned, from earlier in this conversation:]\n{pin_text(entry, message)}"
        entries.append(session.make(e.Note, content=content(text), kind="pinned"))
    session.extend(entries)
    return mark


def unpin(session: Session, id: str) -> e.Unpin:
    entry = find(session, id)
    if entry.id not in session.pins:
        raise SessionError(f"{id!r} is not pinned")
    return session.append(session.make(e.Unpin, target=entry.id))
