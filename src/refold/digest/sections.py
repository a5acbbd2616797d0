"""What a summary without a model says, under the headings of a design: what was asked, done, decided and
found, each section within its share of the budget, brought up to date with what an earlier summary says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from refold.digest.facts import Source
from refold.digest.said import DigestForm, FactDigest
from refold.digest.turn_line import rule_line, short
from refold.facts import abridged
from refold.facts.call_text import conclusion
from refold.facts.lines import acts
from refold.facts.state import WorkState
from refold.facts.words import demands, typed
from refold.protocols import TokenCounter
from refold.text.truncate import one_line
from refold.tokens.fitting import largest

NONE = "(none)"
LINE = 60
"""Tokens of the line of a turn."""
GOAL = 400
"""Characters of a request where it stands as the goal."""
ASKED = 24
"""Tokens of the first section, what was asked for, where its share would be less; a third of a small text."""
_SPARED = (0, 2, 10, 50)
"""Percent of a budget that are spared where a text did not fit: what gives way is a line or nothing."""
_HEADING = re.compile(r"^#{2,3} +(.*?)[ \t]*$", re.MULTILINE)


class Section(NamedTuple):
    share: float
    """The most that it may take, of the whole; the last one of a template gets what is left."""
    newest: bool = False
    """Its end is kept where there is too much: the others keep their beginning."""
    under: str = ""
    """The heading above it, where it is one of several."""


Template: TypeAlias = Mapping[str, Section]
Rows: TypeAlias = dict[str, list[str]]

DIGEST: Template = {"Goal": Section(0.1), "Done": Section(0.4, newest=True), "Facts": Section(1.0)}
CHECKPOINT: Template = {
    "Goal": Section(0.1),
    "Constraints and preferences": Section(0.15),
    "Done": Section(0.25, newest=True, under="Progress"),
    "In progress": Section(0.08, under="Progress"),
    "Blocked": Section(0.08, under="Progress"),
    "Key decisions": Section(0.1, newest=True),
    "Next steps": Section(0.05),
    "Critical context": Section(1.0, newest=True),
}
"""pi's (B11)."""
PREFIX: Template = {
    "Original request": Section(0.2),
    "Early progress": Section(0.4),
    "Needed for the kept part": Section(1.0),
}


class Digest:
    """A summary without a model, read once for texts of any size: goal and what was done where there is work
    to do, then what was said."""

    def __init__(self, sources: Sequence[Source], previous: str = "", kept: Sequence[Source] = ()) -> None:
        self._sources, self._earlier = sources, _parse(previous, DIGEST)
        self._works = any(source.message.calls for source in sources) or bool(self._earlier["Goal"])
        others = _besides_goal(sources, first=not self._earlier["Goal"]) if self._works else sources
        self._said = FactDigest(others, "\n".join(self._earlier["Facts"]), kept)

    def text(self, budget: int, counter: TokenCounter, form: DigestForm = "dense") -> str:
        """Never more than `budget` tokens."""
        rows: Rows = {title: [] for title in DIGEST}
        if self._works:
            asked = [one_line(text, GOAL) for x in self._sources if (text := typed(x.message))]
            _add(rows, "Goal", [*(self._earlier["Goal"] or asked)[:1], *asked[-1:]])
            _add(rows, "Done", [*self._earlier["Done"], *_done(self._sources, int(budget * 0.4), counter)])
        return rendered(rows, DIGEST, budget, counter, lambda room: self._said.lines(room, counter, form))


def checkpoint_text(sources: Sequence[Source], budget: int, counter: TokenCounter, previous: str) -> str:
    """What happened, under pi's headings, in at most `budget` tokens."""
    rows, state = _parse(previous, CHECKPOINT), WorkState().extend(source.message for source in sources)
    turns = _turns(sources)
    for turn in turns:
        title, box = ("Done", "x") if turn.over else ("In progress", " ")
        _add(rows, title, [f"- [{box}] {rule_line([turn], LINE, counter)}"])
    words = [text for source in sources if (text := typed(source.message))]
    if not rows["Goal"]:
        _add(rows, "Goal", [one_line(text, GOAL) for text in words[:1]])
    wishes = (text[slice(*span)] for text in words for spans in demands(text) for span in spans)
    _add(rows, "Constraints and preferences", [f"- {one_line(wish, 300)}" for wish in wishes])
    if state.error:
        _add(rows, "Blocked", [f"- {state.error.what}: {one_line(state.error.error, 200)}"])
    worked = (turn for turn in turns if turn.response and (turn.modified or turn.created or turn.commands))
    decisions = filter(None, (conclusion(turn.response) for turn in worked))
    _add(rows, "Key decisions", [f"- {decision}" for decision in decisions])
    _add(rows, "Next steps", [f"{n}. {todo.text}" for n, todo in enumerate(state.open_todos, 1)])
    # What was called gives way to what was said, which comes last.
    done = _done(sources, budget // 5, counter)
    _add(rows, "Critical context", done)
    room = budget // 2 - counter.text("\n".join(done))
    facts = FactDigest(_besides_goal(sources)).lines(room, counter)
    _add(rows, "Critical context", [f"- {line}" for line in facts.split("\n")] if facts else [])
    return rendered(rows, CHECKPOINT, budget, counter, empty=NONE)


def turn_prefix(sources: Sequence[Source], budget: int, counter: TokenCounter) -> str:
    """The same for the beginning of a turn whose later part stays."""
    rows: Rows = {title: [] for title in PREFIX}
    asked = [one_line(text, 1_000) for source in sources if (text := typed(source.message))]
    _add(rows, "Original request", asked)
    line = rule_line(_turns(sources), LINE, counter)
    _add(rows, "Early progress", [f"- {line}", *_done(sources, budget // 5, counter)])

    def facts(room: int) -> str:
        lines = FactDigest(_besides_goal(sources)).lines(min(room, budget // 2), counter).split("\n")
        return cut_lines("\n".join(f"- {line}" for line in lines if line), room, counter.text)

    return rendered(rows, PREFIX, budget, counter, facts, empty=NONE)


def _turns(sources: Sequence[Source]) -> tuple[abridged.Group, ...]:
    return abridged.groups(((x.id, x.message) for x in sources), continues=False)


def _besides_goal(sources: Sequence[Source], *, first: bool = True) -> list[Source]:
    """Without the newest request, and the `first`, where all of it stands as the goal."""
    asked = [source for source in sources if typed(source.message)]
    ends = (*(asked[:1] if first else ()), *asked[-1:])
    told = {id(source) for source in ends if len(typed(source.message)) <= GOAL}
    return [source for source in sources if id(source) not in told]


def _done(sources: Sequence[Source], room: int, counter: TokenCounter) -> list[str]:
    """What was called and how it ended, the newest of it."""
    rows = list[str]()
    for row in acts([source.message for source in sources]):
        room -= counter.text(row) + 2
        if room < 0:
            break
        rows.append(f"- {row}")
    return rows[::-1]


# ── rows under headings ─────────────────────────────────────────────────────────────────────────


def _parse(text: str, template: Template) -> Rows:
    """The rows of an earlier summary by the headings of a template; what stands under others belongs to the
    last of them."""
    rows: Rows = {title: [] for title in template}
    titles = {title.lower(): title for title in template} | {x.under.lower(): "" for x in template.values()}
    *_, last = template
    into, at = last, 0
    for match in (*_HEADING.finditer(text), None):
        _add(rows, into, text[at : match.start() if match else None].split("\n"))
        if match is None:
            break
        title = titles.get(match[1].lower())
        into, at = title or last, match.end()
        if title is None:
            _add(rows, into, [match[0]])
    return rows


def _add(rows: Rows, title: str, added: Iterable[str]) -> None:
    """Rows that say something, each once."""
    told = (row for row in added if row.strip() and row.strip() != NONE)
    rows[title] = list(dict.fromkeys((*rows[title], *told)))


def rendered(
    rows: Mapping[str, Sequence[str]],
    template: Template,
    budget: int,
    counter: TokenCounter,
    last: Callable[[int], str] | None = None,
    *,
    empty: str = "",
) -> str:
    """All sections, each within its share; the last one gets what is left, `last` gives its text. Sections
    that say nothing are left out, or have `empty` in them where the budget is not small."""
    *others, end = template
    frame = _document(dict.fromkeys(template, ""), template, empty)
    empty = empty if 2 * counter.text(frame) <= budget else ""
    room = budget
    for spared in _SPARED:
        shares = {title: int(template[title].share * room) for title in others}
        shares[others[0]] = max(shares[others[0]], min(ASKED, room // 3))
        texts = {title: _cut(rows[title], template[title], shares[title], counter) for title in others}
        left = room - counter.text(_document({**texts, end: empty or "-"}, template, empty)) - 2
        texts[end] = last(left) if last else _cut(rows[end], template[end], left, counter)
        document = _document(texts, template, empty)
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


def _document(texts: Mapping[str, str], template: Template, empty: str) -> str:
    blocks, above = list[str](), ""
    for title, section in template.items():
        text = texts[title] or empty
        if text and section.under and section.under != above:
            above = section.under
            blocks.append(f"## {above}")
        if text:
            blocks.append(f"{'###' if section.under else '##'} {title}\n{text}")
    return "\n\n".join(blocks)


def cut_lines(text: str, budget: int, count: Callable[[str], int], *, newest: bool = False) -> str:
    """As many whole lines as fit: from the start, or, where the newest stand last, from the end."""
    if not text or count(text) <= budget:
        return text
    lines = text.split("\n")

    def some(number: int) -> str:
        return "\n".join(lines[len(lines) - number :] if newest else lines[:number])

    return some(largest(len(lines), lambda number: count(some(number)) <= budget))
