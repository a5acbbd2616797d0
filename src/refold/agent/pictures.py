"""Pictures that a user mentions (`@shot.png`) or pastes by path, for models that accept them.

Each is preceded by its name as text, so that a fold without the picture still names it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from pathlib import Path

from refold import messages as m
from refold.tools.workspace import ToolRefused, Workspace

_FORMATS = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".gif": "gif", ".webp": "webp"}
MIME_TYPES = {ending: f"image/{name}" for ending, name in _FORMATS.items()}
MAX_PICTURE_BYTES = 3_700_000
"""Size limit of a picture: providers accept five megabytes of base64."""
_PASTED = re.compile(
    r"""(?<!\S)(?:'(?P<single>[~/][^'\n]*)'|"(?P<double>[~/][^"\n]*)"|(?P<bare>[~/](?:\\.|[^\s\\'"])*))(?!\S)"""
)
r"""A path as terminals paste it when a file is dropped on them: quoted, or with `\ ` for a space."""


def is_picture(path: str) -> bool:
    return Path(path).suffix.lower() in MIME_TYPES


def pasted(text: str) -> list[Path]:
    """Pictures that the user names by their absolute path."""
    found: dict[Path, None] = {}
    for match in _PASTED.finditer(text):
        name = match["single"] or match["double"] or re.sub(r"\\(.)", r"\1", match["bare"])
        if is_picture(name) and "\0" not in name and (path := Path(name).expanduser()).is_file():
            found[path] = None
    return list(found)


def parts(workspace: Workspace, mentioned: Sequence[str], whole: Sequence[Path]) -> list[m.AnyPart]:
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
