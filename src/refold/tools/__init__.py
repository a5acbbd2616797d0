"""The tools of the coding agent; what they share is in `base` and `workspace`."""

from __future__ import annotations

from collections.abc import Mapping

from refold.tools import bash, edit, grep, listing, read, task
from refold.tools.base import Tool

__all__ = ["TOOLS", "Tool", "table"]

TOOLS: tuple[Tool, ...] = (
    read.read, listing.ls, listing.glob, grep.grep, edit.edit, edit.multi_edit, edit.write, bash.bash,
    task.todo_write, task.RecallConversation(), task.compact_conversation, task.task,
)  # fmt: skip


def table(without: frozenset[str] = frozenset()) -> Mapping[str, Tool]:
    """Tools by name, less those that somebody has no use for."""
    return {tool.spec.name: tool for tool in TOOLS if tool.spec.name not in without}
