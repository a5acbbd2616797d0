"""What an edit would change, as a reader of a terminal sees it: lines with numbers, signs and colours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from rich.syntax import Syntax
from rich.text import Text

from refold.text.terminal import clean

LINES = 40
"""Rows that are shown before a question."""
CONTEXT = 3
_LARGEST = 20_000
"""Lines of both texts that are compared; more would take seconds."""
_STYLES = {"+": "green", "-": "red", " ": "dim"}


class Row(NamedTuple):
    number: int
    """Of the new text; of a line that goes, of the old one."""
    sign: str
    text: str


def rows(before: str, after: str) -> list[Row | None]:
    """The lines that change, with some around them; None between two places."""
    old, new = before.splitlines(), after.splitlines()
    if len(old) + len(new) > _LARGEST:
        return [Row(len(old), "-", f"({len(old):,} lines)"), Row(len(new), "+", f"({len(new):,} lines)")]
    found: list[Row | None] = []
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
        found += [None] if found else []
        for tag, first, last, begin, end in group:
            if tag == "equal":
                found += [Row(begin + at + 1, " ", line) for at, line in enumerate(new[begin:end])]
                continue
            found += [Row(first + at + 1, "-", line) for at, line in enumerate(old[first:last])]
            found += [Row(begin + at + 1, "+", line) for at, line in enumerate(new[begin:end])]
    return found


def rendered(path: str, shown: Sequence[Row | None]) -> Iterator[Text]:
    """Rows as they are printed. Lines that come or stay have the colours of their language."""
    width = max((len(str(row.number)) for row in shown if row), default=1)
    lexer = Syntax.guess_lexer(path)
    code = "\n".join("" if row is None else clean(row.text) for row in shown)
    lines = Syntax(code, lexer, theme="ansi_dark").highlight(code).split("\n", allow_blank=True)
    for row, line in zip(shown, lines, strict=False):
        if row is None:
            yield Text(" " * width + " ⋮", "dim")
            continue
        style = _STYLES[row.sign]
        coloured = Text(line.plain, "red") if row.sign == "-" else line
        yield Text.assemble((f"{row.number:>{width}} ", "dim"), (f"{row.sign} ", style), coloured)
