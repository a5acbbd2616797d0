"""The state of the work (R10): what tool arguments, exit codes and todo lists say, and nothing else.

A `WorkState` takes one message after the other, each once, at a cost that follows the message and not the
past, and may be kept beside a session for as long as that grows. Everything is read from a call together with
its answer: what has no answer, or one that does not say, is not told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from refold.entries import Files
from refold.messages import Bash, Call, Message, Result, User
from refold.preserve.check_results import check_run, summary_line
from refold.preserve.file_history import FileHistory, FileNote, absolute
from refold.preserve.shell import CommandLine, operands, parse, without_folder
from refold.preserve.todos import Todo, plan, todos, with_task
from refold.preserve.tool_outcome import LOOKS, ToolOutcome, outcome_of, outcome_of_run
from refold.preserve.tools import actions
from refold.session.toolnames import command_line, kind
from refold.text.truncate import one_line

_CHECKS, _ERRORS, _WAITING, _RUNNING = 40, 20, 256, 32
"""How many are kept of each; the oldest goes first."""
STALE = 20
"""Steps after which an error is not told any more."""


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """The newest run of a test, a build, a linter."""

    command: str
    outcome: Literal["", "passed", "FAILED"] = ""
    """By its exit code; empty where that does not decide."""
    exit: int | None = None
    quote: str = ""
    """The last line of its output in which the runner sums up."""
    folder: str = ""
    number: int = -1
    entry: str = ""


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command or an edit that failed and was not tried again."""

    what: str
    error: str
    exit: int | None = None
    number: int = -1
    entry: str = ""


class Running(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command or a sub-agent in the background whose end was not reported."""

    what: str
    id: str
    number: int = -1
    entry: str = ""


class _Step(msgspec.Struct, frozen=True):
    """A call and where it stands."""

    call: Call
    number: int
    entry: str
    count: int
    """Which step of the session it belongs to."""


class _Row(msgspec.Struct, frozen=True):
    """A check, and what tells whether it still is the newest."""

    check: Check
    left: frozenset[tuple[str, ...]]
    """Its commands that did not run again."""
    tool: str
    proves: bool
    """That the tool marks no failure is exit code 0, where it marks failures at all."""


class WorkState:
    """Everything the calls so far have done. `cwd` is where the session works, if that is known."""

    def __init__(self, cwd: str = "") -> None:
        self.home = cwd.rstrip("/")
        self.history = FileHistory()
        self.todos: tuple[Todo, ...] = ()
        self.plan = ""
        self.todos_at = self.plan_at = -1
        self.version = 0
        """Another one: something may have changed."""
        self._shell = ""
        """Where the shell reports to stand."""
        self._steps = 0
        self._waiting: dict[str, _Step] = {}
        self._rows: list[_Row] = []
        self._marking: set[str] = set()
        """Tools that mark commands that fail: seen to do so in this session."""
        self._errors: dict[str, tuple[Failure, frozenset[tuple[str, str]], int]] = {}
        self._running: dict[str, tuple[Running, _Step]] = {}
        self._last: _Step | None = None
        """The newest command line, which may still wait for input."""

    # ── reading ─────────────────────────────────────────────────────────────────────────────────

    def take(self, message: Message, number: int = -1, entry: str = "") -> None:
        """One more message: `number` and `entry` say where it stands on the path."""
        calls = message.calls
        self._steps += bool(calls)
        for call in calls:
            self._waiting[call.id] = _Step(call, number, entry, self._steps)
            if len(self._waiting) > _WAITING:
                del self._waiting[next(iter(self._waiting))]
        if isinstance(message, Result) and (step := self._waiting.pop(message.call_id, None)):
            self._end(step, outcome_of(message, kind(step.call.name)), number, entry)
        elif isinstance(message, Bash):
            call = Call("", "bash", {"command": message.command})
            self._end(_Step(call, number, entry, self._steps), outcome_of_run(message), number, entry)
        elif isinstance(message, User) and self._running:
            self._ends(message.text, None, number, entry)
        else:
            return
        self.version += 1

    def extend(self, messages: Iterable[Message], first: int = 0) -> WorkState:
        """Several messages in order, numbered from `first`."""
        for number, message in enumerate(messages, first):
            self.take(message, number)
        return self

    def _end(self, step: _Step, outcome: ToolOutcome, number: int, entry: str) -> None:
        if outcome.refused:
            return
        what, base = kind(step.call.name), self._base(step.call) or outcome.cwd
        if what == "bash":
            self._ran(self._continued(step), outcome, base, number, entry)
        elif self._running:
            self._ends(outcome.body, outcome, number, entry)
        if started := _STARTED.match(outcome.body[:400]):
            self._start(step, started[1] or started[2] or started[3], number, entry)
        opened = _OPENED.search(outcome.body[-800:]) if what == "edit" else None
        for action in actions(step.call, opened[1] if opened else ""):
            self._errors.pop(absolute(action.path, base), None)
            if not outcome.failed:
                self.history.take(action, base, step.number, step.entry, created=outcome.created)
            elif action.verb != "view" and what != "bash":
                error = Failure(f"{step.call.name} {action.path}", outcome.error, outcome.exit, number, entry)
                self._blame(absolute(action.path, base), error, frozenset(), step.count)
        if not outcome.failed:
            self._lists(step, outcome, what == "todo", number)
        if outcome.cwd:
            self._shell = outcome.cwd.rstrip("/")
            self.home = self.home or self._shell

    def _base(self, call: Call) -> str:
        given = call.arguments.get("workdir")
        return (
            given.rstrip("/")
            if isinstance(given, str) and given.startswith("/")
            else self._shell or self.home
        )

    def _lists(self, step: _Step, outcome: ToolOutcome, is_list: bool, number: int) -> None:
        call = step.call
        listed = todos(call) if is_list else with_task(call, outcome.body, self.todos)
        if listed is not None:
            self.todos, self.todos_at = listed, step.number if is_list else number
        elif proposed := plan(call):
            self.plan, self.plan_at = proposed, step.number

    # ── commands ────────────────────────────────────────────────────────────────────────────────

    def _continued(self, step: _Step) -> _Step:
        """Input for a command that still runs, or a question for its output: the same run goes on."""
        given = step.call.arguments.get("is_input") in (True, "true", "True")
        if self._last is not None and (given or not command_line(step.call).strip()):
            return self._last
        self._last = step
        return step

    def _ran(self, step: _Step, outcome: ToolOutcome, base: str, number: int, entry: str) -> None:
        if isinstance(outcome.exit, int) and outcome.exit and outcome.failed:
            self._marking.add(step.call.name)
        line = command_line(step.call)
        parsed = parse(line)
        self.history.ran(parsed, base, step.number, step.entry, outcome)
        names = _names(parsed)
        self._errors = {key: error for key, error in self._errors.items() if not error[1] & names}
        if _STARTED.match(outcome.body[:400]):
            return
        told = self._checked(step, outcome, line, base, number, entry)
        looks = bool(parsed.commands) and parsed.commands[-1].program in LOOKS
        if outcome.failed and outcome.exit and not told and not looks and names:
            what = one_line(without_folder(line), 4_000)
            self._blame(what, Failure(what, outcome.error, outcome.exit, number, entry), names, step.count)

    def _checked(
        self, step: _Step, outcome: ToolOutcome, line: str, base: str, number: int, entry: str
    ) -> bool:
        """A run of checks takes the place of what they gave before. Says whether something is told of it."""
        run = check_run(line)
        if run is None:
            return False
        stated = bool(run.folder) or bool(self._shell) or "workdir" in step.call.arguments
        folder = absolute(run.folder or ".", base) if stated else ""
        rows = (_without(row, folder, frozenset(run.commands)) for row in self._rows)
        self._rows = [row for row in rows if row.left]
        proven = outcome.exit is not None and (run.other_proves if outcome.exit else run.zero_proves)
        decided: Literal["", "passed", "FAILED"] = (
            "" if not proven else "FAILED" if outcome.exit else "passed"
        )
        text = f"{run.text} (changes stashed)" if self.history.stashed else run.text
        check = Check(
            text, decided, outcome.exit if proven else None, summary_line(outcome.body), folder, number, entry
        )
        proves = outcome.exit is None and run.zero_proves and not outcome.failed
        if decided or check.quote or proves:
            self._rows = [*self._rows, _Row(check, frozenset(run.commands), step.call.name, proves)][
                -_CHECKS:
            ]
        return bool(decided or check.quote)

    def _blame(self, subject: str, error: Failure, names: frozenset[tuple[str, str]], step: int) -> None:
        self._errors.pop(subject, None)
        self._errors[subject] = error, names, step
        if len(self._errors) > _ERRORS:
            del self._errors[next(iter(self._errors))]

    # ── the background ──────────────────────────────────────────────────────────────────────────

    def _start(self, step: _Step, id: str, number: int, entry: str) -> None:
        given = step.call.arguments.get("description")
        what = command_line(step.call) or (given if isinstance(given, str) else "") or step.call.name
        self._running[id] = Running(one_line(what, 400), id, number, entry), step
        if len(self._running) > _RUNNING:
            del self._running[next(iter(self._running))]

    def _ends(self, text: str, outcome: ToolOutcome | None, number: int, entry: str) -> None:
        """What a text says of things in the background. A check that ended there is judged by that."""
        edge = text if len(text) <= 8_000 else text[:4_000] + text[-4_000:]
        if not _ENDED.search(edge):
            return
        for id in [id for id in self._running if id in edge]:
            _, step = self._running.pop(id)
            if outcome is not None and kind(step.call.name) == "bash":
                self._ran(step, outcome, self._base(step.call), number, entry)

    # ── what it says ────────────────────────────────────────────────────────────────────────────

    def files(self, most: int | None = None) -> Files:
        """Files by last known state, in order of first appearance; `read` are those never changed. At most so
        many: those that were touched last."""
        return self.history.files(most)

    def notes(self) -> tuple[FileNote, ...]:
        """What is known of each file, the one touched last at the end."""
        return tuple(note for note in self.history.notes.values() if note.fate != "gone")

    @property
    def checks(self) -> tuple[Check, ...]:
        """The newest run of each check of which something is known, newest last."""
        rows = (self._judged(row) for row in self._rows)
        return tuple(check for check in rows if check.outcome or check.quote)

    def _judged(self, row: _Row) -> Check:
        if row.proves and row.tool in self._marking:
            return msgspec.structs.replace(row.check, outcome="passed", exit=0)
        return row.check

    @property
    def error(self) -> Failure | None:
        """The last failure of something that was not tried again, unless it is long ago."""
        newest = next(reversed(self._errors.values()), None)
        return newest[0] if newest and self._steps - newest[2] <= STALE else None

    @property
    def running(self) -> tuple[Running, ...]:
        return tuple(running for running, _ in self._running.values())

    @property
    def open_todos(self) -> tuple[Todo, ...]:
        return tuple(todo for todo in self.todos if todo.open)

    def facts(self) -> dict[str, Any]:
        """All of it but the files, for a program."""
        return {
            "checks": self.checks, "error": self.error, "todos": self.todos, "plan": self.plan,
            "running": self.running, "cwd": self._shell or self.home,
        }  # fmt: skip


def of(messages: Iterable[Message]) -> WorkState:
    """The state after a whole conversation."""
    return WorkState().extend(messages)


_STARTED = re.compile(
    r"Command running in background with ID: (\w{1,40})"
    r"|Async agent launched successfully\.\s{1,4}agentId: (\w{1,40})"
    r"|(?s:.{0,200})Process running with session ID (\w{1,40})"
)
_ENDED = re.compile(
    r"<status>(?:completed|failed|killed|stopped)|Successfully (?:killed|stopped)|exited with code"
    r"|<exit_code>"
)
_OPENED = re.compile(r"\(Open file: (/[^\n]{1,1000})\)$", re.M)
"""SWE-agent's edits name no file: they change the one that is open, and their answer says which."""


def _names(line: CommandLine) -> frozenset[tuple[str, str]]:
    """The programs of a line, each with what it is first told: who runs one again tries the same again."""
    named = ((simple.program, next(iter(operands(simple.words)), "")) for simple in line.commands)
    return frozenset(
        (program, first) for program, first in named if program and program not in ("cd", "echo")
    )


def _without(row: _Row, folder: str, commands: frozenset[tuple[str, ...]]) -> _Row:
    """A row after some commands ran again, there or where it is not said."""
    if folder and row.check.folder and folder != row.check.folder:
        return row
    return msgspec.structs.replace(row, left=row.left - commands)
