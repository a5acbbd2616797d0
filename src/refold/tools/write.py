"""Write: a whole file."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from refold.tools.base import Envelope, Place, success, tool
from refold.tools.edit import content, difference
from refold.tools.workspace import Refused


class Arguments(msgspec.Struct, frozen=True):
    path: Annotated[str, msgspec.Meta(description="The file, relative to the working folder.")]
    content: Annotated[str, msgspec.Meta(description="All of it.")]


@tool("Write", "edit")
def write(arguments: Arguments, place: Place) -> Envelope:
    """Write a file: make it, with the folders it needs, or replace all of it. To change a part of a file use
    Edit."""
    path, workspace = arguments.path, place.workspace
    try:
        before = content(workspace, path)
    except Refused as refused:
        if refused.code not in ("not_found", "binary", "too_large"):
            raise
        before = None
    data = arguments.content.encode("utf-8", "surrogatepass")
    created = workspace.write(path, data)
    report: dict[str, Any] = {
        "path": workspace.name(path),
        "operation": "created" if created else "overwritten",
        "bytes": len(data),
        "lines": len(arguments.content.splitlines()),
        "applied": True,
    }
    return success(report | (difference(before, arguments.content) if before else {}))
