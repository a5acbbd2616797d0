"""The history: an append-only log read as a tree with a leaf.

Everything here is derived from the log and updated entry by entry: appending at the leaf costs the same for
ten messages and a hundred thousand. Only moving the leaf rebuilds the path.

A session is a writable history. Planning uses a history made from a snapshot of the session, which belongs to
the planning thread and does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

from refold import entries as e
from refold.errors import EntryNotFound, TreeError
from refold.messages import Assistant, Message, User, brief
from refold.protocols import SessionInfo, TokenCounter
from refold.session.repair import parent_of
from refold.text.glance import card

E = TypeVar("E", bound=e.Entry)
T = TypeVar("T")
Counts = dict[str, dict[str, int]]
"""Counter → key → tokens. Several threads fill it; each sets the same value."""


class Base(NamedTuple):
    """The state that a plan was made from. The plan is stale once either field has changed."""

    tip: str | None
    """The last entry that moved the leaf."""
    generation: int
    """Number of other changes of the view: pins, a learned window, forgetting."""


class Snapshot(NamedTuple):
    """The content of a session at one moment; any thread may read it."""

    id: str
    info: SessionInfo
    log: Sequence[e.AnyEntry]
    """Only grows; a session whose past changes starts a new one."""
    length: int
    generation: int
    counts: Counts


class DerivedValues:
    """Values derived from a session, kept beside it instead of read from it again. Never part of the log:
    after reopening they are made on first use. A value lives as long as the session and as its owner."""

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def of(self, owner: Any, make: Callable[[], T]) -> T:
        """The value of `owner` (a class, or an object that lives as long as needed), made on first use."""
        made = self._made.get(owner)
        if made is None:
            made = self._made[owner] = make()
        return made


class History:
    """A log up to one entry, and what follows from it. `derived`: values that others derived from it."""

    def __init__(self, id: str, info: SessionInfo) -> None:
        self.id, self.info = id, info
        self.generation: int = 0
        self.epoch = 0
        """Number of changes of the path other than appends at its end."""
        self.lock: AbstractContextManager[object] = nullcontext()
        """Held while a shared history is read."""
        self._clear()

    def _clear(self) -> None:
        self._log: list[e.AnyEntry] = []
        self._by_id: dict[str, e.AnyEntry] = {}
        self._children: dict[str | None, list[str]] = {}
        self._related = 0  # entries whose parents have been asked for their children: few ever are
        self._path: list[e.AnyPathEntry] = []
        self._position: dict[str, int] = {}
        self._turns: list[int] = []
        self._replies: list[int] = []
        self._leaf: str | None = None
        self._tip: str | None = None
        self._kinds: dict[type[e.Entry], list[e.Entry]] = {}
        self._pinned: dict[str, None] = {}
        self._counts: Counts = {}
        self.derived = DerivedValues()

    @property
    def base(self) -> Base:
        return Base(self._tip, self.generation)

    # ── reading ─────────────────────────────────────────────────────────────────────────────────

    @property
    def entries(self) -> Sequence[e.AnyEntry]:
        """The whole log, in the order it was written; do not change it."""
        return self._log

    @property
    def path(self) -> Sequence[e.AnyPathEntry]:
        """Root → leaf; do not change it."""
        return self._path

    @property
    def leaf(self) -> str | None:
        return self._leaf

    @property
    def tip(self) -> str | None:
        """The last entry that moved the leaf. A plan is stale once it has changed."""
        return self._tip

    @property
    def turns(self) -> Sequence[int]:
        """Positions on the path at which a turn starts: its user messages."""
        return self._turns

    @property
    def replies(self) -> Sequence[int]:
        """Positions on the path of the assistant messages."""
        return self._replies

    @property
    def last_reply(self) -> e.MessageEntry | None:
        return cast("e.MessageEntry", self._path[self._replies[-1]]) if self._replies else None

    @property
    def name(self) -> str | None:
        names = (info.name for info in reversed(self.annotations(e.Info)) if info.name is not None)
        return next(names, self.info.name)

    @property
    def labels(self) -> dict[str, str]:
        named = {label.target: label.text for label in self.annotations(e.Label) if label.target}
        return {target: text for target, text in named.items() if text}

    @property
    def pins(self) -> tuple[str, ...]:
        """Pinned entries, in the order they were pinned."""
        return tuple(self._pinned)

    def annotations(self, kind: type[E]) -> Sequence[E]:
        """All entries of one type, oldest first. Messages, most of the log, are searched for."""
        known = [x for x in self._log if type(x) is kind] if kind is e.MessageEntry else self._kinds.get(kind)
        return cast("list[E]", known or [])

    def state(self, name: str) -> Any:
        """The newest value stored under `name`."""
        return next((s.value for s in reversed(self.annotations(e.State)) if s.name == name), None)

    def __len__(self) -> int:
        return len(self._log)

    def __contains__(self, id: object) -> bool:
        return id in self._by_id

    def __getitem__(self, id: str) -> e.AnyEntry:
        try:
            return self._by_id[id]
        except (KeyError, TypeError):
            raise EntryNotFound(id) from None

    def __repr__(self) -> str:
        folds = sum(isinstance(entry, e.Fold) for entry in self._path)
        size = f"{len(self._log):,} entries, {len(self._path):,} on the path, {folds} folds"
        return f"<{type(self).__name__} {self.id}: {size}>"

    def _repr_html_(self) -> str:
        said = (entry.message for entry in self._path if isinstance(entry, e.MessageEntry))
        return card(repr(self), [brief(message) for message in said])

    def position(self, id: str) -> int | None:
        """Index on the active path; None if the entry is not on it."""
        return self._position.get(id)

    def children(self, id: str | None) -> tuple[str, ...]:
        for entry in self._log[self._related :]:
            if entry.on_path:
                self._children.setdefault(parent_of(entry), []).append(entry.id)
        self._related = len(self._log)
        return tuple(self._children.get(id, ()))

    def ancestors(self, id: str | None) -> Iterator[e.AnyPathEntry]:
        """The entry, its parent, and so on up to the root."""
        while id is not None:
            entry = self._on_path(id)
            yield entry
            id = entry.parent

    def path_to(self, id: str | None) -> list[e.AnyPathEntry]:
        """Root → `id`, whether or not it is on the active path."""
        return list(self.ancestors(id))[::-1]

    def common_ancestor(self, a: str | None, b: str | None) -> str | None:
        above = {entry.id for entry in self.ancestors(a)}
        return next((entry.id for entry in self.ancestors(b) if entry.id in above), None)

    def cached_count(self, key: str, message: Message, counter: TokenCounter) -> int:
        """Size of the message with this `key`, counted once."""
        counts = self._counts.setdefault(counter.name, {})
        size = counts.get(key)
        if size is None:
            size = counts[key] = counter.message(message)
        return size

    def forget_counts(self, keys: Iterable[str]) -> None:
        for key in keys:
            for counts in [*self._counts.values()]:
                counts.pop(key, None)

    def share_counts(self, other: History) -> None:
        """Shares counts with another session of the same entries."""
        self._counts = other._counts

    # ── the inside ──────────────────────────────────────────────────────────────────────────────

    def _take_all(self, entries: Iterable[e.AnyEntry]) -> None:
        """Takes the initial entries; the path is built once."""
        for entry in entries:
            self._record(entry)
            if entry.moves:
                self._leaf = entry.target if isinstance(entry, e.Leaf) else entry.id
        self._rebuild_path()

    def _record(self, entry: e.AnyEntry) -> None:
        self._log.append(entry)
        self._by_id[entry.id] = entry
        if type(entry) is not e.MessageEntry:
            self._kinds.setdefault(type(entry), []).append(entry)
        if entry.moves:
            self._tip = entry.id
        if isinstance(entry, (e.Pin, e.Unpin, e.LearnedWindow)):
            self.generation += 1
        if isinstance(entry, e.Pin) and entry.target:
            self._pinned[entry.target] = None
        elif isinstance(entry, e.Unpin) and entry.target:
            self._pinned.pop(entry.target, None)

    def _take(self, entry: e.AnyEntry) -> None:
        self._record(entry)
        if isinstance(entry, e.Leaf):
            self._leaf = entry.target
            self._rebuild_path()
        elif entry.on_path:
            before, self._leaf = self._leaf, entry.id
            if parent_of(entry) == before:
                self._push(cast("e.AnyPathEntry", entry))
            else:
                self._rebuild_path()

    def _push(self, entry: e.AnyPathEntry) -> None:
        position = self._position[entry.id] = len(self._path)
        self._path.append(entry)
        if starts_turn(entry):
            self._turns.append(position)
        elif isinstance(entry, e.MessageEntry) and isinstance(entry.message, Assistant):
            self._replies.append(position)

    def _rebuild_path(self) -> None:
        self.epoch, path = self.epoch + 1, self.path_to(self._leaf)
        self._path, self._position, self._turns, self._replies = [], {}, [], []
        for entry in path:
            self._push(entry)

    def _on_path(self, id: str) -> e.AnyPathEntry:
        entry = self[id]
        if not entry.on_path:
            raise TreeError(f"{id!r} is an annotation, which has no place in the tree: name a message")
        return cast("e.AnyPathEntry", entry)


def last_model(session: History) -> str | None:
    """The model that talks to the user: the newest one the path names."""
    named = (x.model for x in reversed(session.path) if isinstance(x, (e.MessageEntry, e.ModelChange)))
    return next(filter(None, named), None)


def starts_turn(entry: e.Entry) -> bool:
    return isinstance(entry, e.MessageEntry) and isinstance(entry.message, User)
