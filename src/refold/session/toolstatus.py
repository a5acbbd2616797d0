"""What an agent's tool adds to the output of a program: its exit status, the shell's directory."""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec

from refold.text.patterns import lazy_pattern

_STATUS = lazy_pattern(
    r"(?:exit code:?|command exited with code|process exited with code) (-?\d{1,9})\.?$"
    r"|\[(?:the command completed|command finished) with exit code (-?\d{1,9})[^\]]{0,80}\]"
    r"|<shellId: \w{1,40} completed with exit code (-?\d{1,9})>$"
    r"|\(exit (?:code )?(-?\d{1,9})\)$|<(?:exit_code|returncode)>(-?\d{1,9})</",
    re.I,
)
_FOLDER = re.compile(
    r"\[Current working directory: (/[^\n\]]{0,400})\]|\(Current directory: (/[^\n)]{0,400})\)"
)
_FRAME = lazy_pattern(
    r"EXECUTION RESULT of|\[Python interpreter: |\(Open file: |bash-\$$|\(no output\)$|Wall time: |Output:$"
    r"|Error: \(none\)|Signal: |Background PIDs: |Process Group PGID: |Command: |Directory: "
    r"|Shell cwd was reset to "
)
_LARGEST = 4_000_000
_LISTS = ("matches", "paths", "entries")
_TEXTS = ("content", "diff", "stdout", "recap", "answer", "text")
_BEFORE = re.compile(r"Command: [^\0]{0,2000}?\nDirectory: [^\n]{0,400}\n(?:Output: )?")
"""Text before an output that repeats the call."""
_REMINDER = ("<system-reminder>", "</system-reminder>")
_REFUSAL = ("<tool_use_error>", "</tool_use_error>")
_PADDING = re.compile(r"(?<! ) {40,}+(?=\n)")
"""Lines padded by a terminal. (Shorter padding may be code that has to match.)"""
_STOPPED = re.compile(
    r"Command (?:aborted|timed out)|EXECUTION TIMED OUT|\[Operation Cancelled\]|\[Request interrupted by user"
)
_ROWS = 8
"""Number of lines at the end of an output that may report a status."""


def reported_status(row: str) -> int | None:
    found = _STATUS.match(row)
    return int(next(filter(None, found.groups()))) if found else None


def reported_folder(row: str) -> str:
    found = _FOLDER.match(row)
    return (found[1] or found[2]) if found else ""


def is_framing(row: str) -> bool:
    """True if a line comes from the tool and not from the program."""
    return any(pattern.match(row) for pattern in (_STATUS, _FOLDER, _FRAME))


def stopped(row: str) -> bool:
    """True if a line says that a run was stopped."""
    return _STOPPED.match(row) is not None


def without_tag(text: str) -> str:
    """A tool's answer without the tag that marks an error."""
    opens, closes = _REFUSAL
    return text.removeprefix(opens).removesuffix(closes) if text.startswith(opens) else text


def bare_output(text: str) -> str:
    """An output without its tool's envelope, tag or status lines. A status other than 0 stays, once."""
    if (inside := printed_output(text)) is not None:
        return inside
    text = without_tag(text)
    text = _PADDING.sub("", text) if " " * 40 in text else text
    if head := _BEFORE.match(text):
        text = text[head.end() :] or text
    opens, closes = _REMINDER
    while text.rstrip().endswith(closes) and (at := text.rfind(opens)) > 0:
        text = text[:at].rstrip()
    rows = text.rstrip().rsplit("\n", _ROWS)
    end = len(rows)
    while end > 1 and (not rows[end - 1].strip() or is_framing(rows[end - 1].strip())):
        end -= 1
    if end == len(rows):
        return text
    failed = [row for row in rows[end:] if reported_status(row.strip())]
    return "\n".join([*rows[:end], *failed[-1:]]) or text


def decoded_json(text: str, most: int = _LARGEST) -> Any:
    """The object or list that a text of at most `most` characters encodes; None if it is not JSON."""
    if len(text) > most or text[:400].lstrip()[:1] not in ("{", "["):
        return None
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def printed_output(text: str) -> str | None:
    """The printed form of a result `{status, data, text, error …}` (E4), without JSON escapes. None for other
    texts."""
    envelope = decoded_json(text) if text.startswith('{"status":') else None
    if envelope is None:
        return None
    data, error = envelope.get("data", {}), envelope.get("error", {})
    if not isinstance(data, dict) or not isinstance(error, dict):
        return None
    message = cast("dict[str, Any]", error).get("message")
    rows = [message, *_rows(cast("dict[str, Any]", data)), envelope.get("text")]
    said = [row for row in rows if isinstance(row, str) and row]
    return "\n".join(said) if said else None


def _rows(data: dict[str, Any]) -> list[Any]:
    """The main content of a result, then how a command ended."""
    lists = [cast("list[Any]", data[name]) for name in _LISTS if isinstance(data.get(name), list)]
    rows: list[Any] = [row for rows in lists for row in rows]
    rows += [data[name].rstrip("\n") for name in _TEXTS if isinstance(data.get(name), str)]
    if isinstance(data.get("stderr"), str):
        rows += ["stderr:", data["stderr"].rstrip("\n")]
    return [*rows, f"(exit code {data['exit_code']})"] if data.get("exit_code") else rows
