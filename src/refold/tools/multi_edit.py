"""MultiEdit: several edits of one file, all of them or none."""

from __future__ import annotations

from typing import Annotated

import msgspec

from refold.tools.base import Envelope, Place, tool
from refold.tools.edit import Change, apply


class Arguments(msgspec.Struct, frozen=True):
    path: Annotated[str, msgspec.Meta(description="The file, relative to the working folder.")]
    edits: Annotated[
        list[Change],
        msgspec.Meta(
            min_length=1, max_length=1000, description="In order; each sees what the last one left."
        ),
    ]


@tool("MultiEdit", "edit")
def multi_edit(arguments: Arguments, place: Place) -> Envelope:
    """Several edits of one file in one step: all of them are made, or none. Each is as for Edit."""
    return apply(place.workspace, arguments.path, arguments.edits)
