"""What edit tools did to each file of a session, and which of it still holds.

A file counts once however it is spelled, where the directory is known that relative paths start from. Command
lines change nothing here; they take back: what one removed or let git set back is not told any more. It may
have asked first, or another command may have made the file anew, so it is not told as deleted either. What
was changed in a file that one moved is told at the new place. What was committed before another branch was
checked out, and what git put away, is told as that.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import accumulate
from operator import attrgetter
from typing import Literal, TypeAlias

import msgspec

from refold.entries import Files
from refold.facts.hunks import going_on, summarise_edit
from refold.facts.shell import CommandLine, Simple, folder_before, operands
from refold.facts.tool_outcome import ToolOutcome
from refold.facts.tools import Action, tidy

Fate: TypeAlias = Literal["read", "modified", "created", "deleted", "left", "stashed", "dropped", "gone"]
"""Last known state of a file. `left`: it was changed on a branch that was left. `stashed`, `dropped`: git put
its changes away, or threw away what it had put away. `gone`: it may be deleted, moved or set back; nothing is
told of it."""
_CHANGED: tuple[Fate, ...] = ("modified", "created", "deleted")
_EARLIER = 8
"""Changes before the newest that are kept of a file."""
_NAMES = 6
"""Names of what changed in a file that are kept: the newest."""
_SAVED = re.compile(r"^Saved working directory", re.M)
_KEPT = re.compile(r"^The stash entry is kept", re.M)
_DROPPED = re.compile(r"^Dropped (?:refs/)?stash@", re.M)
"""What git says of a stash, whatever the command line ended with."""
_UNTRACKED = frozenset({"-u", "--include-untracked", "-a", "--all"})
_PARTLY = frozenset({"--", "-p", "--patch", "-k", "--keep-index", "-S", "--staged"})
OUTSIDE = re.compile(r"(?:/private)?/tmp/|/var/folders/|(?:/(?:Users|home)/[^/]+|/root|~)/\.[^/]+/")
"""Beginnings of paths that are of no project: temporary files, and what programs keep of their own."""
_SWITCHED = re.compile(r"^(?:Switched to (?:a new )?branch|Note: switching to) '([^'\n]{1,200})'", re.M)
"""What git says when it checked out another branch, or a commit."""
_COMMITTED = re.compile(r"^\[([^\s\]]{1,200}) (?:\(root-commit\) )?[0-9a-f]{4,40}\]", re.M)
"""What it says of a commit: on which branch."""
_CLEAN = "nothing to commit, working tree clean"
"""What it says where every change is committed; the user may have done that."""
_HERE = frozenset({"-b", "-B", "-c", "-C", "--create", "--orphan"})
"""Options that begin a branch; where none is named, from what is there."""
_COMMITS = ("commit", "merge", "rebase", "cherry-pick", "am")
_EVERYTHING = frozenset({"-A", "--all", "-u", "--update"})
_ADDS = re.compile(r"-[a-z]*a[a-z]*|--all")
"""The option of a commit that adds what was changed."""
_STASHES = {
    "push": "stash", "save": "stash", "pop": "unstash", "apply": "unstash", "drop": "drop", "clear": "drop",
}  # fmt: skip


class FileNote(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    name: str
    """As the session spells it."""
    fate: Fate
    first: int = 0
    """Order of first appearance."""
    number: int = -1
    """Entry of the newest change, or read; of the command that took the change back."""
    change: str = ""
    """What was last changed, in a few lines."""
    before: tuple[tuple[int, str], ...] = ()
    """What was changed before that, and in which entry, the newest first."""
    defines: tuple[str, ...] = ()
    """Names that lines define which changes put in, and that none took out again, the newest last."""
    committed: bool = False
    """Git has the newest change."""
    delegated: bool = False
    """A sub-agent that was told of it, or tells of it, has worked since: it may have changed it."""


class FileHistory:
    """Notes by path, the one touched last at the end."""

    def __init__(self) -> None:
        self.notes: dict[str, FileNote] = {}
        self._count = 0
        self._changed_at = self._stashed_at = -1
        self.delegated_at = -1
        """Where a sub-agent last worked that was told of files of this work, or tells of them."""
        self.switched = -1
        """Where another branch was last checked out."""
        self._branch = ""
        """Its name."""
        self._added = set[str]()
        """Files whose newest change was added for the next commit."""
        self._away: dict[str, dict[str, FileNote]] = {}
        """What stood on branches that were left, by their names."""
        self._stashes: list[dict[str, FileNote]] = []
        """What git put away, the newest last."""
        self._base: str | None = None
        """The directory that all calls name for their relative paths to start from; empty where they name
        several."""

    @property
    def stashed(self) -> bool:
        """The changes of the work are put away."""
        return bool(self._stashes)

    @property
    def changed_at(self) -> int:
        """Where a file was last changed, or a change taken back. What is back from the stash is not."""
        return max(self._changed_at, self._stashed_at) if self.stashed else self._changed_at

    def told(self) -> list[FileNote]:
        """What is known of each file, the one touched last at the end. What has files below it is none."""
        above = (path.split("/")[:-1] for path in self.notes)
        folders = {folder for parts in above for folder in accumulate(parts, "{}/{}".format)}
        return [
            note
            for path, note in self.notes.items()
            if note.fate != "gone" and (note.fate != "read" or path not in folders)
        ]

    def files(self, most: int | None = None) -> Files:
        """Names by fate, in order of first appearance; `read` are those never changed. At most so many: those
        that were touched last."""
        lists: dict[Fate, list[str]] = {"read": [], "modified": [], "created": [], "deleted": []}
        notes = [note for note in self.told() if note.fate in lists]
        newest = notes if most is None else notes[-most:]
        for note in sorted(newest, key=attrgetter("first")):
            lists[note.fate].append(note.name)
        names = {fate: tuple(dict.fromkeys(names)) for fate, names in lists.items()}
        return Files(**names, more=len(notes) - len(newest))

    def take(self, action: Action, base: str, number: int, *, created: bool) -> None:
        """One more action that succeeded. `base`: where relative paths start; `created`: the tool says so."""
        path = self._key(action.path, base)
        known = self.notes.get(path)
        if action.verb == "view":
            if known is None or known.fate in ("read", "deleted", "dropped", "gone"):
                name, delegated = (known.name, known.delegated) if known else (action.path, False)
                self._put(path, FileNote(name, "read", 0, number, delegated=delegated))
            return
        before = known.fate if known else ""
        fate: Fate = "created" if before == "created" else "modified"
        if action.verb == "delete":
            fate = "deleted"
        elif action.verb == "create" or (action.verb == "write" and created):
            fate = "modified" if before in ("read", "modified", "deleted") else "created"
        text, taken_out, put_in = summarise_edit(action)
        stay = (name for name in (known.defines if known else ()) if name not in {*taken_out, *put_in})
        names = (*stay, *put_in)[-_NAMES:]
        name = known.name if known else action.path
        if not base or path.startswith(f"{base}/") or not OUTSIDE.match(path):
            self._changed_at = max(self._changed_at, number)
        earlier = ((known.number, known.change), *known.before)[:_EARLIER] if known and known.change else ()
        if action.verb != "modify":
            text, earlier = "" if fate == "deleted" else text, ()
        elif known and known.number == number and known.change:  # several edits of one step
            text, earlier = f"{going_on(known.change)}\n{text}", known.before
        self._put(path, FileNote(name, fate, 0, number, text, earlier, names))

    def delegate(self, said: str, number: int) -> None:
        """A sub-agent has worked: what it was told, and what it tells."""
        for path, note in self._of(*_CHANGED, "read").items():
            if posixpath.basename(path) in said:
                self.notes[path] = msgspec.structs.replace(note, delegated=True)
                self.delegated_at = number

    def ran(self, line: CommandLine, base: str, number: int, outcome: ToolOutcome) -> None:
        """A command line that ran. Of one that failed, or is not plain, nothing is sure."""
        sure, switches = line.plain and not outcome.failed, False
        for index, simple in enumerate(line.commands):
            verb, words = _verb(simple)
            switches = switches or not {"checkout", "switch"}.isdisjoint(simple.words[1:3])
            if verb == "add":
                self._add(simple, words, absolute(folder_before(line, index), base))
            elif verb == "commit":
                on = _COMMITTED.search(outcome.body)
                self._branch = on[1] if on else self._branch
                if on or sure:  # it may be told to say nothing
                    self._commit(changed=any(map(_ADDS.fullmatch, simple.words[2:])))
            elif verb in ("stash", "unstash", "drop"):
                self._stash(verb, words, number, outcome.body, sure=sure)
            elif verb == "reset":
                undone = self._pending if {*words} <= {"HEAD"} else self._of
                self._forget(undone(*_CHANGED), number)
            elif verb == "checkout" and "." in words:
                undone = self._pending if {*words} <= {".", "HEAD"} else self._of
                self._forget(undone("modified", "deleted"), number)
            elif verb == "mv" and sure and len(words) == 2:
                self._move(words[0], words[1], absolute(folder_before(line, index), base), number)
            elif verb in ("rm", "mv", "checkout"):
                folder = absolute(folder_before(line, index), base)
                words = words[:-1] if verb == "mv" else words
                for word in words:
                    self._take_back(verb, tidy(word), folder, number)
        if _CLEAN in outcome.body[-400:] and any(simple.program == "git" for simple in line.commands):
            self._added |= self._of(*_CHANGED).keys()
            self._commit(changed=True)
        for found in _SWITCHED.finditer(outcome.body) if switches else ():
            begun = any(x.words[-1:] == (found[1],) and _HERE & {*x.words} for x in line.commands)
            self._switch(found[1], number, begun=begun)

    def _stash(self, verb: str, words: list[str], number: int, said: str, *, sure: bool) -> None:
        """`sure`: the line did what it says; git's own words tell it, too. Where a part of the changes is
        meant, or one of several stashes, nothing is told of them."""
        kept = _KEPT.search(said) is not None
        gone = (sure and not kept) or _DROPPED.search(said) is not None
        if verb == "stash" and "No local changes" not in said[:400]:
            untracked: tuple[Fate, ...] = ("created",) if _UNTRACKED & {*words} else ()
            pending = self._pending("modified", "deleted", *untracked)
            self._stashes.append(pending)
            partly = any(word in _PARTLY or not word.startswith("-") for word in words)
            away = (sure or kept or _SAVED.search(said)) and not partly
            self._forget(pending, fate="stashed" if away else "gone")
            self._stashed_at = number if pending else -1
        elif verb != "stash" and words:
            self._stashes.clear()
            self._forget(self._of("stashed"))
        elif verb == "unstash" and gone:
            self._return(self._stashes.pop() if self._stashes else {})
        elif verb == "unstash" and not kept:
            self._forget(self._of("stashed"))
        elif verb == "drop":
            top = self._stashes.pop() if self._stashes else {}
            stashed = {path: note for path, note in self._of("stashed").items() if path in top}
            self._forget(stashed, fate="dropped" if gone else "gone")

    def _add(self, simple: Simple, words: list[str], folder: str) -> None:
        changed = self._of(*_CHANGED)
        if _EVERYTHING & {*simple.words}:
            self._added |= changed.keys()
        elif "." in words:
            self._added |= {path for path in changed if path.startswith(f"{folder}/") or not folder}
        else:
            self._added |= {path for word in words for path in self._meant(tidy(word))}

    def _commit(self, *, changed: bool) -> None:
        """What was added is in the commit; with `changed`, whatever git knew before, too."""
        for path, note in self._of(*_CHANGED).items():
            if path in self._added or (changed and note.fate != "created"):
                self.notes[path] = msgspec.structs.replace(note, committed=True)
        self._added.clear()

    def _switch(self, branch: str, number: int, *, begun: bool) -> None:
        """Another branch: what was committed stays on the one that is left, unless the new one is `begun`
        from it."""
        if not begun:
            committed = {path: note for path, note in self._of(*_CHANGED).items() if note.committed}
            self._away[self._branch] = self._away.get(self._branch, {}) | committed
            self._forget(committed, fate="left")
            self._return(self._away.pop(branch, {}))
            self.switched = number
        self._branch = branch

    def _return(self, notes: dict[str, FileNote]) -> None:
        for path, note in notes.items():
            if self.notes[path].fate in ("left", "stashed", "gone"):
                self.notes[path] = note

    def _take_back(self, verb: str, word: str, folder: str, number: int) -> None:
        target = absolute(word, folder)
        for path in self._meant(word):
            note = self.notes[path]
            named = path == target or path.startswith(f"{target}/")
            if verb != "checkout" or named or "/" in word or "." in word:  # else it is the name of a branch
                self._forget({path: note}, number)

    def _move(self, source: str, target: str, folder: str, number: int) -> None:
        """What was changed in a file goes with it."""
        known = self.notes.get(absolute(tidy(source), folder))
        self._take_back("mv", tidy(source), folder, number)
        if known is None or known.fate not in ("modified", "created"):
            return
        inside = target.endswith(("/", ".")) or self._meant(f"{tidy(target)}/*")
        to = posixpath.join(target, posixpath.basename(source)) if inside else target
        path = absolute(tidy(to), folder)
        fate: Fate = "created" if known.fate == "created" and path not in self.notes else "modified"
        moved = msgspec.structs.replace(known, name=path, fate=fate, number=number, committed=False)
        self._put(path, msgspec.structs.replace(moved, change=f"moved from {source}", before=()))

    def _of(self, *fates: Fate) -> dict[str, FileNote]:
        return {path: note for path, note in self.notes.items() if note.fate in fates}

    def _pending(self, *fates: Fate) -> dict[str, FileNote]:
        return {path: note for path, note in self._of(*fates).items() if not note.committed}

    def _forget(self, notes: dict[str, FileNote], number: int = -1, fate: Fate = "gone") -> None:
        for path, note in notes.items():
            at = max(note.number, number) if note.fate in _CHANGED else -1
            self._changed_at = max(self._changed_at, at)
            self.notes[path] = msgspec.structs.replace(
                note, fate=fate, number=at, change="", before=(), defines=()
            )

    def _meant(self, word: str) -> list[str]:
        """Known files that a word of a command may stand for: of that name, in a folder of that name, or of
        that pattern."""
        if any(char in word for char in "*?["):
            return [path for path in self.notes if fnmatchcase(path, f"*{word}")]
        inside, whole = f"/{word.lstrip('/')}/", f"/{word.lstrip('/')}"
        return [path for path in self.notes if inside in f"/{path}/" or whole.endswith(f"/{path}")]

    def _key(self, name: str, base: str) -> str:
        """The path of a file. One that a call gives without a directory to start from starts where all others
        do, as far as calls state that."""
        if base and base != self._base:
            self._base = base if self._base is None else ""
            relative = [path for path in self.notes if absolute(path, self._base) != path]
            for held in (self.notes, *self._away.values(), *self._stashes):
                held |= {absolute(path, base): held.pop(path) for path in relative if path in held}
        return absolute(name, base or self._base or "")

    def _put(self, path: str, note: FileNote) -> None:
        known = self.notes.pop(path, None)
        self._added.discard(path)
        if known is None:
            self._count += 1
        self.notes[path] = msgspec.structs.replace(note, first=known.first if known else self._count)


def absolute(path: str, base: str) -> str:
    """One spelling per file, where it is known where relative ones start."""
    return path if not base or path.startswith(("/", "~")) else tidy(posixpath.join(base, path))


def _verb(simple: Simple) -> tuple[str, list[str]]:
    """What a command may take back, and of what: rm, mv, checkout, reset, stash, unstash; or add, commit."""
    words = simple.words if simple.words[1:2] != ("-C",) else (simple.words[0], *simple.words[3:])
    rest = set(words[2:])
    named = operands(words[1:] if simple.program == "git" else words)
    verb = words[1] if simple.program == "git" and len(words) > 1 else simple.program
    if verb in ("rm", "unlink", "trash") and "--cached" not in rest:
        return "rm", named
    if verb == "mv":
        return "mv", named
    if simple.program != "git":
        return "", []
    if verb == "stash":
        return _STASHES.get(named[0] if named else "push", ""), _stash_words(words[2:])
    if verb in ("checkout", "restore") and not rest & {*_HERE, "--staged"}:
        return "checkout", named
    if verb == "reset" and "--hard" in rest:
        return "reset", named
    return ("commit", []) if verb in _COMMITS else ("add", named) if verb == "add" else ("", [])


def _stash_words(words: Sequence[str]) -> list[str]:
    """What a command on the stash is told beside its verb and a message: options, paths, the name of one."""
    verb = next((word for word in words if not word.startswith("-")), "push")
    if verb in ("save", "clear"):
        return []
    quiet = ("-m", "--message", "-q", "--quiet", "--index")
    said = zip(words, ("", *words), strict=False)
    return [x for x, before in said if x != verb and x not in quiet and before not in quiet[:2]]
