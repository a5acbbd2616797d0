"""A summary that no model writes, under the headings of a design: each section within its share of the
budget, brought up to date with what an earlier summary says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from refold.digest.facts import Source
from refold.digest.said import DigestForm, FactDigest
from refold.digest.templates import CONVERSATION, DIGEST, GOAL, NONE, Findings, Section, Template
from refold.digest.turn_line import short
from refold.facts.words import typed
from refold.protocols import TokenCounter
from refold.tokens.fitting import largest

ASKED = 24
"""Tokens of the first section, what was asked for, where its share would be less; a third of a small text."""
_SPARED = (0, 2, 10, 50)
"""Percent of a budget that are spared where a text did not fit: what gives way is a line or nothing."""
_HEADING = re.compile(r"^#{2,3} +(.*?)[ \t]*$", re.MULTILINE)


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
        self._sources, self._template = sources, template
        self._end = next(title for title, section in template.sections.items() if section.facts)
        self._earlier = _parsed(previous, template, self._end)
        if template.terse:
            del self._earlier["Goal"][1:]  # what was the newest request then
        works = self._earlier.get("Goal") or any(source.message.calls for source in sources)
        if template is DIGEST and not works:
            self._template = CONVERSATION
        others = sources if self._template is CONVERSATION else self._besides_goal()
        before = "\n".join(self._earlier.pop(self._end))
        self._facts = FactDigest(others, before if template.terse else "", kept)
        self._before = "" if template.terse else before

    def _besides_goal(self) -> list[Source]:
        """Without the newest request, and the first where it is the goal, unless they are long."""
        asked = [source for source in self._sources if typed(source.message)]
        ends = (*(() if self._earlier.get("Goal") else asked[:1]), *asked[-1:])
        told = {id(source) for source in ends if len(typed(source.message)) <= GOAL}
        return [source for source in self._sources if id(source) not in told]

    def text(self, budget: int, counter: TokenCounter, form: DigestForm = "dense") -> str:
        """Never more than `budget` tokens."""
        sections, terse = self._template
        found = Findings(self._sources, self._earlier.get("Goal", ()), budget, counter)
        rows = {
            title: _unique((*self._earlier.get(title, ()), *section.rows(found)))
            for title, section in sections.items()
        }
        frame = counter.text(_document(dict.fromkeys(sections, NONE), sections))
        empty = "" if terse or 2 * frame > budget else NONE
        first, end, room = next(iter(sections)), self._end, budget
        for spared in _SPARED:
            shares = {title: int(section.share * room) for title, section in sections.items()}
            shares[first] = max(shares[first], min(ASKED, room // 3))
            texts = {
                title: "-" if title == end else _cut(rows[title], section, shares[title], counter) or empty
                for title, section in sections.items()
            }
            left = room - counter.text(_document(texts, sections)) - 2
            most = min(left, shares[end])
            told = _cut(rows[end], sections[end], most, counter)
            facts = self._facts.lines(most - counter.text(told), counter, form, "" if terse else "- ")
            left -= counter.text(told) + counter.text(facts)
            before = cut_lines(self._before, left, counter.text, newest=True)
            texts[end] = "\n".join(filter(None, (before, told, facts))) or empty
            document = _document(texts, sections)
            over = counter.text(document) - budget
            if over <= 0:
                return document
            room -= over + 2 + budget * spared // 100
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
    above = {section.under.lower(): "" for section in template.sections.values()}
    titles = above | {title.lower(): title for title in rows}
    into, at = end, 0
    for match in (*_HEADING.finditer(text), None):
        rows[into] += text[at : match.start() if match else None].split("\n")
        if match is None:
            break
        title = titles.get(match[1].lower())
        into, at = title or end, match.end()
        if title is None:
            rows[end].append(match[0])
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
