"""Task: a piece of work for a sub-agent, which has a conversation of its own and gives back one answer."""

from __future__ import annotations

from typing import Annotated

import msgspec

from refold.tools.base import Envelope, Place, success, tool
from refold.tools.workspace import Refused


class Arguments(msgspec.Struct, frozen=True):
    description: Annotated[str, msgspec.Meta(description="The task in a few words.")]
    prompt: Annotated[
        str, msgspec.Meta(description="All the sub-agent needs to know, and what it should answer.")
    ]


@tool("Task")
async def task(arguments: Arguments, place: Place) -> Envelope:
    """Give a self-contained piece of work to a sub-agent: it sees the workspace, not this conversation.
    Several calls in one reply run at the same time."""
    if place.task is None:
        raise Refused("unavailable", "There are no sub-agents here: do it yourself.")
    answer = await place.task(arguments.description, arguments.prompt)
    return success({"description": arguments.description, "answer": answer})
