"""Which lines of a long text tell most, when only its beginning, its end and a few lines between can stay.

A test log keeps its failures and its verdict, a diff its hunks, a search one hit of each file, a source file
its outline. These are ranks, no verdicts: a line that is not recognised is only further down in the order.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from refold.session.toolnames import ToolKind
from refold.text.patterns import lazy_pattern
from refold.text.truncate import head_words

WHOLE_LINE = 240
"""Characters of a line that is told whole or not at all; a longer one is data."""
_MAX_LINES = 12_000
"""Lines that are ranked, at most."""
_FAILURES = (
    "error", "fail", "exception", "panic", "fatal", "traceback", "assert", "undefined", "cannot", "can't",
    "could not", "unable to", "denied", "not found", "no such", "no module", "no replacement", "mismatch",
)  # fmt: skip
"""How words begin that speak of failure."""
_SIGNS = (", want ", "✗", "✖", "✘", "× ")
_OTHERS = ("not ok", "●", "passed", "passing", "test", "warning", "problem")
"""What else is in the lines that the patterns below find."""
_FAILURE = lazy_pattern(rf"\b(?:{'|'.join(_FAILURES)})|{'|'.join(_SIGNS)}", re.I)
_ERROR = lazy_pattern(
    r"(?<!_)(?:error|exception|fatal|panic)(?:\[\w{1,40}\]| \w{0,8}\d{1,8}| \[\w{1,60}\])?: (?=\S)"
    r"|\bno module named |\bno such file\b|\bcommand not found\b|\bpermission denied\b|\bpanicked at "
    r"|^\s{0,8}(?:--- FAIL: |FAILED \S|not ok \d|● \S)",
    re.I,
)
"""`ValueError: …`, `error TS2345: …`, `error[E0308]: …`, `--- FAIL: TestX`: what went wrong."""
_PLACE = re.compile(r"\.\w{1,6}:\d{1,7}:\d{1,7}:? |^ {4,16}\w[\w.-]{0,80}\.\w{1,6}:\d{1,7}: ", re.M)
"""`a.go:12:2: declared and not used`, `    a_test.go:12: got 3`: compilers, linters and tests name the place,
and often no word of failure."""
_WARNING = re.compile(r"\bwarning\b ?[:\[(]|^\s{0,8}\d{1,7}:\d{1,7}\s{1,8}warning\b", re.I)
_SUCCESS = re.compile(
    r"^\s{0,20}[✓✔✅]|\b(?:0|no) (?:error|fail|problem)|\b(?:error|fail|failure|problem)s?[:=] {0,4}0\b", re.I
)
"""`✓ throws an error`, `0 errors`, `fail: 0`."""
_TOTAL = re.compile(r"\b\d+ (?:passed|passing|tests?|errors?|failed|failing|warnings?|problems?)\b", re.I)
_ONLY_ANNOUNCES = re.compile(r".{0,40}:\s*$")
"""`Traceback (most recent call last):` says only that something comes."""
_NUMBER = re.compile(r"\d+")
_IMPORTED = re.compile(r"(?:import|from|use|using|package|#include|require)\b")
_DEEP = 4
"""Columns that a line of an outline is indented at most; what is behind all headings."""
HUNK = "@@ "
"""How a place in a diff begins."""
_HEADING = re.compile(rf"^(?:(#{{2,6}}) \S|diff --git |\+\+\+ \S|{HUNK})", re.M)
_DOCUMENT = 3
"""So many headings make a text a document."""
_ABOVE = 1_000
"""Lines above a detail among which its headline is looked for, at most."""
_ENDS = 1_000
"""Characters at the end of a log in which its total stands."""

LineSpan: TypeAlias = tuple[int, int]
"""Where a line begins and ends."""
_NAMES, _SPEAKS, _COUNTS, _WARNS = -2, -1, 0, 1
"""Ranks of lines of a log: those that say what went wrong, that something did, how many, and what may be
wrong."""


class RankedLine(NamedTuple):
    rank: int
    """The least tells most."""
    span: LineSpan

    @property
    def says_error(self) -> bool:
        return self.rank == _NAMES

    @property
    def speaks_of_failure(self) -> bool:
        return self.rank <= _SPEAKS


_Look: TypeAlias = Callable[[Sequence[str]], Iterator[tuple[int, int, str | None]]]
"""Which of some lines tell something by themselves: index, rank, and a shape where one line of each is
enough."""


def ranked_lines(text: str, kind: ToolKind) -> list[RankedLine]:
    """The lines of a text that tell something by themselves, the best first. Only those that say what went
    wrong may be the beginning of a longer line."""
    look = _LOOKS.get(kind, _log)
    if f"\n{HUNK}" in f"\n{text}" or (kind == "other" and len(headings(text)) >= _DOCUMENT):
        look = _structure
    rows = text.split("\n", _MAX_LINES)[:_MAX_LINES]
    starts = list(accumulate((len(row) + 1 for row in rows), initial=0))
    shapes, lines = set[str](), list[RankedLine]()
    for index, rank, shape in look(rows):
        if shape in shapes:
            continue
        if shape is not None:
            shapes.add(shape)
        row = head_words(rows[index], WHOLE_LINE) if rank == _NAMES else rows[index]
        if 0 < len(row) <= WHOLE_LINE:
            lines.append(RankedLine(rank, (starts[index], starts[index] + len(row))))
    return sorted(lines, key=lambda line: line.rank)


# ── logs ────────────────────────────────────────────────────────────────────────────────────────


def _log(rows: Sequence[str]) -> Iterator[tuple[int, int, str | None]]:
    """Lines that say what went wrong, those that speak of failure, totals, and warnings: each of a kind once,
    but for totals."""
    for index in _hinted(rows):
        row = rows[index][:WHOLE_LINE]
        rank = _log_rank(row)
        if rank is not None:
            yield index, rank, None if rank == _COUNTS else _NUMBER.sub("0", row.strip())


def _hinted(rows: Sequence[str]) -> list[int]:
    """Indices of the rows that have one of the words, or a place in a file, in them: a search for every
    pattern in every line would be most of what a fold costs."""
    lowered = "\n".join(rows).lower()
    ends = list(accumulate(len(row) + 1 for row in lowered.split("\n")))
    hinted = {bisect_right(ends, place.start()) for place in _PLACE.finditer(lowered)}
    for hint in (*_FAILURES, *_SIGNS, *_OTHERS):
        at = lowered.find(hint)
        while at >= 0:
            row = bisect_right(ends, at)
            hinted.add(row)
            at = lowered.find(hint, ends[row])
    return sorted(hinted)


def _log_rank(row: str) -> int | None:
    place = _PLACE.search(row)
    if _SUCCESS.search(row) is None:
        if "warning" not in row.lower() and (place or _ERROR.search(row)):
            return _NAMES
        if place or (_FAILURE.search(row) and not _ONLY_ANNOUNCES.match(row)):
            return _SPEAKS
    return _COUNTS if _TOTAL.search(row) else _WARNS if _WARNING.search(row) else None


def failure_at(line: str) -> int:
    """Where the word begins with which a line starts to say what failed."""
    if word := _ERROR.search(line) or _FAILURE.search(line):
        return line.rfind(" ", 0, word.start()) + 1
    place = _PLACE.search(line)
    return place.end() if place else 0


def speaks_of_failure(line: str) -> bool:
    """Whether a line does, but for the paths that it names."""
    return _FAILURE.search(" ".join(word for word in line.split() if "/" not in word)) is not None


def is_news(line: str) -> bool:
    """Whether a line tells how a run went, so that it is worth repeating."""
    return any(each.search(line) for each in (_FAILURE, _TOTAL, _WARNING)) or line.startswith("ok ")


def success_total(log: str) -> LineSpan | None:
    """The number of what passed, where a log ends with it, and with nothing that failed: errors before that
    were printed by what was tested."""
    total, start = None, max(len(log) - _ENDS, 0)
    for row in log[start:].split("\n"):
        if _FAILURE.search(row) and not _SUCCESS.search(row):
            return None
        if row.startswith("ok  ") or ("pass" in row and _TOTAL.search(row)):
            total = start, start + len(row)
        start += len(row) + 1
    return total


# ── files, diffs and searches ───────────────────────────────────────────────────────────────────


def _structure(rows: Sequence[str]) -> Iterator[tuple[int, int, str | None]]:
    """Headings of a document, of parts before those of parts of them; files of a diff, and what changed in
    them: the place comes with it."""
    for index, row in enumerate(rows):
        if row.startswith(HUNK):
            continue
        if heading := _HEADING.match(row):
            yield index, len(heading[1] or ""), None
        elif row.startswith(("+", "-")) and not row.startswith("---"):
            yield index, _DEEP, None


_HIT = re.compile(r"(?:([^\n\t:]{1,300}):)?\d{1,9}:")


def _hits(rows: Sequence[str]) -> Iterator[tuple[int, int, str | None]]:
    """The first line of each file; of a single one, that is not named, all of them."""
    for index, row in enumerate(rows):
        if hit := _HIT.match(row):
            yield index, 0, hit[1]


def _outline(rows: Sequence[str]) -> Iterator[tuple[int, int, str | None]]:
    """The least indented lines that begin with a letter, what is imported behind all others."""
    for index, row in enumerate(rows):
        inner = row.lstrip()
        depth = len(row) - len(inner)
        if depth <= _DEEP and (inner[:1].isalpha() or inner.startswith(("#", "@", "<"))):
            yield index, depth + _DEEP * bool(_IMPORTED.match(inner)), None


def _edited(rows: Sequence[str]) -> Iterator[tuple[int, int, str | None]]:
    """The lines nearest to the middle: a tool shows an edit with as many lines before it as behind it."""
    for index, row in enumerate(rows):
        if row.strip():
            yield index, abs(2 * index - len(rows) + 1), None


_LOOKS: Mapping[ToolKind, _Look] = {
    "grep": _hits, "read": _outline, "write": _outline, "editor": _edited, "edit": _edited,
}  # fmt: skip


def headings(text: str) -> list[int]:
    """Where lines begin that say what those below them are about: headings of a document, files of a diff and
    places in them."""
    return [heading.start() for heading in _HEADING.finditer(text)]


def headline_of(text: str, at: int) -> LineSpan | None:
    """The error that an indented line is a detail of."""
    start = at
    for _ in range(_ABOVE):
        if start == 0 or not text[start].isspace():
            break
        start = text.rfind("\n", 0, start - 1) + 1
    row = text[start : start + WHOLE_LINE].split("\n", 1)[0]
    return (
        (start, start + len(head_words(row, WHOLE_LINE))) if start < at and _log_rank(row) == _NAMES else None
    )
