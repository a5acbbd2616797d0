"""Sessions by name: any transcript, or a session kept in a store."""

from __future__ import annotations

import os
import time

from refold.errors import SessionExists, StorageError, UnknownName
from refold.protocols import SessionInfo, Store
from refold.session import Session
from refold.session.tree import random_id


def load(path: str | os.PathLike[str]) -> Session:
    """Any supported transcript as a session in memory. The file is only read."""
    from refold.transcripts import read

    return Session.of(read(path))


def open(spec: str | os.PathLike[str] = "sqlite:", id: str | None = None) -> Session:
    """A stored session, created if it does not exist: `sqlite:agent.db`, `jsonl:FILE`, `memory:`. Appending
    to it is durable on return.

    Synchronous: some 20 ms for 1,000 messages, a fifth of a second for 10,000. On an event loop, `await
    asyncio.to_thread(refold.open, spec, id)`: entries are decoded one by one, so others keep their turns."""
    from refold.stores import open_store

    store, named = open_store(spec)
    chosen = id or named
    if chosen is not None:
        try:
            return stored(store, chosen)
        except UnknownName:
            pass  # a new one
    info = SessionInfo(id=chosen or random_id(), created=time.time())
    try:
        store.create(info)
    except SessionExists:  # somebody else made it in the meantime
        named = chosen or open_store(spec).session
        return stored(store, named or info.id)
    return Session(id=info.id, store=store, info=info)


def stored(store: Store, id: str) -> Session:
    """An existing session of a store."""
    from refold.stores.rows import decoding

    with decoding():
        return Session.of(store.load(id), id=id, store=store)


def session_of(name: str) -> Session:
    """What a command line names as FILE: one of our own files or stores (then it can be changed), or any
    transcript (then it is only read)."""
    from refold.stores import is_store, open_store

    path, mark, id = name.rpartition("#")
    spec = path if mark and path and is_store(path) else name
    if not is_store(spec):
        return load(name)
    store, named = open_store(spec)
    chosen = id if spec == path else named
    if chosen is None:
        chosen = _only(store, name)
    return stored(store, chosen)


def save(session: Session, path: str | os.PathLike[str]) -> None:
    """Write the whole log of a session to a new file of our own format."""
    from refold.stores.jsonl import write

    write(path, session.info, session.entries)


def _only(store: Store, name: str) -> str:
    ids = [info.id for info in store.sessions()]
    if len(ids) == 1:
        return ids[0]
    if not ids:
        raise StorageError(f"{name} holds no session")
    raise StorageError(
        f"{name} holds {len(ids)} sessions: name one as {name}#ID (`refold sessions` lists them)"
    )
