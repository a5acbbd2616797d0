"""The tools of the coding agent, one file each; what they share is in `base` and `workspace`."""

from __future__ import annotations

from collections.abc import Mapping

from refold.tools import (
    bash,
    edit,
    glob,
    grep,
    ls,
    multi_edit,
    read,
    task,
    todo_write,
    write,
)
from refold.tools.base import Tool
from refold.tools.recall_conversation import RecallConversation

__all__ = ["TOOLS", "Tool", "table"]

TOOLS: tuple[Tool, ...] = (
    read.read,
    ls.ls,
    glob.glob,
    grep.grep,
    edit.edit,
    multi_edit.multi_edit,
    write.write,
    bash.bash,
    todo_write.todo_write,
    RecallConversation(),
    task.task,
)


def table(*more: Tool, without: frozenset[str] = frozenset()) -> Mapping[str, Tool]:
    """Tools by name: those of this room and `more`, which win, less those that somebody has no use for."""
    return {tool.spec.name: tool for tool in (*TOOLS, *more) if tool.spec.name not in without}
