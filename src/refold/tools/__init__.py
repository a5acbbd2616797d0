"""The tools of the coding agent; what they share is in `base` and `workspace`."""

from __future__ import annotations

from collections.abc import Mapping

from refold.tools import bash, edit, grep, listing, read, task
from refold.tools.base import Tool

__all__ = ["TOOLS", "Tool", "tools_by_name"]

TOOLS: tuple[Tool, ...] = (
    read.read_tool, listing.ls_tool, listing.glob_tool, grep.grep_tool, edit.edit_tool, edit.multi_edit_tool,
    edit.write_tool, bash.bash_tool,
    task.todo_write, task.RecallConversation(), task.compact_conversation, task.task,
)  # fmt: skip


def tools_by_name(without: frozenset[str] = frozenset()) -> Mapping[str, Tool]:
    """Tools by name, without those that are named."""
    return {tool.spec.name: tool for tool in TOOLS if tool.spec.name not in without}
