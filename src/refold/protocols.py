"""The seams, on one page: what a model, a store and a token counter have to do; a tool: `tools/base.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from refold.entries import AnyEntry
from refold.messages import AnyPart, Message, Stop, Usage

# ── models ──────────────────────────────────────────────────────────────────────────────────────


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model is told about it. `parameters` is a JSON schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = {}


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a model."""

    messages: tuple[Message, ...]
    system: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    timeout: float | None = None
    purpose: str = "chat"
    """chat · summary · turn_prefix · line · memory · branch: for logs, scripts and price lists."""
    stable: int = 0
    """How many of the messages a prompt cache may keep (the prefix shared with the last request)."""


class TextDelta(msgspec.Struct, frozen=True, tag=True):
    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, tag=True):
    text: str


class PartDone(msgspec.Struct, frozen=True, tag=True):
    """A complete part (text, thinking with its signature, a tool call …). It comes after the deltas that
    belong to it and stands for them: show deltas, keep parts."""

    part: AnyPart


class UsageSeen(msgspec.Struct, frozen=True, tag=True):
    usage: Usage


class Stopped(msgspec.Struct, frozen=True, tag=True):
    """Always the last event of a reply; a stream that ends without it was cut off."""

    reason: Stop


Event: TypeAlias = TextDelta | ThinkingDelta | PartDone | UsageSeen | Stopped


@runtime_checkable
class Model(Protocol):
    """Something that answers. Raises only `ModelError`s; closing the iterator frees the connection."""

    @property
    def name(self) -> str:
        """`provider:model`, as in `refold.model(name)`."""
        ...

    @property
    def context_window(self) -> int | None: ...

    def stream(self, request: Request) -> AsyncIterator[Event]: ...


@runtime_checkable
class NativeTools(Protocol):
    """Optional power: the model says whether it takes tool definitions. One that does not say takes them."""

    @property
    def native_tools(self) -> bool: ...


# ── stores ──────────────────────────────────────────────────────────────────────────────────────


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `refold sessions`."""

    id: str
    created: float = 0.0
    updated: float = 0.0
    name: str | None = None
    cwd: str | None = None
    entries: int = 0
    bytes: int = 0


class Problem(msgspec.Struct, frozen=True):
    """Something that could not be understood; `where` is a line, row or path."""

    where: str
    text: str
    raw: bytes = b""


class Loaded(msgspec.Struct, frozen=True):
    """What a store or an importer read: entries in log order, and what it could not read."""

    entries: tuple[AnyEntry, ...]
    problems: tuple[Problem, ...] = ()
    info: SessionInfo | None = None
    tip: str | msgspec.UnsetType | None = msgspec.UNSET
    """The last moving entry, as the store's compare-and-swap knows it, even where it cannot be read any more.
    Unset: the last one of `entries`."""


@runtime_checkable
class Store(Protocol):
    """Keeps logs. Synchronous; an append is durable when it returns; entries are never interpreted
    beyond their `id` and `moves`."""

    def create(self, info: SessionInfo) -> None:
        """Make an empty session; `Conflict` if the id is taken."""
        ...

    def append(self, session: str, entries: Sequence[AnyEntry], *, after: str | None) -> None:
        """Append all or nothing. If any of the entries `moves`, the last moving entry in the store must
        be `after` (None: there is none yet), otherwise `Conflict` and nothing is written."""
        ...

    def load(self, session: str, start: int = 0) -> Loaded:
        """Entries from log position `start` on."""
        ...

    def sessions(self) -> Iterator[SessionInfo]: ...

    def delete(self, session: str) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class Lines(Protocol):
    """Optional ability of a store: the stored bytes themselves, so that moving a session keeps even what this
    release cannot read."""

    def lines(self, session: str) -> Iterator[bytes]:
        """Every stored line in order, those that are no entries included."""
        ...

    def append_lines(self, session: str, lines: Sequence[bytes], *, after: str | None) -> None:
        """Like `append`, for lines as `lines` gives them."""
        ...


@runtime_checkable
class Grouping(Protocol):
    """Optional ability of a store: several calls, also of several sessions, are one commit."""

    def grouped(self) -> AbstractContextManager[object]:
        """What this thread writes within the block is durable when the block ends: all of it, or, where the
        block or the commit fails, none. Then sessions in memory are ahead of the store: open them again."""
        ...


@runtime_checkable
class Lookup(Protocol):
    """Optional ability of a store: it finds sessions by how their ids begin, without reading the others."""

    def beginning(self, text: str, limit: int) -> list[SessionInfo]:
        """Sessions whose ids begin so, ordered by id: one of just that id is the first."""
        ...


@runtime_checkable
class Placed(Protocol):
    """Optional ability of a store: it is a file or a folder, which may not be there yet."""

    @property
    def path(self) -> object:
        """Its `str` is the path."""
        ...


class Finding(msgspec.Struct, frozen=True):
    """Something that is wrong with a store. `repaired`; `repairable` (by asking for it); `lost`: an entry is
    gone, the text says which and where its bytes are, and everything else opens; `lasting`: it does not
    open, and the text says why."""

    where: str
    text: str
    state: Literal["repaired", "repairable", "lost", "lasting"]


@runtime_checkable
class Examinable(Protocol):
    """Optional ability of a store: it can look for damage. One that cannot counts as well."""

    def examine(self, *, repair: bool = False) -> list[Finding]:
        """Everything that is wrong; empty if it is well. With `repair`, what can be is repaired."""
        ...


@runtime_checkable
class Backups(Protocol):
    """Optional ability of a store: a complete copy in one new file, taken while others may write."""

    def backup(self, target: str) -> None: ...


@runtime_checkable
class Forgets(Protocol):
    """Optional ability of a store: content can be taken out of it for good."""

    def replace(self, session: str, entries: Mapping[str, AnyEntry], *, after: str | None) -> None:
        """Put entries in the place of those with the same ids, all of them or none; no byte of the old ones
        stays in the store's files, nor the name that the session was created with (names that entries tell
        count). `Conflict` unless the last moving entry is `after`; `StorageError` where another writer has
        the store open and would write the old ones again."""
        ...


class AppendWatch(Protocol):
    """Watches one session for appends, from its creation on."""

    def wait(self, timeout: float) -> bool:
        """Wait until something may have been appended; False after `timeout` seconds without."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Watches(Protocol):
    """Optional ability of a store: it reports appends, so that no polling is needed (`stores.watcher`)."""

    def watch(self, session: str) -> AppendWatch: ...


class Candidate(msgspec.Struct, frozen=True):
    session: str
    entry_id: str
    score: float


@runtime_checkable
class Searchable(Protocol):
    """Optional ability of a store: candidates for recall, best first."""

    def search(
        self, terms: Iterable[str], *, session: str | None = None, limit: int = 200
    ) -> list[Candidate]: ...


# ── counting ────────────────────────────────────────────────────────────────────────────────────


@runtime_checkable
class TokenCounter(Protocol):
    """Counts; pure and deterministic. `name` keys the caches."""

    @property
    def name(self) -> str: ...

    def text(self, text: str) -> int: ...

    def message(self, message: Message) -> int:
        """The whole message, the wire's framing of it included."""
        ...

    def tools(self, tools: Sequence[Any]) -> int:
        """Tool definitions in any dialect's shape."""
        ...


@runtime_checkable
class Additive(Protocol):
    """A counter for which a message is its frame and its texts."""

    @property
    def additive(self) -> bool: ...
