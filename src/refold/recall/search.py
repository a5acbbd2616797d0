"""From a log to an index, and from an index to hits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Unpack

from refold import entries as e
from refold.cancellation import checkpoint
from refold.messages import Bash, Message
from refold.recall.index import Index
from refold.recall.query import DEFAULT_HITS, Conditions, Hit, search
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
