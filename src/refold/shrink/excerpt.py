"""A long text in so many tokens: its beginning, its end, and the lines between that tell most.

An excerpt is made of whole lines, in their order; a line longer than `WHOLE_LINE` may be cut between words.
Where lines are missing stands a marker, on a line of its own.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import msgspec

from refold.protocols import TokenCounter
from refold.session.toolnames import ToolKind
from refold.session.toolstatus import bare_output, reported_status, without_tag
from refold.shrink.salient import (
    HUNK,
    WHOLE_LINE,
    LineSpan,
    RankedLine,
    failure_at,
    headings,
    headline_of,
    is_news,
    ranked_lines,
    speaks_of_failure,
    success_total,
)
from refold.text.sentences import spans
from refold.text.truncate import head_words, tail, tail_words
from refold.tokens.fitting import largest

GAP_MARK = "[… {cut} tokens, {key} …]"
GAP_MARK_TOKENS = 10
_LEFT_OUT = "…"
"""The marker of the second gap and all further ones."""
_GAP_TOKENS = 2
_HEADS = {"bash": 0.5, "ls": 0.85, "glob": 0.85, "grep": 0.85}
"""Share of what is kept that stands at the beginning. A log says at its end how it went, a list is sorted by
worth if by anything."""
_HEAD = 0.65
_TELLS = 16
"""Characters of a piece of a line that say something."""
_WIDE = 8
"""Characters of a token, at most, of a line that is cut."""
_BETWEEN = 0.25
"""Share of an excerpt for lines between beginning and end that tell something by themselves."""
_WANTED = 0.75
"""The same for those that are wanted most."""
_TELLING = 60
"""Tokens from which on an excerpt has such lines."""


# ── what is read ────────────────────────────────────────────────────────────────────────────────


class Body(msgspec.Struct, frozen=True):
    """What excerpts of all sizes are made of: a text without its tool's envelope, repeated lines and numbers
    of lines."""

    text: str
    begins: int
    """Where the banner ends that earlier outputs had, too: it is the first to go."""
    size: int
    kind: ToolKind
    lines: Sequence[RankedLine]
    """Those that tell something by themselves, the best first."""
    outcome: LineSpan | None
    """The line of a log that says what went wrong, or that nothing did: it is the last to go."""
    wanted: Sequence[LineSpan]
    """The lines that may have most of the room: of a log those that say what went wrong, of a search the
    first hit in each file, of an edit what it changed."""
    headings: Sequence[int]
    """Where lines begin that say what those below them are about."""
    records: bool
    """Records in JSON: the end of one would read as the end of another."""
    sizes: dict[LineSpan, int]
    """Tokens of the lines that were asked for."""


class Texts:
    """The texts that clips of one message are made of, at all levels: each is read and counted once."""

    __slots__ = ("_bodies", "_sizes", "counter", "printed")

    def __init__(self, counter: TokenCounter, printed: Callable[[str], bool] = lambda _: False) -> None:
        """`printed`: whether earlier outputs often began with such a line (`opening_shapes`)."""
        self.counter, self.printed = counter, printed
        self._sizes: dict[str, int] = {}
        self._bodies: dict[str, Body] = {}

    def size(self, text: str) -> int:
        """Tokens of a text that is asked for again."""
        size = self._sizes.get(text)
        if size is None:
            size = self._sizes[text] = self.counter.text(text)
        return size

    def body(self, text: str, kind: ToolKind) -> Body:
        body = self._bodies.get(text)
        if body is None:
            body = self._bodies[text] = self._read(text, kind)
        return body

    def _read(self, text: str, kind: ToolKind) -> Body:
        plain = bare_output(text)
        if kind not in _FILES:  # of a file every line may have to be matched
            plain = _without_repeats(plain)
        plain = without_numbers(plain, kind).rstrip()
        opening, tagged = _first_line(plain), without_tag(text) != text
        refused = kind in _CHANGES and (tagged or speaks_of_failure(opening))
        failed = refused or _reports_failure(plain)
        lines = ranked_lines(plain, "bash" if failed else kind)
        success = success_total(plain) if kind == "bash" and not failed else None
        if success:  # what was tested printed errors that it was to print
            lines = [line for line in lines if not line.speaks_of_failure]
        errors = [line.span for line in lines if line.says_error and (failed or kind == "bash")]
        hits = [line.span for line in lines] if kind in _WANTED_OF and not failed else []
        if refused and tagged:
            outcome = 0, len(opening)
        elif errors:
            outcome = errors[0]
        else:
            outcome = next((line.span for line in lines if failed and line.speaks_of_failure), None)
        return Body(
            text=plain,
            begins=banner_end(plain, self.printed) if kind == "bash" else 0,
            size=self.counter.text(plain),
            kind=kind,
            lines=lines,
            outcome=success or outcome,
            wanted=errors or hits,
            headings=headings(plain),
            records=_RECORD.match(plain) is not None and plain.count("{") > 1,
            sizes={},
        )


_FILES: tuple[ToolKind, ...] = ("read", "editor")
_WANTED_OF: tuple[ToolKind, ...] = ("grep", "edit", "editor")
_CHANGES: tuple[ToolKind, ...] = ("edit", "editor", "write", "create", "patch")
"""What these show is code, but where they refuse, they say why."""


_RECORD = re.compile(r"[\s\[]{0,40}\{\s{0,40}[\"}]")


def _first_line(text: str) -> str:
    return text[:WHOLE_LINE].lstrip().split("\n", 1)[0]


def _reports_failure(output: str) -> bool:
    """Whether a log begins or ends with an exit status other than 0."""
    last = output[-WHOLE_LINE:].rstrip().rsplit("\n", 1)[-1]
    return any(reported_status(row.strip()) for row in (_first_line(output), last))


_BAR = re.compile(r"[\W\d_]+")


def _without_repeats(text: str) -> str:
    """Lines that are the same one after the other, and steps of a progress bar, as the last one with their
    number."""
    rows = list[str]()
    for _, same in groupby(text.split("\n"), key=lambda row: _BAR.sub("", row) if "%" in row else row):
        run = list(same)
        rows += [f"{run[-1]} [×{len(run)}]"] if len(run) > 2 and len(run[-1]) >= 8 else run
    return "\n".join(rows)


_NUMBERED = re.compile(r"\s{0,12}(\d{1,9})(?:\t|→|\| ?|:)")
_NUMBERED_SHARE = 0.8
"""Share of the lines of a file that have a number."""


def without_numbers(text: str, kind: ToolKind) -> str:
    """A file as it is, where a tool has put a number before each line; which lines they are is said once.
    What stands above a file that was read says what the call has said."""
    rows = text.rstrip("\n").split("\n")
    numbers = [_NUMBERED.match(row) for row in rows]
    first = next((index for index, number in enumerate(numbers) if number), len(rows))
    end, begin = first, 0
    for index, number in enumerate(numbers[first:]):
        if number is None or (index and int(number[1]) != begin + index):
            break
        begin = begin or int(number[1])
        rows[end] = rows[end][number.end() :]
        end += 1
    if end - first < max(2 if kind == "read" else 8, _NUMBERED_SHARE * len(rows)):
        return text
    heading = [] if kind == "read" else rows[:first]
    return "\n".join([*heading, f"(lines {begin}–{begin + end - first - 1})", *rows[first:]])


_OPENING = 12
"""Lines at the beginning of an output that may be a banner."""
_BANNER = 60
"""Characters of a banner from which on it costs more than to mark that it is left out."""
_OFTEN = 3
"""Outputs that begin with a line for it to be a banner of theirs."""
_TIME = re.compile(r"(?<!\d)\d{1,9}(?:\.\d{1,9})? ?m?s\b|(?<!\d)\d{1,3}:\d\d(?::\d\d)?")


def opening_shapes(text: str) -> list[str]:
    """The lines that an output begins with, whatever time they tell."""
    return [_TIME.sub("0", row[:WHOLE_LINE].strip()) for row in text.split("\n", _OPENING)[:_OPENING]]


class Banners:
    """The lines that all outputs with the same first line begin with, where there are several."""

    def __init__(self) -> None:
        self._shared: dict[str, list[tuple[int, frozenset[str]]]] = {}
        """By the first line: positions of outputs, and what those up to each of them share; after a few only
        where that becomes less."""

    def take(self, position: int, text: str) -> None:
        """One more output, behind those before."""
        first, *others = opening_shapes(bare_output(text))
        outputs = self._shared.setdefault(first, [])
        shared = frozenset((first, *others))
        shared &= outputs[-1][1] if outputs else shared
        if len(outputs) < _OFTEN or shared != outputs[-1][1]:
            outputs.append((position, shared))

    def before(self, position: int, text: str) -> frozenset[str]:
        """The lines of the banner of an output at a position; none where too few began as it does."""
        first = opening_shapes(bare_output(text))[0]
        earlier = [shared for at, shared in self._shared.get(first, ()) if at < position]
        return earlier[-1] if len(earlier) >= _OFTEN else frozenset()


def banner_end(text: str, printed: Callable[[str], bool]) -> int:
    """Where the lines end that an output begins with as many others do. What it says of failure is news each
    time, and so is a verdict."""
    count = 0
    for shape in opening_shapes(text):
        if shape and (not printed(shape) or is_news(shape)):
            break
        count += 1
    *banner, rest = text.split("\n", count)
    return len(text) - len(rest) if rest and sum(map(len, banner)) >= _BANNER else 0


# ── what stays ──────────────────────────────────────────────────────────────────────────────────


def clip_text(text: str, tokens: int, texts: Texts, key: str, kind: ToolKind = "other") -> str:
    """Beginning and end of a text, and the lines between that tell most, in at most `tokens` tokens. `key`
    names its entry in the marker, `kind` says what it shows."""
    if len(text) <= tokens or texts.size(text) <= tokens:
        return text
    body = texts.body(text, kind)
    if body.size <= tokens or (body.size <= tokens + GAP_MARK_TOKENS and body.text != text):
        return body.text  # what a mark would cost is nearly all that is left to save
    choice = _Choice(body, max(tokens - GAP_MARK_TOKENS, 1), texts.counter)
    choice.choose()
    mark = GAP_MARK.format(cut=max(body.size - choice.used, 1), key=key) if key else "[…]"
    return _put_together(body.text, sorted(choice.spans.values()), mark)


class _Choice:
    """The lines of a text that stay, or pieces of them, within a number of tokens. Whatever is taken leaves
    so many tokens as its *floor* says for what comes after it."""

    def __init__(self, body: Body, room: int, counter: TokenCounter) -> None:
        self.body, self.text, self.counter = body, body.text, counter
        self.room = room
        """Tokens that are left."""
        self.used = 0
        """Tokens of what was taken, markers not counted."""
        self.spans: dict[int, LineSpan] = {}
        """What was taken, by the beginning of its line."""
        self._begins: int = body.begins
        """Where the line begins that comes after those taken from the beginning."""
        self._ends: int = len(body.text)
        """Where the line ends that comes before those taken from the end."""

    def choose(self) -> None:
        body, room, between = self.body, self.room, 0
        beginning = _HEADS.get(body.kind, _HEAD)
        if body.outcome is not None:
            start, end = self._piece_that_says_what_failed(body.outcome)
            if start < end:
                self._take((start, end), 0, line=body.outcome[0])
        if body.kind == "bash" and not body.records:  # half of `1 failed, 61 passed` lies
            self._take((self.text.rfind("\n") + 1, len(self.text)), 0)
        if room >= _TELLING:
            before = self.room
            self._take_all(body.wanted, int(room * (1 - _WANTED)))
            between = min(max(int(room * _BETWEEN) - (before - self.room), 0), self.room)
        self._take_end(self.room - int((self.room - between) * (1 - beginning)))
        self._take_beginning(between)
        if room >= _TELLING:
            self._take_all([line.span for line in body.lines], 0)
        self._take_beginning(0)
        self._take_pieces(beginning)
        self._take_end(0)

    def _take(self, span: LineSpan, floor: int, *, line: int | None = None) -> bool:
        """Takes a line or a piece of one, if it fits. `line`: where its line begins, if it may stand alone
        between two markers. What stands there already stays as it is."""
        key = span[0] if line is None else line
        if key in self.spans:
            return True
        size = self.body.sizes.get(span)
        if size is None:
            # With the end of the line, which mostly costs nothing.
            size = self.body.sizes[span] = self.counter.text(self.text[span[0] : span[1] + 1])
        room = self.room - size - (0 if line is None else _GAP_TOKENS)
        if room < floor:
            return False
        self.spans[key] = span
        self.used += size
        self.room = room
        return True

    def _take_all(self, lines: Sequence[LineSpan], floor: int) -> None:
        for line in lines:
            if not self._take_with_lines_above(line, floor):
                return

    def _take_with_lines_above(self, line: LineSpan, floor: int) -> bool:
        start = line[0]
        if start in self.spans:
            return True
        if not self._take(line, floor, line=start):
            return False
        taken = all(self._take(above, floor, line=above[0]) for above in self._lines_above(start))
        if not taken:
            self._drop(start)
        return taken

    def _drop(self, start: int) -> None:
        span = self.spans.pop(start)
        self.used -= self.body.sizes[span]
        self.room += self.body.sizes[span]

    def _take_beginning(self, floor: int) -> None:
        """Takes line after line from the beginning on."""
        while self._begins < self._ends:
            end = self._line_end(self._begins)
            if not self._take((self._begins, end), floor):
                return
            self._begins = end + 1

    def _take_end(self, floor: int) -> None:
        """Takes line after line from the end on, and the one that they stand under. An end without that goes
        again, as do brackets alone."""
        while self._begins < self._ends and not self.body.records:
            start = max(self.text.rfind("\n", 0, self._ends) + 1, self._begins)
            if not self._take((start, self._ends), floor):
                break
            self._ends = start - 1
        while self._begins <= (start := self._ends + 1) < len(self.text):
            misleads = not all(self._take(line, 0, line=line[0]) for line in self._lines_above(start))
            tells = any(map(str.isalnum, self.text[start:]))
            if (tells and not misleads) or (self.body.outcome and start == self.body.outcome[0]):
                return
            self._ends = self.spans[start][1]
            self._drop(start)

    def _take_pieces(self, beginning: float) -> None:
        """Takes the end of a last line that is long, and the beginning of the first line that is missing."""
        line = self.text[max(self.text.rfind("\n") + 1, self._begins) :]
        if self._ends == len(self.text) and len(line) > WHOLE_LINE and not self.body.records:
            piece = tail_words(line, self._fitting(line, int(self.room * (1 - beginning)), from_end=True))
            if self.body.kind == "other" and next(spans(line))[1] < len(line):
                # The end of a sentence may say the contrary of all of it.
                piece = piece[next(spans(piece), (0, 0))[1] :].lstrip()
            if len(piece) >= _TELLS and self._take((len(self.text) - len(piece), len(self.text)), 0):
                self._ends = len(self.text) - len(piece) - 1
        line = self.text[self._begins : min(self._line_end(self._begins), self._ends)]
        if len(line) > WHOLE_LINE or not self.spans or self._begins == self.body.begins:
            piece = head_words(line, self._fitting(line, self.room))
            if len(piece) >= _TELLS and self._take((self._begins, self._begins + len(piece)), 0):
                self._begins += len(piece)

    def _fitting(self, line: str, tokens: int, *, from_end: bool = False) -> int:
        """How many characters of a line fit, counted from its beginning or from its end."""

        def fits(limit: int) -> bool:
            return self.counter.text(line[len(line) - limit :] if from_end else line[:limit]) < tokens

        return largest(min(len(line), _WIDE * tokens), fits)

    def _lines_above(self, at: int) -> Iterator[LineSpan]:
        """The lines without which the one that begins at a place misleads: the error that it is a detail of,
        the heading of its part, or the place in a diff and its file."""
        if self.body.wanted and (headline := headline_of(self.text, at)):
            yield headline
            return
        above = self.body.headings[: bisect_right(self.body.headings, at)]
        for heading in reversed(above):
            if heading < at:
                yield heading, self._line_end(heading)
            if not self.text.startswith(HUNK, heading):
                return

    def _line_end(self, start: int) -> int:
        end = self.text.find("\n", start)
        return end if end >= 0 else len(self.text)

    def _piece_that_says_what_failed(self, span: LineSpan) -> LineSpan:
        """What fits of a line: its beginning, if that says it, or else from the name of the file on, or only
        the words that do."""
        line, end = self.text[slice(*span)], span[1]
        failure, start, stop = failure_at(line), *span
        for begin in (0, line.rfind("/", 0, failure) + 1, failure):
            words = tail(line, len(line) - begin)
            start = end - len(words)
            stop = start + len(head_words(words, self._fitting(words, self.room - _GAP_TOKENS)))
            if stop >= min(span[0] + failure + _TELLS, end):
                break
        return start, stop


def _put_together(text: str, spans: Sequence[LineSpan], mark: str) -> str:
    """Stretches of a text with markers between them, each on a line of its own. The first says what is
    missing, further ones are short; what is no longer than its marker is not missing."""
    pieces, at = list[str](), 0
    for start, end in (*spans, (len(text), len(text))):
        missing, shown = text[at:start], text[start:end]
        if len(missing.strip()) <= len(mark):
            pieces += [missing, shown]
        else:
            if at and missing[0] != "\n":
                pieces += [pieces.pop().rstrip(), f" {_LEFT_OUT}"]
            # A line that is cut short says so itself.
            if mark != _LEFT_OUT or "\n" in missing[:-1]:
                pieces.append(f"\n{mark}")
                mark = _LEFT_OUT
            pieces.append("\n")
            if shown and missing[-1] != "\n":
                pieces.append(f"{_LEFT_OUT} ")
            pieces.append(shown if missing[-1] == "\n" else shown.lstrip())
        at = end
    return "".join(pieces).strip("\n")
