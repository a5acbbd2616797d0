"""The loss ledger: what a fold takes out of the view, and how to get it back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from refold import entries as e
from refold.messages import compact_json
from refold.protocols import TokenCounter
from refold.session import Session
from refold.session.items import Item


def verbatim(items: Iterable[Item]) -> set[str]:
    """Entries that are shown as they were said."""
    return {item.entries[0] for item in items if item.fold is None}


def ledger(
    session: Session, before: Sequence[Item], after: Sequence[Item], counter: TokenCounter
) -> tuple[e.Lost, ...]:
    """One row for every entry that was shown verbatim before and is not any more."""
    left = verbatim(before) - verbatim(after)
    return tuple(
        _row(session, item, counter) for item in before if item.fold is None and item.entries[0] in left
    )


def _row(session: Session, item: Item, counter: TokenCounter) -> e.Lost:
    id = item.entries[0]
    body = compact_json(msgspec.to_builtins(item.message)).encode("utf-8", "surrogatepass")
    return e.Lost(
        id=id,
        kind=item.message.role,
        size=session.cached_count(id, item.message, counter),
        hash=hashlib.blake2b(body, digest_size=8).hexdigest(),
        key=e.key(id),
    )


def stretches(session: Session, folds: Iterable[e.Fold]) -> list[tuple[int, int]]:
    """Where folds lie on the path."""
    found: list[tuple[int, int]] = []
    for fold in folds:
        for edit in fold.edits:
            first, last = session.position(edit.first), session.position(edit.last)
            if first is not None and last is not None:
                found.append((first, last))
    return found


def undone(path: Iterable[e.Entry]) -> list[e.Fold]:
    """Folds of the path that are undone, in the order in which that happened."""
    folds: dict[str, e.Fold] = {}
    gone: dict[str, None] = {}
    for entry in path:
        if isinstance(entry, e.Fold):
            folds[entry.id] = entry
        elif isinstance(entry, e.Undo):
            gone[entry.fold] = None
        elif isinstance(entry, e.Redo):
            gone.pop(entry.fold, None)
    return [folds[id] for id in gone if id in folds]
