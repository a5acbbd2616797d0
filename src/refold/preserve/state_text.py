"""The state of the work as text within a token budget.

In order of choice: names of changed files; what is open (the last error, newest verdicts, todos); what was
last changed in the newest files; the rest. What does not fit is left out as a whole.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import islice
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from refold import tokens
from refold.preserve.commands import RESTORED
from refold.preserve.filebook import FileNote
from refold.preserve.runs import SHOWN
from refold.preserve.state import Check, Failure, WorkState
from refold.preserve.todos import Todo
from refold.protocols import Steps, TokenCounter, complete
from refold.text.truncate import head, in_short, one_line

CHANGED, CREATED, DELETED = "Files changed", "Files created", "Files deleted"
SET_BACK = "Files set back to what git has"
FAILED, READ = "Tried to change, without success", "Files read"
CHANGES, CHECKS = "Newest changes", "Builds and tests, last result"
ERROR, TODOS, PLAN = "Last error, not answered since", "Open todos", "Plan"
_ORDER = (CHANGED, CREATED, SET_BACK, DELETED, FAILED, CHANGES, CHECKS, ERROR, TODOS, PLAN, READ)
_UNCHANGED = ("read", "failed")
_NAMES, _DELETED, _READ = 0.7, 0.15, 0.25
"""Parts of the budget that names of files may take."""
_HUNKS = 24
"""Newest changed files whose change may be shown."""
_PLAN = 800
_ELSEWHERE = ("/tmp/", "/private/tmp/", "/var/folders/")


Shows: TypeAlias = Callable[[int, str], bool]
"""Whether the view shows the entry of a number elsewhere, and in it a text; without a text: names it."""


def shows_nothing(_: int, __: str) -> bool:
    return False


class Catalogue(NamedTuple):
    """The files of a state, made ready to be told: once for all texts of it."""

    notes: Sequence[FileNote]
    """The newest first; what only changed its place comes last."""
    names: dict[str, list[str]]
    """By what became of them."""
    told: set[str]
    """Those that a file tool named."""
    alike: Counter[str]
    """How many share their last part."""
    root: str
    """The folder, with its slash, that names are given below."""


def catalogue(state: WorkState) -> Steps[Catalogue]:
    """In pieces: a long conversation has touched thousands of files."""
    newest = sorted(state.notes(), key=attrgetter("number"), reverse=True)
    notes = sorted(newest, key=attrgetter("moved"))
    gone = {note.name for note in notes if note.fate == "deleted" and note.folder}
    yield
    names: dict[str, list[str]] = {}
    for note in notes:
        if not (note.fate == "deleted" and note.within in gone):
            fate = "restored" if note.change.startswith(RESTORED) else note.fate
            names.setdefault(fate, []).append(note.name + "/" if note.folder else note.name)
    told = {note.name for note in notes if note.told}
    yield
    alike = Counter([note.name.rpartition("/")[2] for note in notes])
    yield
    return Catalogue(notes, names, told, alike, _root([note.name for note in notes], state.home))


def render(
    state: WorkState,
    budget: int = 1_500,
    counter: TokenCounter | None = None,
    shows: Shows = shows_nothing,
    *,
    changes: bool = True,
) -> str:
    """The state within `budget` tokens (o200k unless another counter is given). Of entries that the view
    shows elsewhere only the names of changed files are given. `changes`: with what was last changed in the
    newest files."""
    return complete(rendering(state, budget, counter or tokens.get(), shows, changes=changes))


def rendering(
    state: WorkState,
    budget: int,
    counter: TokenCounter,
    shows: Shows = shows_nothing,
    *,
    changes: bool = True,
    files: Catalogue | None = None,
) -> Steps[str]:
    """`render` in pieces. `files`: the catalogue of the state, where that is there."""
    files = files or (yield from catalogue(state))
    notes = files.notes
    shown = {note.name for note in notes if note.fate in _UNCHANGED and shows(note.number, "")}
    sheet = _Sheet(budget, counter, files, shown)
    yield
    sheet.put_names(((CHANGED, "modified"), (CREATED, "created")), _NAMES)
    yield
    sheet.put_names(((SET_BACK, "restored"),), _DELETED)
    sheet.put_names(((DELETED, "deleted"),), _DELETED)
    checks = [x for x in reversed(state.checks) if not shows(x.number, x.verdict.line or x.error)][:10]
    usual = next(iter(Counter(check.folder for check in checks).most_common(1)), ("", 0))[0]
    newest_change = max((note.number for note in notes if note.fate not in _UNCHANGED), default=-1)
    told = [
        _check(
            check,
            "" if check.folder == usual else check.folder.removeprefix(f"{state.home}/"),
            newest_change,
            shows,
        )
        for check in checks
    ]
    opened = [(check.number, CHECKS, row) for check, row in zip(checks[:2], told, strict=False)]
    if state.error and not shows(state.error.number, state.error.error):
        opened.append((state.error.number, ERROR, _failure(state.error)))
    for _, title, row in sorted(opened, key=lambda one: -one[0]):
        sheet.put(title, row)
    told_todos = all(shows(state.todos_at, todo.text) for todo in state.todos if todo.open)
    for row in () if told_todos else _todos(state.todos):
        sheet.put(TODOS, row)
    told_here = (n for n in notes if _has_change(n) and not _shown(n, shows))
    changed = list(islice(told_here, _HUNKS if changes else 0))
    for note, rows in zip(changed[:3], (8, 4, 4), strict=False):
        sheet.put_change(note, rows)
    for row in told[2:]:
        sheet.put(CHECKS, row.split("\n")[0])
    for note in changed[3:]:
        sheet.put_change(note, 3)
    if state.plan and state.todos_at < state.plan_at and not shows(state.plan_at, state.plan):
        sheet.put(PLAN, head(state.plan, _PLAN))
    yield
    sheet.put_names(((FAILED, "failed"),), _READ)
    sheet.put_names(((READ, "read"),), max(_READ, sheet.left / 2 / max(budget, 1)))
    return sheet.text()


class _Sheet:
    """Statements under headings, each put there only while it fits."""

    def __init__(self, budget: int, counter: TokenCounter, files: Catalogue, shown: Set[str]) -> None:
        self.budget, self.left, self.counter = budget, budget, counter
        _, names, self.told, self.alike, self.root = files
        self.names = {
            fate: [name for name in names[fate] if name not in shown] if fate in _UNCHANGED else names[fate]
            for fate in names
        }
        self.named: set[str] = set()
        """Files whose names stand there."""
        self.sections: dict[str, list[str]] = {}
        self.order: list[str] = []
        self._places: dict[str, tuple[str, str]] = {}

    def text(self) -> str:
        """All that was put; what was put last leaves where the joints made it too long after all."""
        while True:
            parts = [self.sections[title] for title in _ORDER if self.sections.get(title)]
            text = "\n".join("\n".join(rows) for rows in parts)
            if not self.order or self.counter.text(text) <= self.budget:
                return text
            self.sections[self.order.pop()].pop()

    def put(self, title: str, row: str) -> bool:
        """One statement under its heading, if it fits."""
        return self._put(title, f"- {row}" if title in self.sections else f"{title}:\n- {row}")

    def put_change(self, note: FileNote, most: int) -> None:
        """What was last changed in a file, in as many of its rows as fit."""
        rows = note.change.split("\n")[:most]
        while rows and not self.put(
            CHANGES, "\n".join([f"{self.title(note.name)} #{note.number}", *_indented(rows)])
        ):
            # What was put in tells more than what it replaced.
            rows = rows[1:] if rows[0].startswith("- ") else rows[: len(rows) // 2]

    def put_names(self, lists: Sequence[tuple[str, str]], share: float) -> None:
        """Names of files under one or more headings: each as it is spelled, by folder where that is too long,
        or the newest and how many are left out."""
        named = [(title, names) for title, fate in lists if (names := self.names.get(fate))]
        total = sum(len(names) for _, names in named)
        for by_folder, part in ((False, share / 2), (True, share)):
            if total > min(self.left, self.budget * part):
                continue  # a name has a token at least
            texts = [(title, self.listed(title, names, by_folder=by_folder)) for title, names in named]
            if sum(self._size(text) for _, text in texts) <= min(self.left, self.budget * part):
                for (title, names), (_, text) in zip(named, texts, strict=True):
                    self._put(title, text)
                    self.named.update(names)
                return
        room = min(self.left, int(self.budget * share))
        for title, names in named:
            self._put_some(title, names, room * len(names) // total)

    def _put_some(self, title: str, names: Sequence[str], room: int) -> None:
        # What a file tool named was meant; what a shell moved about comes after it.
        names = sorted(names, key=lambda name: name not in self.told)

        def text(count: int) -> str:
            return self.listed(title, names[:count], len(names) - count, by_folder=True)

        count = largest(min(len(names), max(room, 0)), room, lambda count: self._size(text(count)))
        if count:
            self._put(title, text(count))
            self.named.update(names[:count])

    def listed(self, title: str, names: Sequence[str], more: int = 0, *, by_folder: bool) -> str:
        """Names one by one, or one row per folder (`- src/: a.py, b.py`), below the folder they share."""
        folders: dict[str, list[str]] = {}
        for name in names:
            folder, base = self._placed(name) if by_folder else ("", self.short(name))
            folders.setdefault(folder, []).append(base)
        rows = [_row(folder, bases) for folder, bases in folders.items()]
        below = f", below {self.root}" if self.root and any(n.startswith(self.root) for n in names) else ""
        rest = [f"- (and {more} more)"] if more else []
        return "\n".join([f"{title} ({len(names) + more}{below}):", *rows, *rest])

    def _placed(self, name: str) -> tuple[str, str]:
        """A name below its folder. What is not spelled from the root stands as it is spelled."""
        placed = self._places.get(name)
        if placed is None:
            folder, base = posixpath.split(head(self.short(name), 400))
            whole = not base or (self.root and not name.startswith(self.root))
            placed = self._places[name] = ("", self.short(name)) if whole else (folder, base)
        return placed

    def title(self, name: str) -> str:
        """A file that is named above by its last part, where no other has the same."""
        base = posixpath.basename(name)
        return base if name in self.named and self.alike[base] == 1 else self.short(name)

    def short(self, name: str) -> str:
        return name.removeprefix(self.root) or name

    def _put(self, title: str, text: str) -> bool:
        size = self._size(text)
        if size > self.left:
            return False
        self.left -= size
        self.sections.setdefault(title, []).append(text)
        self.order.append(title)
        return True

    def _size(self, text: str) -> int:
        return self.counter.text(text) + 1


def _row(folder: str, names: Sequence[str]) -> str:
    if len(names) == 1 or not folder or folder.startswith(("/", "~")):
        return "\n".join(f"- {posixpath.join(folder, name)}" for name in names)
    return f"- {folder}/: {', '.join(names)}"


def largest(limit: int, room: int, size: Callable[[int], int]) -> int:
    """The largest n ≤ limit whose size is at most `room`, if sizes grow with n; 0 where there is none. Sizes
    nearly grow in proportion, so the next n to look at is where that puts it; every third is the middle, so
    that it never takes long."""
    low, high, asked = 0, limit, 0
    guess = room // 6
    while low < high:
        asked += 1
        n = (low + high + 1) // 2 if asked % 3 == 0 else min(max(guess, low + 1), high)
        taken = size(n)
        low, high = (n, high) if taken <= room else (low, n - 1)
        guess = n * room // max(taken, 1)
    return low


def _root(names: Sequence[str], home: str) -> str:
    """The folder, with its slash, that names are given below; empty where that would save nothing."""
    relative = any(not name.startswith(("/", "~")) for name in names)
    if home:
        return f"{home}/" if sum(name.startswith(f"{home}/") for name in names) > 1 - relative else ""
    here = [name for name in names if name.startswith("/") and not name.startswith(_ELSEWHERE)]
    return shared_root(here) if len(here) > 1 and not relative else ""


def shared_root(paths: Sequence[str]) -> str:
    """The longest folder, with its slash, that all paths begin with; without it a name must not look like a
    relative one, so the root of all is none."""
    low, high = min(paths), max(paths)
    same = 0
    while same < min(len(low), len(high)) and low[same] == high[same]:
        same += 1
    root = low[: low.rfind("/", 0, same) + 1]
    return "" if root == "/" else root


def _indented(rows: Sequence[str]) -> Iterator[str]:
    return (f"    {row}" for row in rows)


def _todos(todos: Sequence[Todo]) -> list[str]:
    open_ones = sorted((todo for todo in todos if todo.open), key=lambda todo: todo.status == "pending")
    done = len(todos) - len(open_ones)
    rows = [
        todo.text if todo.status == "pending" else f"{todo.text} [{todo.status.replace('_', ' ')}]"
        for todo in open_ones
    ]
    return [*rows, *([f"({done} of {len(todos)} done)"] if rows and done else [])]


def _failure(failure: Failure) -> str:
    status = f"exit {failure.exit}: " if failure.exit else ""
    what, error = in_short(failure.what, SHOWN), in_short(failure.error, 240)
    return f"{what}: {status}{error or 'failed'} #{failure.number}"


def _has_change(note: FileNote) -> bool:
    """Something to tell beyond its name."""
    changed = note.change and note.fate in ("modified", "created")
    return bool(changed) and not note.change.startswith(RESTORED)


def _shown(note: FileNote, shows: Shows) -> bool:
    """Does the view show a line of the newest change?"""
    rows = [row[2:].removesuffix(" …") for row in note.change.split("\n") if row.startswith(("+ ", "- "))]
    return any(shows(note.number, row) for row in rows or [note.change])


def _check(check: Check, folder: str, newest_change: int, shows: Shows) -> str:
    """`pytest -q: FAILED (2 failed, 11 passed) #183`, and the first few that failed."""
    place = f" (in {folder})" if folder else ""
    decided = check.verdict.passed is not None or check.exit is not None
    since = ", files changed since" if decided and -1 < check.number < newest_change else ""
    row = f"{in_short(check.command, SHOWN)}{place}: {verdict_text(check)} #{check.number}{since}"
    failing = (one_line(name, 120) for name in check.verdict.failing[:3] if not shows(check.number, name))
    return "\n".join([row, *_indented([*failing])])


def verdict_text(check: Check) -> str:
    """The verdict in words, as reported: `passed (11 passed)`, `exit 1: error …`, `unknown`."""
    judged, status = check.verdict, f"exit {check.exit}"
    said = f" ({judged.line})" if judged.line else ""
    if judged.passed is not None:
        word = "passed" if judged.passed else "FAILED"
        return f"{word}{said}" + (f", but {status}" if judged.passed and check.exit else "")
    if check.exit is not None:
        return status + (f": {in_short(check.error, 160)}" if check.error else said)
    if check.error:
        return f"failed: {in_short(check.error, 160)}"
    if said:
        return f"unknown; a part of it passed{said}" if judged.partial else f"unknown{said}"
    return "unknown (hidden by what ran after it)" if check.covered else "unknown (no error reported)"
