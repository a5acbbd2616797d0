"""Files that a user mentions as `@path` (E11, E12): named in a reminder, never put into the message."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

MAX_MENTIONS = 5
_MENTION = re.compile(r'(?<![A-Za-z0-9])@(?:"(?P<quoted>[^"\n]{1,1000})"|(?P<plain>[A-Za-z0-9/._-]{1,1000}))')


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
