"""Edits: what a path shows under the active folds. Pure.

An edit replaces a stretch of the path by stored messages. Of nested edits the outermost is shown; of two with
the same stretch, the newer one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import TypeAlias, cast

import msgspec

from refold import entries as e
from refold.errors import PluginGuard
from refold.messages import Message, Result, Text, User, with_origin
from refold.session.items import Item
from refold.text.frames import element

Path: TypeAlias = Sequence[e.AnyPathEntry]
Position: TypeAlias = Callable[[str], int | None]
"""Position of an entry on the path; None if it is elsewhere."""
_id: Callable[[e.AnyPathEntry], str] = attrgetter("id")


def said_by(entry: e.Entry) -> Message | None:
    """The message that an entry shows; None for entries that the model never sees."""
    match entry:
        case e.MessageEntry(message=message):
            return message
        case e.Note(content=content):
            return User(with_origin("program", content))
        case e.Hole(call_id=str(call_id)):
            return Result(call_id, (Text(DAMAGED_MARK, "program"),))
        case e.Hole():
            return User((Text(DAMAGED_MARK, "program"),))
        case e.BranchSummary(summary=summary) if summary:
            return User((Text(f"{BRANCH_NOTE}\n\n{element(BRANCH, summary)}", "summary"),))
        case _:
            return None


DAMAGED_MARK = "[entry damaged: what was said here is lost]"
BRANCH = "branch-summary"
BRANCH_NOTE = "[Another branch of this conversation was explored and left. A record of what happened there:]"


def branch_summary_in(message: Message) -> str | None:
    """The summary in the message of a `BranchSummary`; None for other messages."""
    head, tail = f"{BRANCH_NOTE}\n\n<{BRANCH}>\n", f"\n</{BRANCH}>"
    text = message.text
    return text[len(head) : -len(tail)] if text.startswith(head) and text.endswith(tail) else None


def in_order(kinds: Iterable[Iterable[e.Entry]], position: Position) -> list[e.Entry]:
    """The entries that are on the path, in its order."""
    placed = [(at, x) for entries in kinds for x in entries if (at := position(x.id)) is not None]
    return [entry for _, entry in sorted(placed, key=itemgetter(0))]


def active_folds(path: Iterable[e.Entry]) -> list[e.Fold]:
    """The folds of a path that are not undone, oldest first."""
    folds, gone = _marked(path)
    return [fold for fold in folds.values() if fold.id not in gone]


def undone_folds(path: Iterable[e.Entry]) -> list[e.Fold]:
    """The undone folds of a path, in the order in which they were undone."""
    folds, gone = _marked(path)
    return [folds[id] for id in gone if id in folds]


def _marked(path: Iterable[e.Entry]) -> tuple[dict[str, e.Fold], dict[str, None]]:
    """All folds except forgotten ones, and the ids of those that are undone."""
    folds: dict[str, e.Fold] = {}
    gone: dict[str, None] = {}
    for entry in path:
        if isinstance(entry, e.Fold):
            if not _is_forgotten(entry):
                folds[entry.id] = entry
        elif isinstance(entry, e.Undo):
            gone[entry.fold] = None
        elif isinstance(entry, e.Redo):
            gone.pop(entry.fold, None)
    return folds, gone


FORGOTTEN_REASON = "forgotten"
"""Reason of a fold whose edits `forget` deleted."""
FORGOTTEN_STATE = "forgotten"
"""Name of the state that `forget` appends: who has the session open reads it anew."""


def _is_forgotten(fold: e.Fold) -> bool:
    """True if `forget` took the edits of a fold. 0.1 took only those that covered the forgotten entry, the
    record among them, and left edits that rely on that record."""
    kinds = {edit.kind for edit in fold.edits}
    return (not kinds and fold.reason == FORGOTTEN_REASON) or (e.LEFT in kinds and "summary" not in kinds)


Accepts: TypeAlias = Callable[[Sequence[e.Fold]], Sequence[e.Fold]]
"""Selects the active folds (oldest first) that count."""


def accepted(accepts: Accepts, folds: Sequence[e.Fold]) -> Sequence[e.Fold]:
    """The folds that a rule, which may be foreign code, accepts."""
    with PluginGuard("what says which folds count") as guard:
        chosen = accepts(folds)
        if not all(isinstance(cast("object", fold), e.Fold) for fold in chosen):
            raise guard.refuse(chosen, "return a list of folds")
        return [*chosen]


class Stretch(msgspec.Struct, frozen=True, gc=False):
    """An edit in path positions, both inclusive; `age` is the index of its fold."""

    first: int
    last: int
    age: int
    fold: e.Fold
    edit: e.Edit


def edit_stretches(folds: Iterable[e.Fold], position: Position, age: int = 0) -> list[Stretch]:
    """The edits of folds that are on the path; `age` is that of the first fold."""
    placed: list[Stretch] = []
    for number, fold in enumerate(folds, age):
        for edit in fold.edits:
            first, last = position(edit.first), position(edit.last)
            if first is not None and last is not None and first <= last:
                placed.append(Stretch(first, last, number, fold, edit))
    return placed


def outermost(folds: Iterable[e.Fold], position: Position) -> list[Stretch]:
    """The edits that are shown, in the order of the path. Of two that overlap without nesting, the newer one
    is shown."""
    placed = sorted(edit_stretches(folds, position), key=_place)
    return _uncovered(_without_beaten(placed))


def extended(
    shown: Sequence[Stretch], folds: Sequence[e.Fold], fold: e.Fold, position: Position
) -> list[Stretch]:
    """The edits shown with one more fold on top of `folds`, of which `shown` are shown. Hidden edits are
    reread only if edits overlap without nesting, which may bring them back."""
    age = 1 + max((stretch.age for stretch in shown), default=-1)
    placed = sorted([*shown, *edit_stretches((fold,), position, age)], key=_place)
    return outermost([*folds, fold], position) if not folds or _some_overlap(placed) else _uncovered(placed)


def _place(stretch: Stretch) -> tuple[int, int, int]:
    return stretch.first, -stretch.last, -stretch.age


def _uncovered(placed: Iterable[Stretch]) -> list[Stretch]:
    shown: list[Stretch] = []
    for stretch in placed:
        if not shown or stretch.first > shown[-1].last:
            shown.append(stretch)
    return shown


def _without_beaten(placed: list[Stretch]) -> list[Stretch]:
    """Edits without those that a newer one partly overlaps; what these had hidden is shown again."""
    if not _some_overlap(placed):
        return placed
    winners: list[Stretch] = []
    for new in sorted((s for s in placed if s.first < s.last), key=lambda s: -s.age):
        overlaps = (
            new.first < old.first <= new.last < old.last or old.first < new.first <= old.last < new.last
            for old in winners
        )
        if not any(overlaps):
            winners.append(new)
    winning = {id(stretch) for stretch in winners}
    return [s for s in placed if s.first == s.last or id(s) in winning]


def _some_overlap(placed: list[Stretch]) -> bool:
    around: list[Stretch] = []
    for stretch in placed:
        while around and around[-1].last < stretch.first:
            around.pop()
        if around and stretch.last > around[-1].last:
            return True
        around.append(stretch)
    return False


def project_items(path: Path, shown: Iterable[Stretch]) -> Iterator[tuple[str, Item]]:
    """The items of a path with these edits, each with a permanent key."""
    at = 0
    for stretch in shown:
        yield from unedited_items(path[at : stretch.first])
        ids = tuple(map(_id, path[stretch.first : stretch.last + 1]))
        for number, message in enumerate(stretch.edit.put):
            yield f"{stretch.fold.id}/{stretch.edit.first}/{number}", Item(message, ids, stretch.fold.id)
        at = stretch.last + 1
    yield from unedited_items(path[at:])


def unedited_items(entries: Iterable[e.Entry]) -> Iterator[tuple[str, Item]]:
    for entry in entries:
        message = said_by(entry)
        if message is not None:
            yield entry.id, Item(message, (entry.id,))
