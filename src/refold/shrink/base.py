"""What the rules share: limits, the two shapes a result comes in, and small cutters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import msgspec

from refold.messages import Call
from refold.text.truncate import middle


class Limits(msgspec.Struct, frozen=True):
    """The numbers of E4."""

    ls_entries: int = 10
    glob_hits: int = 10
    grep_matches: int = 5
    read_lines: int = 500
    edit_lines: int = 30
    diff_lines: int = 100
    write_lines: int = 30
    bash_edge_lines: int = 5
    bash_stderr_lines: int = 20
    other_chars: int = 2_000
    line_chars: int = 500
    """No single line is longer than this: one line can be a whole file."""


Data: TypeAlias = dict[str, Any]
FLAGS = ("truncated", "applied", "fallback", "dry_run", "cancelled", "timed_out", "replacements", "operation")
"""State that survives in every rule."""


@runtime_checkable
class Rule(Protocol):
    """One kind of tool. A rule sees either the `data` of an envelope or plain text. One of an application's
    own may have `async` methods."""

    def data(self, call: Call, data: Data, limits: Limits) -> Any: ...

    def plain(self, call: Call, text: str, limits: Limits) -> Any: ...


AnyRule: TypeAlias = Rule | Callable[[Call, str, Limits], Any]
"""A rule, or a function of the call, the text of its result and the limits that gives the text that stays."""


def flags(data: Mapping[str, Any]) -> Data:
    return {name: data[name] for name in FLAGS if name in data}


def first(data: Mapping[str, Any], *names: str) -> Any:
    """The first of these fields that is there."""
    return next((data[name] for name in names if data.get(name) is not None), None)


def short(line: str, limits: Limits) -> str:
    return middle(line, limits.line_chars)


def shortened(value: Any, limits: Limits) -> Any:
    """A value of an envelope with its long texts cut."""
    if isinstance(value, str):
        return short(value, limits)
    if isinstance(value, dict):
        return {k: shortened(v, limits) for k, v in list(cast("Data", value).items())[:20]}
    if isinstance(value, list):
        return [shortened(inner, limits) for inner in cast("list[Any]", value)[:50]]
    return value


LISTS = ("entries", "matches", "items")
"""What a list that is the whole of the data is called for the rules."""
HITS = ("total_matches", "match_count", "num_matches", "total_hits", "total_results", "total", "count")
FILES = ("total_files", "file_count", "num_files", "files_matched", "files_with_matches", "num_matched_files")
FOLDERS = ("total_folders", "total_dirs", "folder_count", "dir_count", "num_dirs", "num_folders")
TOTALS = (*HITS, *FILES, *FOLDERS)


def total(data: Mapping[str, Any], names: Sequence[str], listed: int) -> int:
    """How many there were, as the tool counted them; never fewer than it listed."""
    told = [data[name] for name in names if isinstance(data.get(name), int)]
    return max([listed, *told[:1]])


_FOUND = re.compile(
    r"^\W{0,3}(?:Found|Total|Showing)\b\D{0,20}(\d{1,9})(?: of (\d{1,9}))?\b[^/\\]{0,60}$", re.I
)
_BLOCKS = re.compile(r"^total \d{1,12}[KMGT]?$")
"""What `ls -l` says first: disk blocks, no entries."""
_REMARK = re.compile(r"^[\[(](?=.{0,200}\s).{1,200}[\])]$|^(?:No|Results are) .{1,80}$")


def rows_of(text: str) -> tuple[list[str], int, list[str]]:
    """The rows that are hits, without a heading; how many there were in all; and the closing remark, which
    says what state they are in (truncated)."""
    rows = [row for row in split(text) if row.strip()]
    blocks = _BLOCKS.match(rows[0]) if rows else None
    heading = None if blocks or not rows else _FOUND.match(rows[0])
    if heading or blocks:
        rows = rows[1:]
    remark = rows[-1:] if rows and _REMARK.match(rows[-1]) else []
    rows = rows[: len(rows) - len(remark)]
    return rows, max(len(rows), int(heading[2] or heading[1]) if heading else 0), remark


def top(lines: Sequence[str], count: int, limits: Limits, all: int = 0) -> list[str]:
    """The first lines, and how many follow (`all`: of so many)."""
    kept = [short(line, limits) for line in lines[:count]]
    more = max(all, len(lines)) - count
    return [*kept, f"… ({more} more)"] if more > 0 else kept


def edges(lines: Sequence[str], count: int, limits: Limits) -> list[str]:
    """The first and last lines, and how many were between them."""
    if len(lines) <= 2 * count:
        return [short(line, limits) for line in lines]
    between = f"… ({len(lines) - 2 * count} lines)"
    return [
        *(short(x, limits) for x in lines[:count]),
        between,
        *(short(x, limits) for x in lines[len(lines) - count :]),
    ]


def split(text: str) -> list[str]:
    """Lines, without the empty ones at the end."""
    return text.rstrip("\n").split("\n") if text.strip("\n") else []


_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@", re.M)


def diff_summary(diff: str) -> Data:
    """Counts and ranges of a unified diff."""
    rows = diff.split("\n")
    added = sum(row.startswith("+") and not row.startswith("+++") for row in rows)
    removed = sum(row.startswith("-") and not row.startswith("---") for row in rows)
    ranges = [f"{m[1]}-{int(m[1]) + max(int(m[2] or 1), 1) - 1}" for m in _HUNK.finditer(diff)]
    return {"added": added, "removed": removed, **({"ranges": ranges[:50]} if ranges else {})}
