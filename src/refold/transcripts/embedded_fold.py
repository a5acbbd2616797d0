"""Our own entries inside the record that another program keeps of a compaction.

A program knows of a fold only what its model sees afterwards. So the record carries the entries themselves:
reading the file again gives the session as it was, with the same ids, the same places and folds that can be
undone. A new file carries its whole path; of what its records say, only which record is which entry. The
program looks at none of it. It counts only where it was written: behind as many records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from refold import entries as e
from refold import format as stored
from refold.errors import FormatError
from refold.text.lenient_json import JsonObject
from refold.transcripts.builder import Builder
from refold.transcripts.values import as_list, as_object, as_text

EMBEDDED_KEY = "refold"
ORIGIN = "exported_from"
"""Key in the `Info` of an imported session that names the session it was exported from."""


def embed(
    entries: Iterable[e.AnyEntry],
    records: int,
    copies: Sequence[str] = (),
    *,
    places: Mapping[str, str] | None = None,
    session: str = "",
) -> JsonObject:
    """`records`: how many stand before it. `copies`: ids of records behind it that only repeat what a fold
    shows. `places`: the entries are a whole path, that of `session`, and some of them are what records before
    this one say; those are only named, beside the record."""
    rows = [
        [places[entry.id], entry.id] if places and entry.id in places else stored.encode(entry).decode()
        for entry in entries
    ]
    carrying = {"version": stored.VERSION, "records": records, "entries": rows, "copies": list(copies)}
    return carrying if places is None else {**carrying, "anew": True, "session": session}


def embedded_in(raw: JsonObject, index: int) -> JsonObject:
    """What a record at this place contains; empty if there is nothing, or nothing that belongs here."""
    found = as_object(raw.get(EMBEDDED_KEY))
    return found if found.get("records") == index and found.get("version") == stored.VERSION else {}


def restore_embedded(raw: JsonObject, index: int, log: Builder) -> dict[str, str] | None:
    """Adds the embedded entries to the log, and returns new names of entries. None, with the log unchanged,
    if there are none or they do not fit."""
    found = embedded_in(raw, index)
    anew = found.get("anew") is True
    rows = as_list(found.get("entries"))
    try:
        names = {str(pair[0]): str(pair[1]) for row in rows if (pair := as_list(row))}
        said = (entry for entry in log.entries if isinstance(entry, e.MessageEntry | e.Note))
        entries = _entries(rows, {entry.id: entry for entry in said})
    except (FormatError, UnicodeError, LookupError):
        return None
    if not entries or not (_is_path(entries) if anew else _fits(entries, log)):
        return None
    if anew:
        log.clear()
        log.info[ORIGIN] = as_text(found.get("session"))
    for entry in entries:
        log.put(entry)
    return names


def _entries(rows: Sequence[Any], there: Mapping[str, e.MessageEntry | e.Note]) -> list[e.AnyEntry]:
    entries: list[e.AnyEntry] = []
    for row in rows:
        if pair := as_list(row):
            parent = entries[-1].id if entries else None
            entries.append(replace(there[str(pair[0])], id=str(pair[1]), parent=parent))
        else:
            entries.append(stored.decode(str(row).encode(), stored.VERSION))
    return entries


def _is_path(entries: Sequence[e.AnyEntry]) -> bool:
    """True if each continues the one before."""
    parents = [None, *(entry.id for entry in entries)]
    chained = all(
        isinstance(entry, e.PathEntry) and entry.parent == parent
        for entry, parent in zip(entries, parents, strict=False)
    )
    return chained and len(set(parents)) == len(parents)


def _fits(entries: Sequence[e.AnyEntry], log: Builder) -> bool:
    """True if everything they name is in the log."""
    known = {entry.id for entry in entries}
    for entry in entries:
        named = [entry.parent] if isinstance(entry, e.PathEntry) else []
        if isinstance(entry, e.Fold):
            named += [id for edit in entry.edits for id in (edit.first, edit.last)]
        elif isinstance(entry, e.MessageEntry | e.Leaf):
            return False
        if entry.id in log or any(id not in log and id not in known for id in named):
            return False
    return True
