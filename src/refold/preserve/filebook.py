"""What is known of every file a session touched: what became of it, and what was last changed in it.

A file counts once however it is spelled, where the directory is known that relative paths start from. Every
action costs what it touches: folders know what lies in them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Literal, TypeAlias

import msgspec

from refold.entries import Files
from refold.preserve.action import Action, tidy
from refold.preserve.commands import RESTORED
from refold.preserve.hunks import hunk

Fate: TypeAlias = Literal["read", "modified", "created", "deleted", "failed"]
"""Last known state of a file. `failed`: changes were tried and none succeeded."""

_DEEPEST = 40
"""Folders above a file that know of it."""


class FileNote(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    name: str
    """As the session spells it; a file tool's spelling before a shell's."""
    fate: Fate
    first: int = 0
    """Order of first appearance."""
    number: int = -1
    """Entry of the newest change, or read."""
    entry: str = ""
    change: str = ""
    born: bool = False
    """Made in this conversation: stays `created` however often it is edited."""
    existed: bool = False
    """Was seen (read, changed) before it was first written."""
    told: bool = False
    """The name was given by a file tool."""
    folder: bool = False
    moved: bool = False
    """Deleted here because it was moved elsewhere."""
    within: str = ""
    """The deleted folder it went with."""


class FileBook:
    """Notes by path, the one touched last at the end."""

    def __init__(self, notes: dict[str, FileNote] | None = None, count: int = 0) -> None:
        self.notes = notes if notes is not None else {}
        self.count = count
        # Dictionaries without values: unlike sets they keep their order, and no collector looks into them.
        self._inside: dict[str, dict[str, None]] = {}
        self._named: dict[str, dict[str, None]] = {}
        """Paths by the last part of them."""
        self._gone = {path for path, note in self.notes.items() if note.fate == "deleted"}
        for path in self.notes:
            self._place(path)

    def copy(self) -> FileBook:
        return FileBook(dict(self.notes), self.count)

    def files(self, most: int | None = None) -> Files:
        """Names by fate, in order of first appearance; `read` are those never changed. At most so many: those
        that were touched last."""
        lists: dict[str, list[str]] = {"read": [], "modified": [], "created": [], "deleted": []}
        notes = [note for note in self.listed() if note.fate != "failed"]
        newest = notes if most is None else notes[-most:]
        for note in sorted(newest, key=attrgetter("first")):
            lists[note.fate].append(note.name)
        names = {fate: tuple(dict.fromkeys(names)) for fate, names in lists.items()}
        return Files(**names, more=len(notes) - len(newest))

    def listed(self) -> list[FileNote]:
        """The notes of files; a folder that was looked at is none."""
        return [n for path, n in self.notes.items() if n.fate != "read" or path not in self._inside]

    def rebased(self, base: str) -> FileBook:
        """The book after it has become known where relative paths start."""
        notes: dict[str, FileNote] = {}
        for path, note in self.notes.items():
            known = notes.pop(path := absolute(path, base), None)
            notes[path] = _merged(known, note) if known else note
        return FileBook(notes, self.count)

    def base_of(self, path: str) -> str:
        """Where relative paths start, if this path and one that is known are the same file in two spellings;
        empty where nothing says so. Names of one or two parts are too common to say it."""
        inside = self._named.get(posixpath.basename(path), ())
        pairs = ((one, path) if path.startswith("/") else (path, one) for one in inside)
        told = (
            whole[: -len(part) - 1]
            for part, whole in pairs
            if whole.endswith(f"/{part}") and part.count("/") > 1
        )
        return next(filter(None, told), "")

    def take(
        self, action: Action, *, base: str = "", number: int = -1, entry: str = "", tool: bool = False
    ) -> None:
        """One more action that succeeded. `base` is where relative paths start; `tool`: a file tool spoke."""
        path = absolute(action.path, base)
        if action.known and path not in self.notes and path not in self._inside:
            return
        if action.source and action.verb == "create" and self._holds(path):  # moved into a folder
            path = posixpath.join(path, posixpath.basename(action.source))
            action = msgspec.structs.replace(
                action, path=posixpath.join(action.path, posixpath.basename(path))
            )
        if action.verb == "folder":
            self._revive(path)
        elif action.verb == "delete":
            for one in self._meant(path):
                self._delete(one, action if one == path else Action("delete", one), number, entry)
        elif action.how.startswith(RESTORED) and (path in self._inside or path in (".", base)):
            self._restore(path, action.how, number, entry)
        elif action.source and self._carry(absolute(action.source, base), path, number, entry):
            pass
        else:
            for one in self._meant(path) if action.verb == "modify" else [path]:
                self._change(one, action, number, entry, tool=tool)

    def tried(self, action: Action, *, base: str = "") -> None:
        """A change that failed. Of a file that is known this says nothing new."""
        path = absolute(action.path, base)
        if action.verb not in ("view", "folder", "delete") and path not in self.notes:
            self._put(path, FileNote(action.path, "failed"))

    def _change(self, path: str, action: Action, number: int, entry: str, *, tool: bool) -> None:
        known = self.notes.get(path)
        if action.verb != "delete":
            self._revive(posixpath.dirname(path))
        after = _after(known, action)
        name = known.name if known and (known.told or not tool) else action.path
        newer = after.fate != "read" and action.verb != "view"
        change = hunk(action) if newer else known.change if known else ""
        if newer or known is None or known.fate == "read":
            after = msgspec.structs.replace(after, number=number, entry=entry)
        told = tool or (known is not None and known.told)
        self._put(path, msgspec.structs.replace(after, name=name, change=change, told=told))

    def _delete(self, path: str, action: Action, number: int, entry: str) -> None:
        inner = [one for one in self._below(path) if self.notes[one].fate != "deleted"]
        known = self.notes.get(path)
        note = FileNote(
            known.name if known else action.path, "deleted", number=number, entry=entry,
            folder=path in self._inside, moved=action.moved,
            existed=known is None or known.existed, told=known is not None and known.told,
        )  # fmt: skip
        self._put(path, note)
        for one in inner:
            gone = msgspec.structs.replace(
                self.notes[one],
                fate="deleted",
                change="",
                number=number,
                entry=entry,
                within=path,
                moved=action.moved,
            )
            self._put(one, gone)

    def _restore(self, folder: str, how: str, number: int, entry: str) -> None:
        for path in list(self._below("" if folder == "." else folder)):
            note = self.notes[path]
            if note.fate == "modified":
                note = msgspec.structs.replace(note, change=how, number=number, entry=entry)
                self._put(path, note)

    def _carry(self, source: str, target: str, number: int, entry: str) -> bool:
        """A folder, or what a pattern stands for, was moved or copied: what is known of it lies in the new
        place too. False where nothing is."""
        if source in self._inside:
            pairs = [(path, target + path[len(source) :]) for path in self._below(source)]
            self._revive(target)
        else:
            folder = posixpath.dirname(target)
            known = [path for path in self._meant(source) if path != source]
            pairs = [(path, posixpath.join(folder, posixpath.basename(path))) for path in known]
        for path, to in pairs:
            if self.notes[path].fate not in ("deleted", "failed"):
                self._change(to, Action("create", to, source=path), number, entry, tool=False)
        return bool(pairs)

    def _meant(self, path: str) -> list[str]:
        """The files that a pattern stands for, as far as they are known; otherwise the path itself."""
        if not any(char in path for char in "*?["):
            return [path]
        folder = posixpath.dirname(path)
        inside = (one for one in self._inside.get(folder, ()) if one in self.notes)
        return sorted(one for one in inside if fnmatchcase(one, path)) or [path]

    def _revive(self, folder: str) -> None:
        """What has a file in it again, or was made again, is not deleted."""
        while self._gone and folder not in ("", "/"):
            if folder in self._gone:
                self._gone.remove(folder)
                del self.notes[folder]
            folder = posixpath.dirname(folder)

    def _put(self, path: str, note: FileNote) -> None:
        known = self.notes.pop(path, None)
        (self._gone.add if note.fate == "deleted" else self._gone.discard)(path)
        if known is None:
            self.count += 1
            self._place(path)
        self.notes[path] = msgspec.structs.replace(note, first=known.first if known else self.count)

    def _place(self, path: str) -> None:
        self._named.setdefault(posixpath.basename(path), {})[path] = None
        for _ in range(_DEEPEST):
            folder = posixpath.dirname(path)
            names = self._inside.setdefault(folder, {})
            if path in names or path == folder:
                return
            names[path] = None
            path = folder

    def _holds(self, folder: str) -> bool:
        """Whether a folder is known to be there, with a file in it."""
        return folder in self._inside and any(
            self.notes[path].fate not in ("deleted", "failed") for path in self._below(folder)
        )

    def _below(self, folder: str) -> Iterator[str]:
        """Known files inside of a folder, at any depth."""
        stack = sorted(self._inside.get(folder, ()), reverse=True)
        while stack:
            path = stack.pop()
            if path in self.notes:
                yield path
            if path != folder:
                stack.extend(sorted(self._inside.get(path, ()), reverse=True))


def absolute(path: str, base: str) -> str:
    """One spelling per file, where it is known where relative ones start."""
    return path if not base or path.startswith(("/", "~")) else tidy(posixpath.join(base, path))


def _merged(first: FileNote, later: FileNote) -> FileNote:
    """Two notes of one file."""
    newest = first if later.fate == "read" else later
    born = first.born or (later.born and not first.existed)
    fate = newest.fate if newest.fate not in ("created", "modified") else "created" if born else "modified"
    return msgspec.structs.replace(
        newest, fate=fate, first=min(first.first, later.first), born=born, existed=first.existed
    )


def _after(known: FileNote | None, action: Action) -> FileNote:
    """What is known of a file after one more action that succeeded."""
    now = known or FileNote(action.path, "read")
    if action.verb == "view":
        fresh = known is None or known.fate in ("failed", "deleted")
        return FileNote(now.name, "read", existed=True) if fresh else now
    anew = action.verb == "create" and not now.existed
    again = now.fate == "deleted" and not now.existed
    if now.born or anew or again or (action.verb == "write" and known is None):
        return FileNote(now.name, "created", born=True)
    return FileNote(now.name, "modified", existed=True)
