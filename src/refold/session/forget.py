"""Deletes content from the log for good: the only operation that changes history.

A forgotten entry becomes a hole with the same id, parent, role and call id. Copies are deleted as well: folds
that covered the entry, and later folds that contain their records, are undone (the original messages are
shown again and may be folded again); its labels, and lines and branch summaries made from it, become holes;
notes, states, labels and other folds lose verbatim quotations. Other messages that contain part of it are
listed but not changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, cast

import msgspec

from refold import entries as e
from refold.errors import StorageError, UsageError, expect
from refold.messages import Assistant, Bash, Call, Message, Result, Text, leaves
from refold.protocols import Forgets
from refold.session.edits import FORGOTTEN_REASON, edit_stretches
from refold.session.find import find
from refold.session.history import starts_turn
from refold.session.tree import Session
from refold.text.redact import redact

FORGOTTEN_MARK = "[forgotten]"
MIN_QUOTE_CHARS = 16
"""Minimum length of a quoted line, since shorter ones occur by chance. Secrets are always followed."""


class Forgotten(msgspec.Struct, frozen=True):
    """Result of `forget`, as entry ids."""

    entries: tuple[str, ...]
    folds: tuple[str, ...] = ()
    """Folds that are undone; what they replaced is shown again."""
    quoting: tuple[str, ...] = ()
    """Lines, notes, summaries, other folds and other entries from which text was deleted."""
    also: tuple[str, ...] = ()
    """Other messages that contain part of it, unchanged."""


def forget(session: Session, names: Collection[str], *, dry_run: bool = False) -> Forgotten:
    """Deletes the content of entries (ids, `#12`, labels or recall keys) from the log and its files.
    `dry_run` only reports. Cannot be undone."""
    expect(session, Session, "pass the Session")
    names = [names] if isinstance(names, str) else names
    expect(names, Collection, "name entries in a list")
    with session.writing:
        return _forget(session, names, dry_run)


def _forget(session: Session, names: Collection[str], dry_run: bool) -> Forgotten:
    targets = {entry.id: entry for entry in (find(session, name) for name in names)}
    if not targets:
        raise UsageError("nothing to forget: name ids, numbers on the path or recall keys")
    pieces = sorted({piece for entry in targets.values() for piece in _pieces(entry)}, key=len, reverse=True)
    changed: dict[str, e.AnyEntry] = {id: hole(entry) for id, entry in targets.items()}
    folds = _folds_of(session, targets)
    changed |= {fold.id: hole(fold) for fold in folds}
    quoting: list[str] = []
    also: list[str] = []
    for entry in session.entries:
        if entry.id in changed:
            continue
        made = _without(session, entry, targets, pieces)
        if made == entry:
            continue
        if isinstance(entry, e.MessageEntry):
            also.append(entry.id)
            continue
        quoting.append(entry.id)
        changed[entry.id] = made
    if not dry_run:
        _write(session, changed)
    return Forgotten(tuple(targets), tuple(fold.id for fold in folds), tuple(quoting), tuple(also))


def _write(session: Session, changed: dict[str, e.AnyEntry]) -> None:
    store = session.store
    if store is not None:
        if not isinstance(store, Forgets):
            raise StorageError("this store cannot forget entries: copy the session into another store first")
        store.replace(session.id, changed, after=session.tip)
    entries = [changed.get(entry.id, entry) for entry in session.entries]
    session._begin_again(entries)


# ── holes ───────────────────────────────────────────────────────────────────────────────────────


def hole(entry: e.AnyEntry) -> e.AnyEntry:
    """The entry without its content."""
    replace = msgspec.structs.replace
    match entry:
        case e.MessageEntry():
            return replace(entry, message=_empty(entry.message), meta={})
        case e.Note():
            return replace(entry, content=(Text(FORGOTTEN_MARK),), meta={})
        case e.Fold():
            return replace(
                entry,
                edits=(),
                reason=FORGOTTEN_REASON,
                summary="",
                left=(),
                ledger=(),
                files=e.Files(),
                check={},
                details={},
            )
        case e.BranchSummary():
            return replace(entry, summary=FORGOTTEN_MARK, files=e.Files(), meta={})
        case e.Other():
            return replace(entry, raw={})
        case e.Hole():
            return replace(entry, why="forgotten")
        case e.TurnLine() | e.Failure() | e.Label():
            return replace(entry, text=FORGOTTEN_MARK)
        case e.State():
            return replace(entry, value=None)
        case e.Info():
            return replace(entry, name=None, cwd=None, meta={})
        case _:
            raise UsageError(f"entry {entry.id!r} has no content to forget")


def _empty(message: Message) -> Message:
    """An empty message; calls stay, so that their results still have one."""
    if isinstance(message, Bash):
        return Bash(FORGOTTEN_MARK, hidden=message.hidden)
    if isinstance(message, Assistant):
        calls = tuple(Call(call.id, call.name) for call in message.calls)
        return Assistant((Text(FORGOTTEN_MARK), *calls), message.stop)
    if isinstance(message, Result):
        return Result(message.call_id, (Text(FORGOTTEN_MARK),), message.name, message.is_error)
    texts = [part for part in message.content if isinstance(part, Text)]
    return type(message)((Text(FORGOTTEN_MARK, texts[0].origin if texts else None),))


# ── where it was copied ─────────────────────────────────────────────────────────────────────────


def _pieces(entry: e.AnyEntry) -> Iterator[str]:
    """Recognisable parts of an entry: its secrets and longer lines."""
    said = getattr(entry, "message", entry)
    for text in leaves(msgspec.to_builtins(said)):
        for finding in redact(text)[1]:
            yield text[finding.start : finding.end]
        yield from (line for row in text.splitlines() if len(line := row.strip()) >= MIN_QUOTE_CHARS)


def _without(
    session: Session, entry: e.AnyEntry, targets: dict[str, e.AnyEntry], pieces: list[str]
) -> e.AnyEntry:
    if (
        (isinstance(entry, e.Label) and entry.target in targets)
        or (isinstance(entry, e.TurnLine) and _turn_of(session, entry.target) & targets.keys())
        or (isinstance(entry, e.BranchSummary) and _left(session, entry, targets))
    ):
        return hole(entry)
    raw = msgspec.to_builtins(entry)
    clean = _cut(raw, pieces)
    return entry if clean == raw else msgspec.convert(clean, type(entry))


def _folds_of(session: Session, targets: Collection[str]) -> list[e.Fold]:
    """The folds whose edits cover a target, or the record of a fold found before, on the path on which they
    were made. Such a fold is undone as a whole: what it removed elsewhere is told by its record alone."""
    found: list[e.Fold] = []
    for fold in (entry for entry in session.entries if isinstance(entry, e.Fold)):
        path = session.path_to(fold.parent)
        place = {entry.id: position for position, entry in enumerate(path)}
        records = (
            (stretch.first, stretch.last)
            for stretch in edit_stretches((older for older in found if older.id in place), place.get)
            if stretch.edit.kind == "summary"
        )
        unsafe = [*((place[id], place[id]) for id in targets if id in place), *records]
        own = edit_stretches((fold,), place.get)
        covers = any(edit.first <= last and first <= edit.last for edit in own for first, last in unsafe)
        if covers or fold.id in targets:
            found.append(fold)
    return [fold for fold in found if fold.id not in targets]


def _left(session: Session, summary: e.BranchSummary, targets: dict[str, e.AnyEntry]) -> bool:
    """True if one of the targets is on the summarised branch."""
    return summary.origin in session and any(x.id in targets for x in session.ancestors(summary.origin))


def _turn_of(session: Session, start: str | None) -> set[str]:
    """The entries of the turn that starts there, on all branches."""
    found: set[str] = set()
    left = [start] if start is not None and start in session else []
    while left:
        id = left.pop()
        found.add(id)
        left += [child for child in session.children(id) if not starts_turn(session[child])]
    return found


def _cut(value: Any, pieces: list[str]) -> Any:
    """The value without these pieces in its texts; ids and field names stay."""
    if isinstance(value, str):
        for piece in pieces:
            if piece in value:
                value = value.replace(piece, FORGOTTEN_MARK)
        return value
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {key: inner if key in _NAMES else _cut(inner, pieces) for key, inner in pairs}
    if isinstance(value, (list, tuple)):
        return [_cut(inner, pieces) for inner in cast("list[Any]", value)]
    return value


_NAMES = frozenset(
    ("id", "parent", "target", "type", "role", "call_id", "first", "last", "first_kept", "origin")
)
