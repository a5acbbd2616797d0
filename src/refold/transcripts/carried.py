"""Our own entries inside the record that another program keeps of a compaction.

A program knows of a fold only what its model sees afterwards. So the record carries the entries themselves:
reading the file again gives the session as it was, with the same ids, the same places and folds that can be
undone. The program looks at none of it. It counts only where it was written: behind as many records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from refold import entries as e
from refold import format as stored
from refold.errors import FormatError
from refold.transcripts.base import Record
from refold.transcripts.foreign import Builder, listing, mapping

KEY = "refold"


def packed(entries: Iterable[e.AnyEntry], records: int, copies: Sequence[str] = ()) -> Record:
    """`records`: how many stand before it. `copies`: ids of records behind it that only repeat what a fold
    shows."""
    lines = [stored.encode(entry).decode() for entry in entries]
    return {"version": stored.VERSION, "records": records, "entries": lines, "copies": list(copies)}


def carried(raw: Record, index: int) -> Record:
    """What a record at this place carries; empty: nothing, or nothing that belongs here."""
    found = mapping(raw.get(KEY))
    return found if found.get("records") == index and found.get("version") == stored.VERSION else {}


def copies(raw: Record, index: int) -> list[Any]:
    return listing(carried(raw, index).get("copies"))


def unpacked(raw: Record, index: int, log: Builder) -> list[e.AnyEntry]:
    """The entries, where all that they name is in the log; else none."""
    try:
        lines = [str(line).encode() for line in listing(carried(raw, index).get("entries"))]
        entries = [stored.decode(line, stored.VERSION) for line in lines]
    except (FormatError, UnicodeError):
        return []
    known = {entry.id for entry in entries}
    for entry in entries:
        named = [entry.parent] if isinstance(entry, e.PathEntry) else []
        if isinstance(entry, e.Fold):
            named += [id for edit in entry.edits for id in (edit.first, edit.last)]
        elif isinstance(entry, e.MessageEntry | e.Leaf):
            return []
        if entry.id in log or any(id not in log and id not in known for id in named):
            return []
    return entries
