"""Entries by name: an id, a number on the path (`#12`), a label, or a recall key."""

from __future__ import annotations

from refold import entries as e
from refold.errors import EntryNotFound, SessionError, expect
from refold.session.history import History


def find(session: History, name: str) -> e.AnyEntry:
    """The entry of that id, number on the path (`#12`), label or recall key, whichever matches first."""
    expect(session, History, "pass the Session that the entry is in")
    expect(name, str, "name an entry by its id, number, label or recall key")
    if name in session:
        return session[name]
    if name[:1] == "#" and name[1:].isdecimal() and int(name[1:]) < len(session.path):
        return session.path[int(name[1:])]
    labelled = [target for target, text in session.labels.items() if text == name and target in session]
    if len(labelled) > 1:
        raise SessionError(f"{len(labelled):,} entries have the label {name!r}; name one by its id")
    if labelled:
        return session[labelled[0]]
    keyed = [entry for entry in session.entries if e.key(entry.id) == name]
    if len(keyed) != 1:
        raise EntryNotFound(name)
    return keyed[0]
