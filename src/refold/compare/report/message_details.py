"""Details for the reader: every message of a transcript, and what each fold of each preset put in its place.

Stored in the page as one compressed block per transcript; `explorer.js` opens a block on demand.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from shlex import quote
from typing import Any, NamedTuple

from refold import entries as e
from refold import tokens as counters
from refold.compaction.details import RefoldDetails, VerificationReport
from refold.compare.forms import FoldRecord, copied_messages, record_of_stretch, stretch_forms
from refold.compare.measures import files_of_call, flat, subject
from refold.compare.report.clip_parts import ESCAPES, clip_pieces
from refold.compare.report.html import Markup, el, page_safe, redacted_text
from refold.compare.run import Cell, Transcript
from refold.compare.verdict import budget
from refold.messages import Call, Message, Result, User, compact_json, in_full
from refold.session import Session, redacted
from refold.session.edits import Stretch, edit_stretches, said_by
from refold.text.lenient_json import JsonObject
from refold.text.truncate import head, level, one_line, tail

MAX_MESSAGE_CHARS, MAX_FOLD_CHARS = 6_000_000, 6_000_000
"""Characters of messages, and of their replacements, on one page. The longest lose their middle."""
MIN_SHOWN_CHARS = 200
"""Characters of a text that are always shown."""
CUT_NOTE = "\n…[{cut:,} characters left out on this page]…\n"


class ShownText(NamedTuple):
    """A text on the page: whole, or without its middle."""

    text: str
    start: int
    """The missing part, as positions in the whole text; empty if start and end are equal."""
    end: int
    note: int

    @classmethod
    def of(cls, text: str, limit: int) -> ShownText:
        if len(text) <= limit:
            return cls(text, len(text), len(text), 0)
        first, last = head(text, limit * 2 // 3), tail(text, limit // 3)
        start, end = len(first), len(text) - len(last)
        note = CUT_NOTE.format(cut=end - start)
        return cls(first + note + last, start, end, len(note))

    def placed(self, whole: str, first: int, last: int) -> list[list[Any]]:
        """A stretch of the whole text in positions of this one; a missing stretch is given as text."""
        shift = self.note - (self.end - self.start)
        before = [[first, min(last, self.start)]] if first < self.start else []
        lost = whole[max(first, self.start) : min(last, self.end)]
        after = [[max(first, self.end) + shift, last + shift]] if last > self.end else []
        return [*before, *([[lost]] if lost else []), *after]


class ReportMessage(NamedTuple):
    id: str
    message: Message
    text: str


def transcript_section(t: Transcript, cells: Sequence[Cell], share: float) -> Markup:
    """A transcript and its folds; `share` of the page's capacity."""
    said = [
        ReportMessage(entry.id, message, page_safe(redacted.message_text(message)))
        for entry in t.session.path
        if (message := said_by(entry)) is not None
    ]
    known = redacted.KnownSecrets(one.message for one in said)
    limit = max(level([len(one.text) for one in said], int(MAX_MESSAGE_CHARS * share)), MIN_SHOWN_CHARS)
    shown = [ShownText.of(one.text, limit) for one in said]
    folds = (fold for cell in cells if cell.done for fold in cell.done.all_folds)
    lengths = [len(in_full(message)) for fold in folds for edit in fold.edits for message in edit.put]
    put = (
        level(lengths, int(MAX_FOLD_CHARS * share)) if sum(lengths) > MAX_FOLD_CHARS * share else sum(lengths)
    )
    told: JsonObject = {
        "file": redacted_text(t.file),
        "quoted": redacted_text(quote(t.file)),
        "entries": _entries(t, said, shown),
        "cells": [_Folds(said, shown, max(put, MIN_SHOWN_CHARS), known).cell(cell) for cell in cells],
    }
    packed = gzip.compress(compact_json(told).encode(), 9, mtime=0)
    return el("script", Markup(base64.b64encode(packed).decode()), type="text/plain", cls="block")


def _entries(t: Transcript, said: Sequence[ReportMessage], shown: Sequence[ShownText]) -> list[JsonObject]:
    calls: dict[str, Call] = {}
    rows: list[JsonObject] = []
    turn = step = 0
    for one, text, size in zip(said, shown, t.steps.sizes, strict=True):
        turn += isinstance(one.message, User)
        calls |= {call.id: call for call in one.message.calls}
        step += not isinstance(one.message, Result) or not rows
        about = {"role": one.message.role, "turn": turn, "step": step, "tokens": size}
        rows.append({**about, "key": e.key(one.id), "about": _about(one.message, calls), "text": text.text})
    return rows


def _about(message: Message, calls: dict[str, Call]) -> str:
    """The call that a message makes or answers."""
    made = (
        [calls[message.call_id]]
        if isinstance(message, Result) and message.call_id in calls
        else message.calls
    )
    subjects = [files_of_call(call, ())[0] or subject(call) for call in made[:2]]
    lines = [f"{call.name} {', '.join(of[:3])}" for call, of in zip(made, subjects, strict=False)]
    more = f" and {len(made) - 2} more" if len(made) > 2 else ""
    return redacted_text(one_line(" · ".join(lines) + more, 160))


class _Folds:
    """What the folds of one cell did, by message number."""

    def __init__(
        self,
        said: Sequence[ReportMessage],
        shown: Sequence[ShownText],
        limit: int,
        known: redacted.KnownSecrets,
    ) -> None:
        self.said, self.shown, self.limit, self.known = said, shown, limit, known
        self.number = {one.id: index for index, one in enumerate(said)}
        self.counter = counters.get()

    def cell(self, cell: Cell) -> JsonObject:
        folds = cell.done.all_folds if cell.done else ()
        return {
            "title": cell_title(cell),
            "tokens": cell.tokens,
            "note": redacted_text(cell.error or ""),
            "numbers": [cell.done.session.position(one.id) for one in self.said] if cell.done else [],
            "folds": [self._fold(cell.done.session, fold) for fold in folds if cell.done],
        }

    def _fold(self, session: Session, fold: e.Fold) -> JsonObject:
        return {
            "before": fold.tokens_before,
            "after": fold.tokens_after,
            "by": redacted_text(f"{fold.strategy}, by {fold.author or 'unknown'}"),
            "check": redacted_text(_checked(fold)),
            "edits": [
                edit
                for one in edit_stretches((fold,), session.position)
                if (edit := self._edit(session, one))
            ],
        }

    def _edit(self, session: Session, stretch: Stretch) -> JsonObject | None:
        record = record_of_stretch(stretch)
        forms = stretch_forms(session, stretch, record)
        numbers = [self.number[id] for id in forms if id in self.number]
        if not numbers:
            return None
        own = {place: self.number[id] for place, id in copied_messages(session, stretch, record).items()}
        texts = [self._text(message, own.get(place)) for place, message in enumerate(stretch.edit.put)]
        lines = [
            (flat(line), (place, at))
            for place, text in enumerate(texts)
            if isinstance(text, str)
            for at, line in enumerate(text.split("\n"))
        ]
        return {
            "first": numbers[0],
            "last": numbers[-1],
            "kind": redacted_text(stretch.edit.kind),
            "forms": "".join(forms[id][0] for id in forms if id in self.number),
            "own": {str(number): place for place, number in own.items()},
            "lines": {
                str(number): line
                for number in numbers
                if forms[self.said[number].id] == "lines"
                and (line := self._line(session, number, record, lines))
            },
            "put": [
                {"role": message.role, "tokens": self.counter.message(message), "text": text}
                for message, text in zip(stretch.edit.put, texts, strict=True)
            ],
        }

    def _text(self, message: Message, number: int | None) -> str | list[Any]:
        text = page_safe(self.known.text(redacted.message_text(message)))
        if number is None:
            return ShownText.of(text, self.limit).text
        one, shown = self.said[number], self.shown[number]
        found: list[Any] = []
        for piece in clip_pieces(one.text, text):
            if isinstance(piece, str) and not ESCAPES.sub("", piece):
                found.append([piece])  # the same words, written as JSON
            elif isinstance(piece, str):
                found.append(piece)
            else:
                found += shown.placed(one.text, *piece)
        return found

    def _line(
        self, session: Session, number: int, record: FoldRecord, lines: Sequence[tuple[str, tuple[int, int]]]
    ) -> tuple[int, int] | None:
        """The line that mentions a message: which inserted message, and which of its lines."""
        one = self.said[number]
        position, key = session.position(one.id), e.key(one.id)
        for line, where in lines:
            if line.startswith(f"[#{position}]") or line.endswith(f"#{position}") or f"[{key}]" in line:
                return where
        traces = tuple(record.traces(one.message))
        return next((where for line, where in lines if any(trace in line for trace in traces)), None)


def cell_title(cell: Cell) -> str:
    """The title of a cell: preset with settings, budget, and number of passes."""
    times = f", folded {cell.passes} times" if cell.passes > 1 else ""
    return redacted_text(f"{cell.preset.replace(':', ', ')} at {budget(cell.asked)}{times}")


def _checked(fold: e.Fold) -> str:
    """The result of a summary's check."""
    report, noted = VerificationReport.of(fold), RefoldDetails.of(fold)
    if report and report.unverified:
        listed = ", ".join(one_line(claim, 80) for claim in report.unverified[:8])
        share = f"{len(report.unverified):,} of {report.claims:,} claims"
        told = f"{share} do not occur in what was folded: {listed}."
    elif report:
        told = f"All {report.claims:,} names, paths, numbers and quotations occur in what was folded."
    elif fold.requests == 0:
        told = "No model: everything here was taken or computed from the log."
    else:
        told = "This preset does not check its summaries."
    left = len(noted.words_left_out) + noted.words_left_out_before
    return told + (f" Typed messages that the record does not quote in full: {left}." if left else "")
