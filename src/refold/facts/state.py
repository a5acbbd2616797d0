"""The state of the work (R10): what tool arguments, exit codes and todo lists say, and nothing else.

A `WorkState` takes one message after the other, each once, at a cost that follows the message and not the
past, and may be kept beside a session for as long as that grows. Everything is read from a call together with
its answer: what has no answer, or one that does not say, is not told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from refold.entries import Files
from refold.facts.check_results import RunSummary, check_run, summary
from refold.facts.file_history import FileHistory, FileNote, absolute
from refold.facts.shell import CommandLine, normalised, parse, without_folder
from refold.facts.todos import Todo, plan, todos, with_task
from refold.facts.tool_outcome import LOOKS, ToolOutcome, outcome_of, outcome_of_run
from refold.facts.tools import actions, printed_files
from refold.messages import Bash, Call, Message, Result, User
from refold.session.toolnames import (
    READING_AGENTS,
    SUB_AGENTS,
    canonical_tool_name,
    command_line,
    kind,
    text_argument,
)
from refold.session.toolstatus import stopped
from refold.text.truncate import in_short, one_line

_CHECKS, _ERRORS, _WAITING, _RUNNING = 40, 20, 256, 32
"""How many are kept of each; the oldest goes first."""
_QUOTED = 160
"""Characters of what went wrong where no runner sums up."""
_ERROR_STEPS = 20
"""Steps after which an error is not told any more."""


class LatestCheck(msgspec.Struct, frozen=True, omit_defaults=True):
    """The newest run of a test, a build, a linter."""

    command: str
    outcome: Literal["", "passed", "FAILED"] = ""
    """By its exit code; empty where that does not decide."""
    exit: int | None = None
    quote: str = ""
    """The last line of its output in which the runner sums up."""
    others: bool = False
    """It sums up one part of the work: there are lines like it of others."""
    folder: str = ""
    number: int = -1
    entry: str = ""


class FailedAction(msgspec.Struct, frozen=True, omit_defaults=True):
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


At: TypeAlias = tuple[int, str]
"""Number and id of an entry."""


class _Step(msgspec.Struct, frozen=True):
    """A call and where it stands."""

    call: Call
    at: At
    count: int
    """Which step of the session it belongs to."""


class _Failure(msgspec.Struct, frozen=True):
    """A failed action, and what tells whether it was tried again."""

    action: FailedAction
    subjects: frozenset[tuple[str, ...]]
    """Programs with what they are told first; files."""
    count: int
    """The step of the session it belongs to."""


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
        self._checks: dict[tuple[frozenset[tuple[str, ...]], str], tuple[LatestCheck, str]] = {}
        """By their commands, normalised, and the folder, the newest last. With the tool that did not mark it
        as failed, where nothing else says how it ended."""
        self._marking: set[str] = set()
        """Tools that mark commands that fail: seen to do so in this session."""
        self._failures: list[_Failure] = []
        """The newest last."""
        self.agent_at = -1
        """Entry in which a sub-agent last reported that may change files."""
        self._running: dict[str, tuple[Running, _Step]] = {}
        self._last: _Step | None = None
        """The newest command line, which may still wait for input."""

    # ── reading ─────────────────────────────────────────────────────────────────────────────────

    def take(self, message: Message, number: int = -1, entry: str = "") -> None:
        """One more message: `number` and `entry` say where it stands on the path."""
        at, calls = (number, entry), message.calls
        self._steps += bool(calls)
        for call in calls:
            _keep(self._waiting, call.id, _Step(call, at, self._steps), _WAITING)
        if isinstance(message, Result) and (step := self._waiting.pop(message.call_id, None)):
            self._end(step, outcome_of(message, kind(step.call.name)), at)
        elif isinstance(message, Bash):
            step = _Step(Call("", "bash", {"command": message.command}), at, self._steps)
            self._end(step, outcome_of_run(message), at)
        elif isinstance(message, User) and self._running:
            self._ends(message.text, None, at)
        else:
            return
        self.version += 1

    def extend(self, messages: Iterable[Message], first: int = 0) -> WorkState:
        """Several messages in order, numbered from `first`."""
        for number, message in enumerate(messages, first):
            self.take(message, number)
        return self

    def _end(self, step: _Step, outcome: ToolOutcome, at: At) -> None:
        if outcome.refused:
            return
        call, what = step.call, kind(step.call.name)
        base = self._base(call) or outcome.cwd
        started = _STARTED.match(outcome.body[:400])
        if started:
            self.history.ran(parse(command_line(call)), base, step.at[0], outcome)
            self._start(step, started[1] or started[2] or started[3], at)
        elif what == "bash":
            self._ran(self._continued(step), outcome, base, at)
        elif canonical_tool_name(call.name) in SUB_AGENTS:
            self._worked(call, at)
        elif self._running:
            self._ends(outcome.body, outcome, at)
        opened = _OPENED.search(outcome.body[-800:]) if what == "edit" else None
        printed = printed_files(call, outcome.body) if what == "bash" else ()
        for action in actions(call, opened[1] if opened else ""):
            path = absolute(action.path, base)
            file = frozenset({("file", path)})
            self._tried_again(file)
            if action.verb == "view" and (
                action.path not in printed if what == "bash" else f"\n{action.path}/" in outcome.body[:400]
            ):
                continue  # nothing of it was printed, or it is a folder: what it holds was listed
            if not outcome.failed:
                self.history.take(action, base, step.at[0], created=outcome.created)
            elif action.verb != "view" and what != "bash" and not opened:
                self._failed(f"{call.name} {action.path}", outcome, file, step, at)
        if not outcome.failed:
            self._lists(step, outcome, what == "todo", at)
        if outcome.cwd:
            self._shell = outcome.cwd.rstrip("/")
            self.home = self.home or self._shell

    def _base(self, call: Call) -> str:
        """Where relative paths of a call start."""
        given = call.arguments.get("workdir")
        stated = isinstance(given, str) and given.startswith("/")
        return str(given).rstrip("/") if stated else self._shell or self.home

    def _lists(self, step: _Step, outcome: ToolOutcome, is_list: bool, at: At) -> None:
        listed = todos(step.call) if is_list else with_task(step.call, outcome.body, self.todos)
        if listed is not None:
            self.todos, self.todos_at = listed, (step.at if is_list else at)[0]
        elif proposed := plan(step.call):
            self.plan, self.plan_at = proposed, step.at[0]

    # ── commands ────────────────────────────────────────────────────────────────────────────────

    def _continued(self, step: _Step) -> _Step:
        """Input for a command that still runs, or a question for its output: the same run goes on."""
        given = step.call.arguments.get("is_input") in (True, "true", "True")
        if self._last is None or not (given or not command_line(step.call).strip()):
            self._last = step
        return self._last

    def _ran(self, step: _Step, outcome: ToolOutcome, base: str, at: At) -> None:
        if outcome.exit and outcome.marked:
            self._marking.add(step.call.name)
        line = command_line(step.call)
        parsed = parse(line)
        stashed = self.history.stashed
        self.history.ran(parsed, base, step.at[0], outcome)
        subjects = _subjects(parsed)
        self._tried_again(subjects)
        told = self._checked(step, outcome, line, base, at, stashed=stashed)
        if outcome.exit and subjects and not told and parsed.commands[-1].program not in LOOKS:
            self._failed(one_line(without_folder(line), 4_000), outcome, subjects, step, at)

    def _failed(
        self, what: str, outcome: ToolOutcome, subjects: frozenset[tuple[str, ...]], step: _Step, at: At
    ) -> None:
        action = FailedAction(what, outcome.error, outcome.exit, *at)
        self._failures = [*self._failures, _Failure(action, subjects, step.count)][-_ERRORS:]

    def _tried_again(self, subjects: frozenset[tuple[str, ...]]) -> None:
        self._failures = [x for x in self._failures if x.subjects.isdisjoint(subjects)]

    def _checked(
        self, step: _Step, outcome: ToolOutcome, line: str, base: str, at: At, *, stashed: bool
    ) -> bool:
        """A run of checks takes the place of earlier ones of the same. Says whether anything is told."""
        run = check_run(line)
        if run is None or outcome.exit in _NOT_STARTED:
            return False
        stated = run.folder or self._shell or "workdir" in step.call.arguments
        folder = absolute(run.folder or ".", base) if stated else ""
        code = outcome.exit
        unmarked = code is None and run.zero_proves and not outcome.failed
        proven = code is not None and (run.other_proves if code else run.zero_proves)
        decided = ("FAILED" if code else "passed") if proven else ""
        said = summary(outcome.body, failed=outcome.failed)
        if not decided and not said.quote and any(map(stopped, outcome.body[-400:].split("\n"))):
            return False  # it was stopped, and takes no one's place
        if decided == "FAILED" and not said.quote:
            said = RunSummary(in_short(outcome.error, _QUOTED))
        for commands, place in [*self._checks]:
            if commands & run.commands and (not folder or place in ("", folder)):
                del self._checks[commands, place]
        if not decided and not said.quote and not unmarked:
            return False
        stashed = stashed and "git stash pop" not in run.text
        text = f"{run.text} (after git stash)" if stashed else run.text
        check = LatestCheck(text, decided, code if proven else None, *said, folder, *at)
        tool = step.call.name if unmarked else ""
        _keep(self._checks, (run.commands, folder), (check, tool), _CHECKS)
        return bool(decided or said.quote)

    # ── the background ──────────────────────────────────────────────────────────────────────────

    def _start(self, step: _Step, id: str, at: At) -> None:
        given = step.call.arguments.get("description")
        line = command_line(step.call)
        self._tried_again(_subjects(parse(line)))
        what = line or (given if isinstance(given, str) else "") or step.call.name
        _keep(self._running, id, (Running(one_line(what, 400), id, *at), step), _RUNNING)

    def _ends(self, text: str, outcome: ToolOutcome | None, at: At) -> None:
        """What a text says of things in the background. A check that ended there is judged by that."""
        edge = text if len(text) <= 8_000 else text[:4_000] + text[-4_000:]
        for id in [id for id in self._running if id in edge] if _ENDED.search(edge) else ():
            _, step = self._running.pop(id)
            if outcome is not None and kind(step.call.name) == "bash":
                self._ran(step, outcome, self._base(step.call), at)
            elif canonical_tool_name(step.call.name) in SUB_AGENTS:
                self._worked(step.call, at)

    def _worked(self, call: Call, at: At) -> None:
        if canonical_tool_name(text_argument(call, ("subagent_type",))) not in READING_AGENTS:
            self.agent_at = at[0]

    # ── what it says ────────────────────────────────────────────────────────────────────────────

    def files(self, most: int | None = None) -> Files:
        """Files by last known state, in order of first appearance; `read` are those never changed. At most so
        many: those that were touched last."""
        return self.history.files(most)

    def notes(self) -> tuple[FileNote, ...]:
        """What is known of each file, the one touched last at the end."""
        return tuple(self.history.told())

    @property
    def checks(self) -> tuple[LatestCheck, ...]:
        """The newest run of each check of which something is known, newest last."""
        checks = (
            msgspec.structs.replace(check, outcome="passed", exit=0) if tool in self._marking else check
            for check, tool in self._checks.values()
        )
        return tuple(check for check in checks if check.outcome or check.quote)

    @property
    def error(self) -> FailedAction | None:
        """The last failure of something that was not tried again, unless it is long ago."""
        newest = self._failures[-1] if self._failures else None
        return newest.action if newest and self._steps - newest.count <= _ERROR_STEPS else None

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


_NOT_STARTED = (126, 127)
"""Exit codes of a shell that found no such program, or may not start it: nothing was checked."""
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
_K = TypeVar("_K")
_V = TypeVar("_V")


def _keep(values: dict[_K, _V], name: _K, value: _V, most: int) -> None:
    """The value as the newest of at most so many."""
    values.pop(name, None)
    values[name] = value
    if len(values) > most:
        del values[next(iter(values))]


def _subjects(line: CommandLine) -> frozenset[tuple[str, ...]]:
    """The programs of a line, each with what it is told first: either again is the same tried again."""
    named = (normalised(simple.words)[:2] for simple in line.commands)
    return frozenset(words for words in named if words[0] not in ("", "cd", "echo"))
