"""Read: the piece that was read, with line numbers, within a number of lines."""

from __future__ import annotations

import re

from refold.messages import Call
from refold.session.toolnames import PATHS, argument, text_argument
from refold.shrink.base import Data, Limits, first, flags, short, split

_NUMBERED = re.compile(r"\s{0,12}\d{1,9}(?:\t|→|\||: ?| {2})")
_KEPT = ("path", "file", "mtime", "total_lines", "start_line", "end_line", "encoding", "unchanged")


def data(call: Call, data: Data, limits: Limits) -> Data:
    content = first(data, "content", "text", "lines")
    rows = [str(row) for row in content] if isinstance(content, list) else split(str(content or ""))  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType] (JSON of a tool)
    kept = {name: data[name] for name in _KEPT if name in data}
    piece = "\n".join(numbered(rows[: limits.read_lines], _start(call, data), limits))
    more = {"lines_left_out": len(rows) - limits.read_lines} if len(rows) > limits.read_lines else {}
    return {"path": text_argument(call, PATHS), **kept, "content": piece, **more, **flags(data)}


def plain(call: Call, text: str, limits: Limits) -> str:
    rows = split(text)
    if len(rows) <= limits.read_lines:
        return "\n".join(short(row, limits) for row in rows)
    kept = numbered(rows[: limits.read_lines], _start(call, {}), limits)
    return "\n".join([*kept, f"… ({len(rows) - limits.read_lines} more lines were read)"])


def numbered(rows: list[str], start: int, limits: Limits) -> list[str]:
    """Lines with their numbers; as they are where they have some."""
    if rows and sum(bool(_NUMBERED.match(row)) for row in rows[:20]) > len(rows[:20]) // 2:
        return [short(row, limits) for row in rows]
    return [f"{start + index}\t{short(row, limits)}" for index, row in enumerate(rows)]


def _start(call: Call, data: Data) -> int:
    start = first(data, "start_line") or argument(call, ("offset", "start_line", "start", "line_start"))
    return start if isinstance(start, int) and start > 0 else 1
