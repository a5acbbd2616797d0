"""The session: an append-only log read as a tree with a leaf.

Everything here is derived from the log and kept up to date entry by entry: appending at the leaf costs
the same at ten messages and at a hundred thousand. Only moving the leaf rebuilds the path.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast, overload

import msgspec

from refold import entries as e
from refold.errors import EntryNotFound, FoldError, TreeError, WrongType, expect
from refold.messages import Assistant, Message, Usage, User
from refold.protocols import Loaded, Problem, SessionInfo, Store, TokenCounter
from refold.session.dialects import read_list
from refold.session.door import admitted_all, begun, entries_of
from refold.session.followers import Followers
from refold.session.holes import mended, parent_of
from refold.session.incoming import messages_of, plain_meta
from refold.session.merge import Given, Merged, Tree, difference
from refold.session.sound import objection

E = TypeVar("E", bound=e.Entry)


def random_id() -> str:
    return secrets.token_hex(6)


class Session:
    """A conversation. Without a `store` it lives in memory; with one, an append is durable on return. Opening
    costs some microseconds an entry; what else is known of entries is read when it is first asked for."""

    def __init__(
        self,
        entries: Iterable[e.AnyEntry] = (),
        *,
        id: str | None = None,
        store: Store | None = None,
        info: SessionInfo | None = None,
        problems: Sequence[Problem] = (),
        clock: Callable[[], float] = time.time,
        new_id: Callable[[], str] = random_id,
    ) -> None:
        expect(problems, Sequence, "problems are a list")
        self.id, self.info = begun(id, info, clock, new_id)
        self.problems = tuple(problems)
        self.store = store
        self.clock, self.new_id = clock, new_id
        self.epoch = 0
        """Counts changes of the path other than an append at its end."""
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
        self._after: str | None = None
        """What the store's compare-and-swap has to find: its tip, which damage may have hidden from us."""
        self._kinds: dict[type[e.Entry], list[e.Entry]] = {}
        self._pinned: dict[str, None] = {}
        self._counts: dict[str, dict[str, int]] = {}
        self.followers = Followers()
        self._stored = self._load(entries)

    @classmethod
    def of(
        cls,
        loaded: Loaded,
        *,
        id: str | None = None,
        store: Store | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Session:
        """The session of what a store or an importer read."""
        session = cls(
            loaded.entries, id=id, store=store, info=loaded.info, problems=loaded.problems, clock=clock
        )
        session._meet(loaded)
        return session

    # ── reading ─────────────────────────────────────────────────────────────────────────────────

    @property
    def entries(self) -> Sequence[e.AnyEntry]:
        """The whole log, in the order it was written. Not to be changed."""
        return self._log

    @property
    def path(self) -> Sequence[e.AnyPathEntry]:
        """Root → leaf. Not to be changed."""
        return self._path

    @property
    def leaf(self) -> str | None:
        return self._leaf

    @property
    def tip(self) -> str | None:
        """The last entry that moved anything. A plan is stale once this has changed."""
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
        """The newest assistant message on the path."""
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
        """All entries of one kind, oldest first. Messages are most of the log: they are looked for in it."""
        known = [x for x in self._log if type(x) is kind] if kind is e.MessageEntry else self._kinds.get(kind)
        return cast("list[E]", known or [])

    def state(self, name: str) -> Any:
        """The newest value a program stored under `name`."""
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
        return f"<Session {self.id}: {len(self._log)} entries, {len(self._path)} on the path>"

    def position(self, id: str) -> int | None:
        """Index on the active path; None if the entry is elsewhere."""
        return self._position.get(id)

    def children(self, id: str | None) -> tuple[str, ...]:
        for entry in self._log[self._related :]:
            if entry.on_path:
                self._children.setdefault(parent_of(entry), []).append(entry.id)
        self._related = len(self._log)
        return tuple(self._children.get(id, ()))

    def ancestors(self, id: str | None) -> Iterator[e.AnyPathEntry]:
        """The entry itself, its parent, and so on up to the root."""
        while id is not None:
            entry = self._on_path(id)
            yield entry
            id = entry.parent

    def path_to(self, id: str | None) -> list[e.AnyPathEntry]:
        """Root → `id`, whether or not it is on the active path."""
        return list(self.ancestors(id))[::-1]

    def common_ancestor(self, a: str | None, b: str | None) -> str | None:
        """The deepest entry that is on the way to both."""
        above = {entry.id for entry in self.ancestors(a)}
        return next((entry.id for entry in self.ancestors(b) if entry.id in above), None)

    def cached_count(
        self, key: str, message: Message, counter: TokenCounter, known: int | None = None
    ) -> int:
        """Size of what is named by `key`, counted once; `known`, where somebody has counted it already."""
        counts = self._counts.setdefault(counter.name, {})
        size = counts.get(key)
        if size is None:
            size = counts[key] = counter.message(message) if known is None else known
        return size

    def counted(self, key: str, counter: TokenCounter) -> bool:
        """Is its size known?"""
        return key in self._counts.get(counter.name, ())

    def forget_counts(self, keys: Iterable[str]) -> None:
        """Of what is shown no more."""
        for key in keys:
            for counts in self._counts.values():
                counts.pop(key, None)

    def share_counts(self, other: Session) -> None:
        """Count together with another session of the same entries: each is counted once for both."""
        self._counts = other._counts

    # ── writing ─────────────────────────────────────────────────────────────────────────────────

    @overload
    def append(self, said: E, /) -> E: ...
    @overload
    def append(
        self,
        said: Message | str | Mapping[str, Any],
        /,
        *,
        usage: Usage | None = None,
        model: str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> e.MessageEntry: ...
    def append(
        self,
        said: Any,
        /,
        *,
        usage: Usage | None = None,
        model: str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> e.Entry:
        """Append what was said: a message, a text of the user, or a dict of any dialect; it becomes the new
        leaf. Or append a ready-made entry. Returns the entry, the last one of a dict of several messages."""
        if isinstance(said, e.Entry):
            if not usage is model is meta is None:
                raise WrongType("usage, model and meta go with a message: an entry has its own")
            return self.extend((cast("e.AnyEntry", said),))[0]
        made = self._chained(messages_of(said))
        made[-1] = msgspec.structs.replace(made[-1], usage=usage, model=model, meta=plain_meta(meta))
        return self.extend(made)[-1]

    def _chained(self, messages: Iterable[Message]) -> list[e.MessageEntry]:
        made: list[e.MessageEntry] = []
        for said in messages:
            made.append(self.make(e.MessageEntry, message=said, parent=made[-1].id if made else self._leaf))
        return made

    def make(self, kind: type[E], /, **fields: Any) -> E:
        """An entry of `kind` with a fresh id, the time, and the leaf as its parent."""
        if issubclass(kind, e.PathEntry):
            fields.setdefault("parent", self._leaf)
        return kind(id=self.new_id(), time=self.clock(), **fields)

    def extend(self, entries: Sequence[e.AnyEntry]) -> Sequence[e.AnyEntry]:
        """Append ready-made entries: all of them or, on any error, none. Returns what the log holds."""
        entries = admitted_all(entries)
        self._check(entries)
        if self.store is not None:
            self.store.append(self.id, entries, after=self._after)
        for entry in entries:
            self._take(entry)
        return entries

    def move(self, id: str | None) -> None:
        """Make `id` the leaf; the next append branches there. Remembered in the log."""
        if id is not None:
            self._on_path(id)
        if id != self._leaf:
            self.extend((self.make(e.Leaf, target=id),))

    def label(self, id: str, text: str) -> None:
        self.extend((self.make(e.Label, target=self[id].id, text=text),))

    def merge(self, messages: Iterable[Any], *, exactly: bool = False) -> Merged:
        """Take over a list that a framework hands back (messages, or dicts of any dialect): what is known is
        recognised, on any branch, summaries too; the rest is appended, on a branch where the list departs.
        `exactly`: the path ends where the list ends, also where we know more (an answer asked for anew)."""
        tree = Tree(self._log, self.children, self.path_to)
        given = Given.of(*read_list(messages))
        news = difference(self._path, self.position, given, tree, exactly=exactly)
        if news.branches:
            self.move(news.target)
            for fold in news.folds:
                fresh = {"id": self.new_id(), "parent": self._leaf, "time": self.clock()}
                self.append(msgspec.structs.replace(fold, **fresh, usage=None, requests=0))
        added = cast("Sequence[e.MessageEntry]", self.extend(self._chained(news.messages)))
        return Merged(tuple(added), news.branches)

    def refresh(self) -> int:
        """Take over what another writer appended to the store meanwhile; returns how many entries."""
        if self.store is None:
            return 0
        loaded = self.store.load(self.id, self._stored)
        self._stored += len(loaded.entries)
        # Annotations need no compare-and-swap: somebody's may stand before entries of our own.
        news = [entry for entry in loaded.entries if entry.id not in self._by_id]
        sound, problems = mended(news, self._by_id, self._leaf)
        self.problems += tuple(problems)
        for entry in sound:
            self._take(entry)
        self._meet(loaded)
        return len(news)

    # ── the inside ──────────────────────────────────────────────────────────────────────────────

    def _load(self, entries: Iterable[e.AnyEntry]) -> int:
        """Take what was read; returns how many entries that were (holes are not among them)."""
        read = entries_of(entries)
        sound, problems = mended(read)
        self.problems += tuple(problems)
        for entry in sound:
            self._record(entry)
            if entry.moves:
                self._leaf = entry.target if isinstance(entry, e.Leaf) else entry.id
        self._rebuild_path()
        return len(read)

    def _meet(self, loaded: Loaded) -> None:
        if loaded.tip is not msgspec.UNSET:
            self._after = loaded.tip

    def _check(self, entries: Sequence[e.AnyEntry]) -> None:
        fresh: set[str] = set()
        for entry in entries:
            if entry.id in self._by_id or entry.id in fresh:
                raise TreeError(f"there is an entry with the id {entry.id!r} already")
            fresh.add(entry.id)
            parent = parent_of(entry) if entry.on_path else None
            if parent is not None and parent not in fresh and not self._is_on_tree(parent):
                raise TreeError(f"{parent!r} is named as a parent, but there is no such entry")
            if isinstance(entry, e.Fold):
                self._check_fold(entry)

    def _check_fold(self, fold: e.Fold) -> None:
        if fold.parent != self._leaf or any(fold.edits == known.edits for known in self.annotations(e.Fold)):
            return  # a fold of another branch, or one again: it was checked where it was made
        if why := objection(fold, self._path, self.position):
            raise FoldError(why)

    def _is_on_tree(self, id: str) -> bool:
        return id in self._by_id and self._by_id[id].on_path

    def _record(self, entry: e.AnyEntry) -> None:
        self._log.append(entry)
        self._by_id[entry.id] = entry
        if type(entry) is not e.MessageEntry:
            self._kinds.setdefault(type(entry), []).append(entry)
        if entry.moves:
            self._tip = self._after = entry.id
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
            self._grow(cast("e.AnyPathEntry", entry))

    def _grow(self, entry: e.AnyPathEntry) -> None:
        before, self._leaf = self._leaf, entry.id
        if entry.parent == before:
            self._push(entry)
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
            raise TreeError(f"{id!r} is an annotation: it has no place in the tree")
        return cast("e.AnyPathEntry", entry)


def starts_turn(entry: e.Entry) -> bool:
    return isinstance(entry, e.MessageEntry) and isinstance(entry.message, User)
