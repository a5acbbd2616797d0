"""Which lines of a long text tell most, when only its beginning, its end and a few lines between can stay.

A test log keeps its failures and its verdict, a diff its hunks, a search one hit of each file, a source file
its outline. These are ranks, no verdicts: a line that is not found is only further down in the order.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import TypeAlias

from refold.session.toolnames import ToolKind
from refold.text.patterns import lazy_pattern
from refold.text.plural import counted
from refold.text.truncate import head_words

_MAX_LINES = 4_000
"""Lines that are ranked, at most."""
_ERRORS = 40
"""Lines that say what went wrong which are counted."""
_LONG = 240
"""Characters of a line that may be kept: a longer one is data, or tells at its beginning what failed."""
_DATA = 4 * _LONG
"""Characters of a line that are looked at."""
_ERROR = lazy_pattern(
    r"(?<!_)(?:error|exception|fatal|panic)(?:\[\w{1,40}\]| \w{0,8}\d{1,8}| \[\w{1,60}\])?: (?=\S)"
    r"|\bno module named |\bno such file\b|\bcommand not found\b|\bpermission denied\b|\bpanicked at "
    r"|^\s{0,8}(?:--- FAIL: |FAILED \S|not ok \d|● \S)",
    re.I,
)
"""`ValueError: …`, `error TS2345: …`, `error[E0308]: …`, `--- FAIL: TestX`: what went wrong."""
_FAILURE = lazy_pattern(
    r"\b(?:error|errors|fail|fails|failed|failing|failure|failures|exception|panic|panicked|fatal|traceback|"
    r"assert\w*|undefined|cannot|can't|could not|unable to|denied|not found|no replacement|mismatch)\b"
    r"|, want |[✗✖✘]|×(?!\d)",
    re.I,
)
_HEADING = re.compile(r".{0,40}:\s*$")
"""`Traceback (most recent call last):` says only that something comes."""
_SUCCESS = re.compile(
    r"^\s{0,20}[✓✔✅]|\b(?:0|no) (?:error|fail|problem)|\b(?:error|fail|failure|problem)s?[:=] {0,4}0\b", re.I
)
"""`✓ throws an error`, `0 errors`, `fail: 0`."""
_TOTAL = re.compile(r"\b\d+ (?:passed|passing|tests?|errors?|failed|failing|warnings?|problems?)\b", re.I)
_HINTS = (
    "error", "fail", "exception", "panic", "fatal", "traceback", "assert", "undefined", "cannot", "can't",
    "could not", "unable to", "denied", "not found", "no such", "no module", "no replacement",
    "mismatch", ", want ", "not ok", "●", "✗", "✖", "✘", "×",
    "passed", "passing", "test", "warning", "problem",
)  # fmt: skip
"""One of them is in every line that a pattern finds. They are looked for first: a pattern for every line
would be most of what a fold costs."""
_PLACE = re.compile(r"\.\w{1,6}:\d{1,7}:\d{1,7}:? ")
"""`a.go:12:2: declared and not used`: compilers and linters name the place, and often no word of failure."""
_NUMBER = re.compile(r"\d+")
_NUMBERED = re.compile(r"\s{0,12}(\d{1,9})(?:\t|→|\| ?|:)")
_IMPORTED = re.compile(r"(?:import|from|use|using|package|#include|require)\b|\w{1,8} \($")
_HEADING_ROW, _DOCUMENT = re.compile(r"^(#{2,6}) \S", re.M), 3
"""A heading; so many make a text a document."""
_DEEP = 4
"""Columns that a line of an outline is indented at most."""


LineSpan: TypeAlias = tuple[int, int]
"""Where a line begins and ends."""
_NAMES, _SPEAKS = -2, -1
"""Ranks of lines that say what went wrong, and of those that only say that something did."""
Look: TypeAlias = Callable[[Sequence[str]], Iterator[tuple[int, int, str | None]]]
"""Which of some lines tell something by themselves: index, rank (the least tells most), and a shape where one
line of each is enough."""
_Line: TypeAlias = tuple[int, int, int, str | None]
"""Where it begins and ends, its rank and its shape."""


class SalientLines:
    """The lines of a text that tell something by themselves, read once for excerpts of all sizes."""

    __slots__ = ("_lines", "_look", "_text", "sizes")

    def __init__(self, text: str, kind: ToolKind) -> None:
        self._text = text
        document = kind == "other" and len(_HEADING_ROW.findall(text)) >= _DOCUMENT
        self._look: Look = _headings if document else _LOOKS.get(kind, _log)
        self._lines: dict[Look, list[_Line]] = {}
        self.sizes: dict[LineSpan, int] = {}
        """Tokens of lines that were asked for; the caller counts them."""

    def ranked(self, start: int, end: int) -> Iterator[LineSpan]:
        """Where these lines are between two places of the text, the best first: of the first
        `_MAX_LINES` lines, those that are there as a whole."""
        return (place for _, place in self._ranked(start, end))

    def outcome(self, *, failed: bool) -> LineSpan | None:
        """The line of a log that says what went wrong; of one that `failed`, at least that something did; of
        one that ends with tests that passed, that they did."""
        if not failed and (passed := _passed(self._text)):
            return passed
        rank, place = next(self._ranked(0, len(self._text)), (0, None))
        return place if rank <= (_SPEAKS if failed else _NAMES) else None

    def errors(self) -> Iterator[LineSpan]:
        """The lines that say what went wrong, as many as are told first."""
        ranked = self._ranked(0, len(self._text))
        return (place for rank, place in islice(ranked, _ERRORS) if rank <= _NAMES)

    def _ranked(self, start: int, end: int) -> Iterator[tuple[int, LineSpan]]:
        text = self._text
        hunks = text.startswith("@@ ", start, end) or text.find("\n@@ ", start, end) >= 0
        look = _diff if hunks else self._look
        if look not in self._lines:
            self._lines[look] = _read(text, look)
        if text.count("\n", start, end) >= _MAX_LINES:
            rows = text[start:end].split("\n", _MAX_LINES)[:_MAX_LINES]
            end = start + sum(len(row) + 1 for row in rows) - 1
        lines = [line for line in self._lines[look] if start <= line[0] and line[1] <= end]
        seen: set[str] = set()
        for first, last, rank, shape in sorted(lines, key=lambda line: line[2]):
            if shape in seen:
                continue
            if shape is not None:
                seen.add(shape)
            if rank == _NAMES:
                last = first + len(head_words(text[first:last], _LONG))
            if 0 < last - first <= _LONG:
                yield rank, (first, last)


def _read(text: str, look: Look) -> list[_Line]:
    """The lines of a text that tell something, in their order."""
    rows = text.split("\n", 3 * _MAX_LINES)[: 3 * _MAX_LINES]
    starts = list(accumulate((len(row) + 1 for row in rows), initial=0))
    looked_at = [row[:_DATA] for row in rows]
    return [(starts[i], starts[i] + len(rows[i]), rank, shape) for i, rank, shape in look(looked_at)]


def _log(rows: Sequence[str]) -> Iterator[tuple[int, int, str | None]]:
    """Lines that say what went wrong, then those that speak of failure, each of a kind once, then totals."""
    for index in _hinted(rows):
        row = rows[index][:_LONG]
        rank = _log_rank(row)
        if rank is not None:
            yield index, rank, _NUMBER.sub("0", row.strip()) if rank < 0 else None


def _log_rank(row: str) -> int | None:
    place = _PLACE.search(row)
    if _SUCCESS.search(row) is None:
        if "warning" not in row.lower() and (place or _ERROR.search(row)):
            return _NAMES
        if place or (_FAILURE.search(row) and not _HEADING.match(row)):
            return _SPEAKS
    return 0 if _TOTAL.search(row) else None


def says_error(text: str) -> bool:
    """Whether the first line of a text says what went wrong."""
    return _log_rank(text[:_LONG].split("\n", 1)[0]) == _NAMES


def failure_at(line: str) -> int:
    """Where the word begins with which a line starts to say what failed."""
    if found := _ERROR.search(line) or _FAILURE.search(line):
        return line.rfind(" ", 0, found.start()) + 1
    place = _PLACE.search(line)
    return place.end() if place else 0


def _passed(log: str) -> LineSpan | None:
    """The number of what passed, where a log ends with it, and with nothing that failed: errors before that
    were printed by what was tested."""
    total, start = None, max(len(log) - _DATA, 0)
    for row in log[start:].split("\n"):
        if _FAILURE.search(row) and not _SUCCESS.search(row):
            return None
        if row.startswith("ok  ") or ("pass" in row and _TOTAL.search(row)):
            total = start, start + len(row)
        start += len(row) + 1
    return total


def speaks_of_failure(line: str) -> bool:
    """Whether a line does, but for the paths that it names."""
    return _FAILURE.search(" ".join(word for word in line.split() if "/" not in word)) is not None


def _hinted(rows: Sequence[str]) -> list[int]:
    """Indices of the rows that have a hint, or a place in a file, in them."""
    lowered = "\n".join(rows).lower()
    ends = list(accumulate(len(row) + 1 for row in lowered.split("\n")))
    found: set[int] = set()
    for hint in _HINTS:
        at = lowered.find(hint)
        while at >= 0:
            row = bisect_right(ends, at)
            found.add(row)
            at = lowered.find(hint, ends[row])
    found.update(bisect_right(ends, match.start()) for match in _PLACE.finditer(lowered))
    return sorted(found)


def _diff(rows: Sequence[str]) -> Iterator[tuple[int, int, str | None]]:
    """Where something changed, then what."""
    for index, row in enumerate(rows):
        if row.startswith(("diff --git", "+++ ", "@@ ")):
            yield index, 0, None
        elif row.startswith(("+", "-")) and row[:3] not in ("+++", "---"):
            yield index, 1, None


def _headings(rows: Sequence[str]) -> Iterator[tuple[int, int, str | None]]:
    """Those of a document, of parts before those of parts of them."""
    for index, row in enumerate(rows):
        if found := _HEADING_ROW.match(row):
            yield index, len(found[1]), None


def _hits(rows: Sequence[str]) -> Iterator[tuple[int, int, str | None]]:
    """The first line of each file."""
    for index, row in enumerate(rows):
        name, colon, _ = row.partition(":")
        if colon:
            yield index, 0, name


def _outline(rows: Sequence[str]) -> Iterator[tuple[int, int, str | None]]:
    """The least indented lines that begin with a letter, what is imported behind all others."""
    for index, row in enumerate(rows):
        bare = row[match.end() :] if (match := _NUMBERED.match(row)) else row
        inner = bare.lstrip()
        depth = len(bare) - len(inner)
        if (inner[:1].isalpha() or inner.startswith(("#", "@", "<"))) and depth <= _DEEP:
            yield index, depth + _DEEP * bool(_IMPORTED.match(inner)), None


def _edited(rows: Sequence[str]) -> Iterator[tuple[int, int, str | None]]:
    """The lines nearest to the middle: a tool shows an edit with as many lines before it as behind it."""
    for index, row in enumerate(rows):
        if row.strip():
            yield index, abs(2 * index - len(rows) + 1), None


_LOOKS: Mapping[ToolKind, Look] = {
    "grep": _hits,
    "read": _outline,
    "editor": _edited,
    "edit": _edited,
    "write": _outline,
    "bash": _log,
}


_HIT = re.compile(r"(?:[^\n\t:]{1,300}:)?\d{1,9}:")
_BESIDE_A_HIT = re.compile(r"(?:\S.{0,300}?-)?\d{1,9}-")


def without_context(text: str, key: str) -> str:
    """The hits of a search that also printed lines around them (`path-12-…`), and how many of those."""
    rows = text.rstrip("\n").split("\n")
    hits = {row for row in rows if _HIT.match(row)}
    around = {row for row in rows if row not in hits and _BESIDE_A_HIT.match(row)}
    kept = [row for row in rows if row not in around and row != "--"]
    if not hits or not around or len(kept) - sum(row in hits for row in kept) > 0.1 * len(rows):
        return text
    return "\n".join([*kept, lines_left(len(rows) - len(kept), " around", key)])


def lines_left(count: int, which: str, key: str) -> str:
    """Says what is not there, and how it is found."""
    return f"[… {counted(count, 'line')}{which}{f'; {key}' if key else ''} …]"


_OPENING = 12
"""Lines at the beginning of an output that may be a banner."""
_TIME = re.compile(r"(?<!\d)\d{1,9}(?:\.\d{1,9})? ?m?s\b|(?<!\d)\d{1,3}:\d\d(?::\d\d)?")


def opening_shapes(text: str) -> list[str]:
    """The lines that an output begins with, whatever time they tell."""
    return [_TIME.sub("0", row[:_LONG].strip()) for row in text.split("\n", _OPENING)[:_OPENING]]


def without_banner(text: str, printed: Callable[[str], bool], key: str) -> str:
    """An output without the lines at its beginning that many began with, too. What it says of failure is news
    each time."""
    shapes = opening_shapes(text)
    news = (
        shape and (not printed(shape) or _FAILURE.search(shape) or _TOTAL.search(shape)) for shape in shapes
    )
    count = next((number for number, is_news in enumerate(news) if is_news), len(shapes))
    *banner, rest = text.split("\n", count)
    if sum(map(len, banner)) < _BANNER or not rest:
        return text
    return f"{lines_left(count, ', as at the start of earlier outputs', key)}\n{rest}"


_BANNER = 60
"""Characters of a banner from which on it costs more than to say that it is left out."""


def without_numbers(text: str, kind: ToolKind) -> str:
    """A file as it is, where a tool has put a number before each line; which lines they are is said once. A
    heading above what was read says what the call has said."""
    rows = text.rstrip("\n").split("\n")
    bare, first, last, others = list[str](), (-1, ""), (-1, ""), 0
    for index, row in enumerate(rows):
        match = _NUMBERED.match(row)
        if match is None:
            others += 1
            if others > 0.2 * len(rows) + 1:
                return text
            bare.append(row)
        else:
            last = index, match[1]
            first = last if first[0] < 0 else first
            bare.append(row[match.end() :])
    numbers = len(rows) - others
    if numbers < (2 if kind == "read" else 8) or numbers < 0.8 * len(rows):
        return text
    if int(last[1]) - int(first[1]) != last[0] - first[0]:
        return text
    heading = [] if kind == "read" else bare[: first[0]]
    return "\n".join([*heading, f"(lines {first[1]}–{last[1]})", *bare[first[0] :]])
