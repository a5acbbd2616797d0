"""The view: what the model sees, as a pure function of the path.

This module applies edits and knows nothing else. An edit replaces a stretch of the path by stored
messages; among active edits the outermost wins, and of two that cover the same stretch the newer one.
Appending a message extends the projection; a fold, an undo or a moved leaf builds it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from refold import entries as e
from refold.messages import Bash, Message, Text, User
from refold.protocols import TokenCounter
from refold.session.items import Item
from refold.session.tree import Session

Accepts: TypeAlias = Callable[[e.Fold], bool]


def accept_all(fold: e.Fold) -> bool:  # noqa: ARG001
    return True


def said_by(entry: e.Entry) -> Message | None:
    """The message an entry shows by itself; None for entries the model never sees."""
    match entry:
        case e.MessageEntry(message=Bash(hidden=True)):
            return None
        case e.MessageEntry(message=message):
            return message
        case e.Note(content=content):
            return User(content)
        case e.BranchSummary(summary=summary) if summary:
            return User((Text(BRANCH_FRAME.format(summary=summary)),))
        case _:
            return None


BRANCH_FRAME = (
    "[Another branch of this conversation was explored and left. What happened there:]\n\n{summary}"
)


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
    for stretch in found:
        while shown and shown[-1].last < stretch.last and stretch.first <= shown[-1].last:
            if stretch.age < shown[-1].age:
                break
            shown.pop()
        if not shown or stretch.first > shown[-1].last:
            shown.append(stretch)
    return shown


class Projection:
    """The items of a session's path under one rule of which folds count; follows the session."""

    def __init__(self, session: Session, accepts: Accepts = accept_all) -> None:
        self.session = session
        self.accepts = accepts
        self._items: list[Item] = []
        self._keys: list[str] = []
        self._sizes: dict[str, list[int]] = {}
        self._totals: dict[str, int] = {}
        self._epoch = -1
        self._seen = 0
        self.generation = 0
        """Changes whenever the items were built anew instead of extended."""

    @property
    def items(self) -> Sequence[Item]:
        """Not to be changed; grows in place between folds."""
        self._follow()
        return self._items

    def sizes(self, counter: TokenCounter) -> Sequence[int]:
        """The count of every item. Costs only what is new since the last call."""
        self._follow()
        sizes = self._sizes.setdefault(counter.name, [])
        if len(sizes) < len(self._items):
            count, fresh = self.session.cached_count, range(len(sizes), len(self._items))
            new = [count(self._keys[i], self._items[i].message, counter) for i in fresh]
            sizes.extend(new)
            self._totals[counter.name] = self._totals.get(counter.name, 0) + sum(new)
        return sizes

    def total(self, counter: TokenCounter) -> int:
        self.sizes(counter)
        return self._totals.get(counter.name, 0)

    @property
    def folds(self) -> list[e.Fold]:
        """Active folds that this projection accepts, oldest first."""
        return [fold for fold in active_folds(self.session.path) if self.accepts(fold)]

    def _follow(self) -> None:
        path = self.session.path
        if self._epoch == self.session.epoch:
            if self._seen == len(path):
                return
            fresh = path[self._seen :]
            if not any(isinstance(entry, (e.Fold, e.Undo, e.Redo)) for entry in fresh):
                self._extend(fresh)
                return
        self._rebuild()

    def _extend(self, entries: Iterable[e.AnyPathEntry]) -> None:
        for entry in entries:
            message = said_by(entry)
            if message is not None:
                self._add(Item(message, (entry.id,)), entry.id)
            self._seen += 1

    def _add(self, item: Item, key: str) -> None:
        self._items.append(item)
        self._keys.append(key)

    def _rebuild(self) -> None:
        self._items, self._keys, self._sizes, self._totals = [], [], {}, {}
        self._seen, self._epoch = 0, self.session.epoch
        self.generation += 1
        path = self.session.path
        for stretch in outermost(self.session, self.folds):
            self._extend(path[self._seen : stretch.first])
            ids = tuple(entry.id for entry in path[stretch.first : stretch.last + 1])
            for number, message in enumerate(stretch.edit.put):
                self._add(
                    Item(message, ids, stretch.fold.id), f"{stretch.fold.id}/{stretch.edit.first}/{number}"
                )
            self._seen = stretch.last + 1
        self._extend(path[self._seen :])


class View:
    """A snapshot of what the model sees. Rendering gives fresh dicts each time."""

    def __init__(
        self,
        items: Sequence[Item],
        *,
        counter: TokenCounter,
        tokens: int,
        system: str | None = None,
        tools: Sequence[Any] = (),
    ) -> None:
        self._items = items
        self._length = len(items)
        self.counter = counter
        self.tokens = tokens
        """System prompt and tools included, by the exact counter."""
        self.system = system
        self.tools = tools

    @property
    def items(self) -> list[Item]:
        return list(self._items[: self._length])

    @property
    def messages(self) -> list[Message]:
        return [item.message for item in self.items]

    @property
    def text(self) -> str:
        """All that can be read, one message after the other."""
        return "\n\n".join(message.text for message in self.messages)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def to_openai(self) -> list[dict[str, Any]]:
        from refold.session.dialects import openai_chat
        from refold.session.invariants import repair

        return openai_chat.render(repair(self.items), system=self.system)

    def to_responses(self) -> list[dict[str, Any]]:
        from refold.session.dialects import openai_responses
        from refold.session.invariants import repair

        return openai_responses.render(repair(self.items), system=self.system)

    def to_anthropic(self, *, cache: bool = True, ttl: str | None = None) -> dict[str, Any]:
        from refold.session.dialects import anthropic
        from refold.session.invariants import repair

        return anthropic.render(repair(self.items), system=self.system, cache=cache, ttl=ttl)
