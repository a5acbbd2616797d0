"""LS: the directory, how many files and folders, the first entries."""

from __future__ import annotations

import re
from typing import Any, cast

from refold.messages import Call
from refold.session.dialects.common import listing
from refold.session.toolnames import DIRECTORIES, text_argument
from refold.shrink.base import (
    FILES,
    FOLDERS,
    HITS,
    Data,
    Limits,
    first,
    flags,
    rows_of,
    shortened,
    top,
    total,
)


def data(call: Call, data: Data, limits: Limits) -> Data:
    entries = listing(first(data, "entries", "items", "files", "paths"))
    folders = sum(_is_folder(entry) for entry in entries)
    return {
        "path": first(data, "path", "directory", "dir") or text_argument(call, DIRECTORIES) or ".",
        "files": total(data, FILES, len(entries) - folders),
        "folders": total(data, FOLDERS, folders),
        **({"total": count} if (count := total(data, HITS, len(entries))) > len(entries) else {}),
        "entries": [shortened(entry, limits) for entry in entries[: limits.ls_entries]],
        **flags(data),
    }


def plain(call: Call, text: str, limits: Limits) -> str:
    rows, count, remark = rows_of(text)
    folders = sum(bool(_FOLDER.search(row)) for row in rows)
    head = f"{text_argument(call, DIRECTORIES) or '.'}: {len(rows) - folders} files, {folders} folders"
    return "\n".join([head, *top(rows, limits.ls_entries, limits, count), *remark])


_FOLDER = re.compile(r"/\s*$|^\s*d[rwx-]{9}|\[DIR\]|\(dir\)")


def _is_folder(entry: Any) -> bool:
    if isinstance(entry, dict):
        kind = first(cast("Data", entry), "type", "kind") or cast("Data", entry).get("is_dir")
        return kind in ("dir", "directory", "folder", True)
    return isinstance(entry, str) and entry.endswith("/")
