"""The state of the work as text within a token budget.

In order of choice: names of files; what is open (checks, the last error, what runs, todos); what was last
changed in the newest files; the rest. What does not fit is left out as a whole.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from operator import attrgetter
from typing import NamedTuple, TypeAlias

import msgspec

from refold import tokens
from refold.facts.check_results import tells_of_failure
from refold.facts.file_history import OUTSIDE, FileNote
from refold.facts.hunks import beginning
from refold.facts.lines import OTHERS, SHOWN_CHARS, Row, joined
from refold.facts.state import FailedAction, LatestCheck, WorkState
from refold.protocols import TokenCounter
from refold.text.truncate import head, in_short
from refold.tokens.fitting import largest

_LISTS = {
    "modified": "Files changed",
    "created": "Files created",
    "deleted": "Files deleted",
    "uncertain": "Files changed before {undo}, which may have taken that back",
    "read": "Files read",
}
CHANGES, CHECKS = "Newest changes", "Builds and tests, last result"
ERROR, TODOS, PLAN = "Last error, not tried again", "Open todos", "Plan"
RUNNING = "Running in the background, no end reported"
_ORDER = (*_LISTS, CHECKS, ERROR, RUNNING, TODOS, PLAN, CHANGES)
_FILES = 0.45
"""Part of the budget that names of files may take (R25: 8 % of a record, of which the state is 18 %)."""
_CHANGES, _CHECKS, _PLAN = 10, 10, 800
"""Changes and checks that are told of; characters of a plan."""
_NEWEST, _OTHERS = (8, 4, 2), (3, 1)
"""Lines of the newest change, and of another, that are told if they fit, or else so many."""
_STALE = 100
"""Entries after which a check is not told any more where files were changed since; of the newest three only a
failure."""

Shows: TypeAlias = Callable[[int, str], bool]
"""Whether the view shows the entry of a number elsewhere, and in it a text; without a text: names it."""


class _Statement(NamedTuple):
    title: str
    texts: Sequence[str]
    """What it says, at one length or at several, the longest first."""
    number: int
    """The entry that it is about."""


class Catalogue:
    """A state of the work, its files made ready to be told: once for all texts of it."""

    def __init__(self, state: WorkState) -> None:
        self.state, self.version = state, state.version
        self._notes: Sequence[FileNote] = sorted(state.notes(), key=attrgetter("number"), reverse=True)
        """The newest first."""
        names = [note.name for note in self._notes]
        self.root = _root(names, state.home)
        """The folder, with its slash, that names are given below."""
        self._base_names = Counter(map(posixpath.basename, names))
        self._fates = Counter(note.fate for note in self._notes)
        # Where not all fit, those that were changed come before those that were only read.
        self._ranked = sorted(self._notes, key=lambda note: note.fate == "read")

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
        count = self._listed(int(budget * _FILES), counter)
        chosen, listed = self._sections(count), {note.name for note in self._ranked[:count]}
        room = budget - sum(_size(rows, counter) for _, rows in chosen)
        for statement in self._statements(shows, listed, changes=changes):
            begun = any(title == statement.title for title, _ in chosen)
            heading = [] if begun else [Row(f"{self._heading(statement.title)}:")]
            entries = (statement.number,) if statement.number >= 0 else ()
            for text in statement.texts:
                rows = [*heading, Row(f"- {text}", entries)]
                if (size := _size(rows, counter)) <= room:
                    chosen.append((statement.title, rows))
                    room -= size
                    break

        def first(count: int) -> list[Row]:
            in_order = sorted(chosen[:count], key=lambda section: _ORDER.index(section[0]))
            return [row for _, rows in in_order for row in rows]

        # What was chosen last leaves where the joints made it too long after all.
        return first(largest(len(chosen), lambda count: counter.text(joined(first(count))) <= budget))

    # ── files ───────────────────────────────────────────────────────────────────────────────────

    def _listed(self, room: int, counter: TokenCounter) -> int:
        """How many files in play (R25) have room."""

        def fits(count: int) -> bool:
            return _size([row for _, rows in self._sections(count) for row in rows], counter) <= room

        return largest(min(len(self._ranked), max(room, 0)), fits)

    def _sections(self, count: int) -> list[tuple[str, list[Row]]]:
        """So many files by their fate, newest first: `Files changed (3, relative to /home/dev/app/):`,
        then a row for each folder."""
        root, sections = f", relative to {self.root}" if self.root else "", list[tuple[str, list[Row]]]()
        for fate in _LISTS:
            notes = [note for note in self._ranked[:count] if note.fate == fate]
            if notes:
                more = self._fates[fate] - len(notes)
                others = ", sub-agents' not counted" if self.state.agent_at >= 0 and fate != "read" else ""
                about = Row(f"{self._heading(fate)} ({self._fates[fate]}{others}{root}):")
                others = [Row(f"- (and {more} more)")] if more else []
                sections.append((fate, [about, *self._folder_rows(notes), *others]))
                root = ""  # said once
        return sections

    def _folder_rows(self, notes: Iterable[FileNote]) -> Iterator[Row]:
        folders = dict[str, list[tuple[str, int]]]()
        for note in notes:
            folder, base_name = posixpath.split(self._short(note.name))
            folders.setdefault(folder, []).append((base_name, note.number))
        for folder, files in folders.items():
            if len(files) > 1 and folder and not any(", " in name for name, _ in files):
                names = ", ".join(name for name, _ in files)
                yield Row(f"- {folder.rstrip('/')}/: {names}", [number for _, number in files])
            else:
                yield from (Row(f"- {posixpath.join(folder, name)}", (number,)) for name, number in files)

    def _short(self, name: str) -> str:
        return name.removeprefix(self.root) or name

    def _heading(self, title: str) -> str:
        undo, agent = self.state.history.undo, self.state.agent_at
        if title == "uncertain" and undo:
            return _LISTS[title].format(undo=f"`{undo.text}` (#{undo.number})")
        if title == CHANGES and any(note.number < agent for note in self._notes if note.change):
            return f"{title} (a sub-agent worked at #{agent})"
        return _LISTS.get(title, title)

    # ── what else is known ──────────────────────────────────────────────────────────────────────

    def _statements(self, shows: Shows, listed: Set[str], *, changes: bool) -> Iterator[_Statement]:
        """All that may be told, in order of choice. `listed`: files whose names stand in the lists."""
        state = self.state
        checks = [_Statement(CHECKS, [_check(x, state)], x.number) for x in self._checks(shows)]
        if state.error and not shows(state.error.number, state.error.error):
            yield _Statement(ERROR, [_failure(state.error)], state.error.number)
        yield from checks[:3]
        for running in state.running:
            text = f"{in_short(running.what, SHOWN_CHARS)} ({running.id}) #{running.number}"
            yield _Statement(RUNNING, [text], running.number)
        # A task that is changed by its id is named nowhere in the call.
        if not all(not todo.id and shows(state.todos_at, todo.text) for todo in state.open_todos):
            yield from (_Statement(TODOS, [text], state.todos_at) for text in _todos(state))
        changed = self._changed(shows) if changes else []
        yield from (self._change(*change, listed, _NEWEST) for change in changed[:1])
        yield from (self._change(*change, listed, _OTHERS) for change in changed[1:])
        yield from checks[3:]
        if state.plan and state.todos_at < state.plan_at and not shows(state.plan_at, state.plan):
            lines = [f"#{state.plan_at}", *(x for x in head(state.plan, _PLAN).split("\n") if x.strip())]
            yield _Statement(PLAN, ["\n    ".join(lines)], state.plan_at)

    def _checks(self, shows: Shows) -> list[LatestCheck]:
        """The newest checks, newest first, that the view does not show."""
        latest, newest = [*reversed(self.state.checks)], self.state.history.changed_at
        current = (x for x in latest if newest - x.number < _STALE or (x in latest[:3] and not fails(x)))
        return [x for x in current if not shows(x.number, x.quote or x.command)][:_CHECKS]

    def _changed(self, shows: Shows) -> list[tuple[FileNote, bool]]:
        """Files with their newest changes that the view does not show, newest first, and whether it shows a
        later one. What was changed alike in several is told of the newest."""
        by_change = dict[str, tuple[FileNote, bool]]()
        for note in self._notes:
            if note.change and (unseen := _unseen(note, shows)):
                by_change.setdefault(unseen.change, (unseen, unseen.number < note.number))
        return sorted(by_change.values(), key=lambda change: -change[0].number)[:_CHANGES]

    def _change(self, note: FileNote, again: bool, listed: Set[str], lengths: Iterable[int]) -> _Statement:
        """What was last changed in a file, in so many lines of it. `again`: a later change is shown."""
        base_name = posixpath.basename(note.name)
        alone = note.name in listed and self._base_names[base_name] == 1
        names = in_short(", ".join(name for name in note.defines if name not in note.change), SHOWN_CHARS)
        what = "also has" if note.fate == "created" else "in other changes"
        title = f"{base_name if alone else self._short(note.name)} #{note.number}"
        title += ", changed again below" if again else ""
        title += f" ({what}: {names})" if names else ""
        beginnings = (beginning(note.change.split("\n"), length) for length in lengths)
        texts = ["\n    ".join([title, *lines]) for lines in beginnings if lines]
        return _Statement(CHANGES, texts, note.number)


def render(
    state: WorkState, budget: int = 1_500, counter: TokenCounter | None = None, *, changes: bool = True
) -> str:
    """The state within `budget` tokens (o200k unless another counter is given)."""
    return joined(Catalogue(state).rows(budget, counter or tokens.get(), changes=changes))


def _size(rows: Sequence[Row], counter: TokenCounter) -> int:
    return counter.text(joined(rows)) + 1


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


def fails(check: LatestCheck) -> bool:
    """Reason enough not to call the work done."""
    return check.outcome == "FAILED" or tells_of_failure(check.quote)


def verdict_text(check: LatestCheck) -> str:
    """What the exit code decides, and the runner's own summary: `passed, "11 passed"`, `"2 failed"`."""
    status = f"FAILED (exit {check.exit})" if check.outcome == "FAILED" else check.outcome
    quote = f'"{check.quote}"{OTHERS * check.others}' if check.quote else ""
    return ", ".join(filter(None, (status, quote)))
