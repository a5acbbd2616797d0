"""The state of the work as text within a token budget.

In order of choice: names of files; what is open (checks, the last error, what runs, todos); what was last
changed in the newest files; the rest. What does not fit is left out as a whole.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeAlias

import msgspec

from refold import tokens
from refold.facts.check_results import tells_of_failure
from refold.facts.file_history import OUTSIDE, Fate, FileNote
from refold.facts.hunks import going_on
from refold.facts.lines import OTHERS, SHOWN_CHARS, Row, joined
from refold.facts.state import FailedAction, LatestCheck, WorkState
from refold.protocols import TokenCounter
from refold.text.truncate import head, in_short
from refold.tokens.fitting import largest

_LISTS: dict[Fate, str] = {
    "modified": "Files changed",
    "created": "Files created",
    "deleted": "Files deleted",
    "uncertain": "Files changed before {undo}, which may have undone it",
    "read": "Files read",
}
CHANGES, CHECKS = "Newest changes", "Builds and tests, last result"
ERROR, TODOS, PLAN = "Last error, not tried again", "Open todos", "Plan"
RUNNING = "Running in the background, no end reported"
_ORDER = (*_LISTS, CHECKS, ERROR, RUNNING, TODOS, PLAN, CHANGES)
_FILES = 0.45
"""Part of the budget that names of files may take (R25: 8 % of a record, of which the state is 18 %)."""
_CHANGES, _CHECKS, _PLAN = 10, 10, 800
"""Changed files and checks that are told of; characters of a plan."""
_STALE = 100
"""Entries after which a check is not told any more where files were changed since; of the newest three only a
failure."""

Shows: TypeAlias = Callable[[int, str], bool]
"""Whether the view shows the entry of a number elsewhere, and in it a text; without a text: names it."""


class Listed(NamedTuple):
    """Names of files under their headings."""

    sections: dict[str, list[Row]]
    names: frozenset[str]


class Catalogue:
    """A state of the work, its files made ready to be told: once for all texts of it."""

    def __init__(self, state: WorkState) -> None:
        self.state, self.version = state, state.version
        self.notes: Sequence[FileNote] = sorted(state.notes(), key=attrgetter("number"), reverse=True)
        """The newest first."""
        names = [note.name for note in self.notes]
        self.alike = Counter(map(posixpath.basename, names))
        """How many share their last part."""
        self.root = _root(names, state.home)
        """The folder, with its slash, that names are given below."""
        self._fates = Counter(note.fate for note in self.notes)
        # Where not all fit, those that were changed come before those that were only read.
        ranked = sorted(self.notes, key=lambda note: note.fate == "read")
        self._ranked = [(note, *posixpath.split(self.short(note.name))) for note in ranked]
        self._listed: dict[tuple[int, str], Listed] = {}

    def short(self, name: str) -> str:
        return name.removeprefix(self.root) or name

    def listed(self, room: int, counter: TokenCounter) -> Listed:
        """The files in play by what became of them (R25), newest first, as many as fit. Worked out once for
        each room: every view that is tried asks for it."""
        key = (room, counter.name)
        if key not in self._listed:

            def fits(count: int) -> bool:
                rows = (row for rows in self._lists(count).values() for row in rows)
                return counter.text(joined(rows)) + 1 <= room

            count = largest(min(len(self._ranked), max(room, 0)), fits)
            names = frozenset(note.name for note, *_ in self._ranked[:count])
            self._listed[key] = Listed(self._lists(count), names)
        return self._listed[key]

    def _lists(self, count: int) -> dict[str, list[Row]]:
        """By fate: `Files changed (3, relative to /home/dev/app/):`, then a row for each folder."""
        root, lists = f", relative to {self.root}" if self.root else "", dict[str, list[Row]]()
        undo = self.state.history.undo
        for fate, title in _LISTS.items():
            folders = dict[str, list[tuple[str, int]]]()
            for note, folder, base in self._ranked[:count]:
                if note.fate == fate:
                    folders.setdefault(folder, []).append((base, note.number))
            if not folders:
                continue
            more = self._fates[fate] - sum(map(len, folders.values()))
            rows = [row for folder, files in folders.items() for row in _folder_rows(folder, files)]
            rows += [Row(f"- (and {more} more)")] if more else []
            heading = title.format(undo=f"`{undo.text}` (#{undo.number})" if undo else "")
            lists[fate] = [Row(f"{heading} ({self._fates[fate]}{root}):"), *rows]
            root = ""  # said once
        return lists

    def rows(
        self,
        budget: int,
        counter: TokenCounter,
        shows: Shows = lambda number, text: False,  # noqa: ARG005
        *,
        changes: bool = True,
    ) -> list[Row]:
        """The state within `budget` tokens. Of entries that the view shows elsewhere only the names of files
        are given. `changes`: with what was last changed in the newest files."""
        sheet, state, notes = _Sheet(budget, counter, self), self.state, self.notes
        newest = state.history.changed_at
        latest = [*reversed(state.checks)]
        current = (x for x in latest if newest - x.number < _STALE or (x in latest[:3] and not _fails(x)))
        checks = [x for x in current if not shows(x.number, x.quote or x.command)][:_CHECKS]
        opened = [(x.number, CHECKS, _check(x, state)) for x in checks[:2]]
        if state.error and not shows(state.error.number, state.error.error):
            opened.append((state.error.number, ERROR, _failure(state.error)))
        agent = state.agent_at
        if any(note.number < agent for note in notes if note.change):
            sheet.headings[CHANGES] = f"{CHANGES} (a sub-agent worked at #{agent})"
        for number, title, text in sorted(opened, reverse=True):
            sheet.put(title, text, number)
        for running in state.running:
            text = f"{in_short(running.what, SHOWN_CHARS)} ({running.id}) #{running.number}"
            sheet.put(RUNNING, text, running.number)
        # A task that is changed by its id is named nowhere in the call.
        if not all(not todo.id and shows(state.todos_at, todo.text) for todo in state.open_todos):
            for text in _todos(state):
                sheet.put(TODOS, text, state.todos_at)
        unseen = (_unseen(note, shows) for note in notes if changes and note.change)
        told = [note for note in unseen if note is not None][:_CHANGES]
        same = _alike(told)
        for notes_alike, most in zip(same[:3], (8, 4, 4), strict=False):
            sheet.put_change(notes_alike, most)
        for check in checks[2:]:
            sheet.put(CHECKS, _check(check, state), check.number)
        for notes_alike in same[3:]:
            sheet.put_change(notes_alike, 3)
        if state.plan and state.todos_at < state.plan_at and not shows(state.plan_at, state.plan):
            lines = [f"#{state.plan_at}", *(x for x in head(state.plan, _PLAN).split("\n") if x.strip())]
            sheet.put(PLAN, "\n    ".join(lines), state.plan_at)
        return sheet.rows()


def render(
    state: WorkState, budget: int = 1_500, counter: TokenCounter | None = None, *, changes: bool = True
) -> str:
    """The state within `budget` tokens (o200k unless another counter is given)."""
    return joined(Catalogue(state).rows(budget, counter or tokens.get(), changes=changes))


class _Sheet:
    """Statements under headings, each put there only while it fits."""

    def __init__(self, budget: int, counter: TokenCounter, files: Catalogue) -> None:
        self.budget, self.left, self.counter, self.files = budget, budget, counter, files
        self.statements: list[tuple[str, list[Row]]] = []
        """Headings and what stands there, in order of choice."""
        self.headings = dict[str, str]()
        """Such as say more than their names."""
        listed = files.listed(int(budget * _FILES), counter)
        for title, rows in listed.sections.items():
            self._put(title, rows)
        self.named = listed.names
        """Files whose names stand there."""

    def rows(self) -> list[Row]:
        """All that was put; what was put last leaves where the joints made it too long after all."""

        def first(count: int) -> list[Row]:
            chosen = self.statements[:count]
            return [row for title in _ORDER for under, rows in chosen if under == title for row in rows]

        fit = largest(len(self.statements), lambda n: self.counter.text(joined(first(n))) <= self.budget)
        return first(fit)

    def put(self, title: str, text: str, *numbers: int) -> bool:
        """One statement about entries under its heading, if it fits."""
        heading = [Row(f"{self.headings.get(title, title)}:")]
        heading = [] if any(under == title for under, _ in self.statements) else heading
        return self._put(title, [*heading, Row(f"- {text}", [number for number in numbers if number >= 0])])

    def put_change(self, notes: Sequence[FileNote], most: int) -> None:
        """What was last changed in a file, and in others alike, in as many of its lines as fit."""
        first, *others = notes
        names = in_short(", ".join(name for name in first.defines if name not in first.change), SHOWN_CHARS)
        what = "also defines" if first.fate == "created" else "also changed"
        heading = self._title(first) + (f" ({what}: {names})" if names else "")
        heading += f"; the same in {', '.join(map(self._title, others))}" if others else ""
        change = first.change.split("\n")
        for count in (most, most // 2, most // 4):
            lines = _begin(change, count)
            text = "\n    ".join([heading, *lines])
            if lines and self.put(CHANGES, text, *(note.number for note in notes)):
                return

    def _title(self, note: FileNote) -> str:
        base = posixpath.basename(note.name)
        alone = note.name in self.named and self.files.alike[base] == 1
        return f"{base if alone else self.files.short(note.name)} #{note.number}"

    def _put(self, title: str, rows: list[Row]) -> bool:
        size = self.counter.text(joined(rows)) + 1
        if size > self.left:
            return False
        self.left -= size
        self.statements.append((title, rows))
        return True


def _begin(change: Sequence[str], count: int) -> list[str]:
    """The first lines of a change; none that something replaced without what took its place."""
    shown, replaces = [*change[:count]], "".join(change[count : count + 1]).startswith("+ ")
    while replaces and shown and shown[-1].startswith("- "):
        shown.pop()
    if shown and len(shown) < len(change):
        shown[-1] = going_on(shown[-1])
    return shown


def _alike(notes: Sequence[FileNote]) -> list[list[FileNote]]:
    """Notes of the same change together, where all of it is told; in the order of the first of them."""
    groups = dict[str, list[FileNote]]()
    for note in notes:
        whole = not note.defines and not any(row.endswith(" …") for row in note.change.split("\n"))
        groups.setdefault(note.change if whole else note.name, []).append(note)
    return [*groups.values()]


def _folder_rows(folder: str, files: Sequence[tuple[str, int]]) -> list[Row]:
    if len(files) > 1 and folder and not any(", " in name for name, _ in files):
        names = ", ".join(name for name, _ in files)
        return [Row(f"- {folder.rstrip('/')}/: {names}", [number for _, number in files])]
    return [Row(f"- {posixpath.join(folder, name)}", (number,)) for name, number in files]


def _root(names: Sequence[str], home: str) -> str:
    """The folder, with its slash, that names are given below; empty where that would save nothing."""
    relative = any(not name.startswith(("/", "~")) for name in names)
    if home:
        return f"{home}/" if sum(name.startswith(f"{home}/") for name in names) > 1 - relative else ""
    here = [name for name in names if name.startswith("/") and not OUTSIDE.match(name)]
    root = posixpath.commonpath(here) if len(here) > 1 and not relative else ""
    return f"{root}/" if root not in ("", "/") and root not in here else ""


def _todos(state: WorkState) -> Iterator[str]:
    listed, done = state.open_todos, sum(todo.done for todo in state.todos)
    for todo in sorted(listed, key=lambda todo: todo.status == "pending"):
        yield todo.text if todo.status == "pending" else f"{todo.text} [{todo.status.replace('_', ' ')}]"
    if listed and done:
        yield f"({done} of {len(state.todos)} done)"


def _failure(failure: FailedAction) -> str:
    status = f"exit {failure.exit}: " if failure.exit else ""
    what, error = in_short(failure.what, SHOWN_CHARS), in_short(failure.error, 240)
    return f"{what}: {status}{error or 'failed'} #{failure.number}"


def _unseen(note: FileNote, shows: Shows) -> FileNote | None:
    """A file with the newest change of it that the view does not show; it shows one with one of its lines."""
    for number, change in ((note.number, note.change), *note.before):
        rows = [row[2:].removesuffix(" …") for row in change.split("\n") if row.startswith(("+ ", "- "))]
        if not any(shows(number, row) for row in rows or [change]):
            return msgspec.structs.replace(note, number=number, change=change)
    return None


def _check(check: LatestCheck, state: WorkState) -> str:
    """`pytest -q: FAILED (exit 1), "2 failed, 11 passed" #183, files changed since`."""
    home, number = state.home, check.number
    below = check.folder.removeprefix(f"{home}/") if home else check.folder
    place = f" (in {below})" if check.folder not in ("", home) else ""
    since = ", files changed since" if -1 < number < state.history.changed_at else ""
    since += ", a sub-agent worked since" if -1 < number < state.agent_at else ""
    undo = state.history.undo
    since += f", before `{undo.text}` (#{undo.number})" if undo and -1 < number < undo.number else ""
    return f"{in_short(check.command, SHOWN_CHARS)}{place}: {verdict_text(check)} #{number}{since}"


def _fails(check: LatestCheck) -> bool:
    return check.outcome == "FAILED" or tells_of_failure(check.quote)


def verdict_text(check: LatestCheck) -> str:
    """What the exit code decides, and the runner's own summary: `passed, "11 passed"`, `"2 failed"`."""
    status = f"FAILED (exit {check.exit})" if check.outcome == "FAILED" else check.outcome
    quote = f'"{check.quote}"{OTHERS * check.others}' if check.quote else ""
    return ", ".join(filter(None, (status, quote)))
