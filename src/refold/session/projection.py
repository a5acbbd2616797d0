"""The projection: what the model sees of a session, updated incrementally.

Appending a message extends it; a fold costs what it shows; an undo or a moved leaf rebuilds it from cached
counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from refold import entries as e
from refold.cancellation import checkpoint
from refold.messages import System
from refold.protocols import TokenCounter
from refold.session import edits
from refold.session.edits import Accepts, Stretch, accepted
from refold.session.history import History
from refold.session.items import Item

FOLD_MARKS = (e.Fold, e.Undo, e.Redo)
MAX_PROJECTIONS = 4
"""Number of projections (one per rule of which folds count) that a history keeps."""


def accept_all(folds: Sequence[e.Fold]) -> Sequence[e.Fold]:
    return folds


class Projection:
    """The items of a session's path under one rule of which folds count. `with_left`: items that left their
    place alone (`entries.LEFT`) are included in their original form."""

    def __init__(self, session: History, accepts: Accepts = accept_all, *, with_left: bool = False) -> None:
        self.session = session
        self.accepts = accepts
        self.with_left = with_left
        self._with_left: Projection | None = None
        self._items: list[Item] = []
        self._keys: list[str] = []
        self._active: list[e.Fold] = []
        """Folds that are not undone."""
        self._folds: Sequence[e.Fold] = ()
        self._shown: list[Stretch] = []
        """The edits of these folds that are shown."""
        self._sums: dict[str, list[int]] = {}
        self._replies: list[int] = []
        self._framed: list[int] = []
        self._left: frozenset[str] = frozenset()
        self._floor = 0
        self._epoch = -1
        self._seen = 0
        self.overheads: dict[str, Any] = {}
        """Wire overhead of items, by counter (`refold.session.wire_size`)."""

    @classmethod
    def of(cls, session: History, accepts: Accepts = accept_all) -> Projection:
        """The cached projection of a history."""
        kept = session.derived.of(cls, dict[Accepts, Projection])
        if accepts not in kept:
            if len(kept) >= MAX_PROJECTIONS:
                del kept[next(iter(kept))]
            kept[accepts] = cls(session, accepts)
        return kept[accepts]

    # ── what is shown ───────────────────────────────────────────────────────────────────────────

    @property
    def seen(self) -> int:
        """Number of path entries processed."""
        return self._seen if self._epoch == self.session.epoch else 0

    @property
    def items(self) -> Sequence[Item]:
        """Do not change; grows in place between folds."""
        self._follow()
        return self._items

    @property
    def folds(self) -> Sequence[e.Fold]:
        """Active folds that this projection accepts, oldest first."""
        self._follow()
        return self._folds

    @property
    def newest_fold(self) -> e.Fold | None:
        folds = self.folds
        return folds[-1] if folds else None

    @property
    def newest_summary(self) -> e.Fold | None:
        return next((fold for fold in reversed(self.folds) if fold.summary), None)

    @property
    def left(self) -> frozenset[str]:
        """Entries that left their place alone; the record mentions them."""
        self._follow()
        return self._left

    def restored(self) -> Projection:
        """The same projection with all of these in their place."""
        if not self.left:
            return self
        if self._with_left is None:
            self._with_left = Projection(self.session, self.accepts, with_left=True)
        return self._with_left

    def fold_of(self, item: Item) -> e.Fold:
        fold = self.session[item.fold or ""]
        assert isinstance(fold, e.Fold)
        return fold

    @property
    def replies(self) -> Sequence[int]:
        """Indexes of the items that are replies with usage."""
        self._follow()
        return self._replies

    @property
    def framed(self) -> Sequence[int]:
        """Indexes of the items with framed text: those that folds inserted, and branch summaries."""
        self._follow()
        return self._framed

    def after(self, fold: e.Fold) -> list[tuple[str, Item]]:
        """The items, with their keys, after one more fold."""
        shown = edits.extended(self._shown, self.folds, fold, self.session.position)
        return list(edits.project_items(self.session.path, shown))

    # ── places: indexes of items, positions on the path ─────────────────────────────────────────

    @property
    def floor(self) -> int:
        """First path position that may be folded; a leading system prompt stays, unless a fold took it."""
        self._follow()
        return min((x.first for x in self._shown if x.first < self._floor <= x.last), default=self._floor)

    @property
    def first(self) -> int:
        """Index of the first item that may be folded."""
        return self.item_at(self.floor)

    def item_at(self, position: int) -> int:
        """Index of the first item at or after a path position."""

        def end(item: Item) -> int:
            at = self.session.position(item.entries[-1])
            return position if at is None else at

        return bisect_left(self.items, position, key=end)

    def position_of(self, index: int) -> int:
        """Path position where the item begins; the end of the path for the index after the last."""
        if index >= len(self.items):
            return len(self.session.path)
        return self.session.position(self._items[index].entries[0]) or 0

    # ── sizes ───────────────────────────────────────────────────────────────────────────────────

    def key(self, index: int) -> str:
        """The key under which an item's counts are cached."""
        self._follow()
        return self._keys[index]

    def count(self, index: int, counter: TokenCounter) -> int:
        """Size of one item; counts no other."""
        return self.session.cached_count(self.key(index), self._items[index].message, counter)

    def sums(self, counter: TokenCounter) -> Sequence[int]:
        """Running totals: `sums[i]` is the size of the first `i` items. Costs only what is new."""
        self._follow()
        sums, items = self._sums.setdefault(counter.name, [0]), self._items
        for key, item in zip(self._keys[len(sums) - 1 :], items[len(sums) - 1 :], strict=True):
            sums.append(sums[-1] + self.session.cached_count(key, item.message, counter))
            checkpoint()
        return sums

    def size(self, counter: TokenCounter, first: int = 0, last: int | None = None) -> int:
        """Size of the items from `first` up to, not including, `last`."""
        sums = self.sums(counter)
        return sums[len(self._items) if last is None else last] - sums[first]

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

    # ── following ───────────────────────────────────────────────────────────────────────────────

    def _follow(self) -> None:
        if self._seen != len(self.session.path) or self._epoch != self.session.epoch:
            self._begin()
            path, end = self.session.path, len(self.session.path)  # another thread may append meanwhile
            self._add(edits.unedited_items(path[self._seen : end]), end)

    def _begin(self) -> None:
        """Processes changes of earlier items: a moved leaf, folds, undo."""
        session, anew = self.session, self._epoch != self.session.epoch
        marks = [] if anew else [x for x in session.path[self._seen :] if isinstance(x, FOLD_MARKS)]
        folds = [mark for mark in marks if isinstance(mark, e.Fold)]
        if anew or len(folds) < len(marks):
            found = [session.annotations(x) for x in FOLD_MARKS]
            self._active = edits.active_folds(edits.in_order(found, session.position)) if any(found) else []
        elif not folds:
            return
        else:
            self._active = [*self._active, *edits.active_folds(folds)]
        self._rebuild(accepted(self.accepts, self._active) if self._active else ())

    def _rebuild(self, folds: Sequence[e.Fold]) -> None:
        session, path, before = self.session, self.session.path[:], self._folds
        if not folds:
            self._shown = []
        elif self._epoch != session.epoch or [*folds[:-1]] != [*before]:
            self._shown = edits.outermost(folds, session.position)
        else:
            self._shown = edits.extended(self._shown, before, folds[-1], session.position)
        put = {self._keys[index] for index in self._framed}
        self._items, self._keys, self._sums, self._replies, self._framed = [], [], {}, [], []
        self._folds, self._floor, self._epoch, self._seen = folds, 0, session.epoch, 0
        left = [stretch for stretch in self._shown if stretch.edit.kind == e.LEFT]
        self._left = frozenset(entry.id for x in left for entry in path[x.first : x.last + 1])
        if self._shown:
            shown = [x for x in self._shown if x not in left] if self.with_left else self._shown
            self._add(edits.project_items(path, shown), len(path))
        # Each fold puts its own forms there: kept for good, their counts would grow with every one of them.
        if put:
            session.forget_counts(put.difference(self._keys[index] for index in self._framed))

    def _add(self, keyed: Iterable[tuple[str, Item]], seen: int) -> None:
        """Items of the path up to a position."""
        for key, item in keyed:
            entry = None if item.fold else self.session[item.entries[0]]
            if entry is None or isinstance(entry, e.BranchSummary):
                self._framed.append(len(self._items))
            elif isinstance(entry, e.MessageEntry) and entry.usage is not None:
                self._replies.append(len(self._items))
            self._keys.append(key)
            self._items.append(item)
        path, self._seen = self.session.path, seen
        while self._floor < seen and not may_go(path[self._floor]):
            self._floor += 1


def may_go(entry: e.Entry) -> bool:
    """True if a fold may begin here; what precedes it stays in every view."""
    if isinstance(entry, e.MessageEntry):
        return not isinstance(entry.message, System)
    return isinstance(entry, (e.Note, e.BranchSummary, e.Fold))
