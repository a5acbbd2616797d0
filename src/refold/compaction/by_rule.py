"""What is written without a model: the line that stands for a turn (D1; never half a sentence), and the
sections of pi's summaries (B11), brought up to date with what the previous summary says."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from refold.compaction.details import Line
from refold.digest import Digest, Source, digest
from refold.digest.sections import cut_lines
from refold.errors import BadAnswer
from refold.preserve import abridged
from refold.preserve.call_text import conclusion, telling
from refold.preserve.state import WorkState
from refold.preserve.words import demands, typed
from refold.protocols import TokenCounter
from refold.text.redact import redact
from refold.text.truncate import head, one_line
from refold.tokens.fitting import fit

_POLITE = re.compile(
    r"^(?:(?:please|pls|now|ok(?:ay)?|so|then|hi|hello|hey|thanks|great|and|also|can you|could you|"
    r"would you|i want you to|i need you to|let us|let's)\b[ ,.!:]*){1,6}",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"\b(?:the|an?) (?=\w)", re.IGNORECASE)
_LABEL = re.compile(r"^[-*\s]*\[Turn[^\]\n]{0,20}\]\s*")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
_CLAUSE = re.compile(
    r"[.!?;,:)](?=\s)|[。！？；，：、]|(?=\s(?:[→–—-]|because|which|but|while|when|unless|so that)\s)"
)
_DANGLING = re.compile(
    r"(?:^|\s)(?:because|and|or|but|so|that|which|who|when|while|where|if|after|before|since|until|the|an?|of|to|"
    r"in|on|at|by|for|with|without|from|as|is|are|was|were|be|into|than|not|no|now|still|its?|their|→|[-–—]+)$",
    re.IGNORECASE,
)
_UNIT = re.compile(r"\s?(?:%|[^\W\d_]{1,3}\b)")
"""What may follow a figure and belongs to it."""
READ = 8_000
"""Characters of a text that are looked through for secrets, before it is cut: half a secret is none."""
_ENDS = ".!?。！？ "
_LOOSE = " ,;:.-–—→(/\\，；：、"


def rule_line(groups: Sequence[abridged.Group], limit: int, counter: TokenCounter) -> str:
    """Asked → done and how it ended, in at most `limit` tokens."""
    asked = next((text for group in reversed(groups) if (text := _asked(group))), "(nothing asked)")
    outcome = _outcome(groups)
    if not outcome:
        return short(asked, limit, counter)
    room = max(limit - 2, 2)
    outcome = short(outcome, max(room - counter.text(asked), room * 2 // 3), counter)
    request = short(asked, room - counter.text(outcome), counter)
    return short(f"{request} → {outcome}" if request else outcome, limit, counter)


def accept_line(limit: int, counter: TokenCounter) -> Callable[[str], str]:
    """A model's answer as a line: one line, no label, no longer than it may be."""

    def accept(text: str) -> str:
        lines = [line for line in text.split("\n") if line.strip()]
        line = _LABEL.sub("", one_line(lines[0], 1_000)) if lines else ""
        if not line:
            raise BadAnswer("empty", "the model wrote no line")
        return short(line, limit, counter)

    return accept


def short(text: str, room: int, counter: TokenCounter) -> str:
    """The beginning of a text within so many tokens: to the end of a clause where one ends in its second
    half, otherwise to the end of a word. A figure keeps its unit, no conjunction hangs at the end; a piece
    that says nothing is left out."""
    cut = fit(text, room, counter, head)
    if cut == text:
        return text
    rest = text[len(cut) :]
    if cut[-1:].isascii() and not rest[0].isspace():
        at = cut.rfind(" ")
        cut, rest = (cut[:at], text[at:]) if at > 0 else ("", text)
    if cut[-1:].isdigit() and _UNIT.match(rest):
        cut = cut[: cut.rfind(" ") + 1]
    ends = [match.end() for match in _CLAUSE.finditer(cut + " ") if match.end() * 2 >= len(cut)]
    cut = (cut[: ends[-1]] if ends else cut).rstrip(_LOOSE)
    while match := _DANGLING.search(cut):
        cut = cut[: match.start()].rstrip(_LOOSE)
    return cut


def _asked(group: abridged.Group) -> str:
    own = one_line(redact(group.user[:READ])[0], 400)
    gist = _POLITE.sub("", own) or own
    return _ARTICLE.sub("", _SENTENCE.split(gist, maxsplit=1)[0]).rstrip(_ENDS)


def _done(groups: Sequence[abridged.Group]) -> str:
    paths = [path for group in groups for path in (*group.modified, *group.created, *group.deleted)]
    if paths:
        more = f" +{len(paths) - 1}" if len(paths) > 1 else ""
        return redact(posixpath.basename(paths[-1].rstrip("/")))[0] + more
    commands = [command for group in groups for command in group.commands]
    return one_line(redact(commands[-1][:READ])[0], 40) if commands else ""


def _outcome(groups: Sequence[abridged.Group]) -> str:
    """What was done, or where nothing was, what was answered."""
    if not groups:
        return ""
    done, last = _done(groups), groups[-1]
    if last.state:
        return f"{done}; interrupted" if done else "interrupted"
    return done or _answer(last.response)


def _answer(text: str) -> str:
    """The first sentence that says something, and the first one with a figure where it has none."""
    found = telling(redact(text[:READ])[0])
    figures = [sentence for sentence in found if re.search(r"\d", sentence)]
    return " ".join(dict.fromkeys((*found[:1], *figures[:1]))).rstrip(_ENDS)


# ── where there are too many ────────────────────────────────────────────────────────────────────


def merging(
    lines: Sequence[Line], budget: int, size: Callable[[Sequence[Line]], int], counter: TokenCounter
) -> list[Line]:
    """The lines within the budget: as long as they are larger, neighbours in the oldest half become ranges,
    each half as long as its two parts."""
    merged = list(lines)
    while size(merged) > budget:
        smaller = _pass(merged, max((len(merged) + 1) // 2, 2), counter)
        if smaller == merged:  # the old ones say nothing any more: now the others
            smaller = _pass(merged, len(merged), counter)
        if smaller == merged:
            break
        merged = smaller
    return merged


def _pass(lines: list[Line], half: int, counter: TokenCounter) -> list[Line]:
    old, joined, at = lines[:half], list[Line](), 0
    while at < len(old):
        if at + 1 < len(old) and old[at].end + 1 == old[at + 1].start:
            joined.append(_joined(old[at], old[at + 1], counter))
            at += 2
        else:
            joined.append(old[at])
            at += 1
    if len(joined) == len(old):  # nothing to join: halve what there is
        joined = [_shorter(line, counter.text(line.text) // 2, counter) for line in old]
    return joined + lines[half:]


def _joined(a: Line, b: Line, counter: TokenCounter) -> Line:
    """Both as one range. What was asked goes before what came of it; what does not fit is left out whole, the
    beginning and the end of the range last."""
    room = (counter.text(a.text) + counter.text(b.text)) // 2
    parts = [part for line in (a, b) for part in line.text.split("; ") if part]
    if counter.text("; ".join(parts)) > room:
        parts = [part.split(" → ")[0] for part in parts]
    kept = set[int]()
    for at in (0, *range(len(parts) - 1, 0, -1)) if parts else ():
        if counter.text("; ".join(parts[i] for i in sorted(kept | {at}))) <= room:
            kept.add(at)
    text = "; ".join(parts[i] for i in sorted(kept)) if kept else short("; ".join(parts), room, counter)
    return Line(a.first, b.last, a.start, b.end, text)


def _shorter(line: Line, room: int, counter: TokenCounter) -> Line:
    return msgspec.structs.replace(line, text=short(line.text, room, counter))


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


def checkpoint(sources: Sequence[Source], budget: int, counter: TokenCounter, previous: str) -> str:
    """What happened, under pi's headings, in at most `budget` tokens."""
    made = digest(sources, budget=budget // 2, counter=counter)
    sections, state = _earlier(previous), WorkState().extend(source.message for source in sources)
    turns = abridged.groups(((x.id, x.message) for x in sources), continues=False)
    for turn in turns:
        title, box = ("Done", "x") if turn.over else ("In progress", " ")
        _add(sections, title, [f"- [{box}] {rule_line([turn], LINE, counter)}"])
    words = [text for source in sources if (text := typed(source.message))]
    if not sections["Goal"]:
        _add(sections, "Goal", [one_line(text, 400) for text in words[:1]])
    wishes = (text[slice(*span)] for text in words for spans in demands(text) for span in spans)
    _add(sections, "Constraints and preferences", [f"- {one_line(wish, 300)}" for wish in wishes])
    if state.error:
        _add(sections, "Blocked", [f"- {state.error.what}: {one_line(state.error.error, 200)}"])
    worked = (turn for turn in turns if turn.response and (turn.modified or turn.created or turn.commands))
    _add(sections, "Key decisions", [f"- {conclusion(turn.response)}" for turn in worked])
    _add(sections, "Next steps", [f"{n}. {todo.text}" for n, todo in enumerate(state.open_todos, 1)])
    _add(sections, "Critical context", _lines(made, "done"))  # gives way to the facts, which come last
    _add(sections, "Critical context", _lines(made, "facts"))
    return _rendered(sections, SHARES, budget, counter)


def turn_prefix(sources: Sequence[Source], budget: int, counter: TokenCounter) -> str:
    """The same for the beginning of a turn whose later part stays."""
    made = digest(sources, budget=budget // 2, counter=counter)
    words = [one_line(text, 1_000) for source in sources if (text := typed(source.message))]
    turns = abridged.groups(((x.id, x.message) for x in sources), continues=False)
    line = rule_line(turns, LINE, counter)
    sections = {
        "Original request": words,
        "Early progress": [f"- {line}", *_lines(made, "done")],
        "Needed for the kept part": _lines(made, "facts"),
    }
    return _rendered(sections, PREFIX, budget, counter)


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
    sections[title] += [x for x in dict.fromkeys(lines) if x.strip() and x.strip() != NONE and x not in known]


def _rendered(
    sections: Mapping[str, list[str]], shares: Mapping[str, float], budget: int, counter: TokenCounter
) -> str:
    """All sections, each within its share; where the budget is small, only those that say something."""
    *_, last = shares
    texts = {
        title: _cut(sections, title, int(share * budget), counter)
        for title, share in shares.items()
        if title != last
    }
    frame = _document({**texts, last: ""}, NONE)
    empty = NONE if 2 * counter.text(frame) <= budget else ""
    left = max(budget - counter.text(_document({**texts, last: ""}, empty)) - 8, 0)
    return _document({**texts, last: _cut(sections, last, left, counter)}, empty)


def _cut(sections: Mapping[str, list[str]], title: str, room: int, counter: TokenCounter) -> str:
    """As many lines as fit; where not one does, the beginning of the one that comes first: what was asked for
    is never "(none)" for want of room."""
    rows, newest = sections[title], title in NEWEST
    text = cut_lines("\n".join(rows), room, counter.text, newest=newest)
    return text if text or not rows else short(rows[-1 if newest else 0], room, counter)


def _document(texts: Mapping[str, str], empty: str) -> str:
    blocks: list[str] = []
    for title, text in texts.items():
        if title == "Done" and (empty or any(texts[each] for each in ("Done", "In progress", "Blocked"))):
            blocks.append("## Progress")
        level = "###" if title in ("Done", "In progress", "Blocked") else "##"
        if text or empty:
            blocks.append(f"{level} {title}\n{text or empty}")
    return "\n\n".join(blocks)
