"""Named collections of sessions that the server can read, and the user's notes.

A session is called `COLLECTION:ID`. Only the user's own stores can be changed; no path named by a client is
opened.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import msgspec

from refold.entries import key
from refold.errors import UnknownName, UsageError
from refold.mcp.synced_sessions import SyncedSessions
from refold.messages import searchable
from refold.protocols import SessionInfo, Store
from refold.recall import Found, Hit
from refold.recall.query import snippet
from refold.registry.search import search_store
from refold.registry.sessions import find_session, stored
from refold.session import Session
from refold.session.edits import said_by
from refold.stores.entry_search import Quoted, Quoting
from refold.stores.memory_file import MemoryFile
from refold.text.words import search_words, terms

MAX_OPEN_SESSIONS = 8
FILE = 20
"""Number of candidates examined per hit that must name a file."""


class Collection(msgspec.Struct, frozen=True):
    name: str
    store: Store
    synced: SyncedSessions | None = None

    @property
    def writable(self) -> bool:
        return self.synced is None


class ListedSession(msgspec.Struct, frozen=True):
    collection: str
    info: SessionInfo

    @property
    def name(self) -> str:
        return f"{self.collection}:{self.info.id}"


class Collections:
    def __init__(self, collection_list: Sequence[Collection], memory: MemoryFile) -> None:
        self.by_name = {collection.name: collection for collection in collection_list}
        self.memory = memory
        self._open: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.RLock()

    def refresh(self) -> None:
        """Looks for new sessions of other programs in the background."""
        for collection in self.by_name.values():
            if collection.synced is not None and collection.synced.stale:
                threading.Thread(target=collection.synced.refresh, daemon=True).start()

    @property
    def unread(self) -> list[str]:
        """Collections that are being read for the first time."""
        return [s.name for s in self.by_name.values() if s.synced and not s.synced.ready.is_set()]

    def rows(self, collection: str | None = None) -> list[ListedSession]:
        """Sessions, most recently changed first."""
        found = [
            ListedSession(one.name, info) for one in self._chosen(collection) for info in one.store.sessions()
        ]
        return sorted(found, key=lambda row: (-(row.info.updated or row.info.created), row.name))

    def session(self, name: str, *, writing: bool = False) -> Session:
        """The session called `COLLECTION:ID`; raises `UnknownName`."""
        collection_name, colon, id = name.partition(":")
        if not colon or collection_name not in self.by_name:
            raise UnknownName("session", name[:80], tuple(f"{collection}:ID" for collection in self.by_name))
        collection = self.by_name[collection_name]
        if writing and not collection.writable:
            raise UsageError(f"sessions of {collection.name} are read-only: they belong to that program")
        with self._lock:
            session = self._open.pop(name, None)
            session = (
                stored(collection.store, id) if session is None else self._fresh(session, collection, id)
            )
            self._open[name] = session
            while len(self._open) > MAX_OPEN_SESSIONS:
                self._open.popitem(last=False)
            return session

    def _fresh(self, session: Session, collection: Collection, id: str) -> Session:
        """The session, updated with what others appended or a file that was reread."""
        if collection.writable:
            session.refresh()
            return session
        info = find_session(collection.store, id)
        same = info.id == id and (info.entries, info.updated) == (len(session), session.info.updated)
        return session if same else stored(collection.store, id)

    def recall(
        self, query: str, *, limit: int, file: str | None, collection: str | None
    ) -> Iterator[tuple[str, Found]]:
        """The best hits of all sessions, best first, each with its collection."""
        found = [
            (one.name, hit)
            for one in self._chosen(collection)
            for hit in _found(one.store, query or file or "", limit, file)
        ]
        found.sort(key=lambda pair: -pair[1].hit.score)
        yield from found[:limit]

    def _chosen(self, collection: str | None) -> list[Collection]:
        if collection is None:
            return list(self.by_name.values())
        if collection not in self.by_name:
            raise UnknownName("collection", collection[:80], tuple(self.by_name))
        return [self.by_name[collection]]


def _found(store: Store, query: str, limit: int, file: str | None) -> list[Found]:
    """Hits in one store. A database returns the entries themselves; other stores are read."""
    if not isinstance(store, Quoting):
        return list(search_store(store, query, limit=limit, file=file).found)
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
    """Entries with all of the words, then those with some. Parts of a name or path (`src/a.py`) are common,
    so entries with all of them suffice."""
    words = search_words(query) or query.split()
    found = store.quoted(words, limit=limit, every=True)
    if len(found) >= limit or (found and len(query.split()) == 1):
        return found
    seen = {(each.session, each.entry.id) for each in found}
    more = store.quoted(words, limit=limit)
    return [*found, *(each for each in more if (each.session, each.entry.id) not in seen)]
