"""Which lines of a long text tell most, when only its beginning, its end and a few lines between can stay.

A test log keeps its failures and its verdict, a diff its hunks, a search one hit of each file, a source file
its outline. These are ranks, no verdicts: a line that is not found is only further down in the order.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

from refold.session.toolnames import Kind

MANY = 4_000
"""Lines that are looked at, at most."""
_LONG = 240
"""Characters of a line that may be kept: a longer one is data."""
_FAILURE = re.compile(
    r"\b(?:error|errors|fail|fails|failed|failing|failure|failures|exception|panic|panicked|fatal|traceback|"
    r"assert\w*|undefined|cannot|denied)\b|[✗✖✘×]",
    re.I,
)
_TOTAL = re.compile(r"\b\d+ (?:passed|passing|tests?|errors?|failed|failing|warnings?|problems?)\b", re.I)
_HINTS = (
    "error", "fail", "exception", "panic", "fatal", "traceback", "assert", "undefined", "cannot", "denied",
    "✗", "✖", "✘", "×", "passed", "passing", "test", "warning", "problem",
)  # fmt: skip
"""One of them is in every line that a pattern finds. They are looked for first: a pattern for every line
would be most of what a fold costs."""
_NUMBER = re.compile(r"\d+")
_NUMBERED = re.compile(r"\s{0,12}(\d{1,9})(?:\t|→|\| ?)")
_HUNK = re.compile(r"^@@ ", re.M)


def ranked(text: str, kind: Kind) -> Iterator[int]:
    """Indices of the lines of `text` that tell something by themselves, the best first; found as they are
    asked for."""
    rows = text.split("\n")[:MANY]
    look = _diff if _HUNK.search(text) else _LOOKS.get(kind, _log)
    return (index for index in look(rows) if 0 < len(rows[index]) <= _LONG)


def _log(rows: Sequence[str]) -> Iterator[int]:
    """Lines that speak of failure, each kind of them once, then totals."""
    seen: set[str] = set()
    later: list[int] = []
    for index in _hinted(rows):
        row = rows[index]
        if _FAILURE.search(row[:_LONG]):
            shape = _NUMBER.sub("0", row.strip())
            if shape in seen:
                continue
            seen.add(shape)
            yield index
        elif _TOTAL.search(row[:_LONG]):
            later.append(index)
    yield from later


def _hinted(rows: Sequence[str]) -> list[int]:
    """Indices of the rows that have a hint in them."""
    lowered = "\n".join(rows).lower()
    ends = list(accumulate(len(row) + 1 for row in lowered.split("\n")))
    found: set[int] = set()
    for hint in _HINTS:
        at = lowered.find(hint)
        while at >= 0:
            row = bisect_right(ends, at)
            found.add(row)
            at = lowered.find(hint, ends[row])
    return sorted(found)


def _diff(rows: Sequence[str]) -> Iterator[int]:
    """Where something changed, then what."""
    yield from (i for i, row in enumerate(rows) if row.startswith(("diff --git", "+++ ", "@@ ")))
    yield from (i for i, row in enumerate(rows) if row[:1] in "+-" and row[:3] not in ("+++", "---"))


def _hits(rows: Sequence[str]) -> Iterator[int]:
    """The first line of each file."""
    seen: set[str] = set()
    for index, row in enumerate(rows):
        name, colon, _ = row.partition(":")
        if colon and name not in seen:
            seen.add(name)
            yield index


def _outline(rows: Sequence[str]) -> Iterator[int]:
    """The least indented lines that begin with a letter."""
    depths: dict[int, int] = {}
    for index, row in enumerate(rows):
        bare = row[match.end() :] if (match := _NUMBERED.match(row)) else row
        inner = bare.lstrip()
        if inner[:1].isalpha() or inner[:1] in "#@<":
            depths[index] = len(bare) - len(inner)
    return (index for index in sorted(depths, key=lambda index: (depths[index], index)) if depths[index] <= 4)


_LOOKS: Mapping[Kind, Callable[[Sequence[str]], Iterator[int]]] = {
    "grep": _hits,
    "read": _outline,
    "editor": _outline,
    "bash": _log,
}


def unnumbered(text: str, kind: Kind = "other") -> str:
    """A file as it is, where a tool has put a number before each line; which lines they are is said once. A
    heading above what was read says what the call has said."""
    rows = text.split("\n")
    found: list[re.Match[str] | None] = []
    spare = 0.2 * len(rows) + 1
    for row in rows:
        found.append(_NUMBERED.match(row))
        spare -= found[-1] is None
        if spare < 0:
            return text
    numbers = [(index, match) for index, match in enumerate(found) if match]
    if len(numbers) < 8 or len(numbers) < 0.8 * len(rows):
        return text
    first, last = numbers[0], numbers[-1]
    if int(last[1][1]) - int(first[1][1]) != last[0] - first[0]:
        return text
    bare = [row[match.end() :] if match else row for row, match in zip(rows, found, strict=True)]
    heading = [] if kind == "read" else bare[: first[0]]
    return "\n".join([*heading, f"(lines {first[1][1]}–{last[1][1]})", *bare[first[0] :]])
