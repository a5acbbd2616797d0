"""The list and the plan an agent keeps of its own work, in any agent's shape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from refold.messages import Call
from refold.session.toolnames import canonical, text_argument
from refold.text.truncate import one_line

_MOST = 60
_LISTS = ("todos", "plan", "items", "tasks", "todoList", "todo_list", "task_list")
_TEXTS = ("content", "step", "text", "title", "description", "task", "subject")
_CLOSED = frozenset({"completed", "complete", "done", "cancelled", "canceled", "deleted"})


class Todo(msgspec.Struct, frozen=True, omit_defaults=True):
    text: str
    status: str = "pending"

    @property
    def open(self) -> bool:
        return self.status not in _CLOSED


def todos(call: Call) -> tuple[Todo, ...] | None:
    """The list that a todo tool was given; None where the call gives none (it only reads)."""
    for name in _LISTS:
        value = call.arguments.get(name)
        if isinstance(value, list):
            return tuple(t for t in map(_todo, cast("list[Any]", value)[:_MOST]) if t.text)
        if isinstance(value, str) and _BOX.search(value[:20_000]):
            return tuple(_boxed(value[:20_000]))[:_MOST]
    return None


_BOX = re.compile(r"^[ \t]{0,8}[-*] \[([ xX~\-])\] (.+)$", re.M)


def _boxed(text: str) -> list[Todo]:
    """A list as Markdown: `- [x] done`, `- [ ] open`, `- [-] begun`."""
    status = {" ": "pending", "x": "completed", "X": "completed"}
    return [
        Todo(one_line(found[2], 200), status.get(found[1], "in_progress")) for found in _BOX.finditer(text)
    ]


def _todo(item: Any) -> Todo:
    if isinstance(item, str):
        return Todo(one_line(item, 200))
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", item) if isinstance(item, dict) else {}
    text = next((fields[k] for k in _TEXTS if fields.get(k)), "")
    status = str(fields.get("status") or ("completed" if fields.get("done") else "pending"))
    return Todo(one_line(str(text), 200), status.replace("-", "_").lower()[:20])


_PLANNERS = frozenset(map(canonical, ("ExitPlanMode", "exit_plan_mode", "present_plan", "propose_plan")))


def plan(call: Call) -> str:
    """The plan that a call lays before the user; empty where it is another call."""
    return text_argument(call, ("plan",))[:4_000].strip() if canonical(call.name) in _PLANNERS else ""
