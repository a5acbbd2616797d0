"""How a tool call ended, as the agent's tool reports it: exit status, failure, what went wrong.

Only what a tool says of a call is taken for its status, in the forms the common agents use; the text of a
program is its own matter. Cost is bounded: a few lines at either end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from refold.messages import Bash, Result
from refold.session.toolnames import ToolKind
from refold.session.toolstatus import (
    decoded_json,
    is_framing,
    printed_output,
    reported_folder,
    reported_status,
    stopped,
    without_tag,
)
from refold.text.frames import without_escapes
from refold.text.patterns import lazy_pattern
from refold.text.truncate import in_short

_EDGE = 6_000
"""Characters looked at from each end of a text for the line that says what went wrong."""
_ROW, _LONG_ROW = 400, 4_000
_SHOW: tuple[ToolKind, ...] = ("read", "grep", "glob", "ls")
"""Tools whose answers are the text of files, and may say anything."""
LOOKS = frozenset(
    {
        "grep", "egrep", "fgrep", "rg", "ls", "cat", "find", "head", "tail", "sed", "nl", "tree", "fd",
        "test", "[", "which", "type", "diff", "cmp", "stat", "file", "wc", "awk", "jq", "ps", "pgrep", "lsof",
    }
)  # fmt: skip
"""Commands that end with 1 where they find nothing: no failure of the work."""


class ToolOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    failed: bool = False
    """The tool says so."""
    refused: bool = False
    """It did not even begin."""
    exit: int | None = None
    error: str = ""
    body: str = ""
    """What the tool printed, out of its envelope."""
    cwd: str = ""
    """The directory the shell reports to stand in."""
    created: bool = False
    """The tool says that the file it wrote is new."""
    marked: bool = False
    """The result is marked as an error, whatever its text says."""


def outcome_of(result: Result, tool: ToolKind = "other") -> ToolOutcome:
    """How the call ended that this result answers. `tool` is the kind of tool that was called."""
    body, code, failed = unwrapped(result.text)
    cwd = ""
    refused = _REFUSED.match(body[:400]) is not None
    body = without_tag(body)
    if tool not in _SHOW and code is None:
        rows = [row[:_ROW].strip() for row in body[:1_000].splitlines()[:3] + body[-1_500:].splitlines()[-8:]]
        code = next((found for row in reversed(rows) if (found := reported_status(row)) is not None), None)
        cwd = next((place for row in reversed(rows) if (place := reported_folder(row))), "")
    if refused or (code is None and not failed and _says_failed(body, tool)):
        said = in_short(" ".join(_rows(body[:4_000])[:3]), 300)
        said = "refused by the user" if refused and _BY_THE_USER.match(body[:400]) else said
        return ToolOutcome(True, refused, None, said, body, cwd)
    if result.is_error or failed or code:
        error = error_line(body, first=tool != "bash")
        return ToolOutcome(True, False, code, error, body, cwd, marked=result.is_error)
    ends = body[-_EDGE:] if tool in ("bash", "other") and code is None else ""
    raised = in_short(_raised(_rows(ends), last=True), 300) if _TRACEBACK in ends else ""
    return ToolOutcome(False, False, code, raised, body, cwd, _CREATED.match(result.text) is not None)


def outcome_of_run(message: Bash) -> ToolOutcome:
    """How a command of the user's own ended."""
    error = error_line(message.output) if message.exit_code else ""
    return ToolOutcome(bool(message.exit_code), message.cancelled, message.exit_code, error, message.output)


# ── envelopes ───────────────────────────────────────────────────────────────────────────────────

_STDERR = ", stderr: "
_SANDBOX = re.compile(r"failed in sandbox (?:.{0,200}?error: )?(.{0,200}?)(?:, )?exit code: (-?\d{1,9})")


def unwrapped(text: str) -> tuple[str, int | None, bool]:
    """The readable body of a result; exit status and failure where a JSON envelope states them."""
    if text.startswith("failed in sandbox"):
        at = text.find(_STDERR, 0, 2_000)
        code = _SANDBOX.match(text[:400])
        said = text[at + len(_STDERR) :] if at >= 0 else text
        return said or (code[1] if code else text), int(code[2]) if code else None, True
    value = decoded_json(text) if text.startswith("{") else None
    return _envelope(cast("dict[str, Any]", value), text) if isinstance(value, dict) else (text, None, False)


def _envelope(value: Mapping[str, Any], text: str) -> tuple[str, int | None, bool]:
    """Codex: `{output, metadata: {exit_code}}`; layered: `{status, data, text, error …}`."""
    inside = [
        value,
        *(cast("dict[str, Any]", value[k]) for k in ("metadata", "data") if isinstance(value.get(k), dict)),
    ]
    code = next(
        (m[k] for m in inside for k in ("exit_code", "exitCode", "exit_status") if type(m.get(k)) is int),
        None,
    )
    error = value.get("error")
    failed = value.get("status") == "error" or error not in (None, False, "", {}, [])
    if isinstance(error, dict):
        error = cast("dict[str, Any]", error).get("message")
    bodies = (error, value.get("output"), value.get("stderr"), printed_output(text), value.get("text"))
    empty = any(fields.get(name) == "" for fields in inside for name in ("output", "stdout"))
    return next((b for b in bodies if isinstance(b, str) and b), "" if empty else text), code, failed


# ── failure without a status ────────────────────────────────────────────────────────────────────

_REFUSED = lazy_pattern(
    r"\s{0,80}(?:EXECUTION RESULT of \[\w{1,60}\]:\s{0,8})?(?:<tool_use_error>|\[Operation Cancelled\]"
    r"|The user doesn't want|Tool .{0,60} (?:failed|not found)|Permission to use .{0,80} has been denied"
    r"|(?:exec command|patch) rejected by user|aborted by user after )"
)
_BY_THE_USER = lazy_pattern(r"\s{0,80}(?:The user doesn't want|(?:exec command|patch) rejected by user)")
_FAILED = lazy_pattern(
    r"\s{0,80}(?:EXECUTION RESULT of \[\w{1,60}\]:\s{0,8})?(?:Error[: ]|ERROR|No replacement was performed"
    r"|File (?:not found|does not exist)|Failed to|Could not (?:find|read|open)|old_string not found|Invalid "
    r"|String to replace not found|Your proposed edit has introduced|apply_patch verification failed|ENOENT"
    r"|Missing required parameter)"
)
_CREATED = re.compile(
    r"(?:File created|Successfully created|Created |New file)|\{.{0,200}\"operation\": ?\"created\""
)
_SHORT = 1_200
"""A tool that refuses says so in a few words; a longer text is what was asked for."""


def _says_failed(body: str, tool: ToolKind) -> bool:
    if tool == "bash" or (tool in (*_SHOW, "other") and len(body) > _SHORT):
        return False
    return _FAILED.match(body[:400]) is not None


# ── what went wrong ─────────────────────────────────────────────────────────────────────────────

_TRACEBACK = "Traceback (most recent call last)"
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?::|$)")
_BROKEN = lazy_pattern(
    r"(?:[\w.$]+(?:Error|Exception)\b[^:]{0,80}:|error(?:\[\w+\])?:|fatal:|panic:|(?:/bin/)?(?:bash|sh|zsh): "
    r"|npm (?:ERR!|error) (?!code|errno|path)|E: |ERROR\b|FAILED\b|Error\b"
    r"|\S{1,200}[(:]\d+[,:]\d+\)?(?::| -) error\b)|.{0,300}(?:No such file or directory|command not found"
    r"|Permission denied)\b|g?make(?:\[\d+\])?: \*\*\*",
)
_SAYS_SO = lazy_pattern(r"^(?!.{0,200}\b(?:0|no) fail).{0,200}\bfail(?:ed|ure)?\b", re.I)
"""`lint  fail  1m25s`: a row of a table, a sentence."""


def error_line(text: str, *, first: bool = False) -> str:
    """The line that says what went wrong: that it was stopped, the last of a traceback, the first that names
    an error, the first that says that something failed, or else the last that was printed. `first`: else the
    first; a tool says it there, a program at its end."""
    rows = _rows(text)
    last = rows[-1] if rows else ""
    plain = rows[0] if first and rows else last
    failed = next((row for row in rows if _SAYS_SO.search(row)), "")
    said = last if stopped(last.strip()) else _raised(rows) or _named(rows) or failed or plain
    return in_short(said.strip(), 300)


def _named(rows: Sequence[str]) -> str:
    """The first line that names an error; with the next one where it is a mere heading."""
    at = next((i for i, row in enumerate(rows) if _BROKEN.match(row.lstrip())), -1)
    if at < 0:
        return ""
    return " ".join(rows[at : at + 2]) if len(rows[at].strip()) < 12 else rows[at]


def _rows(text: str) -> list[str]:
    """Lines of both ends, without what the agent's tool wraps around them."""
    edge = text if len(text) <= 2 * _EDGE else text[:_EDGE] + "\n" + text[-_EDGE:]
    rows = (
        row[:_LONG_ROW].removeprefix("Output: ") for row in without_escapes(edge).splitlines() if row.strip()
    )
    return [row for row in rows if not is_framing(row.strip())]


def _raised(rows: Sequence[str], *, last: bool = False) -> str:
    """The exception of the last traceback; `last`: only where the output ends with it."""
    start = next((i for i in range(len(rows) - 1, -1, -1) if _TRACEBACK in rows[i]), -1)
    if start < 0:
        return ""
    at = next((i for i in range(start + 1, len(rows)) if _RAISED.match(rows[i])), start)
    return "" if last and at != len(rows) - 1 else rows[at]
