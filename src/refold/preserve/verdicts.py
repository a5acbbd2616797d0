"""How a build or a test run ended, read from what it printed.

A verdict comes from the lines that a tool is known to print about the whole run, never from words such as
"error" or "success" somewhere in a log. Where no reader knows a line, the verdict is unknown. Only the two
ends of an output are looked at, only lines that may tell, and only the beginning of a long line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from refold.preserve.verdict_readers import CUT, LINE, NAMES, READERS, Verdict
from refold.text.truncate import one_line

__all__ = ["READERS", "UNKNOWN", "Verdict", "verdict"]

HEAD, TAIL = 4_000, 24_000
"""Characters looked at: tools sum up at the end; what stopped them before they began stands at the start."""
_WIDEST = 600
UNKNOWN = Verdict()


def verdict(text: str) -> Verdict:
    """The verdict of an output. Where several tools speak, one that failed decides, and is heard first."""
    rows = list(_telling(text))
    said = {name: made for name, reader in READERS.items() if rows and (made := reader(rows))}
    decided = {name: made for name, made in said.items() if made.passed is not None}
    if not decided:
        return next(iter(said.values()), UNKNOWN)
    failed = {name: made for name, made in decided.items() if not made.passed}
    # Who only ran the others repeats that they failed.
    loud = {name: made for name, made in failed.items() if name not in ("npm", "make")} or failed or decided
    lines = dict.fromkeys(made.line for made in loud.values() if made.line)
    names = dict.fromkeys(name for made in failed.values() for name in made.failing)
    partial = not failed and decided.keys() <= {"lint", "eslint", "tsc", "make"}
    return Verdict(not failed, one_line("; ".join(list(lines)[:3]), LINE), tuple(names)[:NAMES], partial)


_ANSI = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]|\x1b\]8;;[^\x07\x1b]{0,200}(?:\x07|\x1b\\)")
_TELLS = re.compile(
    r"pass|fail|error|err!|\bok\b|\bran |build|tests?\b|finished|\*\*\*|problem|found|checked|success"
    r"|nothing to be done|up to date|examples|●|no work to do|ninja|expected|^# |✖|not ok|\.go:|ℹ",
    re.I,
)


def _telling(text: str) -> Iterator[str]:
    """The lines of both ends that may say something, without colours; a row of `=` around a summary is not
    part of its width."""
    edge = text if len(text) <= HEAD + TAIL else f"{text[:HEAD]}\n{CUT}\n{text[-TAIL:]}"
    if "\x1b" in edge:
        edge = _ANSI.sub("", edge)
    for row in edge.splitlines():
        if row.startswith("===="):
            row = row.strip("= ")
        if _TELLS.search(row, 0, _WIDEST) or row == CUT:
            yield row[:_WIDEST].rstrip()
