"""Copying and moving a session between stores, including lines that this release cannot read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

import msgspec

from refold import format as fmt
from refold.errors import FormatError, StorageError
from refold.protocols import Lines, SessionInfo, Store
from refold.stores import rows

BATCH_BYTES = 4 * 1024 * 1024
BATCH_LINES = 2_000


def copy_session(source: Store, session: str, target: Store, *, id: str | None = None) -> SessionInfo:
    """Copies one session (under another `id`, if given), verifies the copy, and returns it as the target has
    it. If anything fails, the target has no such session."""
    new = msgspec.structs.replace(_info(source, session), id=id or session)
    target.create(new)
    try:
        lines = _pour(source, session, target, new.id)
        if not same(lines, stored_lines(target, new.id)):
            raise StorageError(f"the copy of session {session!r} differs from its source: it was not kept")
    except BaseException:
        target.delete(new.id)
        raise
    return _info(target, new.id)


def move_session(source: Store, session: str, target: Store) -> SessionInfo:
    """Copies a session, and deletes the source once the copy is verified."""
    info = copy_session(source, session, target)
    source.delete(session)
    return info


def stored_lines(store: Store, session: str) -> Iterator[bytes]:
    if isinstance(store, Lines):
        return store.lines(session)
    return (fmt.encode(entry) for entry in store.load(session).entries)


def _info(store: Store, session: str) -> SessionInfo:
    return store.load(session, rows.LAST_PLACE).info or SessionInfo(id=session)


def _pour(source: Store, session: str, target: Store, id: str) -> list[bytes]:
    lines = list(stored_lines(source, session))
    after: str | None = None
    for batch in _batches(lines):
        found = rows.of_lines(batch)
        if isinstance(target, Lines):
            target.append_lines(id, batch, after=after)
        else:
            target.append(id, [row.entry for row in found if row.entry is not None], after=after)
        after = next((row.entry.id for row in reversed(found) if row.entry and row.moves), after)
    return lines


def same(some: Iterable[bytes], others: Iterable[bytes]) -> bool:
    """True if both have the same values in the same order."""
    return all(
        a is not None and b is not None and (a == b or _value(a) == _value(b))
        for a, b in zip_longest(some, others)
    )


def _batches(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for line in lines:
        if batch and (size + len(line) > BATCH_BYTES or len(batch) == BATCH_LINES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line)
    if batch:
        yield batch


def _value(line: bytes) -> bytes:
    try:
        return fmt.canonical_line(line)
    except FormatError:
        return line
