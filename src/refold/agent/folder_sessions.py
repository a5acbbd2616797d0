"""Sessions of conversations in a folder: a new one, one by its id, the newest one."""

from __future__ import annotations

import time
from pathlib import Path

from refold.agent.chat import SUB_AGENT
from refold.errors import UsageError
from refold.protocols import SessionInfo, Store
from refold.registry.sessions import find_session, stored
from refold.session import Session
from refold.session.tree import random_id


def fresh(root: Path) -> Session:
    """A new conversation in a folder. It is stored with the first words."""
    info = SessionInfo(id=random_id(), created=time.time(), cwd=str(root))
    return Session(info=info)


def resumed(store: Store, root: Path, id: str) -> Session:
    """The conversation with that id, or with an id that begins so, if it belongs to this folder."""
    info = find_session(store, id)
    if info.cwd not in (None, str(root)):
        raise UsageError(f"conversation {id!r} belongs to {info.cwd}; resume it in that folder")
    return stored(store, info.id)


def here(store: Store, root: Path) -> list[SessionInfo]:
    """The conversations in this folder without those of sub-agents, the one used last first."""
    infos = [s for s in store.sessions() if s.cwd == str(root) and not s.id.startswith(SUB_AGENT)]
    return sorted(infos, key=lambda info: -info.updated)


def newest(store: Store, root: Path) -> Session:
    infos = here(store, root)
    if not infos:
        raise UsageError(f"no conversation to continue in {root}; start one without --continue")
    return stored(store, infos[0].id)
