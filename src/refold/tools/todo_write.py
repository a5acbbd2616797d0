"""TodoWrite: the model's list of what is to do, and its recap (E2)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from refold.shrink.base import Limits
from refold.shrink.todo import recapped
from refold.tools.base import Envelope, Place, Todo, success, tool


class Arguments(msgspec.Struct, frozen=True):
    todos: Annotated[
        list[Todo],
        msgspec.Meta(
            max_length=200, description="The whole list: content, status pending, in_progress or completed."
        ),
    ]


@tool("TodoWrite")
def todo_write(arguments: Arguments, place: Place) -> Envelope:
    """Write down the steps of a task that has several, and how far you are. The list replaces the last one;
    keep one step in_progress."""
    place.todos = tuple(arguments.todos)
    return success({"recap": recap(place.todos)})


def recap(todos: tuple[Todo, ...]) -> str:
    """One line for the end of the context; empty where nothing is left to do."""
    if all(todo.status == "completed" for todo in todos):
        return ""
    return recapped([msgspec.to_builtins(todo) for todo in todos], Limits())
