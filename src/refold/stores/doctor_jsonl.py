"""Checks and repairs of a file of lines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from refold import format as fmt
from refold.errors import RefoldError
from refold.protocols import Finding
from refold.session.repair import repaired
from refold.stores.damage import INTERRUPTED_APPEND, is_torn
from refold.stores.doctor import done, lost_entries, rights
from refold.stores.rows import StoredLine
from refold.text.plural import counted

HEADER_PREFIX = "the header"
STALE_SECONDS = 3600.0
"""Seconds after which an unfinished file counts as abandoned."""


class FileStore(Protocol):
    """The parts of a file store that its doctor uses."""

    def files(self) -> list[Path]: ...

    def exclusive(self, path: Path) -> AbstractContextManager[tuple[bytes, list[StoredLine]]]:
        """The file under its lock: (header, rows)."""
        ...

    def rewrite(self, path: Path, lines: list[bytes]) -> None: ...


def examine(store: FileStore, repair: bool) -> list[Finding]:
    return [finding for path in store.files() for finding in _file(store, path, repair)]


def _file(store: FileStore, path: Path, repair: bool) -> Iterator[Finding]:
    try:
        with store.exclusive(path) as (header, found):
            findings = list(_lines(store, path, header, found, repair))
        findings[:0] = [*rights(path, repair), *_left_over(path, repair)]
    except (RefoldError, OSError) as error:
        findings = [Finding(str(path), f"cannot be read: {error}", "lasting")]
    yield from findings


def _lines(
    store: FileStore, path: Path, header: bytes, found: list[StoredLine], repair: bool
) -> Iterator[Finding]:
    """Moves lines that are not entries beside the file; where one had a place, a hole is written."""
    lines = {id(row.entry): row.line for row in found if row.entry is not None and not row.why}
    tree = repaired(row.entry for row in found if row.entry is not None)
    used = {id(entry) for entry in tree.entries} & lines.keys()
    unused = [row for row in found if id(row.entry) not in used]
    if repair and (unused or tree.problems):
        _set_aside(store, path, [row for row in unused if row.line])
        store.rewrite(path, [header, *(lines.get(id(entry)) or fmt.encode(entry) for entry in tree.entries)])
    where = f"in {path.name}.bad" if repair else "still in the file"
    torn = [row for row in unused if row.entry is None and _says_nothing(row)]
    if torn:
        text = f"{counted(len(torn), 'empty or torn line')} ({torn[0].why}); their bytes are {where}"
        yield Finding(str(path), text, done(repair))
    bad = [row for row in unused if row not in torn]
    if bad:
        why = bad[0].why or "its place or its id is taken"
        text = f"{counted(len(bad), 'line')} without an entry ({why}); their bytes are {where}"
        yield Finding(str(path), text, "lost" if repair else "repairable")
    yield from lost_entries(
        str(path), tree, f"its bytes are {where if bad else f'in {path.name}.bad, if anywhere'}"
    )


def _says_nothing(row: StoredLine) -> bool:
    """True if no entry was lost with it: a header, which is rebuilt, or an unacknowledged append."""
    return row.why == INTERRUPTED_APPEND or row.why.startswith(HEADER_PREFIX) or is_torn(row.line)


def _set_aside(store: FileStore, path: Path, bad: list[StoredLine]) -> None:
    """Appends unreadable lines to the file of bad lines."""
    if not bad:
        return
    aside = path.with_name(path.name + ".bad")
    before = aside.read_bytes().rstrip(b"\n").split(b"\n") if aside.exists() else []
    store.rewrite(aside, [*before, *(row.line for row in bad)])


def _left_over(path: Path, repair: bool) -> Iterator[Finding]:
    for half in path.parent.glob(f".{path.name[:180]}.*.new"):
        if time.time() - half.stat().st_mtime > STALE_SECONDS:
            if repair:
                half.unlink(missing_ok=True)
            yield Finding(str(half), "a file that an interrupted write left behind", done(repair))
