"""The list and the plan an agent keeps of its own work, in any agent's shape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from refold.messages import Call
from refold.session.toolnames import canonical_tool_name, text_argument
from refold.text.truncate import one_line

_MOST = 60
_LISTS = ("todos", "plan", "items", "tasks", "todoList", "todo_list", "task_list")
_TEXTS = ("content", "step", "text", "title", "description", "task", "subject")
_DONE = frozenset({"completed", "complete", "done"})
_CLOSED = _DONE | {"cancelled", "canceled", "deleted"}


class Todo(msgspec.Struct, frozen=True, omit_defaults=True):
    text: str
    status: str = "pending"
    id: str = ""
    """Where the agent names its tasks one by one."""

    @property
    def open(self) -> bool:
        return self.status not in _CLOSED

    @property
    def done(self) -> bool:
        return self.status in _DONE


def todos(call: Call) -> tuple[Todo, ...] | None:
    """The list that a todo tool was given; None where the call gives none (it only reads)."""
    for name in _LISTS:
        value = call.arguments.get(name)
        if isinstance(value, list):
            return tuple(t for t in map(_todo, cast("list[Any]", value)[:_MOST]) if t.text)
        if isinstance(value, str) and _BOX.search(value[:20_000]):
            status = {" ": "pending", "x": "completed", "X": "completed"}
            rows = _BOX.findall(value[:20_000])[:_MOST]
            return tuple(Todo(one_line(text, 200), status.get(box, "in_progress")) for box, text in rows)
    return None


_BOX = re.compile(r"^[ \t]{0,8}[-*] \[([ xX~\-])\] (.+)$", re.M)
"""A list as Markdown: `- [x] done`, `- [ ] open`, `- [-] begun`."""


def _todo(item: Any) -> Todo:
    if isinstance(item, str):
        return Todo(one_line(item, 200))
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", item) if isinstance(item, dict) else {}
    text = next((fields[k] for k in _TEXTS if fields.get(k)), "")
    status = str(fields.get("status") or ("completed" if fields.get("done") else "pending"))
    return Todo(one_line(str(text), 200), _status(status))


def _status(text: str) -> str:
    return text.replace("-", "_").lower()[:20]


_CREATED = re.compile(r"Task #(\w{1,20}) created")
_LISTED = re.compile(r"^#(\w{1,20}) \[(\w{1,20})\] (.{1,400}?)(?: \[blocked by [^\]\n]{0,80}\])?$", re.M)


def with_task(call: Call, said: str, listed: tuple[Todo, ...]) -> tuple[Todo, ...] | None:
    """The list after one call of the tools that make, change and list tasks; None where it is none."""
    name, id = canonical_tool_name(call.name), text_argument(call, ("taskId",))
    if name == "taskcreate" and (made := _CREATED.match(said[:200])):
        others = (todo for todo in listed if todo.id != made[1])
        return (*others, Todo(one_line(text_argument(call, ("subject",)), 200), "pending", made[1]))[-_MOST:]
    if name == "taskupdate" and text_argument(call, ("status",)):
        status = _status(text_argument(call, ("status",)))
        return tuple(msgspec.structs.replace(t, status=status) if t.id == id else t for t in listed)
    if name == "tasklist":
        told = {
            id: Todo(one_line(text, 200), status, id) for id, status, text in _LISTED.findall(said[:20_000])
        }
        return tuple(told.values()) if told else None
    return None


_PLANNERS = frozenset(
    map(canonical_tool_name, ("ExitPlanMode", "exit_plan_mode", "present_plan", "propose_plan"))
)


def plan(call: Call) -> str:
    """The plan that a call lays before the user; empty where it is another call."""
    return (
        text_argument(call, ("plan",))[:4_000].strip() if canonical_tool_name(call.name) in _PLANNERS else ""
    )
