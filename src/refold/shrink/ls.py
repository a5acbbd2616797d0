"""LS: the directory, how many files and folders, the first entries."""

from __future__ import annotations

import re
from typing import Any, cast

from refold.messages import Call
from refold.session.toolnames import DIRECTORIES, text_argument
from refold.shrink.base import Data, Limits, first, flags, listed, shortened, split, top


def data(call: Call, data: Data, limits: Limits) -> Data:
    entries = listed(first(data, "entries", "items", "files", "paths"))
    folders = sum(_is_folder(entry) for entry in entries)
    return {
        "path": first(data, "path", "directory", "dir") or text_argument(call, DIRECTORIES) or ".",
        "files": len(entries) - folders,
        "folders": folders,
        "entries": [shortened(entry, limits) for entry in entries[: limits.ls_entries]],
        **flags(data),
    }


def plain(call: Call, text: str, limits: Limits) -> str:
    rows = [row for row in split(text) if row.strip()]
    folders = sum(bool(_FOLDER.search(row)) for row in rows)
    head = f"{text_argument(call, DIRECTORIES) or '.'}: {len(rows) - folders} files, {folders} folders"
    return "\n".join([head, *top(rows, limits.ls_entries, limits)])


_FOLDER = re.compile(r"/\s*$|^\s*d[rwx-]{9}|\[DIR\]|\(dir\)")


def _is_folder(entry: Any) -> bool:
    if isinstance(entry, dict):
        kind = first(cast("Data", entry), "type", "kind") or cast("Data", entry).get("is_dir")
        return kind in ("dir", "directory", "folder", True)
    return isinstance(entry, str) and entry.endswith("/")
