"""Edit and MultiEdit replace exact texts in a file; Write writes a whole file."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, TypeAlias

import msgspec

from refold.text.truncate import head, one_line
from refold.tools.base import Envelope, ToolContext, checked_arguments, success, tool
from refold.tools.read import encoding_of
from refold.tools.workspace import ToolRefused, Version, Workspace

MAX_EDITED_BYTES = 20_000_000
DIFF_LINES = 200
PREVIEW = 30
"""First lines of a written file that the result shows (E4)."""
_CONTEXT = 3


FilePath: TypeAlias = Annotated[str, msgspec.Meta(description="The file, relative to the working folder.")]
Old: TypeAlias = Annotated[
    str, msgspec.Meta(description="The text to replace, exactly as in the file, without line numbers.")
]
New: TypeAlias = Annotated[str, msgspec.Meta(description="What to put in its place.")]
Every: TypeAlias = Annotated[bool, msgspec.Meta(description="Replace every occurrence (default: one).")]


class TextChange(msgspec.Struct, frozen=True):
    old_string: Old
    new_string: New
    replace_all: Every = False


class One(msgspec.Struct, frozen=True):
    path: FilePath
    old_string: Old
    new_string: New
    replace_all: Every = False


class Several(msgspec.Struct, frozen=True):
    path: FilePath
    edits: Annotated[
        list[TextChange],
        msgspec.Meta(
            min_length=1, max_length=1000, description="In order; each sees what the last one left."
        ),
    ]


class Whole(msgspec.Struct, frozen=True):
    path: FilePath
    content: Annotated[str, msgspec.Meta(description="All of it.")]


@tool("Edit", "edit")
def edit_tool(arguments: One, place: ToolContext) -> Envelope:
    """Replace a text in a file. old_string must occur exactly once, white space included, unless replace_all
    is set. Read the file first."""
    return apply_changes(place.workspace, arguments.path, (arguments,))


@tool("MultiEdit", "edit")
def multi_edit_tool(arguments: Several, place: ToolContext) -> Envelope:
    """Several edits of one file in one step: all of them are made, or none. Each is as for Edit."""
    return apply_changes(place.workspace, arguments.path, arguments.edits)


@tool("Write", "edit")
def write_tool(arguments: Whole, place: ToolContext) -> Envelope:
    """Write a file: make it, with the folders it needs, or replace all of it. To change a part of a file use
    Edit."""
    path, workspace = arguments.path, place.workspace
    before = _overwritten(workspace, path)
    data = arguments.content.encode("utf-8", "surrogatepass")
    created = workspace.write(path, data)
    report: dict[str, Any] = {
        "path": workspace.name(path),
        "operation": "created" if created else "overwritten",
        "bytes": len(data),
        "lines": len(arguments.content.splitlines()),
        "preview": "\n".join(head(line, 200) for line in arguments.content.splitlines()[:PREVIEW]),
        "applied": True,
    }
    return success(report | (text_difference(before, arguments.content) if before else {}))


def _overwritten(workspace: Workspace, path: str) -> str | None:
    """The current text of a file; None if there is none to compare with."""
    try:
        return file_text(workspace, path)
    except ToolRefused as refused:
        if refused.code not in ("not_found", "binary", "too_large"):
            raise
        return None


def apply_changes(workspace: Workspace, path: str, changes: Sequence[One | TextChange]) -> Envelope:
    """Makes all changes in order, or none."""
    before = file_text(workspace, path)
    after, count = made(before, path, changes)
    workspace.write(path, after.encode("utf-8", "surrogateescape"))
    return success(
        {
            "path": workspace.name(path),
            "applied": True,
            "replacements": count,
            **({"edits": len(changes)} if len(changes) > 1 else {}),
            **text_difference(before, after),
        }
    )


def preview(name: str, given: Mapping[str, Any], workspace: Workspace) -> tuple[str, str] | None:
    """The content of a file, and its content after a call; None if that is unknown."""
    try:
        if name == "Write":
            whole = checked_arguments(write_tool.spec, Whole, given)
            return _overwritten(workspace, whole.path) or "", whole.content
        if name == "Edit":
            asked = checked_arguments(edit_tool.spec, One, given)
        elif name == "MultiEdit":
            asked = checked_arguments(multi_edit_tool.spec, Several, given)
        else:
            return None
        before = file_text(workspace, asked.path)
        changes = asked.edits if isinstance(asked, Several) else [asked]
        return before, made(before, asked.path, changes)[0]
    except (ToolRefused, OSError):
        return None


def made(before: str, path: str, changes: Sequence[One | TextChange]) -> tuple[str, int]:
    """The text after all changes, and the number of places changed."""
    after, count = before, 0
    for number, change in enumerate(changes, 1):
        try:
            after, times = changed_text(after, change)
        except ToolRefused as refused:
            which = f"Edit {number} of {len(changes)}: " if len(changes) > 1 else ""
            rest = " Nothing was changed." if len(changes) > 1 else ""
            raise ToolRefused(refused.code, f"{which}`{path}`: {refused.message}{rest}") from None
        count += times
    return after, count


def file_text(workspace: Workspace, path: str) -> str:
    """The text of a file; invalid UTF-8 is preserved."""
    with workspace.open(path) as file:
        status = os.fstat(file.fileno())
        if workspace.changed(path, Version.of(status)):
            raise ToolRefused("changed", f"`{path}` changed since it was read: read it again, then edit.")
        if status.st_size > MAX_EDITED_BYTES:
            raise ToolRefused("too_large", f"`{path}` has {status.st_size} bytes: change it with a program.")
        data = file.read(MAX_EDITED_BYTES + 1)
    if encoding_of(data[:8192]) != "utf-8":
        raise ToolRefused("binary", f"`{path}` is no UTF-8 text: change it with a program through Bash.")
    return data.decode("utf-8", "surrogateescape")


def changed_text(text: str, change: One | TextChange) -> tuple[str, int]:
    old, new = change.old_string, change.new_string
    if not old:
        raise ToolRefused("invalid_arguments", "old_string is empty. Use Write to make a file.")
    if old == new:
        raise ToolRefused("invalid_arguments", "old_string and new_string are the same.")
    if old not in text and "\r\n" in text and "\r" not in old:
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")  # the file's own ends of lines
    times = text.count(old)
    if not times:
        raise ToolRefused("not_found", f"old_string was not found.{_nearest(text, change.old_string)}")
    if times > 1 and not change.replace_all:
        places = islice(re.finditer(re.escape(old), text), 10)
        lines = ", ".join(str(text.count("\n", 0, place.start()) + 1) for place in places)
        raise ToolRefused(
            "not_unique",
            f"old_string occurs {times} times (lines {lines}): add lines around it, or set replace_all.",
        )
    return text.replace(old, new), times


def _nearest(text: str, old: str) -> str:
    """Where the first line occurs, since models most often get white space wrong."""
    first = next((row.strip() for row in old.split("\n") if row.strip()), "")
    rows = [index for index, row in enumerate(text.split("\n"), 1) if first and row.strip() == first]
    if not rows:
        return " Read the file again: it must match exactly."
    at = ", ".join(map(str, rows[:5]))
    return f" Its first line `{one_line(first, 80)}` is in line {at}; indentation or what follows differs."


def text_difference(before: str, after: str) -> dict[str, Any]:
    """A bounded unified diff, and counts."""
    old, new = before.splitlines(), after.splitlines()
    if len(old) + len(new) > 20_000:  # comparing would take seconds
        return {"lines": len(new)}
    rows = list(difflib.unified_diff(old, new, lineterm="", n=_CONTEXT))[2:]
    added = sum(row.startswith("+") for row in rows)
    removed = sum(row.startswith("-") for row in rows)
    shown = rows[:DIFF_LINES] + ([f"… ({len(rows) - DIFF_LINES} more)"] if len(rows) > DIFF_LINES else [])
    return {"lines_added": added, "lines_removed": removed, "diff": "\n".join(shown)}
