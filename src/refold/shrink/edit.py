"""Edit, MultiEdit: the file, the changed range, a fragment; a long diff only as counts and ranges."""

from __future__ import annotations

from typing import Any, cast

from refold.messages import Call
from refold.session.toolnames import PATHS, text_argument
from refold.shrink.base import Data, Limits, diff_summary, first, flags, short, shortened, split, top

_KEPT = ("path", "file", "start_line", "end_line", "lines", "lines_added", "lines_removed", "edits")
"""And whatever is called a range."""


def data(call: Call, data: Data, limits: Limits) -> Data:
    kept = {name: shortened(data[name], limits) for name in data if name in _KEPT or "range" in name.lower()}
    if isinstance(edits := data.get("edits"), list):
        kept["edits"] = len(cast("list[Any]", edits))
    kept |= {"path": first(data, "path", "file") or text_argument(call, PATHS)}
    diff = str(first(data, "diff", "diff_preview", "patch", "fragment", "snippet", "content") or "")
    return {**_fragment(diff, limits), **kept, **flags(data)}


def _fragment(diff: str, limits: Limits) -> Data:
    rows = split(diff)
    if not rows:
        return {}
    marked = sum(row[:1] in ("+", "-") for row in rows)
    summary = diff_summary(diff) if "@@" in diff or marked * 2 > len(rows) else {}
    if len(rows) > limits.diff_lines:
        return summary or {"lines": len(rows)}
    return {**summary, "fragment": "\n".join(top(rows, limits.edit_lines, limits))}


def plain(call: Call, text: str, limits: Limits) -> str:
    rows = split(text)
    path = text_argument(call, PATHS)
    if len(rows) > limits.diff_lines and "@@ -" in text:
        found = diff_summary(text)
        places = ", ".join(found.get("ranges", ("unknown lines",)))
        counts = f"+{found['added']} -{found['removed']} lines, at {places}"
        return f"{short(rows[0], limits)}\n{path}: {counts}"
    return "\n".join(top(rows, limits.edit_lines, limits))
