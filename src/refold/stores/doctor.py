"""Checks a store for damage and repairs what can be repaired.

Each kind of store has its own checks (`doctor_jsonl`, `doctor_sqlite`, `postgres/doctor`); this is their
common part.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from refold.entries import Hole
from refold.protocols import Examinable, Finding, Store
from refold.session.repair import WHY_MISSING, Repaired, repaired
from refold.stores.rows import SessionTally, StoredLine
from refold.text.plural import counted

MAX_NAMED_LOSSES = 20
"""Number of lost entries that are listed one by one."""


def examine(store: Store, *, repair: bool = False) -> list[Finding]:
    """Everything that is wrong with a store; empty if it is undamaged."""
    return store.examine(repair=repair) if isinstance(store, Examinable) else []


def done(repair: bool) -> Literal["repaired", "repairable"]:
    return "repaired" if repair else "repairable"


def rights(path: Path, repair: bool) -> Iterator[Finding]:
    """Checks permissions. Changes them by path, because opening a database file outside SQLite would drop its
    locks."""
    if os.name != "posix" or not path.exists():
        return
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        if repair:
            path.chmod(0o600)
        yield Finding(str(path), f"others can read it (mode {mode:o})", done(repair))


def check_tally(
    here: str, tally: SessionTally, found: Sequence[StoredLine], put: Callable[[SessionTally], None] | None
) -> Iterator[Finding]:
    """Problems of a session in a database, by its own row and the rows of its entries; `put` repairs the
    former."""
    if bad := [row for row in found if row.why]:
        text = f"{counted(len(bad), 'row')} without an entry ({bad[0].why}); their bytes stay where they are"
        yield Finding(here, text, "lost")
    tree = repaired(row.entry for row in found if row.entry is not None)
    yield from lost_entries(here, tree, "what is left of it is in its row")
    true = SessionTally(id=tally.id, created=tally.created, updated=tally.updated)
    true.add(found)
    true.tip = tally.tip if any(row.entry is None for row in found) and tally.tip else true.tip
    if _counts(true) != _counts(tally):
        true.name, true.cwd = true.name or tally.name, true.cwd or tally.cwd
        if put is not None:
            put(true)
        text = f"its row says {tally.entries:,} entries; there are {true.entries:,}"
        yield Finding(here, text, done(put is not None))


def _counts(tally: SessionTally) -> tuple[object, ...]:
    return tally.entries, tally.bytes, tally.bad, tally.tip


def lost_entries(where: str, tree: Repaired, bytes_at: str) -> Iterator[Finding]:
    """What is lost, and where remains of it may be."""
    holes = [entry for entry in tree.entries if isinstance(entry, Hole)]
    texts = [_loss(hole, bytes_at) for hole in holes]
    named = {f"entry {hole.id}" for hole in holes}
    texts += [f"{problem.where}: {problem.text}" for problem in tree.problems if problem.where not in named]
    if len(texts) > MAX_NAMED_LOSSES:
        texts[MAX_NAMED_LOSSES:] = [f"… and {len(texts) - MAX_NAMED_LOSSES} more"]
    return (Finding(where, text, "lost") for text in texts)


def _loss(hole: Hole, bytes_at: str) -> str:
    name = f"entry {hole.id!r} {hole.role}".strip()
    if hole.why == WHY_MISSING:
        return f"{name} {WHY_MISSING.removeprefix('it ')}"
    return f"{name} is lost: {hole.why}; {bytes_at}"
