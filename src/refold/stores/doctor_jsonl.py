"""What can be wrong with a file of lines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from refold.errors import RefoldError
from refold.protocols import Finding
from refold.stores.doctor import done, doubles, rights
from refold.stores.rows import Row

if TYPE_CHECKING:
    from refold.stores.jsonl import JsonlStore

STALE = 3600.0
"""Seconds after which a half-made file is nobody's any more."""


def examine(store: JsonlStore, repair: bool) -> list[Finding]:
    return [finding for path in store.files() for finding in _file(store, path, repair)]


def _file(store: JsonlStore, path: Path, repair: bool) -> Iterator[Finding]:
    try:
        with store.exclusive(path) as (header, found):
            good = [row for row in found if row.entry is not None]
            bad = [row for row in found if row.entry is None]
            yield from doubles(str(path), good)
            if bad and repair:
                _set_aside(store, path, bad)
                store.rewrite(path, [header, *(row.line for row in good)])
    except (RefoldError, OSError) as error:
        yield Finding(str(path), f"cannot be read: {error}", "lasting")
        return
    yield from rights(path, repair)
    yield from _left_over(path, repair)
    if bad:
        text = f"{len(bad)} of its lines are no entries; their place is {path.name}.bad"
        yield Finding(str(path), text, done(repair))


def _set_aside(store: JsonlStore, path: Path, bad: list[Row]) -> None:
    """Keep what cannot be read beside the file, after what was kept there before."""
    aside = path.with_name(path.name + ".bad")
    before = aside.read_bytes().rstrip(b"\n").split(b"\n") if aside.exists() else []
    store.rewrite(aside, [*before, *(row.line for row in bad)])


def _left_over(path: Path, repair: bool) -> Iterator[Finding]:
    for half in path.parent.glob(f".{path.name[:180]}.*.new"):
        if time.time() - half.stat().st_mtime > STALE:
            if repair:
                half.unlink(missing_ok=True)
            yield Finding(str(half), "a file that an interrupted write left behind", done(repair))
