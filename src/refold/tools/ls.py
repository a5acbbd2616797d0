"""LS: what is in a folder, folders first."""

from __future__ import annotations

import os
import stat
from typing import Annotated, Any

import msgspec

from refold.tools.base import Envelope, Place, success, tool
from refold.tools.listing import Entry, entries

SHOWN = 1_000


class Arguments(msgspec.Struct, frozen=True):
    path: Annotated[str, msgspec.Meta(description="The folder (default: the working folder).")] = "."


@tool("LS", "read")
def ls(arguments: Arguments, place: Place) -> Envelope:
    """List a folder: folders (with a / at the end) come first, then files."""
    folder = place.workspace.folder(arguments.path)
    try:
        found = entries(folder)
        rows = [_row(entry, folder) for entry in sorted(found, key=_folders_first)[:SHOWN]]
    finally:
        os.close(folder)
    folders = sum(stat.S_ISDIR(entry.mode) for entry in found)
    data: dict[str, Any] = {
        "path": place.workspace.name(arguments.path),
        "entries": rows,
        "total_files": len(found) - folders,
        "total_folders": folders,
        **({"truncated": True} if len(found) > SHOWN else {}),
    }
    return success(data, "" if found else "The folder is empty.")


def _folders_first(entry: Entry) -> tuple[bool, str]:
    return not stat.S_ISDIR(entry.mode), entry.name


def _row(entry: Entry, folder: int) -> str:
    """`name/` is a folder, `name -> target` a link."""
    if stat.S_ISDIR(entry.mode):
        return f"{entry.name}/"
    if stat.S_ISLNK(entry.mode):
        try:
            return f"{entry.name} -> {os.readlink(entry.name, dir_fd=folder)}"
        except OSError:
            pass  # it is no link any more
    return entry.name
