"""Stored results, so that finished work is not repeated: a session in a store, one entry per result.

Like any session it survives a killed process, can have several writers and works in any store. The newest
entry for a key wins.
"""

from __future__ import annotations

import hashlib
import re
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from refold.entries import State
from refold.errors import SessionExists, StorageError, UnknownName
from refold.messages import compact_json
from refold.protocols import SessionInfo, Store
from refold.session.tree import random_id

DAYS = 30
"""Days results are kept after the last addition."""
_ID = re.compile(r"(?:compare|discover|import)-[0-9a-f]{24}")
"""Sessions of results; the store may have others."""


class StoredResults:
    """Results by key. `store` belongs to the caller."""

    def __init__(self, store: Store, id: str, *, anew: bool = False) -> None:
        """`anew`: ignore results stored before."""
        self.store, self.id = store, id
        self.failure: str | None = None
        """Why writing stopped; work goes on without it."""
        try:
            entries = store.load(id).entries
        except UnknownName:
            entries = ()
            with suppress(SessionExists):  # another process does the same work
                store.create(SessionInfo(id=id))
        states = [entry for entry in entries if isinstance(entry, State) and not anew]
        self._values = {entry.name: entry.value for entry in states}

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __len__(self) -> int:
        return len(self._values)

    def put(self, key: str, value: Any) -> None:
        """Write `value` (JSON) without keeping it in memory."""
        if self.failure is not None:
            return
        try:
            entry = State(id=random_id(), time=time.time(), name=key, value=value)
            self.store.append(self.id, (entry,), after=None)
        except StorageError as error:
            self.failure = str(error)


def forget_old(store: Store, now: float) -> None:
    """Delete results with no additions for `DAYS`."""
    for info in list(store.sessions()):
        if info.updated < now - DAYS * 86_400 and _ID.fullmatch(info.id):
            store.delete(info.id)


def short_digest(*parts: Any) -> str:
    return hashlib.blake2b(compact_json(parts).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def file_key(path: Path, *parts: Any) -> str | None:
    """Key for a file and what is asked of it: changes with name and content. None if the file cannot be read
    (the job reports why)."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            content = hashlib.file_digest(stream, "blake2b").hexdigest()
    except (OSError, ValueError):
        return None
    return short_digest(str(path), content, *parts)


@cache
def release() -> str:
    """Identifies the code that made a result: this package's files (the version number changes less often)
    and the version of the token counter."""
    from importlib.metadata import PackageNotFoundError, version

    root = Path(__file__).parents[1]
    total = hashlib.blake2b(digest_size=12)
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            total.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    try:
        counter = version("splintr-rs")
    except PackageNotFoundError:
        counter = ""
    return f"{total.hexdigest()} {counter}"
