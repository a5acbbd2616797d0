"""Glob: files by a pattern of their names."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from refold.tools.base import Envelope, Place, success, tool
from refold.tools.listing import files, pattern

SHOWN = 500


class Arguments(msgspec.Struct, frozen=True):
    pattern: Annotated[
        str,
        msgspec.Meta(description="Such as `src/**/*.py` or `*.{ts,tsx}`; without a / it is about the name."),
    ]
    path: Annotated[str, msgspec.Meta(description="Folder to look in (default: the working folder).")] = "."


@tool("Glob", "read")
def glob(arguments: Arguments, place: Place) -> Envelope:
    """Find files by name. `*` is anything within a name, `**` any folders, `{a,b}` one of them. Files that
    git ignores are left out."""
    wanted = pattern(arguments.pattern)
    folder = place.workspace.name(arguments.path)
    prefix = 0 if folder == "." else len(folder) + 1
    hits = [name for name in files(place.workspace, arguments.path) if wanted.match(name, prefix)]
    data: dict[str, Any] = {
        "pattern": arguments.pattern,
        "paths": hits[:SHOWN],
        "total_files": len(hits),
        **({"truncated": True} if len(hits) > SHOWN else {}),
    }
    return success(data, "" if hits else "No file matches. Files that git ignores are not looked at.")
