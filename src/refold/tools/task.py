"""Work itself: its steps (TodoWrite), a piece of it for a sub-agent (Task), what was said of it before."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from refold.protocols import ToolSpec
from refold.recall.tool import SPEC
from refold.shrink.rules import Limits, recapped
from refold.tools.base import Effect, Envelope, ToolContext, success, tool
from refold.tools.workspace import ToolRefused


class TodoItem(msgspec.Struct, frozen=True):
    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


class Todos(msgspec.Struct, frozen=True):
    todos: Annotated[
        list[TodoItem],
        msgspec.Meta(
            max_length=200, description="The whole list: content, status pending, in_progress or completed."
        ),
    ]


@tool("TodoWrite")
def todo_write(arguments: Todos, place: ToolContext) -> Envelope:  # noqa: ARG001 (the list is kept in the log)
    """Write down the steps of a task that has several, and how far you are. The list replaces the last one;
    keep one step in_progress."""
    left = any(todo.status != "completed" for todo in arguments.todos)
    return success({"recap": recapped(msgspec.to_builtins(arguments.todos), Limits()) if left else ""})


class TaskArguments(msgspec.Struct, frozen=True):
    description: Annotated[str, msgspec.Meta(description="The task in a few words.")]
    prompt: Annotated[
        str, msgspec.Meta(description="All the sub-agent needs to know, and what it should answer.")
    ]


@tool("Task")
async def task(arguments: TaskArguments, place: ToolContext) -> Envelope:
    """Give a self-contained piece of work to a sub-agent: it sees the workspace, not this conversation.
    Several calls in one reply run at the same time."""
    if place.task is None:
        raise ToolRefused("unavailable", "There are no sub-agents here: do it yourself.")
    answer = await place.task(arguments.description, arguments.prompt)
    return success({"description": arguments.description, "answer": answer})


COMPACT_TOOL_NAME = "compact_conversation"


class CompactArguments(msgspec.Struct, frozen=True):
    focus: Annotated[str, msgspec.Meta(description="What matters for what comes next.")] = ""
    keep: Annotated[
        list[str],
        msgspec.Meta(max_length=50, description="Facts that must stay word for word: names, numbers, paths."),
    ] = []

    @property
    def instructions(self) -> str:
        """The same as a writer of summaries is told."""
        kept = "".join(f"\n- {each}" for each in self.keep)
        return f"{self.focus}\n\nKeep word for word:{kept}".strip() if self.keep else self.focus


@tool(COMPACT_TOOL_NAME)
async def compact_conversation(arguments: CompactArguments, place: ToolContext) -> Envelope:
    """Have the older part of this conversation folded before your next reply: at the end of a piece of work
    whose details are no longer needed. Nothing is lost: recall_conversation finds it again."""
    if place.compact is None:
        raise ToolRefused("unavailable", "The conversation is folded by itself when it has to be.")
    return success({"text": await place.compact(arguments.instructions)})


class RecallConversation:
    """What the model no longer sees of the conversation (D6). The engine answers, and reads the arguments,
    leniently: models carry other spellings over."""

    spec: ToolSpec = SPEC
    effect: Effect = "none"

    async def run(self, arguments: Mapping[str, Any], place: ToolContext) -> Envelope:
        if place.recall is None:
            raise ToolRefused("unavailable", "There is no earlier conversation to recall here.")
        return success({"text": await asyncio.to_thread(place.recall, arguments)})
