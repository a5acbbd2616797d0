"""What history keeps of a tool result (E4): a function of call, text and limits for each kind of tool.

A tool may also answer with an object, `{"matches": […], "truncated": true}`. Its fields are kept as they are
where they are short; a long text or list is kept as the rule keeps what the tool would have printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from refold.messages import Call, compact_json
from refold.session.dialects.common import list_or_empty
from refold.session.toolnames import (
    CONTENTS,
    DIRECTORIES,
    PATHS,
    PATTERNS,
    ToolKind,
    argument,
    command_line,
    text_argument,
)
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


Rule: TypeAlias = Callable[[Call, str, Limits], Any]
"""A function of the call, the text of its result and the limits that gives the text that stays. One of an
application's own may be `async`."""


def shortened_fields(rule: Rule, call: Call, data: Data, limits: Limits) -> Data:
    """The fields of a structured answer, the long ones as the rule keeps what the tool would have printed."""
    if "recap" in data:
        return {"recap": data["recap"]}
    if data.get("stderr"):
        data = {**data, "stdout": f"{data.get('stdout') or ''}\nstderr:\n{data['stderr']}"}
        del data["stderr"]
    kept = dict([*data.items()][:_FIELDS])
    for name, value in kept.items():
        if isinstance(value, str | list | dict) and len(written := compact_json(value)) > _SHORT:
            text = rule(call, printed(value, data), limits)
            kept[name] = text if len(text) < len(written) else value
    return kept


_FIELDS, _SHORT = 30, 120
"""Fields of an answer that are kept, at most; characters of one that stays as it is."""
_TOTALS = ("total_matches", "match_count", "num_matches", "total_hits", "total_results", "total", "count")


def printed(value: Any, beside: Mapping[str, Any]) -> str:
    """A field of an answer as its tool would have printed it; a list under the number of all that was found,
    where the fields beside it say that there was more."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return compact_json(value)
    rows = [_row(item) for item in cast("list[Any]", value)]
    total = next((beside[name] for name in _TOTALS if isinstance(beside.get(name), int)), 0)
    return "\n".join([f"Found {total}", *rows] if total > len(rows) else rows)


def _row(item: Any) -> str:
    """`a.py:12: text` for a match, `name/` for a folder; any other record as it is."""
    if not isinstance(item, dict):
        return item if isinstance(item, str) else compact_json(item)
    record = cast("Data", item)
    name, line = _first(record, "path", "file", "filename", "name"), _first(record, "line", "line_number")
    if not isinstance(name, str):
        return compact_json(record)
    if line is not None:
        return f"{name}:{line}: {_first(record, 'text', 'content', 'match') or ''}"
    folder = (record.get("is_dir") or _first(record, "type", "kind")) in ("dir", "directory", "folder", True)
    return f"{name}/" if folder else name


def _first(record: Mapping[str, Any], *names: str) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)


# ── lists ───────────────────────────────────────────────────────────────────────────────────────

_FOUND = re.compile(
    r"^\W{0,3}(?:Found|Total|Showing)\b\D{0,20}(\d{1,9})(?: of (\d{1,9}))?\b[^/\\]{0,60}$", re.I
)
_BLOCKS = re.compile(r"^total \d{1,12}[KMGT]?$")
"""What `ls -l` says first: disk blocks, no entries."""
_REMARK = re.compile(r"^[\[(](?=.{0,200}\s).{1,200}[\])]$|^(?:No|Results are) .{1,80}$")
_FOLDER = re.compile(r"/\s*$|^\s*d[rwx-]{9}|\[DIR\]|\(dir\)")
_MATCH = re.compile(r"^([^\s:][^:\n]{0,400}):(\d+)[:-]")


def ls(call: Call, text: str, limits: Limits) -> str:
    """The directory, how many files and folders, the first entries."""
    rows, count, remark = _hits(text)
    folders = sum(bool(_FOLDER.search(row)) for row in rows)
    title = f"{text_argument(call, DIRECTORIES) or '.'}: {len(rows) - folders} files, {folders} folders"
    return "\n".join([title, *_top(rows, limits.ls_entries, limits, count), *remark])


def glob(call: Call, text: str, limits: Limits) -> str:
    """The pattern, how many hits, the first of them."""
    rows, count, remark = _hits(text)
    title = f"{text_argument(call, PATTERNS)}: {count} hits"
    return "\n".join([title, *_top(rows, limits.glob_hits, limits, count), *remark])


def grep(call: Call, text: str, limits: Limits) -> str:
    """The pattern, how many matches in how many files, the first matches with file and line."""
    rows, count, remark = _hits(text)
    found = [match for match in map(_MATCH.match, rows) if match]
    matches = [match.string for match in found] or rows
    more = count > len(rows)  # than are listed: in how many files is not known
    count = count if more else len(matches)
    files = f" in {'at least ' * more}{len({match[1] for match in found})} files" if found else ""
    title = f"{text_argument(call, PATTERNS)}: {count} matches{files}"
    return "\n".join([title, *_top(matches, limits.grep_matches, limits, count), *remark])


def _hits(text: str) -> tuple[list[str], int, list[str]]:
    """The rows that are hits, without a heading; how many there were in all; and the closing remark, which
    says what state they are in (truncated)."""
    rows = [row for row in _lines(text) if row.strip()]
    blocks = _BLOCKS.match(rows[0]) if rows else None
    heading = None if blocks or not rows else _FOUND.match(rows[0])
    if heading or blocks:
        rows = rows[1:]
    remark = rows[-1:] if rows and _REMARK.match(rows[-1]) else []
    rows = rows[: len(rows) - len(remark)]
    return rows, max(len(rows), int(heading[2] or heading[1]) if heading else 0), remark


# ── files ───────────────────────────────────────────────────────────────────────────────────────

_NUMBERED = re.compile(r"\s{0,12}\d{1,9}(?:\t|→|\||: ?| {2})")
_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@", re.M)


def read(call: Call, text: str, limits: Limits) -> str:
    """The piece that was read, with line numbers, within a number of lines."""
    rows, most = _lines(text), limits.read_lines
    kept = [_short(row, limits) for row in rows[:most]]
    if len(rows) <= most:
        return "\n".join(kept)
    if sum(bool(_NUMBERED.match(row)) for row in kept[:20]) <= len(kept[:20]) // 2:
        given = argument(call, ("offset", "start_line", "start", "line_start"))
        first = given if isinstance(given, int) and given > 0 else 1
        kept = [f"{number}\t{row}" for number, row in enumerate(kept, first)]
    return "\n".join([*kept, f"… ({len(rows) - most} more lines were read)"])


def edit(call: Call, text: str, limits: Limits) -> str:
    """The first lines; of a diff how many lines it adds and takes out and where, of a long one only that."""
    rows = _lines(text)
    marked = sum(row[:1] in ("+", "-") for row in rows)
    fragment = _top(rows, limits.edit_lines, limits)
    if len(rows) <= limits.edit_lines or ("@@ -" not in text and marked * 2 <= len(rows)):
        return "\n".join(fragment)
    added = sum(row.startswith("+") and not row.startswith("+++") for row in rows)
    removed = sum(row.startswith("-") and not row.startswith("---") for row in rows)
    hunks = [f"{m[1]}-{int(m[1]) + max(int(m[2] or 1), 1) - 1}" for m in _HUNK.finditer(text)][:50]
    places = f", at {', '.join(hunks)}" if hunks else ""
    counts = f"{text_argument(call, PATHS)}: +{added} -{removed} lines{places}"
    return "\n".join([counts, *(fragment if len(rows) <= limits.diff_lines else fragment[:1])])


def write(call: Call, text: str, limits: Limits) -> str:
    """The file, its size, the first lines."""
    rows, content = _lines(text), text_argument(call, CONTENTS)
    size = (
        [f"{text_argument(call, PATHS)}: {len(content.encode('utf-8', 'replace'))} bytes"] if content else []
    )
    return "\n".join([*size, *_top(rows, limits.write_lines, limits)])


# ── commands and everything else ────────────────────────────────────────────────────────────────

_STDERR = re.compile(r"^(?:stderr|standard error)\s*:\s*", re.I | re.M)


def bash(call: Call, text: str, limits: Limits) -> str:
    """The command, how many lines, the first and last of them, the end of stderr."""
    found = _STDERR.search(text)
    out = _lines(text[: found.start()] if found else text)
    errors = _lines(text[found.end() :]) if found else []
    rows = [f"$ {_short(command_line(call), limits)}", f"({len(out)} lines)"]
    rows += _edges(out, limits.bash_edge_lines, limits.bash_edge_lines, limits)
    return "\n".join(
        [*rows, *(["stderr:"] if errors else []), *_edges(errors, 0, limits.bash_stderr_lines, limits)]
    )


def todo(call: Call, text: str, limits: Limits) -> str:
    """The recap only."""
    given = list_or_empty(_first(call.arguments, "todos", "plan", "items", "tasks"))
    return recapped(given, limits) or _short(text, limits)


def recapped(todos: Sequence[Any], limits: Limits) -> str:
    """`[2/5] In progress: a. Pending: b; c.`"""
    rows = [cast("Data", todo) for todo in todos if isinstance(todo, dict)]
    by: dict[str, list[str]] = {}
    for row in rows:
        status = str(row.get("status") or "pending")
        by.setdefault(status, []).append(str(_first(row, "content", "step", "text", "title") or ""))
    done = len(by.pop("completed", []))
    rest = " ".join(
        f"{status.replace('_', ' ').capitalize()}: {'; '.join(texts)}." for status, texts in by.items()
    )
    return _short(f"[{done}/{len(rows)}] {rest}".strip(), limits) if rows else ""


def other(_call: Call, text: str, limits: Limits) -> str:
    """Cut in the middle."""
    return middle(text, limits.other_chars)


def _lines(text: str) -> list[str]:
    """Lines, without the empty ones at the end."""
    return text.rstrip("\n").split("\n") if text.strip("\n") else []


def _short(line: str, limits: Limits) -> str:
    return middle(line, limits.line_chars)


def _top(lines: Sequence[str], count: int, limits: Limits, total: int = 0) -> list[str]:
    """The first lines, and how many follow (of `total`, where that is more)."""
    more = max(total, len(lines)) - count
    return [*(_short(line, limits) for line in lines[:count]), *([f"… ({more} more)"] if more > 0 else [])]


def _edges(lines: Sequence[str], first: int, last: int, limits: Limits) -> list[str]:
    """The first and last lines, and how many were between them."""
    between = len(lines) - first - last
    if between <= 0:
        return [_short(line, limits) for line in lines]
    kept = [*lines[:first], f"… ({between} lines)", *lines[len(lines) - last :]]
    return [_short(line, limits) for line in kept]


RULES: Mapping[ToolKind, Callable[[Call, str, Limits], str]] = {
    "ls": ls, "glob": glob, "grep": grep, "read": read, "edit": edit, "patch": edit, "write": write,
    "create": write, "bash": bash, "todo": todo, "delete": other, "move": other, "editor": other,
    "other": other,
}  # fmt: skip
