"""Deletes content from the log for good: the only operation that changes history.

A forgotten entry becomes a hole with the same id, parent, role and call id. Copies are deleted as well: folds
made while it was on the path are undone (the original messages are shown again and may be folded again); its
labels, and lines and branch summaries made from it, become holes; names of the session that share a word with
it go; notes, states, labels and other folds lose verbatim quotations. Other messages that contain part of it
are listed but not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, cast

import msgspec

from refold import entries as e
from refold.errors import StorageError, UsageError, expect
from refold.messages import Assistant, Bash, Call, Message, Result, Text, leaves
from refold.protocols import Forgets
from refold.session.edits import FORGOTTEN_REASON, FORGOTTEN_STATE
from refold.session.find import find
from refold.session.history import starts_turn
from refold.session.tree import Session
from refold.text.redact import redact
from refold.text.words import STOP, spelled

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


def quotes(session: Session, names: Collection[str]) -> Callable[[str], bool]:
    """Tells of any text whether it repeats these entries: a whole line of them, or one of their secrets."""
    texts = [text for name in names for text in _texts(find(session, name))]
    pieces = {piece for text in texts for piece in _pieces(text)}
    lines = {line.strip() for text in texts for line in text.splitlines()} - {""}
    return lambda text: (
        any(line.strip() in lines for line in text.splitlines()) or any(piece in text for piece in pieces)
    )


def _forget(session: Session, names: Collection[str], dry_run: bool) -> Forgotten:
    targets = {entry.id: entry for entry in (find(session, name) for name in names)}
    if not targets:
        raise UsageError("nothing to forget: name ids, numbers on the path or recall keys")
    texts = [text for entry in targets.values() for text in _texts(entry)]
    pieces = sorted({piece for text in texts for piece in _pieces(text)}, key=len, reverse=True)
    told = "\n".join(texts).lower()
    changed: dict[str, e.AnyEntry] = {id: hole(entry) for id, entry in targets.items()}
    folds = _folds_of(session, targets)
    changed |= {fold.id: hole(fold) for fold in folds}
    quoting: list[str] = []
    also: list[str] = []
    for entry in session.entries:
        if entry.id in changed:
            continue
        made = _without(session, entry, targets, pieces)
        if isinstance(made, e.Info) and _is_told_by(made.name, told):
            made = msgspec.structs.replace(made, name=None, meta={})
        if made == entry:
            continue
        if isinstance(entry, e.MessageEntry):
            also.append(entry.id)
            continue
        quoting.append(entry.id)
        changed[entry.id] = made
    if not dry_run:
        name = None if _is_told_by(session.info.name, told) else session.info.name
        _write(session, changed, [*targets], name)
    return Forgotten(tuple(targets), tuple(fold.id for fold in folds), tuple(quoting), tuple(also))


def _write(session: Session, changed: dict[str, e.AnyEntry], targets: list[str], name: str | None) -> None:
    """Replaces the entries. The store drops the name that the session was created with; `name` is written
    down again. The move to the same place makes plans of other programs stale, which may quote them."""
    store = session.store
    if store is not None:
        if not isinstance(store, Forgets):
            raise StorageError("this store cannot forget entries: copy the session into another store first")
        store.replace(session.id, changed, after=session.tip)
    entries = [changed.get(entry.id, entry) for entry in session.entries]
    session.info = msgspec.structs.replace(session.info, name=None)
    session._begin_again(entries)
    news: list[e.AnyEntry] = [
        session.make(e.State, target=targets[0], name=FORGOTTEN_STATE, value=targets),
        session.make(e.Leaf, target=session.leaf),
    ]
    if name is not None and session.name is None:
        news.append(session.make(e.Info, name=name))
    session.extend(news)


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


def _texts(entry: e.AnyEntry) -> Iterator[str]:
    yield from leaves(msgspec.to_builtins(getattr(entry, "message", entry)))


def _pieces(text: str) -> Iterator[str]:
    """Recognisable parts of a text: its secrets and longer lines."""
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
    """The folds that were made with a target on their path. A record also tells of messages that stay."""
    folds = (entry for entry in session.entries if isinstance(entry, e.Fold) and entry.id not in targets)
    return [fold for fold in folds if any(entry.id in targets for entry in session.ancestors(fold.id))]


def _left(session: Session, summary: e.BranchSummary, targets: dict[str, e.AnyEntry]) -> bool:
    """True if one of the targets is on the summarised branch."""
    return summary.origin in session and any(x.id in targets for x in session.ancestors(summary.origin))


def _turn_of(session: Session, id: str | None) -> set[str]:
    """The entries of the turn in which that one is, on all branches."""
    if id is None or id not in session:
        return set()
    back = list(session.ancestors(id))
    start = next((entry.id for entry in back if starts_turn(entry)), back[-1].id)
    found: set[str] = set()
    left = [start]
    while left:
        id = left.pop()
        found.add(id)
        left += [child for child in session.children(id) if not starts_turn(session[child])]
    return found


def _is_told_by(name: str | None, told: str) -> bool:
    """True if a session's name, which may be the beginning of a message, shares a word with a text."""
    return any(word in told for word in spelled(name or "") if word not in STOP)


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
