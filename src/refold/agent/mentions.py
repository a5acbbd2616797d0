"""What a user mentions as `@path` (E11, E12): files are named in a reminder, never put into the message.
Pictures, also those pasted by path, are sent to models that accept them, each after its name as text: a fold
without the picture still names it."""

from __future__ import annotations

import base64
import posixpath
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from refold import messages as m
from refold.tools.workspace import ToolRefused, Workspace

MAX_MENTIONS = 5
_MENTION = re.compile(r'(?<![A-Za-z0-9])@(?:"(?P<quoted>[^"\n]{1,1000})"|(?P<plain>[A-Za-z0-9/._-]{1,1000}))')
_FORMATS = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".gif": "gif", ".webp": "webp"}
MIME_TYPES = {ending: f"image/{name}" for ending, name in _FORMATS.items()}
MAX_PICTURE_BYTES = 3_700_000
"""Size limit of a picture: providers accept five megabytes of base64."""
_PASTED = re.compile(
    r"""(?<!\S)(?:'(?P<single>[~/][^'\n]*)'|"(?P<double>[~/][^"\n]*)"|(?P<bare>[~/](?:\\.|[^\s\\'"])*))(?!\S)"""
)
r"""A path as terminals paste it when a file is dropped on them: quoted, or with `\ ` for a space."""


def mentioned(text: str, exists: Callable[[str], bool]) -> list[str]:
    """The existing files that a text mentions, relative to the project, in order, without duplicates."""
    found: dict[str, None] = {}
    for match in _MENTION.finditer(text):
        path = match["quoted"] or match["plain"].rstrip(".")
        name = posixpath.normpath(path)
        if path and not path.startswith("/") and name not in found and exists(path):
            found[name] = None
    return list(found)


def reminder(paths: list[str]) -> str:
    """The reminder about them for the model; empty for none."""
    if not paths:
        return ""
    rows = [f"- {path}" for path in paths[:MAX_MENTIONS]]
    if len(paths) > MAX_MENTIONS:
        rows.append(f"(and {len(paths) - MAX_MENTIONS} more…)")
    listed = "\n".join(rows)
    return (
        "<system-reminder>\nThe user mentions these files. Before anything else, read them with the Read "
        f"tool, one by one, in this order:\n{listed}\n</system-reminder>"
    )


def is_picture(path: str) -> bool:
    return Path(path).suffix.lower() in MIME_TYPES


def pasted_pictures(text: str) -> list[Path]:
    """Pictures that the user names by their absolute path."""
    found: dict[Path, None] = {}
    for match in _PASTED.finditer(text):
        name = match["single"] or match["double"] or re.sub(r"\\(.)", r"\1", match["bare"])
        if is_picture(name) and "\0" not in name and (path := Path(name).expanduser()).is_file():
            found[path] = None
    return list(found)


def picture_parts(workspace: Workspace, mentioned: Sequence[str], whole: Sequence[Path]) -> list[m.AnyPart]:
    """The pictures, each with its name; one that is too large or unreadable is named with the reason."""
    made: list[m.AnyPart] = []
    for name in (*mentioned, *map(str, whole)):
        try:
            with workspace.open(name) if name in mentioned else open(name, "rb") as file:
                data = file.read(MAX_PICTURE_BYTES + 1)
        except (ToolRefused, OSError) as error:
            made.append(m.attached(f"[picture {name}: could not be read ({error})]"))
            continue
        if len(data) > MAX_PICTURE_BYTES:
            made.append(m.attached(f"[picture {name}: larger than {MAX_PICTURE_BYTES:,} bytes, not sent]"))
            continue
        made.append(m.attached(f"[picture {name}]"))
        made.append(m.Image(MIME_TYPES[Path(name).suffix.lower()], data=base64.b64encode(data).decode()))
    return made
