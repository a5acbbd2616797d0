"""A summary that no model writes, under the headings of a design: each section within its share of the
budget. The rows of an earlier summary stay as they are, before the new ones of their section."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from refold.digest.facts import Source
from refold.digest.said import DigestForm, FactDigest
from refold.digest.templates import CONVERSATION, DIGEST, NONE, Findings, Template
from refold.digest.turn_line import short
from refold.digest.work_lines import WorkLines, usual_folder
from refold.facts.state import WorkState
from refold.protocols import TokenCounter
from refold.tokens.fitting import largest

ASKED = 24
"""Tokens of the first section, what was asked for, where its share would be less; a third of a small text."""
_NOTE = re.compile(r"- \((\d{1,9}) earlier left out\)$")
_HEADING = re.compile(r"#{2,3} +(\S.*?)\s*$")


class Digest:
    """A summary without a model, read once for texts of any size. `previous`: an earlier summary, whose
    sources are not among these; `kept`: what stays in the view, and need not be repeated."""

    def __init__(
        self,
        sources: Sequence[Source],
        previous: str = "",
        kept: Sequence[Source] = (),
        template: Template = DIGEST,
    ) -> None:
        works = any(source.message.calls for source in sources)
        if template is DIGEST and not works and "## Goal" not in previous:
            template = CONVERSATION
        self._sources, self._template = sources, template
        self._rest = next(title for title, section in template.items() if section.rest)
        self._earlier = _parsed(previous, template, self._rest)
        self._state = WorkState(usual_folder(sources)).extend(source.message for source in sources)
        self._told = WorkLines(sources, self._state) if works else FactDigest(sources, kept)

    def text(self, budget: int, counter: TokenCounter, form: DigestForm = "dense") -> str:
        """Never more than `budget` tokens."""
        found, room = Findings(self._sources, self._state, counter), budget
        rows = {title: self._rows(title, section.rows(found)) for title, section in self._template.items()}
        while room > 0:
            document = self._document(rows, room, counter, form)
            # Tokens of parts do not always add up to those of the whole.
            over = counter.text(document) - budget
            if over <= 0:
                return document
            room -= over
        return ""

    def _rows(self, title: str, rows: Iterable[str]) -> list[str]:
        """The rows of a section, each once. The goal is the one that was stated first."""
        earlier = self._earlier[title]
        return earlier if earlier and title == "Goal" else _unique((*earlier, *rows))

    def _document(
        self, rows: dict[str, list[str]], room: int, counter: TokenCounter, form: DigestForm
    ) -> str:
        sections = self._template
        scarce = 2 * counter.text(self._joined(dict.fromkeys(sections, NONE))) > room
        empty = "" if scarce or sections in (DIGEST, CONVERSATION) else NONE
        first = next(iter(sections))
        texts = dict[str, str]()
        for title, section in sections.items():
            share = max(int(section.share * room), min(ASKED, room // 3) if title == first else 0)
            texts[title] = cut_rows(rows[title], share, counter, section.newest, section.first) or empty
        stated, texts[self._rest] = "\n".join(rows[self._rest]), "-"
        left = room - counter.text(self._joined(texts)) - 2
        claim = min(counter.text(stated), left // 2)
        told = self._told.lines(left - claim, counter, form, "\n".join((*texts.values(), stated)))
        stated = cut_rows(rows[self._rest], left - counter.text(told), counter, newest=True)
        texts[self._rest] = "\n".join(filter(None, (stated, told))) or empty
        return self._joined(texts)

    def _joined(self, texts: dict[str, str]) -> str:
        """The sections that say something."""
        blocks, above = list[str](), ""
        for title, text in texts.items():
            under = self._template[title].under
            if text and under and under != above:
                above = under
                blocks.append(f"## {above}")
            if text:
                blocks.append(f"{'###' if under else '##'} {title}\n{text}")
        return "\n\n".join(blocks)


def cut_rows(
    rows: Sequence[str], room: int, counter: TokenCounter, newest: bool = False, first: int = 0
) -> str:
    """As many rows as fit: from the start, or the newest, which stand last, behind so many of the `first`.
    Where not one does, the beginning of the one that comes first: what was asked for is never left out for
    want of room."""

    def some(number: int) -> str:
        if not newest or number == len(rows):
            return "\n".join(rows[:number])
        left_out, kept = rows[first : first + len(rows) - number], rows[first + len(rows) - number :]
        # Some may stand for others, which were left out of the earlier summary.
        count = sum(int(note[1]) if (note := _NOTE.match(row)) else 1 for row in left_out)
        return "\n".join((*rows[:first], f"- ({count} earlier left out)", *kept))

    fit = largest(len(rows), lambda number: counter.text(some(number)) <= room)
    return some(fit) if fit or not rows else short(rows[-1 if newest else 0], max(room, 0), counter)


def _parsed(text: str, template: Template, rest: str) -> dict[str, list[str]]:
    """The rows of an earlier summary by the headings of a template; those under others go to `rest`."""
    rows: dict[str, list[str]] = {title: [] for title in template}
    titles = {section.under.lower(): rest for section in template.values()}
    titles |= {title.lower(): title for title in rows}
    into = rest
    for line in text.split("\n"):
        heading = _HEADING.match(line)
        if heading:
            into = titles.get(heading[1].lower(), rest)
        if not heading or heading[1].lower() not in titles:
            rows[into].append(line)
    return {title: _unique(told) for title, told in rows.items()}


def _unique(rows: Iterable[str]) -> list[str]:
    """Rows that say something, each once."""
    return list(dict.fromkeys(row for row in rows if row.strip() and row.strip() != NONE))
