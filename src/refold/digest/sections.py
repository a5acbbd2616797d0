"""A summary that no model writes, under the headings of a design: each section within its share of the
budget. The rows of an earlier summary stay as they are, before the new ones of their section."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from refold.digest.facts import Source
from refold.digest.said import DigestForm, FactDigest
from refold.digest.templates import CONVERSATION, DIGEST, NONE, Findings, Section, Template
from refold.digest.turn_line import short
from refold.protocols import TokenCounter
from refold.tokens.fitting import largest

ASKED = 24
"""Tokens of the first section, what was asked for, where its share would be less; a third of a small text."""
_ROOMS = (1.0, 0.97, 0.9, 0.7, 0.4)
"""Shares of a budget that are tried in turn: tokens of parts do not always add up to those of the whole."""
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
        if template is DIGEST and "## Goal" not in previous and not any(x.message.calls for x in sources):
            template = CONVERSATION
        self._sources, self._template = sources, template
        self._end = next(title for title, section in template.sections.items() if section.facts)
        self._earlier = _parsed(previous, template, self._end)
        if template is DIGEST:
            del self._earlier["Goal"][1:]  # what was the newest request then
        self._facts = FactDigest(sources, kept)

    def text(self, budget: int, counter: TokenCounter, form: DigestForm = "dense") -> str:
        """Never more than `budget` tokens."""
        sections, terse = self._template
        found = Findings(self._sources, self._earlier.get("Goal", ()), budget, counter)
        rows = {
            title: _unique((*self._earlier[title], *section.rows(found)))
            for title, section in sections.items()
        }
        frame = counter.text(_document(dict.fromkeys(sections, NONE), sections))
        empty = "" if terse or 2 * frame > budget else NONE
        bullet, first = "" if terse else "- ", next(iter(sections))
        for room in (int(budget * share) for share in _ROOMS):
            shares = {title: int(section.share * room) for title, section in sections.items()}
            shares[first] = max(shares[first], min(ASKED, room // 3))
            texts = {
                title: _cut(rows[title], section, shares[title], counter) or empty
                for title, section in sections.items()
            }
            last, texts[self._end] = "\n".join(rows[self._end]), "-"
            left = room - counter.text(_document(texts, sections)) - 2
            claim = min(counter.text(last), left // 2)
            beside = "\n".join((*texts.values(), last))
            facts = self._facts.lines(left - claim, counter, form, bullet=bullet, beside=beside)
            last = cut_lines(last, left - counter.text(facts), counter.text, newest=True)
            texts[self._end] = "\n".join(filter(None, (last, facts))) or empty
            document = _document(texts, sections)
            if counter.text(document) <= budget:
                return document
        return ""


def _cut(rows: Sequence[str], section: Section, room: int, counter: TokenCounter) -> str:
    """As many rows as fit; where not one does, the beginning of the one that comes first: what was asked for
    is never left out for want of room."""
    text = cut_lines("\n".join(rows), room, counter.text, newest=section.newest)
    return text if text or not rows else short(rows[-1 if section.newest else 0], max(room, 0), counter)


def _document(texts: Mapping[str, str], sections: Mapping[str, Section]) -> str:
    """The sections that say something."""
    blocks, above = list[str](), ""
    for title, text in texts.items():
        under = sections[title].under
        if text and under and under != above:
            above = under
            blocks.append(f"## {above}")
        if text:
            blocks.append(f"{'###' if under else '##'} {title}\n{text}")
    return "\n\n".join(blocks)


def _parsed(text: str, template: Template, end: str) -> dict[str, list[str]]:
    """The rows of an earlier summary by the headings of a template; those under others go to `end`."""
    rows: dict[str, list[str]] = {title: [] for title in template.sections}
    titles = {section.under.lower(): end for section in template.sections.values()}
    titles |= {title.lower(): title for title in rows}
    into = end
    for line in text.split("\n"):
        heading = _HEADING.match(line)
        if heading:
            into = titles.get(heading[1].lower(), end)
        if not heading or heading[1].lower() not in titles:
            rows[into].append(line)
    return {title: _unique(told) for title, told in rows.items()}


def _unique(rows: Iterable[str]) -> list[str]:
    """Rows that say something, each once."""
    return list(dict.fromkeys(row for row in rows if row.strip() and row.strip() != NONE))


def cut_lines(text: str, budget: int, count: Callable[[str], int], *, newest: bool = False) -> str:
    """As many whole lines as fit: from the start, or, where the newest stand last, from the end."""
    if not text or count(text) <= budget:
        return text
    lines = text.split("\n")

    def some(number: int) -> str:
        return "\n".join(lines[len(lines) - number :] if newest else lines[:number])

    return some(largest(len(lines), lambda number: count(some(number)) <= budget))
