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
    recall_conversation,
    task,
    todo_write,
    write,
)
from refold.tools.base import Tool

__all__ = ["TOOLS", "Tool", "table"]

TOOLS: tuple[Tool, ...] = (
    read.TOOL,
    ls.TOOL,
    glob.TOOL,
    grep.TOOL,
    edit.TOOL,
    multi_edit.TOOL,
    write.TOOL,
    bash.TOOL,
    todo_write.TOOL,
    recall_conversation.TOOL,
    task.TOOL,
)


def table(*more: Tool, without: frozenset[str] = frozenset()) -> Mapping[str, Tool]:
    """Tools by name: those of this room and `more`, which win, less those that somebody has no use for."""
    return {tool.spec.name: tool for tool in (*TOOLS, *more) if tool.spec.name not in without}
