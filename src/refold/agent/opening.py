"""Sessions of conversations in a folder: a new one, one by its id, the newest one."""

from __future__ import annotations

import time
from pathlib import Path

from refold.agent.chat import SUB_AGENT
from refold.errors import UsageError
from refold.protocols import SessionInfo, Store
from refold.registry.sessions import find, stored
from refold.session import Session
from refold.session.tree import random_id


def fresh(root: Path) -> Session:
    """A new conversation in a folder. It is stored with the first words."""
    info = SessionInfo(id=random_id(), created=time.time(), cwd=str(root))
    return Session(info=info)


def resumed(store: Store, root: Path, id: str) -> Session:
    """The conversation of that id, or of one that begins so; it belongs to its folder."""
    info = find(store, id)
    if info.cwd not in (None, str(root)):
        raise UsageError(f"the conversation {id!r} is about {info.cwd}: go on with it there")
    return stored(store, info.id)


def here(store: Store, root: Path) -> list[SessionInfo]:
    """The conversations in this folder, the one that was used last first; those of sub-agents belong to
    theirs."""
    infos = [s for s in store.sessions() if s.cwd == str(root) and not s.id.startswith(SUB_AGENT)]
    return sorted(infos, key=lambda info: -info.updated)


def newest(store: Store, root: Path) -> Session:
    infos = here(store, root)
    if not infos:
        raise UsageError(f"there is no conversation in {root} to continue: start one without --continue")
    return stored(store, infos[0].id)
