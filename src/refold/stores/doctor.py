"""Looks for what is wrong with a store, repairs what can be repaired, and says what cannot.

Each kind of store knows its own damage (`doctor_jsonl`, `doctor_sqlite`); here is what they share.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from refold.entries import Hole
from refold.protocols import Examinable, Finding, Store
from refold.session.holes import Mended

NAMED = 20
"""Lost entries that are told one by one."""


def examine(store: Store, *, repair: bool = False) -> list[Finding]:
    """Everything that is wrong with a store; empty if it is well."""
    return store.examine(repair=repair) if isinstance(store, Examinable) else []


def done(repair: bool) -> Literal["repaired", "repairable"]:
    return "repaired" if repair else "repairable"


def rights(path: Path, repair: bool) -> Iterator[Finding]:
    """Changed by name: opening a database by other means than SQLite would drop its locks."""
    if os.name != "posix" or not path.exists():
        return
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        if repair:
            path.chmod(0o600)
        yield Finding(str(path), f"others can read it (mode {mode:o})", done(repair))


def losses(where: str, tree: Mended, bytes_at: str) -> Iterator[Finding]:
    """What is lost, and where what is left of it may be."""
    holes = [entry for entry in tree.entries if isinstance(entry, Hole)]
    texts = [f"entry {hole.id!r} {hole.role}".strip() + f" is lost: {hole.why}; {bytes_at}" for hole in holes]
    named = {f"entry {hole.id}" for hole in holes}
    texts += [f"{problem.where}: {problem.text}" for problem in tree.problems if problem.where not in named]
    if len(texts) > NAMED:
        texts[NAMED:] = [f"… and {len(texts) - NAMED} more"]
    return (Finding(where, text, "lost") for text in texts)
