"""Sessions of conversations in a folder: a new one, one by its id, the newest one."""

from __future__ import annotations

import time
from pathlib import Path

from refold.agent.chat import SUB_AGENT
from refold.errors import UnknownName, UsageError
from refold.protocols import SessionInfo, Store
from refold.registry.sessions import stored
from refold.session import Session
from refold.session.tree import random_id


def fresh(root: Path) -> Session:
    """A new conversation in a folder. It is stored with the first words."""
    info = SessionInfo(id=random_id(), created=time.time(), cwd=str(root))
    return Session(info=info)


def listed(store: Store, root: Path) -> list[SessionInfo]:
    """The conversations in a folder, newest first; those of sub-agents belong to theirs."""
    here = [s for s in store.sessions() if s.cwd == str(root) and not s.id.startswith(SUB_AGENT)]
    return sorted(here, key=lambda info: info.updated, reverse=True)


def resumed(store: Store, root: Path, id: str) -> Session:
    """The conversation of that id, or of one that begins so; it belongs to its folder."""
    try:
        session = stored(store, id)
        if session.info.cwd not in (None, str(root)):
            raise UsageError(f"the conversation {id!r} is about {session.info.cwd}: go on with it there")
        return session
    except UnknownName:
        found = [info.id for info in listed(store, root) if info.id.startswith(id)]
    if len(found) != 1:
        why = f"{len(found)} conversations begin with {id!r}" if found else f"there is no conversation {id!r}"
        raise UsageError(f"{why}: `refold sessions list` shows them all")
    return stored(store, found[0])


def newest(store: Store, root: Path) -> Session:
    """The conversation in this folder that was used last."""
    infos = listed(store, root)
    if not infos:
        raise UsageError(f"there is no conversation in {root} to continue: start one without --continue")
    return stored(store, infos[0].id)
