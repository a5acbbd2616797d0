"""The state of the work (R10): files, last verdicts, the last unanswered error, todos, from tool calls alone.

A `WorkState` reads one message after the other, each once, at a cost that follows the message and not the
past, and may be kept beside a session for as long as that grows. What a tool did not report is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from refold.entries import Files
from refold.messages import Bash, Call, Message, Result, User
from refold.preserve.action import Action
from refold.preserve.ending import Ending, ending, ending_of_run
from refold.preserve.filebook import FileBook, FileNote, absolute
from refold.preserve.runs import Run, judge, run
from refold.preserve.todos import Todo, plan, todos
from refold.preserve.tools import actions, opens
from refold.preserve.verdicts import UNKNOWN, Verdict
from refold.session.toolnames import Kind, command_line, kind, text_argument

_CHECKS, _ERRORS, _PENDING, _BACKGROUND = 40, 20, 256, 32
"""How many are kept of each; the oldest goes first."""
_LOOKS: frozenset[Kind] = frozenset({"read", "ls", "glob", "grep"})


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last result of a build, a test run, a linter."""

    command: str
    folder: str = ""
    verdict: Verdict = UNKNOWN
    exit: int | None = None
    """As the tool reported it; None where it did not, or where it is not the status of this command."""
    error: str = ""
    covered: bool = False
    """A filter came after it: the status of the line is not its own."""
    times: int = 1
    number: int = -1
    entry: str = ""


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that failed, and no later one of its kind has succeeded."""

    what: str
    error: str
    exit: int | None = None
    number: int = -1
    entry: str = ""


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call whose result has not been seen yet."""

    name: str
    kind: Kind
    actions: tuple[Action, ...] = ()
    run: Run | None = None
    base: str = ""
    plan: str = ""
    number: int = -1
    entry: str = ""


class WorkState:
    """Everything the calls so far have done. `cwd` is where the session works, if that is known."""

    def __init__(self, cwd: str = "") -> None:
        self.cwd = self.home = cwd.rstrip("/")
        self.book = FileBook()
        self.todos: tuple[Todo, ...] = ()
        self.todos_at = -1
        self.plan = ""
        self.plan_at = -1
        self._checks: dict[tuple[str, str], Check] = {}
        self._errors: dict[tuple[str, ...], Failure] = {}
        self._pending: dict[str, Step] = {}
        self._background: dict[str, Step] = {}
        self._last: Step | None = None
        self._opened = ""
        self._strayed = self._stashed = False
        self.version = 0
        """Another one: something may have changed."""

    # ── reading ─────────────────────────────────────────────────────────────────────────────────

    def take(self, message: Message, number: int = -1, entry: str = "") -> None:
        """One more message: `number` and `entry` say where it stands on the path."""
        calls = message.calls
        for call in calls:
            self._begin(call, number, entry)
        if isinstance(message, Result):
            step = self._pending.pop(message.call_id, None)
            if step is None:
                return
            self._end(step, ending(message, step.kind), number, entry)
        elif isinstance(message, Bash):
            self._ran(message, number, entry)
        elif isinstance(message, User):
            self._interrupted()
        elif not calls:
            return
        self.version += 1

    def extend(self, messages: Iterable[Message], first: int = 0) -> WorkState:
        """Several messages in order, numbered from `first`."""
        for number, message in enumerate(messages, first):
            self.take(message, number)
        return self

    def _begin(self, call: Call, number: int, entry: str) -> None:
        what = kind(call.name)
        if what == "todo":
            listed = todos(call)
            if listed is not None:
                self.todos, self.todos_at = listed, number
            return
        step = self._continued(call, what) or Step(
            call.name, what, actions(call, self._opened), plan=plan(call)
        )
        if what == "bash" and step.run is None:
            step = msgspec.structs.replace(step, run=run(command_line(call)))
        if step.actions and opens(call):
            self._opened = step.actions[-1].path
        workdir = call.arguments.get("workdir")
        base = workdir if isinstance(workdir, str) and workdir.startswith("/") else self.cwd
        self._pending[call.id] = msgspec.structs.replace(
            step, base=base.rstrip("/"), number=number, entry=entry
        )
        if len(self._pending) > _PENDING:
            self._do(self._pending.pop(next(iter(self._pending))), Ending())

    def _continued(self, call: Call, what: Kind) -> Step | None:
        """Input for a command that still runs, or a question for its output: the same run goes on."""
        if what == "bash" and self._last is not None:
            is_input = call.arguments.get("is_input") in (True, "true", "True")
            if is_input or not command_line(call).strip():
                return msgspec.structs.replace(self._last, actions=())
        for name in ("task_id", "bash_id", "shell_id", "session_id"):
            running = self._background.get(text_argument(call, (name,)))
            if running is not None:
                return msgspec.structs.replace(running, actions=())
        return None

    def _ran(self, message: Bash, number: int, entry: str) -> None:
        """A command of the user's own."""
        call = Call("", "bash", {"command": message.command})
        step = Step("bash", "bash", actions(call), run(message.command), self.cwd, "", number, entry)
        self._end(step, ending_of_run(message), number, entry)

    def _end(self, step: Step, ended: Ending, number: int, entry: str) -> None:
        if ended.cwd:
            step = self._stands(step, ended.cwd.rstrip("/"))
        if step.kind == "bash":
            self._last = step
            self._strayed = self._strayed or (step.run is not None and bool(step.run.folder))
            started = _in_background(ended.body)
            if started:
                self._background[started] = step
                if len(self._background) > _BACKGROUND:
                    del self._background[next(iter(self._background))]
        self._do(step, ended)
        if step.run and step.run.stashes is not None and ended.ok is not False:
            self._stashed = step.run.stashes
        if step.plan and ended.ok is not False:
            self.plan, self.plan_at = step.plan, step.number
        judged = judge(step.run, ended.body) if step.run else UNKNOWN
        if step.run and (step.run.check or judged.passed is not None):
            self._check(step.run, step.base, ended, judged, number, entry)
        else:
            self._blame(step, ended, number, entry)

    def _stands(self, step: Step, cwd: str) -> Step:
        """The shell says where it stands. If it never moved before it said so, it has always been there."""
        moved = self._strayed or (step.run is not None and bool(step.run.folder))
        if not self.home and not moved:
            self.home, self.book = cwd, self.book.rebased(cwd)
            step = msgspec.structs.replace(step, base=cwd)
        self.home, self.cwd = self.home or cwd, cwd
        return step

    def _do(self, step: Step, ended: Ending) -> None:
        """What the step did to files. Of a command line that failed, only what came before its end is sure;
        of a tool that failed, nothing."""
        missing = _missing(ended.body) if step.kind == "bash" else ()
        for action in step.actions:
            base = self._base(action, step.base)
            failed = ended.ok is False and (step.kind != "bash" or action.fragile)
            if action.verb == "view" and (failed or any(action.path in row for row in missing)):
                continue
            if failed:
                self.book.tried(action, base=base)
                continue
            if action.verb == "write" and "has been updated" in ended.body[:400]:
                action = msgspec.structs.replace(action, verb="modify")
            self.book.take(action, base=base, number=step.number, entry=step.entry, tool=step.kind != "bash")
            if action.verb != "view":
                self._errors.pop(("file", absolute(action.path, step.base)), None)

    def _base(self, action: Action, base: str) -> str:
        """Where a relative path starts. Where nobody has said so, a file that is named in two ways tells."""
        if not self.home and not self._strayed and (home := self.book.base_of(absolute(action.path, base))):
            self.home = self.cwd = home
            self.book = self.book.rebased(home)
        return base or self.home

    def _interrupted(self) -> None:
        """A call that got no answer before the user spoke counts as done: the file may well be changed. Its
        answer may still come and say how it ended."""
        for id, step in self._pending.items():
            if step.actions:
                self._do(step, Ending())
                self._pending[id] = msgspec.structs.replace(step, actions=())
        # What a tool refused that leaves nothing behind was answered within its turn, or is talked about.
        self._errors = {subject: error for subject, error in self._errors.items() if subject[0] != "tool"}

    def _check(self, ran: Run, base: str, ended: Ending, judged: Verdict, number: int, entry: str) -> None:
        folder = absolute(ran.folder, base) if ran.folder else base
        # What failed without a verdict may be a step before the check.
        blurred = judged.passed is None and (ended.ok is False or ended.error)
        name, told = ran.key, ran.shown if blurred else ran.checked or ran.shown
        if self._stashed:  # it speaks of the work without its changes
            name, told = f"git stash && {name}", f"{told} (changes stashed)"
        before = self._checks.pop((folder, name), None)
        known = ended.exit is not None and not (ran.covered and ended.exit == 0)
        made = Check(
            told, folder, judged, ended.exit if known else None,
            ended.error if judged.passed is None else "", ran.covered, before.times + 1 if before else 1,
            number, entry,
        )  # fmt: skip
        if judged.passed and ran.whole and not self._stashed:
            # What passed as a whole has passed in its parts.
            for key in [
                key for key in self._checks if key[0] == folder and key[1].startswith(ran.whole + " ")
            ]:
                del self._checks[key]
        self._checks[folder, name] = made
        self._errors.pop(("run", folder, name), None)
        if len(self._checks) > _CHECKS:
            del self._checks[next(iter(self._checks))]

    def _blame(self, step: Step, ended: Ending, number: int, entry: str) -> None:
        """Remember what failed; forget it when the same thing succeeds."""
        if step.run is not None:
            folder = absolute(step.run.folder, step.base) if step.run.folder else step.base
            subject: tuple[str, ...] = ("run", folder, step.run.key)
            # A line that the shell could not even read has done nothing, and is simply written again.
            matters = not step.run.looks and "syntax error near unexpected token" not in ended.error
            wrote = next((a.path for a in reversed(step.actions) if a.verb != "view"), "")
            named = wrote and "<<" in step.run.shown  # what it wrote would take the place of where to
            what = f"{step.run.key.partition(' ')[0]} {wrote}" if named else step.run.shown
        elif step.actions:
            path = step.actions[-1].path
            subject, what = ("file", absolute(path, step.base)), f"{step.name} {path}"
            matters = step.kind not in _LOOKS
        else:
            subject, what = ("tool", step.name), step.name
            matters = step.kind not in _LOOKS and not step.plan
        self._errors.pop(subject, None)
        if matters and (ended.ok is False or ended.error):
            self._errors[subject] = Failure(what, ended.error, ended.exit, number, entry)
            if len(self._errors) > _ERRORS:
                del self._errors[next(iter(self._errors))]

    # ── what it says ────────────────────────────────────────────────────────────────────────────

    def files(self, most: int | None = None) -> Files:
        """Files by last known state, in order of first appearance; `read` are those never changed. At most so
        many: those that were touched last."""
        return self._settled().files(most)

    def notes(self) -> Sequence[FileNote]:
        """What is known of each file, the one touched last at the end."""
        return tuple(self._settled().listed())

    def _settled(self) -> FileBook:
        """The book as it is if calls without an answer did what they say."""
        if not any(step.actions for step in self._pending.values()):
            return self.book
        book = self.book.copy()
        for step in self._pending.values():
            for action in step.actions:
                book.take(
                    action, base=step.base, number=step.number, entry=step.entry, tool=step.kind != "bash"
                )
        return book

    @property
    def checks(self) -> tuple[Check, ...]:
        """Last result per command, newest last."""
        return tuple(self._checks.values())

    @property
    def error(self) -> Failure | None:
        """The last failure that no later success answered."""
        return next(reversed(self._errors.values()), None)

    @property
    def open_todos(self) -> tuple[Todo, ...]:
        return tuple(todo for todo in self.todos if todo.open)

    def facts(self) -> dict[str, Any]:
        """All of it but the files, for a program."""
        return {
            "checks": self.checks, "error": self.error, "todos": self.todos, "plan": self.plan,
            "cwd": self.cwd,
        }  # fmt: skip


def of(messages: Iterable[Message]) -> WorkState:
    """The state after a whole conversation."""
    return WorkState().extend(messages)


def _in_background(body: str) -> str:
    """The name under which a command goes on running."""
    head = "Command running in background with ID: "
    return body[len(head) :].split(".", 1)[0].strip()[:80] if body.startswith(head) else ""


def _missing(body: str) -> tuple[str, ...]:
    """Lines that say that a file is not there."""
    edge = body[:3_000] + body[-3_000:]
    if "No such file" not in edge:
        return ()
    return tuple(row for row in edge.splitlines() if "No such file" in row)[:50]
