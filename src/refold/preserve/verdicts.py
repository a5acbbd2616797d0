"""How a build or a test run ended, read from what it printed.

A verdict comes from the lines that a tool is known to print about the whole run, never from words such as
"error" or "success" somewhere in a log. Where no reader knows a line, the verdict is unknown. Only the two
ends of an output are looked at, and only the beginning of a long line.
"""

from __future__ import annotations

from functools import lru_cache

from refold.preserve.verdict_readers import CUT, LINE, NAMES, READERS, Verdict
from refold.text.frames import without_escapes
from refold.text.truncate import one_line

__all__ = ["READERS", "UNKNOWN", "Verdict", "verdict"]

HEAD, TAIL = 2_000, 16_000
"""Characters looked at: tools sum up at the end; what stopped them before they began stands at the start."""
_WIDEST = 600
UNKNOWN = Verdict()


@lru_cache(maxsize=4)
def verdict(text: str) -> Verdict:
    """The verdict of an output. Where several tools speak, one that failed decides, and is heard first. Who
    reads a result asks more than once."""
    edge = _edge(text)
    heard = {name: reader for name, (words, reader) in READERS.items() if any(word in edge for word in words)}
    rows = _rows(edge) if heard else ()
    said = {name: made for name, reader in heard.items() if (made := reader(rows))}
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


def _edge(text: str) -> str:
    """Both ends of a text, without colours."""
    edge = text if len(text) <= HEAD + TAIL else f"{text[:HEAD]}\n{CUT}\n{text[-TAIL:]}"
    return without_escapes(edge)


def _rows(edge: str) -> list[str]:
    """Lines, none too long; a row of `=` around a summary is not part of its width."""
    rows = (row.strip("= ") if row.startswith("====") else row for row in edge.splitlines())
    return [row[:_WIDEST].rstrip() for row in rows if row]
