"""The sections of pi's summaries without a model (B11): by rule, brought up to date with what the previous
summary says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from refold.compaction.turn_line import rule_line
from refold.digest import Digest, Source, digest
from refold.digest.sections import cut_lines
from refold.messages import Assistant, User
from refold.preserve.state import WorkState
from refold.preserve.words import demands, typed
from refold.protocols import Steps, TokenCounter
from refold.text.truncate import one_line

SHARES: Mapping[str, float] = {
    "Goal": 0.1,
    "Constraints and preferences": 0.15,
    "Done": 0.25,
    "In progress": 0.08,
    "Blocked": 0.08,
    "Key decisions": 0.1,
    "Next steps": 0.05,
    "Critical context": 1.0,
}
"""The most that a section may take, of the whole; the last one gets what is left."""
NEWEST = ("Done", "Key decisions", "Critical context")
"""Sections whose end is kept where there is too much: the others keep their beginning."""
PREFIX: Mapping[str, float] = {
    "Original request": 0.2,
    "Early progress": 0.4,
    "Needed for the kept part": 1.0,
}
NONE = "(none)"
LINE = 60
"""Tokens of the line of a turn."""
_HEADING = re.compile(r"^#{2,3} +(.*?)[ \t]*$", re.MULTILINE)


def checkpoint(sources: Sequence[Source], budget: int, counter: TokenCounter, previous: str) -> Steps[str]:
    """What happened, under pi's headings, in at most `budget` tokens."""
    made = digest(sources, budget=budget // 2, counter=counter)
    yield from made.composing()
    sections, state = _earlier(previous), WorkState()
    for source in sources:
        state.take(source.message)
    turns = list(_turns(sources))
    yield
    for at, turn in enumerate(turns):
        line = rule_line(((x.id, x.message) for x in turn), LINE, counter)
        if at == len(turns) - 1 and not _is_over(turn):
            _add(sections, "In progress", [f"- [ ] {line}"])
        else:
            _add(sections, "Done", [f"- [x] {line}"])
        yield
    words = [text for source in sources if (text := typed(source.message))]
    if not sections["Goal"]:
        _add(sections, "Goal", [one_line(text, 400) for text in words[:1]])
    wishes = (text[slice(*span)] for text in words for spans in demands(text) for span in spans)
    _add(sections, "Constraints and preferences", [f"- {one_line(wish, 300)}" for wish in wishes])
    if state.error:
        _add(sections, "Blocked", [f"- {state.error.what}: {one_line(state.error.error, 200)}"])
    _add(sections, "Key decisions", _lines(made, "decisions"))
    _add(sections, "Next steps", [f"{n}. {todo.text}" for n, todo in enumerate(state.open_todos, 1)])
    _add(sections, "Critical context", _lines(made, "facts", "identifiers"))
    return _rendered(sections, SHARES, budget, counter)


def turn_prefix(sources: Sequence[Source], budget: int, counter: TokenCounter) -> Steps[str]:
    """The same for the beginning of a turn whose later part stays."""
    made = digest(sources, budget=budget // 2, counter=counter)
    yield from made.composing()
    words = [one_line(text, 1_000) for source in sources if (text := typed(source.message))]
    line = rule_line(((x.id, x.message) for x in sources), LINE, counter)
    sections = {
        "Original request": words,
        "Early progress": [f"- {line}", *_lines(made, "decisions")],
        "Needed for the kept part": _lines(made, "facts", "identifiers"),
    }
    return _rendered(sections, PREFIX, budget, counter)


def _turns(sources: Sequence[Source]) -> Iterator[Sequence[Source]]:
    starts = [at for at, source in enumerate(sources) if isinstance(source.message, User)]
    for first, last in pairwise(sorted({0, *starts, len(sources)})):
        yield sources[first:last]


def _is_over(turn: Sequence[Source]) -> bool:
    last = turn[-1].message
    return isinstance(last, Assistant) and not last.calls and last.stop not in ("error", "aborted")


def _lines(made: Digest, *names: str) -> list[str]:
    text = "\n".join(section.text for section in made.sections() if section.name in names)
    return [f"- {line.removeprefix('- ')}" for line in text.split("\n") if line.strip()]


def _earlier(text: str) -> dict[str, list[str]]:
    """The sections of an earlier summary; what stands under other headings is context."""
    sections: dict[str, list[str]] = {title: [] for title in SHARES}
    titles = {title.lower(): title for title in SHARES} | {"progress": ""}
    into, at = "Critical context", 0
    for match in (*_HEADING.finditer(text), None):
        _add(sections, into, text[at : match.start() if match else None].split("\n"))
        if match is None:
            break
        title = titles.get(match[1].lower())
        into, at = title or "Critical context", match.end()
        if title is None:
            _add(sections, into, [match[0]])
    return sections


def _add(sections: dict[str, list[str]], title: str, lines: Sequence[str]) -> None:
    known = set(sections[title])
    sections[title] += [x for x in lines if x.strip() and x.strip() != NONE and x not in known]


def _rendered(
    sections: Mapping[str, list[str]], shares: Mapping[str, float], budget: int, counter: TokenCounter
) -> str:
    """All sections, each within its share; where the budget is small, only those that say something."""
    *_, last = shares
    texts = {
        title: cut_lines(
            "\n".join(sections[title]), int(share * budget), counter.text, newest=title in NEWEST
        )
        for title, share in shares.items()
        if title != last
    }
    frame = _joined({**texts, last: ""}, NONE)
    empty = NONE if 2 * counter.text(frame) <= budget else ""
    left = max(budget - counter.text(_joined({**texts, last: ""}, empty)) - 8, 0)
    return _joined({**texts, last: _cut(sections, last, left, counter)}, empty)


def _cut(sections: Mapping[str, list[str]], title: str, room: int, counter: TokenCounter) -> str:
    return cut_lines("\n".join(sections[title]), room, counter.text, newest=title in NEWEST)


def _joined(texts: Mapping[str, str], empty: str) -> str:
    blocks: list[str] = []
    for title, text in texts.items():
        if title == "Done" and (empty or any(texts[each] for each in ("Done", "In progress", "Blocked"))):
            blocks.append("## Progress")
        level = "###" if title in ("Done", "In progress", "Blocked") else "##"
        if text or empty:
            blocks.append(f"{level} {title}\n{text or empty}")
    return "\n\n".join(blocks)
