"""The view: what the model sees, as a pure function of the path.

This module applies edits and knows nothing else. An edit replaces a stretch of the path by stored
messages; among active edits the outermost wins, and of two that cover the same stretch the newer one.
Appending a message extends the projection; a fold, an undo or a moved leaf builds it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from refold import entries as e
from refold.messages import Message, Text, User
from refold.protocols import TokenCounter
from refold.session.items import Item
from refold.session.tree import Session
from refold.text.frames import element

Accepts: TypeAlias = Callable[[Sequence[e.Fold]], Sequence[e.Fold]]
"""Which of the active folds (oldest first) count."""


def accept_all(folds: Sequence[e.Fold]) -> Sequence[e.Fold]:
    return folds


def said_by(entry: e.Entry) -> Message | None:
    """The message an entry shows by itself; None for entries the model never sees."""
    match entry:
        case e.MessageEntry(message=message):
            return message
        case e.Note(content=content):
            return User(content)
        case e.BranchSummary(summary=summary) if summary:
            return User((Text(f"{BRANCH_NOTE}\n\n{element(BRANCH, summary)}"),))
        case _:
            return None


BRANCH = "branch-summary"
BRANCH_NOTE = "[Another branch of this conversation was explored and left. A record of what happened there:]"


class Stretch(NamedTuple):
    """An active edit in positions of the path."""

    first: int
    last: int
    age: int
    fold: e.Fold
    edit: e.Edit


def active_folds(path: Iterable[e.Entry]) -> list[e.Fold]:
    """The folds of a path that no later mark has undone, oldest first."""
    folds: dict[str, e.Fold] = {}
    undone: set[str] = set()
    for entry in path:
        if isinstance(entry, e.Fold):
            folds[entry.id] = entry
        elif isinstance(entry, e.Undo):
            undone.add(entry.fold)
        elif isinstance(entry, e.Redo):
            undone.discard(entry.fold)
    return [fold for fold in folds.values() if fold.id not in undone]


def outermost(session: Session, folds: Sequence[e.Fold]) -> list[Stretch]:
    """The edits that show, in the order of the path. Of two that overlap without nesting (folds of
    designs with different boundaries) the newer one shows."""
    found: list[Stretch] = []
    for age, fold in enumerate(folds):
        for edit in fold.edits:
            first, last = session.position(edit.first), session.position(edit.last)
            if first is not None and last is not None and first <= last:
                found.append(Stretch(first, last, age, fold, edit))
    found.sort(key=lambda s: (s.first, -s.last, -s.age))
    shown: list[Stretch] = []
    for stretch in _without_beaten(found):
        if not shown or stretch.first > shown[-1].last:
            shown.append(stretch)
    return shown


def _without_beaten(found: list[Stretch]) -> list[Stretch]:
    """Without those that a newer one overlaps in part. What such a one had hidden then shows again."""
    if not _some_overlap(found):
        return found
    kept: list[Stretch] = []
    for new in sorted((s for s in found if s.first < s.last), key=lambda s: -s.age):
        if not any(_partly(new, other) for other in kept):
            kept.append(new)
    holds = {id(stretch) for stretch in kept}
    return [s for s in found if s.first == s.last or id(s) in holds]


def _some_overlap(found: list[Stretch]) -> bool:
    around: list[Stretch] = []
    for stretch in found:
        while around and around[-1].last < stretch.first:
            around.pop()
        if around and stretch.last > around[-1].last:
            return True
        around.append(stretch)
    return False


def _partly(a: Stretch, b: Stretch) -> bool:
    return a.first < b.first <= a.last < b.last or b.first < a.first <= b.last < a.last


def project(session: Session, folds: Sequence[e.Fold]) -> Iterator[tuple[str, Item]]:
    """The items of the path under these folds, each with a key that names it for good."""
    path, at = session.path, 0
    for stretch in outermost(session, folds):
        yield from _plain(path[at : stretch.first])
        ids = tuple(entry.id for entry in path[stretch.first : stretch.last + 1])
        for number, message in enumerate(stretch.edit.put):
            yield f"{stretch.fold.id}/{stretch.edit.first}/{number}", Item(message, ids, stretch.fold.id)
        at = stretch.last + 1
    yield from _plain(path[at:])


def _plain(entries: Iterable[e.Entry]) -> Iterator[tuple[str, Item]]:
    for entry in entries:
        message = said_by(entry)
        if message is not None:
            yield entry.id, Item(message, (entry.id,))


class Projection:
    """The items of a session's path under one rule of which folds count; follows the session."""

    def __init__(self, session: Session, accepts: Accepts = accept_all) -> None:
        self.session = session
        self.accepts = accepts
        self._items: list[Item] = []
        self._keys: list[str] = []
        self._folds: Sequence[e.Fold] = ()
        self._sums: dict[str, list[int]] = {}
        self._replies: list[int] = []
        self._framed: list[int] = []
        self._epoch = -1
        self._seen = 0

    @property
    def items(self) -> Sequence[Item]:
        """Not to be changed; grows in place between folds."""
        self._follow()
        return self._items

    @property
    def folds(self) -> Sequence[e.Fold]:
        """Active folds that this projection accepts, oldest first."""
        self._follow()
        return self._folds

    def key(self, index: int) -> str:
        """The key under which an item's counts are cached."""
        self._follow()
        return self._keys[index]

    @property
    def replies(self) -> Sequence[int]:
        """Indexes of the items that are replies with a usage."""
        self._follow()
        return self._replies

    @property
    def framed(self) -> Sequence[int]:
        """Indexes of the items whose text is framed: what folds put there, and branch summaries."""
        self._follow()
        return self._framed

    def sums(self, counter: TokenCounter) -> Sequence[int]:
        """Running totals: `sums[i]` is the size of the first `i` items. Costs only what is new."""
        self._follow()
        sums = self._sums.setdefault(counter.name, [0])
        if len(sums) <= len(self._items):
            count, total = self.session.cached_count, sums[-1]
            for key, item in zip(self._keys[len(sums) - 1 :], self._items[len(sums) - 1 :], strict=True):
                total += count(key, item.message, counter)
                sums.append(total)
        return sums

    def size_up_to(self, length: int, counter: TokenCounter) -> Callable[[], int]:
        """A function that counts the first `length` items as they are now, when it is called."""
        items, keys, sums = self._items, self._keys, self._sums

        def count() -> int:
            self._follow()
            if sums is self._sums:  # nothing was built anew since
                return self.sums(counter)[length]
            known = self.session.cached_count
            return sum(
                known(k, i.message, counter) for k, i in zip(keys[:length], items[:length], strict=True)
            )

        return count

    def size(self, counter: TokenCounter, first: int = 0, last: int | None = None) -> int:
        """Size of the items from `first` up to, not including, `last`."""
        sums = self.sums(counter)
        return sums[len(self._items) if last is None else last] - sums[first]

    def after(self, fold: e.Fold) -> list[tuple[str, Item]]:
        """The items, with their keys, as they would be with one more fold."""
        return list(project(self.session, [*self.folds, fold]))

    def _follow(self) -> None:
        path = self.session.path
        if self._epoch == self.session.epoch:
            if self._seen == len(path):
                return
            fresh = path[self._seen :]
            if not any(isinstance(entry, (e.Fold, e.Undo, e.Redo)) for entry in fresh):
                self._add(_plain(fresh))
                self._seen = len(path)
                return
        self._rebuild()

    def _rebuild(self) -> None:
        self._items, self._keys, self._sums, self._replies, self._framed = [], [], {}, [], []
        self._seen, self._epoch = len(self.session.path), self.session.epoch
        self._folds = self.accepts(active_folds(self.session.path))
        self._add(project(self.session, self._folds))

    def _add(self, keyed: Iterable[tuple[str, Item]]) -> None:
        for key, item in keyed:
            entry = None if item.fold else self.session[item.entries[0]]
            if entry is None or isinstance(entry, e.BranchSummary):
                self._framed.append(len(self._items))
            elif isinstance(entry, e.MessageEntry) and entry.usage is not None:
                self._replies.append(len(self._items))
            self._keys.append(key)
            self._items.append(item)
