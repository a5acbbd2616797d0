"""The artifact trail (R10): what was done to files, commands, tests and todos, computed from tool calls.

A `Trail` is a plain value. `extend` takes the messages that came after those it has seen, so a fold stores
it (`msgspec.to_builtins`) and the next pass goes on from there. No model is ever asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, cast

import msgspec

from refold import tokens
from refold.entries import Files
from refold.messages import Assistant, Bash, Call, Message, Result
from refold.preserve.outcome import Outcome, outcome, test_command, verdict
from refold.preserve.shelled import Action
from refold.preserve.tools import Names, actions
from refold.protocols import TokenCounter
from refold.session.toolnames import canonical, command_line, kind
from refold.text.truncate import one_line

State: TypeAlias = Literal["read", "modified", "created", "deleted", "failed"]
"""Last known state of a file. `failed`: changes were tried and none succeeded."""
_COMMANDS = 60
_TESTS = 20
_TODOS = 60
_COMMAND_LENGTH = 240
_EDITORS = (
    "apply_patch",
    "applypatch",
    "edit ",
    "open ",
    "create ",
    "goto ",
    "scroll_",
    "end_of_edit",
    "submit",
)


class FileState(msgspec.Struct, frozen=True, omit_defaults=True):
    state: State
    changes: int = 0
    born: bool = False
    """Made in this conversation: stays `created` however often it is edited."""
    existed: bool = False
    """Was seen (read, changed) before it was first written."""


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    command: str
    exit: int | None = None
    ok: bool | None = None
    times: int = 1


class Test(msgspec.Struct, frozen=True, omit_defaults=True):
    command: str
    passed: bool | None = None
    summary: str = ""


class Todo(msgspec.Struct, frozen=True, omit_defaults=True):
    text: str
    status: str = "pending"


class Pending(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call whose result has not been seen yet."""

    id: str
    name: str
    actions: tuple[Action, ...] = ()
    command: str = ""
    tests: bool = False


class Trail(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything the tool calls so far have done. `states` is in order of first appearance."""

    states: dict[str, FileState] = {}
    commands: tuple[Command, ...] = ()
    """Newest last; at most 60."""
    tests: tuple[Test, ...] = ()
    todos: tuple[Todo, ...] = ()
    error: str = ""
    """The last failure that no later success of the same call made obsolete."""
    blamed: str = ""
    opened: str = ""
    pending: tuple[Pending, ...] = ()

    def extend(self, messages: Iterable[Message], names: Names | None = None) -> Trail:
        """The trail after these further messages. Cost follows them, not the past."""
        book = _Book(self, names or {})
        for message in messages:
            book.take(message)
        return book.trail()

    def settled(self) -> Trail:
        """Calls that never got an answer count as done: the file may well be changed."""
        if not self.pending:
            return self
        book = _Book(self, {})
        book.settle()
        return book.trail()

    def files(self) -> Files:
        """Files by last known state, in order of first appearance; `read` are those never changed."""
        lists: dict[str, list[str]] = {"read": [], "modified": [], "created": [], "deleted": [], "failed": []}
        for path, known in self.settled().states.items():
            lists[known.state].append(path)
        lists.pop("failed")
        return Files(**{state: tuple(paths) for state, paths in lists.items()})

    def render(self, budget: int = 1500, counter: TokenCounter | None = None) -> str:
        """As text within `budget` tokens (o200k unless another counter is given), changed files first."""
        from refold.preserve.trail_text import render

        return render(self, budget, counter or tokens.get())

    @property
    def open_todos(self) -> tuple[Todo, ...]:
        return tuple(t for t in self.todos if t.status not in ("completed", "done", "cancelled", "canceled"))


def of(messages: Iterable[Message], names: Names | None = None) -> Trail:
    """The trail of a whole conversation."""
    return Trail().extend(messages, names)


def pi_files(messages: Iterable[Message], previous: Files | None = None) -> Files:
    """Files as pi collects them (B12): its three file tools only, whether or not they succeeded; a write is
    a modification; what was read and modified counts as modified; sorted as JavaScript sorts."""
    read: set[str] = set(previous.read if previous else ())
    modified: set[str] = set(previous.modified if previous else ())
    for call in (c for m in messages for c in m.calls):
        path = call.arguments.get("path")
        if isinstance(path, str) and path:
            if call.name == "read":
                read.add(path)
            elif call.name in ("write", "edit"):
                modified.add(path)
    return Files(read=_sorted(read - modified), modified=_sorted(modified))


def _sorted(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(paths, key=lambda path: path.encode("utf-16-be", "surrogatepass")))


class _Book:
    """A trail under construction."""

    def __init__(self, trail: Trail, names: Names) -> None:
        self.names = names
        self.states = dict(trail.states)
        self.commands = {c.command: c for c in trail.commands}
        self.tests = {t.command: t for t in trail.tests}
        self.todos = trail.todos
        self.error, self.blamed, self.opened = trail.error, trail.blamed, trail.opened
        self.pending = {p.id: p for p in trail.pending}

    def take(self, message: Message) -> None:
        if isinstance(message, Assistant):
            for call in message.calls:
                self._call(call)
        elif isinstance(message, Result):
            pending = self.pending.pop(message.call_id, None)
            if pending is not None:
                self._ended(pending, outcome(message), message)
        elif isinstance(message, Bash):
            self._bash(message)

    def settle(self) -> None:
        for pending in self.pending.values():
            self._ended(pending, Outcome(), None)
        self.pending.clear()

    def trail(self) -> Trail:
        return Trail(
            states=self.states,
            commands=tuple(self.commands.values())[-_COMMANDS:],
            tests=tuple(self.tests.values())[-_TESTS:],
            todos=self.todos,
            error=self.error,
            blamed=self.blamed,
            opened=self.opened,
            pending=tuple(self.pending.values())[-_COMMANDS:],
        )

    def _call(self, call: Call) -> None:
        what = kind(call.name, self.names)
        if what == "todo":
            self.todos = todos(call) or self.todos
            return
        done = actions(call, self.opened, self.names)
        editing = canonical(call.name) in ("open", "create") or command_line(call).startswith(
            ("open ", "create ")
        )
        line = shown_command(call) if what == "bash" else ""
        if done and editing:
            self.opened = done[-1].path
        self.pending[call.id] = Pending(
            call.id, call.name, done, one_line(line, _COMMAND_LENGTH), bool(line) and test_command(line)
        )

    def _bash(self, message: Bash) -> None:
        line = message.command
        call = Call("", "bash", {"command": line})
        done = Pending("", "bash", actions(call), one_line(line, _COMMAND_LENGTH), test_command(line))
        code = message.exit_code
        said = Result("", message.parts, is_error=bool(code))
        self._ended(done, Outcome(None if code is None else code == 0, code), said)

    def _ended(self, done: Pending, ended: Outcome, result: Result | None) -> None:
        for action in done.actions:
            # A failing command may have done its first part; a failing tool did nothing.
            self._file(action, failed=ended.ok is False and not done.command)
        if done.command:
            self._command(done, ended)
        if done.tests and result is not None:
            passed, summary = verdict(result, ended)
            self.tests.pop(done.command, None)
            self.tests[done.command] = Test(done.command, passed, summary)
        subject = done.command or (done.actions[-1].path if done.actions else done.name)
        if ended.ok is False:
            self.error, self.blamed = one_line(f"{done.name}: {ended.error}", 400), subject
        elif self.blamed == subject:
            self.error = self.blamed = ""

    def _command(self, done: Pending, ended: Outcome) -> None:
        before = self.commands.pop(done.command, None)
        times = before.times + 1 if before else 1
        self.commands[done.command] = Command(done.command, ended.exit, ended.ok, times)
        if len(self.commands) > 4 * _COMMANDS:
            self.commands = dict(list(self.commands.items())[-_COMMANDS:])

    def _file(self, action: Action, *, failed: bool) -> None:
        known = self.states.get(action.path)
        self.states[action.path] = _after(known, action, failed=failed)


def _after(known: FileState | None, action: Action, *, failed: bool) -> FileState:
    """What is known of a file after one more action."""
    now = known or FileState("read")
    if failed:
        return now if known or action.verb == "view" else FileState("failed")
    if action.verb == "view":
        return now if known and known.state != "failed" else FileState("read", existed=True)
    if action.verb == "delete":
        return FileState("deleted", now.changes + 1, born=now.born)
    changes = now.changes + 1
    gone = known is not None and known.state == "deleted"
    fresh = action.verb == "create" or (action.verb == "write" and known is None) or gone
    if now.born or (fresh and not (now.existed and not gone)):
        return FileState("created", changes, born=True)
    return FileState("modified", changes, existed=True)


def shown_command(call: Call) -> str:
    """The command of a shell call as it is worth showing: without the bodies of here-documents, and empty
    where it is an editor's (a patch, SWE-agent's edit), whose effect the files show."""
    line = command_line(call)
    if line.startswith(_EDITORS):
        return ""
    start = line.find("<<")
    end = line.find("\n", start) if start >= 0 else -1
    return line if end < 0 else line[:end] + " …"


def todos(call: Call) -> tuple[Todo, ...]:
    """The list a todo tool was given, in any agent's shape."""
    for name in ("todos", "plan", "items", "tasks", "todoList", "task_list"):
        listed = call.arguments.get(name)
        if isinstance(listed, list):
            return tuple(t for t in map(_todo, cast("list[Any]", listed)[:_TODOS]) if t.text)
    return ()


def _todo(item: Any) -> Todo:
    if isinstance(item, str):
        return Todo(one_line(item, 200))
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", item) if isinstance(item, dict) else {}
    text = next(
        (fields[k] for k in ("content", "step", "text", "title", "description", "task") if fields.get(k)), ""
    )
    status = str(fields.get("status") or ("completed" if fields.get("done") else "pending"))
    return Todo(one_line(str(text), 200), status.replace("-", "_").lower()[:20])
