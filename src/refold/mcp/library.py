"""What the server can look at: shelves of sessions, each with a name, and the notes of the user.

A session is called `SHELF:ID`. Only the user's own stores can be changed; nothing here opens a path that a
client names.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import msgspec

from refold.entries import key
from refold.errors import UnknownName, UsageError
from refold.mcp.mirror import Mirror
from refold.messages import searchable
from refold.protocols import SessionInfo, Store
from refold.recall import Found, Hit
from refold.recall.ask import snippet
from refold.registry.search import search
from refold.registry.sessions import stored
from refold.session import Session
from refold.session.edits import said_by
from refold.stores.memory_file import MemoryFile
from refold.stores.quoted import Quoted, Quoting
from refold.text.words import plain, terms

OPEN = 8
"""Sessions that are kept open."""
FILE = 20
"""How many entries are looked through for each that shall name a file."""


class Shelf(msgspec.Struct, frozen=True):
    name: str
    store: Store
    mirror: Mirror | None = None

    @property
    def writable(self) -> bool:
        return self.mirror is None


class Row(msgspec.Struct, frozen=True):
    """A session and where it stands."""

    shelf: str
    info: SessionInfo

    @property
    def name(self) -> str:
        return f"{self.shelf}:{self.info.id}"


class Library:
    def __init__(self, shelves: Sequence[Shelf], memory: MemoryFile) -> None:
        self.shelves = {shelf.name: shelf for shelf in shelves}
        self.memory = memory
        self._open: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.RLock()

    def refresh(self) -> None:
        """Look for new sessions of other programs, in the background: nobody waits for it."""
        for shelf in self.shelves.values():
            if shelf.mirror is not None and shelf.mirror.stale:
                threading.Thread(target=shelf.mirror.refresh, daemon=True).start()

    @property
    def unread(self) -> list[str]:
        """Shelves that are still being read for the first time."""
        return [s.name for s in self.shelves.values() if s.mirror and not s.mirror.ready.is_set()]

    def rows(self, shelf: str | None = None) -> list[Row]:
        """Sessions, the one that changed last first."""
        found = [Row(one.name, info) for one in self._chosen(shelf) for info in one.store.sessions()]
        return sorted(found, key=lambda row: (-(row.info.updated or row.info.created), row.name))

    def session(self, name: str, *, writing: bool = False) -> Session:
        """The session called `SHELF:ID`; `UnknownName` where there is none."""
        shelf_name, colon, id = name.partition(":")
        if not colon or shelf_name not in self.shelves:
            raise UnknownName("session", name[:80], tuple(f"{shelf}:ID" for shelf in self.shelves))
        shelf = self.shelves[shelf_name]
        if writing and not shelf.writable:
            raise UsageError(f"sessions of {shelf.name} are only read: this program keeps them itself")
        with self._lock:
            session = self._open.pop(name, None)
            session = stored(shelf.store, id) if session is None else self._fresh(session, shelf, id)
            self._open[name] = session
            while len(self._open) > OPEN:
                self._open.popitem(last=False)
            return session

    def _fresh(self, session: Session, shelf: Shelf, id: str) -> Session:
        """As it is now: others may have appended, or a mirror may have read it anew."""
        if shelf.writable:
            session.refresh()
            return session
        info = next((info for info in shelf.store.sessions() if info.id == id), None)
        same = info is not None and (info.entries, info.updated) == (len(session), session.info.updated)
        return session if same else stored(shelf.store, id)

    def recall(
        self, query: str, *, limit: int, file: str | None, shelf: str | None
    ) -> Iterator[tuple[str, Found]]:
        """The best hits of all sessions, best first, each with its shelf."""
        found = [
            (one.name, hit)
            for one in self._chosen(shelf)
            for hit in _found(one.store, query or file or "", limit, file)
        ]
        found.sort(key=lambda pair: -pair[1].hit.score)
        yield from found[:limit]

    def _chosen(self, shelf: str | None) -> list[Shelf]:
        if shelf is None:
            return list(self.shelves.values())
        if shelf not in self.shelves:
            raise UnknownName("shelf", shelf[:80], tuple(self.shelves))
        return [self.shelves[shelf]]


def _found(store: Store, query: str, limit: int, file: str | None) -> list[Found]:
    """What one store knows of it. A database hands out the entries themselves; others are read."""
    if not isinstance(store, Quoting):
        return list(search(store, query, limit=limit, file=file).found)
    words, hits = terms(query), list[Found]()
    for session, entry, score in _asked(store, query, limit * (FILE if file else 1)):
        message = said_by(entry)
        text = searchable(message) if message is not None else ""
        if message is None or (file and file.lower() not in text.lower()):
            continue
        hit = Hit(entry.id, key(entry.id), 0, score, snippet(text, words), message.role, entry.time)
        hits.append(Found(session, hit))
        if len(hits) == limit:
            break
    return hits


def _asked(store: Quoting, query: str, limit: int) -> list[Quoted]:
    """Entries with all of the words, then those with some. A name or a path (`src/a.py`) has parts that stand
    everywhere: where all of them are found together, nothing else is meant."""
    words = plain(query) or query.split()
    found = store.quoted(words, limit=limit, every=True)
    if len(found) >= limit or (found and len(query.split()) == 1):
        return found
    seen = {(each.session, each.entry.id) for each in found}
    more = store.quoted(words, limit=limit)
    return [*found, *(each for each in more if (each.session, each.entry.id) not in seen)]
