"""The session: a writable history, in memory or in a store."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, TypeVar, cast, overload

import msgspec

from refold import entries as e
from refold.errors import FoldError, StalePlan, TreeError, UsageError, WrongType, expect
from refold.messages import Message, MessageBase, Usage, user
from refold.protocols import Loaded, Problem, SessionInfo, Store
from refold.session.dialects import parse, parse_list_with_dialects
from refold.session.edits import FORGOTTEN_STATE, edit_stretches
from refold.session.history import Base, History, Snapshot
from refold.session.merge import GivenList, Merged, list_difference
from refold.session.repair import parent_of, repaired
from refold.session.validation import begun, validated

E = TypeVar("E", bound=e.Entry)
MESSAGE_ROLES = ("user", "assistant", "system", "developer", "tool", "function")
ACCEPTED_INPUT = "pass a message (refold.messages), a text, a dict with a role, or an entry"


def random_id() -> str:
    return secrets.token_hex(6)


class Session(History):
    """A conversation. Without a `store` it is kept in memory; with one, an append is durable on return.
    Opening costs some microseconds per entry; the rest is computed on demand. Threads may write at the same
    time: every message has the one before it as its parent."""

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
        expect(problems, Sequence, "problems must be a list")
        super().__init__(*begun(id, info, clock, new_id))
        self.problems = tuple(problems)
        self.store = store
        self.clock, self.new_id = clock, new_id
        self.writing = threading.RLock()
        """Held during a write; also from a read to the write that depends on it."""
        self._after: str | None = None
        """The tip expected by the store's compare-and-swap, which may be hidden by damage."""
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
        """The session that a store or an importer read."""
        session = cls(
            loaded.entries, id=id, store=store, info=loaded.info, problems=loaded.problems, clock=clock
        )
        session._meet(loaded)
        return session

    def snapshot(self) -> Snapshot:
        """The current content, as a value. The generation is read first: if another thread writes meanwhile,
        a plan made from this is refused."""
        generation, counts, log = self.generation, self._counts, self._log
        return Snapshot(self.id, self.info, log, len(log), generation, counts)

    # ── writing ─────────────────────────────────────────────────────────────────────────────────

    @overload
    def append(self, said: E, /, *, after: Base | None = None) -> E: ...
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
        after: Base | None = None,
    ) -> e.Entry:
        """Appends a message, a user's text, or a dict of any dialect, which becomes the new leaf; or a ready-
        made entry. With `after`, raises `StalePlan` unless the session is still at that base. Returns the
        entry, the last one if a dict has several messages."""
        with self.writing:
            if after is not None and after != self.base:
                raise StalePlan
            if isinstance(said, e.Entry):
                if not usage is model is meta is None:
                    raise WrongType("usage, model and meta can only be given with a message")
                return self.extend((cast("e.AnyEntry", said),))[0]
            expect(meta, (Mapping, NoneType), "meta must be a dict")
            made = self._chained(messages_of(said))
            made[-1] = msgspec.structs.replace(made[-1], usage=usage, model=model, meta=dict(meta or {}))
            return self.extend(made)[-1]

    def _chained(self, messages: Iterable[Message]) -> list[e.MessageEntry]:
        made: list[e.MessageEntry] = []
        for said in messages:
            made.append(self.make(e.MessageEntry, message=said, parent=made[-1].id if made else self._leaf))
        return made

    def make(self, kind: type[E], /, **fields: Any) -> E:
        """An entry of `kind` with a new id, the time, and the leaf as its parent."""
        if issubclass(kind, e.PathEntry):
            fields.setdefault("parent", self._leaf)
        return kind(id=self.new_id(), time=self.clock(), **fields)

    def extend(self, entries: Sequence[e.AnyEntry]) -> Sequence[e.AnyEntry]:
        """Appends ready-made entries, all or none. Returns what the log holds."""
        expect(entries, Iterable, "pass a list of entries (refold.entries)")
        entries = [validated(entry) for entry in entries]
        with self.writing:
            self._check(entries)
            if self.store is not None:
                self.store.append(self.id, entries, after=self._after)
            for entry in entries:
                self._take(entry)
                if entry.moves:
                    self._after = entry.id
        return entries

    def move(self, id: str | None) -> None:
        """Makes `id` the leaf; the next append branches there. Recorded in the log."""
        with self.writing:
            if id is not None:
                self._on_path(id)
            if id != self._leaf:
                self.extend((self.make(e.Leaf, target=id),))

    def label(self, id: str, text: str) -> None:
        self.extend((self.make(e.Label, target=self[id].id, text=text),))

    def merge(self, messages: Iterable[Any], *, exactly: bool = False) -> Merged:
        """Merges a list that a framework passes (messages, or dicts of any dialect). Known messages are
        recognised on any branch, summaries included; the rest is appended, on a branch if the list departs.
        `exactly`: the path ends where the list ends, even if the session has more (a repeated request)."""
        given = GivenList.of(*parse_list_with_dialects(messages))
        with self.writing:
            news = list_difference(self, given, exactly=exactly)
            if news.branches:
                self.move(news.target)
                for fold in news.folds:
                    fresh = {"id": self.new_id(), "parent": self._leaf, "time": self.clock()}
                    self.append(msgspec.structs.replace(fold, **fresh, usage=None, requests=0))
            added = cast("Sequence[e.MessageEntry]", self.extend(self._chained(news.messages)))
            return Merged(tuple(added), news.branches)

    def refresh(self) -> int:
        """Reads what other writers appended to the store; returns the number of entries. If one has forgotten
        something, everything is read anew."""
        if self.store is None:
            return 0
        with self.writing:
            loaded = self.store.load(self.id, self._stored)
            self._stored += len(loaded.entries)
            # Annotations need no compare-and-swap: another writer's may stand before entries of our own.
            news = [entry for entry in loaded.entries if entry.id not in self._by_id]
            if any(isinstance(entry, e.State) and entry.name == FORGOTTEN_STATE for entry in news):
                loaded = self.store.load(self.id)
                self.info, self.problems = loaded.info or self.info, loaded.problems
                self._begin_again(loaded.entries)
                self._meet(loaded)
                return len(news)
            sound, problems = repaired(news, self._by_id, self._leaf)
            self.problems += tuple(problems)
            for entry in sound:
                self._take(entry)
            self._after = self._tip
            self._meet(loaded)
            return len(news)

    # ── the inside ──────────────────────────────────────────────────────────────────────────────

    def _load(self, entries: Iterable[e.AnyEntry]) -> int:
        """Takes entries that were read; returns their number without holes."""
        wanted = "pass entries; messages are appended, or merged"
        expect(entries, Iterable, wanted)
        read = list(entries)
        for entry in read:
            if not isinstance(entry, e.Entry):
                expect(entry, e.Entry, wanted)
        sound, problems = repaired(read)
        self.problems += tuple(problems)
        self._take_all(sound)
        self._after = self._tip
        return len(read)

    def _begin_again(self, entries: Iterable[e.AnyEntry]) -> None:
        """Resets the session to another past, without derived values."""
        self.generation += 1
        self._clear()
        self._stored = self._load(entries)

    def _meet(self, loaded: Loaded) -> None:
        if loaded.tip is not msgspec.UNSET:
            self._after = loaded.tip

    def _check(self, entries: Sequence[e.AnyEntry]) -> None:
        fresh: set[str] = set()
        for entry in entries:
            if entry.id in self._by_id or entry.id in fresh:
                raise TreeError(f"an entry with the id {entry.id!r} already")
            fresh.add(entry.id)
            parent = parent_of(entry) if entry.on_path else None
            if parent is not None and parent not in fresh:
                above = self._by_id.get(parent)
                if above is None or not above.on_path:
                    raise TreeError(f"{parent!r} is named as a parent but is not in this session")
            if (
                isinstance(entry, e.Fold)
                and entry.parent == self._leaf
                and len(edit_stretches((entry,), self.position)) != len(entry.edits)
            ):
                raise FoldError("an edit names no stretch of the path")


def messages_of(said: object) -> Sequence[Message]:
    """Converts an argument to messages. A string is a user message; a dict is a message or item of any
    dialect. One dict may hold several messages: Anthropic sends all tool results of a turn in one."""
    if isinstance(said, MessageBase):
        return (cast("Message", said),)
    if isinstance(said, str):
        return (user(said),)
    if not isinstance(said, Mapping):
        hint = "; a reply of an SDK goes to engine.observe" if hasattr(type(said), "model_dump") else ""
        raise WrongType(f"expected a message, got {type(said).__name__}: {ACCEPTED_INPUT}{hint}")
    wire = dict(cast("Mapping[str, Any]", said))
    _check_wire(wire)
    try:
        return parse(wire)
    except UsageError as error:
        raise WrongType(f"this dict is not a message: {error}") from None


def _check_wire(wire: Mapping[str, Any]) -> None:
    """Raises for a dict that `parse`, which is lenient, would read as an empty user message."""
    if not isinstance(wire.get("role", wire.get("type")), str):
        raise WrongType(f"this dict has no role: {ACCEPTED_INPUT}")
    if wire.get("role", "user") not in MESSAGE_ROLES:
        raise WrongType(f"unknown role {wire['role']!r}; roles are: {', '.join(MESSAGE_ROLES)}")
    if wire.get("role", "assistant") != "assistant" and "content" not in wire:
        raise WrongType(f"this {wire['role']} message has no content")
