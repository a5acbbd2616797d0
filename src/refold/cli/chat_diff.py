"""The change an edit would make, for a terminal: lines with numbers, signs and colours."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from rich.syntax import Syntax
from rich.text import Text

from refold.messages import Call
from refold.text.terminal import clean

MAX_DIFF_ROWS = 40
"""Number of rows shown before a question."""
CONTEXT = 3
_LARGEST = 20_000
"""Maximum number of lines compared; more would take seconds."""
_STYLES = {"+": "green", "-": "red", " ": "dim"}


class DiffRow(NamedTuple):
    number: int
    """Line number in the new text; for a removed line, in the old one."""
    sign: str
    text: str


def diff_rows(before: str, after: str) -> list[DiffRow | None]:
    """The changed lines with some context; None separates two places."""
    old, new = before.splitlines(), after.splitlines()
    if len(old) + len(new) > _LARGEST:
        return [
            DiffRow(len(old), "-", f"({len(old):,} lines)"),
            DiffRow(len(new), "+", f"({len(new):,} lines)"),
        ]
    found: list[DiffRow | None] = []
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
        found += [None] if found else []
        for tag, first, last, begin, end in group:
            if tag == "equal":
                found += [DiffRow(begin + at + 1, " ", line) for at, line in enumerate(new[begin:end])]
                continue
            found += [DiffRow(first + at + 1, "-", line) for at, line in enumerate(old[first:last])]
            found += [DiffRow(begin + at + 1, "+", line) for at, line in enumerate(new[begin:end])]
    return found


def written_out(call: Call, question: str, width: int) -> list[str]:
    """Everything that a call would do, as lines; empty if the question already says it."""
    command = call.arguments.get("command")
    if isinstance(command, str) and call.arguments.keys() <= {"command", "timeout", "network"}:
        text = command
    else:
        text = json.dumps(call.arguments, ensure_ascii=False, indent=1) if call.arguments else call.raw or ""
    if f"`{text}`" in question and "\n" not in text:
        return []
    return [line[at : at + width] for line in text.split("\n") for at in range(0, len(line) or 1, width)]


def render_rows(path: str, shown: Sequence[DiffRow | str | None]) -> Iterator[Text]:
    """Rows as they are printed, with syntax colours on added and unchanged lines."""
    width = max((len(str(row.number)) for row in shown if isinstance(row, DiffRow)), default=1)
    lexer = Syntax.guess_lexer(path)
    code = "\n".join(clean(row.text) if isinstance(row, DiffRow) else "" for row in shown)
    lines = Syntax(code, lexer, theme="ansi_dark").highlight(code).split("\n", allow_blank=True)
    for row, line in zip(shown, lines, strict=False):
        if row is None:
            yield Text(" " * width + " ⋮", "dim")
            continue
        if isinstance(row, str):
            yield Text(row)
            continue
        style = _STYLES[row.sign]
        coloured = Text(line.plain, "red") if row.sign == "-" else line
        yield Text.assemble((f"{row.number:>{width}} ", "dim"), (f"{row.sign} ", style), coloured)
