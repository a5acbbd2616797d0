"""Looks for what is wrong with a store, repairs what can be repaired, and says what cannot.

Each kind of store knows its own damage (`doctor_jsonl`, `doctor_sqlite`); here is what they share.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from refold.protocols import Examinable, Finding, Store
from refold.stores.rows import Row


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


def doubles(where: str, found: Iterable[Row]) -> Iterator[Finding]:
    counted = Counter(row.entry.id for row in found if row.entry is not None)
    if doubled := [id for id, count in counted.items() if count > 1]:
        yield Finding(where, f"{len(doubled)} ids occur twice, the first is {doubled[0]!r}", "lasting")
