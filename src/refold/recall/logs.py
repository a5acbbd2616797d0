"""From a log to an index, and from an index to hits; in one log, or in several that are ranked together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple, Unpack

import msgspec

from refold import entries as e
from refold.cancellation import checkpoint
from refold.messages import Bash, Message
from refold.recall.index import Index
from refold.recall.query import DEFAULT_HITS, MAX_HITS, Conditions, Hit, search
from refold.session.edits import said_by
from refold.session.history import History, starts_turn


class LoggedMessage(NamedTuple):
    """An entry with a message. `apart`: it does not follow the entry before it in the log."""

    entry_id: str
    message: Message
    turn: int
    time: float
    apart: bool


class Reader:
    """Reads a log in order: all branches, folded or not, without the folds themselves."""

    def __init__(self) -> None:
        self._turn: dict[str | None, int] = {}
        self._last: str | None = None

    def said(self, entry: e.AnyEntry) -> LoggedMessage | None:
        if not isinstance(entry, e.PathEntry):
            return None
        turn = self._turn[entry.id] = self._turn.get(entry.parent, 0) + starts_turn(entry)
        apart, self._last = entry.parent != self._last, entry.id
        message = said_by(entry)
        if message is None or (isinstance(message, Bash) and message.hidden):
            return None
        return LoggedMessage(entry.id, message, turn, entry.time, apart)


class LogIndex(Index):
    """The index of a growing log."""

    def __init__(self, entries: Iterable[e.AnyEntry] = ()) -> None:
        super().__init__()
        self.read = 0
        """Number of log entries indexed."""
        self._reader = Reader()
        self.extend(entries)

    def extend(self, entries: Iterable[e.AnyEntry]) -> None:
        for entry in entries:
            checkpoint()
            self.read += 1
            if said := self._reader.said(entry):
                self.add(said.entry_id, said.message, said.turn, said.time, apart=said.apart)


def index_of(session: History) -> LogIndex:
    """The index of a history, cached with it and extended by new entries."""
    index = session.derived.of(LogIndex, LogIndex)
    index.extend(session.entries[index.read :])
    index.numbered = session.path
    return index


def index_of_path(session: History, leaf: str | None) -> LogIndex:
    """The index of one path alone; other branches cannot be found in it. That of the last path is kept."""
    kept, path = session.derived.of(index_of_path, lambda: [LogIndex()]), session.path_to(leaf)
    if kept[0].numbered[: kept[0].read] != path[: kept[0].read]:
        kept[0] = LogIndex()
    kept[0].extend(path[kept[0].read :])
    kept[0].numbered = path
    return kept[0]


def recall(
    session: History, query: str = "", *, limit: int = DEFAULT_HITS, **conditions: Unpack[Conditions]
) -> list[Hit]:
    """`search` over everything that was said in the session."""
    return search(index_of(session), query, limit=limit, **conditions)


# ── several logs ────────────────────────────────────────────────────────────────────────────────

REACH = 3
"""Entries before and after a candidate that take part in its ranking."""


class SearchedLog(msgspec.Struct, frozen=True):
    """A session's log. In a large one only the `candidates` and their neighbours are ranked."""

    session: str
    entries: Sequence[e.AnyEntry]
    candidates: Container[str] | None = None


class Found(msgspec.Struct, frozen=True):
    """A hit and its session."""

    session: str
    hit: Hit


def search_logs(
    logs: Iterable[SearchedLog],
    query: str,
    *,
    limit: int = DEFAULT_HITS,
    each: int | None = None,
    **conditions: Unpack[Conditions],
) -> list[Found]:
    """The best hits in all logs, best first, ranked as in a single session; at most `each` per session.
    `conditions`: see `search`."""
    index = Index()
    names: list[tuple[str, str]] = []
    for log in logs:
        for said in _near(log):
            # Two sessions may use the same entry id.
            index.add(str(len(names)), said.message, said.turn, said.time, apart=said.apart)
            names.append((log.session, said.entry_id))
    hits = search(index, query, limit=limit if each is None else MAX_HITS, **conditions)
    found: list[Found] = []
    seen: Counter[str] = Counter()
    for hit in hits:
        session, entry_id = names[int(hit.entry_id)]
        seen[session] += 1
        if each is None or seen[session] <= each:
            found.append(Found(session, msgspec.structs.replace(hit, entry_id=entry_id, key=e.key(entry_id))))
    return found[:limit]


def _near(log: SearchedLog) -> Iterator[LoggedMessage]:
    """The candidates with their neighbours; a gap starts a new stretch."""
    reader = Reader()
    everything = [said for entry in log.entries if (said := reader.said(entry))]
    last = -1
    for at in _chosen(everything, log.candidates):
        yield everything[at] if at == last + 1 and at else everything[at]._replace(apart=True)
        last = at


def _chosen(everything: Sequence[LoggedMessage], candidates: Container[str] | None) -> Iterable[int]:
    if candidates is None:
        return range(len(everything))
    found = [at for at, said in enumerate(everything) if said.entry_id in candidates]
    reach = {near for at in found for near in range(max(0, at - REACH), at + REACH + 1)}
    return sorted(near for near in reach if near < len(everything))
