"""The state of the work as text within a token budget.

In order of choice: names of changed files; what is open (checks, the last error, what runs, todos); what was
last changed in the newest files; the rest. What does not fit is left out as a whole.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from refold import tokens
from refold.preserve.file_history import Fate, FileNote
from refold.preserve.state import Check, Failure, WorkState
from refold.protocols import TokenCounter
from refold.text.truncate import head, in_short
from refold.tokens.fitting import largest

CHANGED, CREATED, DELETED, READ = "Files changed", "Files created", "Files deleted", "Files read"
CHANGES, CHECKS = "Newest changes", "Builds and tests, last result"
ERROR, TODOS, PLAN = "Last error, not tried again", "Open todos", "Plan"
RUNNING = "Running in the background, no end reported"
_ORDER = (CHANGED, CREATED, DELETED, CHANGES, CHECKS, ERROR, RUNNING, TODOS, PLAN, READ)
_NAMES, _DELETED, _READ = 0.7, 0.15, 0.25
"""Parts of the budget that names of files may take."""
_CHANGES, _CHECKS, _PLAN, SHOWN = 24, 10, 800, 160
"""Changed files and checks that are told of; characters of a plan and of a command."""
_ELSEWHERE = ("/tmp/", "/private/tmp/", "/var/folders/")

Shows: TypeAlias = Callable[[int, str], bool]
"""Whether the view shows the entry of a number elsewhere, and in it a text; without a text: names it."""


def shows_nothing(_: int, __: str) -> bool:
    return False


class Catalogue(NamedTuple):
    """The files of a state, made ready to be told: once for all texts of it."""

    notes: Sequence[FileNote]
    """The newest first."""
    alike: Counter[str]
    """How many share their last part."""
    root: str
    """The folder, with its slash, that names are given below."""


def catalogue(state: WorkState) -> Catalogue:
    notes = sorted(state.notes(), key=attrgetter("number"), reverse=True)
    names = [note.name for note in notes]
    return Catalogue(notes, Counter(map(posixpath.basename, names)), _root(names, state.home))


def render(
    state: WorkState, budget: int = 1_500, counter: TokenCounter | None = None, *, changes: bool = True
) -> str:
    """The state within `budget` tokens (o200k unless another counter is given)."""
    return state_text(state, budget, counter or tokens.get(), changes=changes)


def state_text(
    state: WorkState,
    budget: int,
    counter: TokenCounter,
    shows: Shows = shows_nothing,
    *,
    changes: bool = True,
    files: Catalogue | None = None,
) -> str:
    """The state within `budget` tokens. Of entries that the view shows elsewhere only the names of changed
    files are given. `changes`: with what was last changed in the newest files; `files`: the catalogue of the
    state, where that is there."""
    sheet = _Sheet(budget, counter, files or catalogue(state))
    notes = sheet.files.notes
    changed = [note for note in notes if note.fate in ("modified", "created")]
    sheet.put_names({CHANGED: "modified", CREATED: "created"}, changed, _NAMES)
    sheet.put_names({DELETED: "deleted"}, notes, _DELETED)
    newest = max((note.number for note in notes if note.fate != "read"), default=-1)
    checks = [x for x in reversed(state.checks) if not shows(x.number, x.quote or x.command)][:_CHECKS]
    rows = [_check(check, state.home, newest) for check in checks]
    opened = [(check.number, CHECKS, row) for check, row in zip(checks[:2], rows, strict=False)]
    if state.error and not shows(state.error.number, state.error.error):
        opened.append((state.error.number, ERROR, _failure(state.error)))
    for _, title, row in sorted(opened, key=lambda one: -one[0]):
        sheet.put(title, row)
    for running in state.running:
        sheet.put(RUNNING, f"{in_short(running.what, SHOWN)} ({running.id}) #{running.number}")
    if not all(shows(state.todos_at, todo.text) for todo in state.open_todos):
        for row in _todos(state):
            sheet.put(TODOS, row)
    told = [note for note in changed if note.change and not _shown(note, shows)][: _CHANGES if changes else 0]
    for note, most in zip(told[:3], (8, 4, 4), strict=False):
        sheet.put_change(note, most)
    for row in rows[2:]:
        sheet.put(CHECKS, row)
    for note in told[3:]:
        sheet.put_change(note, 3)
    if state.plan and state.todos_at < state.plan_at and not shows(state.plan_at, state.plan):
        rows = [f"#{state.plan_at}", *(row for row in head(state.plan, _PLAN).split("\n") if row.strip())]
        sheet.put(PLAN, "\n    ".join(rows))
    read = [note for note in notes if note.fate == "read" and not shows(note.number, "")]
    sheet.put_names({READ: "read"}, read, max(_READ, sheet.left / 2 / max(budget, 1)))
    return sheet.text()


class _Sheet:
    """Statements under headings, each put there only while it fits."""

    def __init__(self, budget: int, counter: TokenCounter, files: Catalogue) -> None:
        self.budget, self.left, self.counter, self.files = budget, budget, counter, files
        self.root = f", relative to {files.root}" if files.root else ""
        """Said once, by the first list of names."""
        self.named: set[str] = set()
        """Files whose names stand there."""
        self.sections: dict[str, list[str]] = {}
        self.order: list[str] = []

    def text(self) -> str:
        """All that was put; what was put last leaves where the joints made it too long after all."""
        while True:
            parts = [part for title in _ORDER for part in self.sections.get(title, ())]
            rooted = [
                at for at, part in enumerate(parts) if self.root and self.root in part.partition("\n")[0]
            ]
            for at in rooted[1:]:
                parts[at] = parts[at].replace(self.root, "", 1)
            text = "\n".join(parts)
            if not self.order or self.counter.text(text) <= self.budget:
                return text
            self.sections[self.order.pop()].pop()

    def put(self, title: str, row: str) -> bool:
        """One statement under its heading, if it fits."""
        return self._put(title, f"- {row}" if self.sections.get(title) else f"{title}:\n- {row}")

    def put_change(self, note: FileNote, most: int) -> None:
        """What was last changed in a file, in as many of its rows as fit."""
        base = posixpath.basename(note.name)
        title = base if note.name in self.named and self.files.alike[base] == 1 else self.short(note.name)
        rows = note.change.split("\n")[:most]
        names = in_short(", ".join(name for name in note.defines if name not in note.change), SHOWN)
        heading = f"{title} #{note.number}" + (f": {names}" if names else "")
        while rows and not self.put(CHANGES, "\n    ".join([heading, *rows])):
            # What was put in tells more than what it replaced.
            rows = rows[1:] if rows[0].startswith("- ") else rows[: len(rows) // 2]

    def put_names(self, titles: dict[str, Fate], notes: Sequence[FileNote], share: float) -> None:
        """Names of files by what became of them: in full, by folder where that is too long, or the newest and
        how many are left out."""
        lists = {title: [note for note in notes if note.fate == fate] for title, fate in titles.items()}
        total = sum(map(len, lists.values()))
        room = min(self.left, int(self.budget * share))
        for title, listed in lists.items():
            self._put_some(title, listed, room * len(listed) // max(total, 1))

    def _put_some(self, title: str, notes: Sequence[FileNote], room: int) -> None:
        def text(count: int) -> str:
            return self._listed(title, notes, count, by_folder=True)

        if not notes or room <= 0:
            return
        in_full = self._listed(title, notes[:room], len(notes), by_folder=False)
        if self._size(in_full) <= room // 2:
            count = len(notes)
            self._put(title, in_full)
        elif count := largest(min(len(notes), room), lambda count: self._size(text(count)) <= room):
            self._put(title, text(count))
        self.named.update(note.name for note in notes[:count])

    def _listed(self, title: str, notes: Sequence[FileNote], count: int, *, by_folder: bool) -> str:
        """Names of the newest, or one row per folder (`- src/: a.py, b.py`)."""
        folders: dict[str, list[str]] = {}
        for note in notes[:count]:
            folder, base = (
                posixpath.split(self.short(note.name)) if by_folder else ("", self.short(note.name))
            )
            folders.setdefault(folder, []).append(base)
        rows = [_row(folder, names) for folder, names in folders.items()]
        more = [f"- (and {len(notes) - count} more)"] if count < len(notes) else []
        return "\n".join([f"{title} ({len(notes)}{self.root}):", *rows, *more])

    def short(self, name: str) -> str:
        return name.removeprefix(self.files.root) or name

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
    if len(names) > 1 and folder and not folder.startswith(("/", "~")):
        return f"- {folder}/: {', '.join(names)}"
    return "\n".join(f"- {posixpath.join(folder, name)}" for name in names)


def _root(names: Sequence[str], home: str) -> str:
    """The folder, with its slash, that names are given below; empty where that would save nothing."""
    relative = any(not name.startswith(("/", "~")) for name in names)
    if home:
        return f"{home}/" if sum(name.startswith(f"{home}/") for name in names) > 1 - relative else ""
    here = [name for name in names if name.startswith("/") and not name.startswith(_ELSEWHERE)]
    root = posixpath.commonpath(here) if len(here) > 1 and not relative else ""
    return f"{root}/" if root not in ("", "/") and root not in here else ""


def _todos(state: WorkState) -> Iterator[str]:
    listed, done = state.open_todos, len(state.todos) - len(state.open_todos)
    for todo in sorted(listed, key=lambda todo: todo.status == "pending"):
        yield todo.text if todo.status == "pending" else f"{todo.text} [{todo.status.replace('_', ' ')}]"
    if listed and done:
        yield f"({done} of {len(state.todos)} done)"


def _failure(failure: Failure) -> str:
    status = f"exit {failure.exit}: " if failure.exit else ""
    what, error = in_short(failure.what, SHOWN), in_short(failure.error, 240)
    return f"{what}: {status}{error or 'failed'} #{failure.number}"


def _shown(note: FileNote, shows: Shows) -> bool:
    """Does the view show a line of the newest change?"""
    rows = [row[2:].removesuffix(" …") for row in note.change.split("\n") if row.startswith(("+ ", "- "))]
    return any(shows(note.number, row) for row in rows or [note.change])


def _check(check: Check, home: str, newest_change: int) -> str:
    """`pytest -q: FAILED (exit 1), "2 failed, 11 passed" #183, files changed since`."""
    folder = "" if check.folder == home else check.folder.removeprefix(f"{home}/")
    place = f" (in {folder})" if folder else ""
    since = ", files changed since" if -1 < check.number < newest_change else ""
    return f"{in_short(check.command, SHOWN)}{place}: {verdict_text(check)} #{check.number}{since}"


def verdict_text(check: Check) -> str:
    """What the exit code decides, and the runner's own summary: `passed, "11 passed"`, `"2 failed"`."""
    status = f"FAILED (exit {check.exit})" if check.outcome == "FAILED" else check.outcome
    return ", ".join(filter(None, (status, f'"{check.quote}"' if check.quote else "")))
