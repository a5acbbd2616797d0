"""What edit tools did to each file of a session, and which of it still holds.

A file counts once however it is spelled, where the directory is known that relative paths start from. Command
lines change nothing here. A file that one removes, moves or sets back by its name is not told any more: the
command may have asked first, or another one may have made the file anew, so it is not told as deleted either.
A command that may take back all that was changed (`git stash`, `git checkout main`) is named, not
interpreted: what was changed before it is told as that.
"""

from __future__ import annotations

import posixpath
import re
from fnmatch import fnmatchcase
from itertools import accumulate
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from refold.entries import Files
from refold.facts.hunks import going_on, summarise_edit
from refold.facts.shell import CommandLine, Simple, operands
from refold.facts.tool_outcome import ToolOutcome
from refold.facts.tools import Action, tidy
from refold.text.truncate import in_short

Fate: TypeAlias = Literal["read", "modified", "created", "deleted", "uncertain"]
"""Last known state of a file. `uncertain`: a command that came later may have undone the change."""
_EARLIER = 8
"""Changes before the newest that are kept of a file."""
_NAMES = 6
"""Names of what changed in a file that are kept: the newest."""
_COMMAND = 60
"""Characters of a command that may have undone changes."""
OUTSIDE = re.compile(r"(?:/private)?/tmp/|/var/folders/|(?:/(?:Users|home)/[^/]+|/root|~)/\.[^/]+/")
"""Beginnings of paths that are of no project: temporary files, and what programs keep of their own."""
_NAMING = frozenset(
    {"rm", "unlink", "trash", "mv", "git rm", "git mv", "git checkout", "git restore", "git clean"}
)
"""Commands that remove, move or set back the files that they name."""
_BEGINS = frozenset({"-b", "-B", "-c", "-C", "--create", "--orphan"})
"""Options that begin a branch: from what is there, where nothing else is named."""
_RESETS = frozenset({"--hard", "--merge", "--keep"})
_UPDATED = re.compile(r"^Updated \d{1,9} paths? from ", re.M)
"""What git says where it checked out files and no branch."""
_DROPPED = re.compile(r"^Dropped (?:refs/)?stash@", re.M)
"""What git says where `git stash pop` brought back all that was put away."""


class FileNote(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    name: str
    """As the session spells it."""
    fate: Fate
    first: int = 0
    """Order of first appearance."""
    order: int = 0
    """Order of the newest change, or read, among all that happened."""
    number: int = -1
    """Entry of the newest change, or read."""
    change: str = ""
    """What was last changed, in a few lines."""
    before: tuple[tuple[int, str], ...] = ()
    """What was changed before that, and in which entry, the newest first."""
    defines: tuple[str, ...] = ()
    """Names that lines define which changes put in, and that none took out again, the newest last."""
    outside: bool = False
    """It is of no project: no command takes it back with all else."""


class UndoCommand(NamedTuple):
    """A command that may have taken back all that was changed before it."""

    text: str
    number: int
    """Entry of its call."""
    order: int
    """Its place among all that happened."""


class FileHistory:
    """Notes by path, the one touched last at the end."""

    def __init__(self) -> None:
        self._notes: dict[str, FileNote] = {}
        self._count = 0
        """Events so far."""
        self.changed_at = -1
        """Entry in which a file of the project was last changed, or a change of it taken back by name."""
        self._undos: list[UndoCommand] = []
        """The newest, and the one before it, which counts again where a stash was brought back."""
        self._base: str | None = None
        """The directory that all calls name for their relative paths to start from; empty where they name
        several."""

    @property
    def undo(self) -> UndoCommand | None:
        """The newest command that may have taken back all that was changed before it."""
        return self._undos[-1] if self._undos else None

    @property
    def stashed(self) -> bool:
        """`git stash` may have put all changes away; nothing brought them back, no file was changed since."""
        undo = self.undo
        return undo is not None and undo.text.startswith("git stash") and self.changed_at < undo.number

    def told(self) -> list[FileNote]:
        """What is known of each file, the one touched last at the end. What has files below it is none."""
        above = (path.split("/")[:-1] for path in self._notes)
        folders = {folder for parts in above for folder in accumulate(parts, "{}/{}".format)}
        return [
            note if self._holds(note) else FileNote(note.name, "uncertain", note.first, number=note.number)
            for path, note in self._notes.items()
            if note.fate != "read" or path not in folders
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
        known = self._notes.get(path)
        name = known.name if known else action.path
        if action.verb == "view":
            if known is None or known.fate in ("read", "deleted"):
                self._put(path, FileNote(name, "read", number=number))
            return
        outside = _is_outside(path, base)
        if not outside:
            self.changed_at = max(self.changed_at, number)
        before = known.fate if known else ""
        fate: Fate = "created" if before == "created" else "modified"
        if action.verb == "delete":
            fate = "deleted"
        elif action.verb == "create" or (action.verb == "write" and created):
            fate = "modified" if before in ("read", "modified", "deleted") else "created"
        text, taken_out, put_in = summarise_edit(action)
        last = known if known and known.change and self._holds(known) else None
        stay = (name for name in (last.defines if last else ()) if name not in {*taken_out, *put_in})
        earlier = ((last.number, last.change), *last.before)[:_EARLIER] if last else ()
        if action.verb != "modify":
            text, earlier = "" if fate == "deleted" else text, ()
        elif last and last.number == number:  # several edits of one step
            text, earlier = f"{going_on(last.change)}\n{text}", last.before
        names = (*stay, *put_in)[-_NAMES:]
        note = FileNote(
            name, fate, number=number, change=text, before=earlier, defines=names, outside=outside
        )
        self._put(path, note)

    def ran(self, line: CommandLine, base: str, number: int, outcome: ToolOutcome) -> None:
        """A command line that ran: it may have taken changes back. `base`: where relative paths start."""
        for index, simple in enumerate(line.commands):
            program, words = _program(simple)
            failed = outcome.failed and line.plain and index == len(line.commands) - 1
            elsewhere = _is_outside(f"{absolute(simple.folder, base)}/", base)
            if program == "git stash" and words[:1] == ("pop",):
                stash = self.undo is not None and self.undo.text.startswith("git stash")
                if stash and _DROPPED.search(outcome.body):
                    self._undos.pop()
            elif self._takes_back_all(program, words, outcome.body):
                if not failed and not elsewhere:
                    self._count += 1
                    text = in_short(" ".join((program, *words)), _COMMAND)
                    self._undos = [*self._undos[-1:], UndoCommand(text, number, self._count)]
            elif program in _NAMING and not {"--cached", "--staged"} & {*words} and not _BEGINS & {*words}:
                named = operands((program, *words))
                for word in named[:-1] if program in ("mv", "git mv") else named:
                    self._forget(self._named(tidy(word)), number)

    def _takes_back_all(self, program: str, words: tuple[str, ...], output: str) -> bool:
        """Whether a command may take back all that was changed, as far as git says what it did."""
        named, options = operands((program, *words)), {word for word in words if word.startswith("-")}
        match program:
            case "git stash":
                return words[:1] in ((), ("push",), ("save",)) or words[0].startswith("-")
            case "git reset":
                return bool(_RESETS & options)
            case "git switch" | "git checkout" if _BEGINS & options:
                return len(named) > 1
            case "git switch" | "git revert":
                return True
            case "git restore":
                return "." in named and "--staged" not in options
            case "git clean":
                return not named and any("f" in option for option in options)
            case "git checkout":
                names = [tidy(word) for word in named]
                is_file = any(path.endswith(name) for name in names for path in self._named(name))
                files = is_file or "--" in words or _UPDATED.search(output) is not None
                return "." in named or (bool(named) and not files)
            case _:
                return False

    def _holds(self, note: FileNote) -> bool:
        """Whether no command may have undone what a note says."""
        untouched = note.fate == "read" or note.outside
        return untouched or self.undo is None or note.order > self.undo.order

    def _forget(self, paths: list[str], number: int) -> None:
        for path in paths:
            if self._notes.pop(path).fate != "read":
                self.changed_at = max(self.changed_at, number)

    def _named(self, word: str) -> list[str]:
        """Known files that a word of a command may stand for: of that name, in a folder of that name, or of
        that pattern."""
        if any(char in word for char in "*?["):
            return [path for path in self._notes if fnmatchcase(path, f"*{word}")]
        inside, whole = f"/{word.lstrip('/')}/", f"/{word.lstrip('/')}"
        return [path for path in self._notes if inside in f"/{path}/" or whole.endswith(f"/{path}")]

    def _key(self, name: str, base: str) -> str:
        """The path of a file. One that a call gives without a directory to start from starts where all others
        do, as far as calls state that."""
        if base and base != self._base:
            self._base = base if self._base is None else ""
            relative = [path for path in self._notes if absolute(path, self._base) != path]
            self._notes |= {absolute(path, base): self._notes.pop(path) for path in relative}
        return absolute(name, base or self._base or "")

    def _put(self, path: str, note: FileNote) -> None:
        known = self._notes.pop(path, None)
        self._count += 1
        first = known.first if known else self._count
        self._notes[path] = msgspec.structs.replace(note, first=first, order=self._count)


def absolute(path: str, base: str) -> str:
    """One spelling per file, where it is known where relative ones start."""
    return path if not base or path.startswith(("/", "~")) else tidy(posixpath.join(base, path))


def _is_outside(path: str, base: str) -> bool:
    """Whether a path is of no project, and not below the directory of the session either."""
    return bool(base) and not path.startswith(f"{base}/") and OUTSIDE.match(path) is not None


def _program(simple: Simple) -> tuple[str, tuple[str, ...]]:
    """A command and what it is told: of git `git checkout`, in whatever folder it works."""
    words = simple.words
    if simple.program != "git":
        return simple.program, words[1:]
    rest = words[3:] if words[1:2] == ("-C",) else words[1:]
    return f"git {''.join(rest[:1])}", rest[1:]
