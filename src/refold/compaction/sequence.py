"""Sequence numbers: sort keys that give a summary a place between two entries without renumbering any.

Entries are numbered by their place on the path. A summary gets the mean of its neighbours. Nothing of this
is stored: it is computed from the path, so running out of digits costs nothing but new keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from refold import entries as e
from refold.session import Session

DIGITS = 6


def between(left: float | None, right: float | None, count: int) -> float | None:
    """The key of something put between two neighbours among `count` entries; None where rounding would make
    it equal to one of them."""
    if left is None:
        key = 0.0
    elif right is None:
        key = float(count)
    else:
        key = round((left + right) / 2, DIGITS)
    return None if key in (left, right) else key


def keys(entries: Sequence[str], summaries: Iterable[tuple[str, str | None]]) -> dict[str, float]:
    """Sort keys of entries and of summaries, each given with the entry it stands directly behind (None: at
    the front), oldest first. The result is in order."""
    order = list(entries)
    found = {id: float(index) for index, id in enumerate(order)}
    for id, after in summaries:
        at = order.index(after) + 1 if after is not None else 0
        left = found[order[at - 1]] if at else None
        right = found[order[at]] if at < len(order) else None
        order.insert(at, id)
        key = between(left, right, len(entries))
        if key is None:
            found = {each: float(index) for index, each in enumerate(order)}
        else:
            found[id] = key
    return {id: found[id] for id in order}


def sequence_numbers(session: Session) -> dict[str, float]:
    """Keys of what was said on the path and of the summary nodes in it."""
    nodes = [
        fold
        for fold in session.path
        if isinstance(fold, e.Fold) and fold.details.get("is_history_summary") and fold.edits
    ]
    said = [entry.id for entry in session.path if not isinstance(entry, (e.Fold, e.Undo, e.Redo))]
    known = set(said)
    return keys(said, [(n.id, _last_said(session, n.edits[0].last, known)) for n in nodes])


def _last_said(session: Session, id: str, known: set[str]) -> str | None:
    """The entry itself, or the last one before it that is no fold."""
    for entry in session.ancestors(id):
        if entry.id in known:
            return entry.id
    return None
