"""Sessions by name: any transcript, or a stored session."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from types import NoneType

from refold import format as stored_format
from refold.entries import MessageEntry
from refold.errors import RefoldError, SessionExists, StorageError, UnknownName, UsageError, expect
from refold.facts.words import typed
from refold.protocols import Lines, Lookup, Placed, SessionInfo, Store
from refold.session import Session
from refold.session.tree import random_id
from refold.stores import default_database, is_store, open_store, without_password
from refold.stores.rows import decoding
from refold.text.redact import redact

MAX_COUNTED_SESSIONS = 100
"""Maximum number of sessions counted for an ambiguous id."""


def load(path: str | os.PathLike[str]) -> Session:
    """Any supported transcript as a session in memory. The file is only read."""
    from refold.transcripts import read

    return Session.of(read(path))


def open(spec: str | os.PathLike[str] = "sqlite:", id: str | None = None) -> Session:
    """A stored session, created if it does not exist: `sqlite:agent.db`, `jsonl:FILE`, `memory:`. Appends
    are durable on return.

    Synchronous: some 20 ms for 1,000 messages, a fifth of a second for 10,000. On an event loop, `await
    asyncio.to_thread(refold.open, spec, id)`.
    """
    expect(id, (str, NoneType), "the session id must be a string")
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
    except SessionExists:  # another process made it in the meantime
        named = chosen or open_store(spec).session
        return stored(store, named or info.id)
    return Session(id=info.id, store=store, info=info)


def stored(store: Store, id: str) -> Session:
    """An existing session of a store."""
    with decoding():
        return Session.of(store.load(id), id=id, store=store)


def named_session(name: str) -> Session:
    """The session that FILE names: refold's own (it can be changed), or any transcript (only read)."""
    if not name.strip():
        raise UsageError("FILE is empty: name a transcript or a session; `refold sessions` lists ids")
    path, mark, id = name.rpartition("#")
    spec = path if mark and path and is_store(path) else name
    if not is_store(spec):
        own = None if Path(name).exists() else _of_own(name)
        return load(name) if own is None else own
    store, named = open_store(spec)
    if isinstance(store, Placed) and not Path(str(store.path)).exists():
        raise StorageError(f"{store.path} does not exist; `refold sessions` lists your own sessions")
    chosen = id if spec == path else named
    return stored(store, _only(store, name) if chosen is None else find_session(store, chosen).id)


def find_session(store: Store, beginning: str) -> SessionInfo:
    """The session with that id, or the only one whose id begins with it."""
    matching = (
        store.beginning(beginning, MAX_COUNTED_SESSIONS)
        if isinstance(store, Lookup)
        else sorted((info for info in store.sessions() if info.id.startswith(beginning)), key=lambda i: i.id)
    )
    if not matching:
        raise UnknownName("session", beginning, hint="`refold sessions` lists them")
    if len(matching) > 1 and matching[0].id != beginning:
        number = f"{len(matching)}{' or more' if len(matching) == MAX_COUNTED_SESSIONS else ''}"
        raise UsageError(f"{number} session ids begin with {beginning}: give more of the id")
    return matching[0]


def newest_session(*, own: bool = False) -> str:
    """The session used last, in the form that `named_session` takes: from the user's own store or, unless
    only those are wanted, another program on this machine."""
    from refold.registry.client_sessions import folders
    from refold.transcripts.importing import find_transcripts as find_files

    found: list[tuple[float, str]] = []
    if default_database().exists():
        with closing(open_store("sqlite:").store) as store:
            found = [(info.updated, info.id) for info in store.sessions()]
    for path, _ in () if own else find_files(path for path in folders().values() if path.exists()):
        with suppress(OSError):
            found.append((path.stat().st_mtime, str(path)))
    for _, name in sorted(found, reverse=True):
        if session := _session_at(name):
            return session
    raise UsageError("no sessions yet: `refold import` imports those of other programs")


def _session_at(name: str) -> str | None:
    """A session's name: of a file with a conversation, not a sub-agent's; of a database its newest."""
    from refold.transcripts import detect
    from refold.transcripts.base import HEAD_BYTES
    from refold.transcripts.opencode_db import sessions_in

    path = Path(name)
    if not path.is_absolute():
        return name
    if path.name.startswith("agent-"):
        return None
    with suppress(OSError, RefoldError, sqlite3.Error):
        if path.suffix == ".db":
            return f"{name}#{len(list(sessions_in(path) or ())) - 1}"
        with path.open("rb") as stream:
            detect(stream.read(HEAD_BYTES))
        return name
    return None


def session_title(store: Store, info: SessionInfo) -> str:
    """The name or the first request of a session; without secrets, because lists show it."""
    named = info.name != info.id and info.name
    if named or not isinstance(store, Lines):
        return redact(named or "")[0]
    with suppress(RefoldError):  # a file under another name than its session, or damaged
        for line in store.lines(info.id):
            entry = stored_format.decode(line)
            if isinstance(entry, MessageEntry) and (said := typed(entry.message).strip()):
                return redact(said)[0]
    return ""


def save(session: Session, path: str | os.PathLike[str], *, replace: bool = False) -> None:
    """Writes the whole log to a file in refold's format; an old one is overwritten if told so."""
    from refold.stores.jsonl import write_session_file

    write_session_file(path, session.info, session.entries, replace=replace)


def _of_own(name: str) -> Session | None:
    """The session of the user's own database with this id or prefix of one."""
    if not default_database().exists():
        return None
    store = open_store("sqlite:").store
    try:
        return stored(store, find_session(store, name).id)
    except UnknownName:
        store.close()
        return None


def _only(store: Store, name: str) -> str:
    ids = [info.id for info in store.sessions()]
    if len(ids) == 1:
        return ids[0]
    name = without_password(name)
    if not ids:
        raise StorageError(f"{name} contains no session")
    raise StorageError(
        f"{name} holds {len(ids):,} sessions; name one as {name}#ID (`refold sessions` lists them)"
    )
