"""Turn lines: one short line for every finished round, and ranges of lines where there are too many."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence

import msgspec

from refold.compaction import carried
from refold.compaction.rounds import Round
from refold.compaction.situation import Situation
from refold.entries import TurnLine
from refold.errors import BadAnswer
from refold.preserve import abridged
from refold.preserve.constraints_text import own_words
from refold.protocols import TokenCounter
from refold.text.frames import defuse
from refold.text.sentences import sentences
from refold.text.truncate import head, one_line
from refold.tokens.fitting import fit

_POLITE = re.compile(
    r"^(?:(?:please|pls|now|ok(?:ay)?|so|then|hi|hello|hey|thanks|great|and|also|can you|could you|"
    r"would you|i want you to|i need you to|let us|let's)\b[ ,.!:]*){1,6}",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"\b(?:the|an?) (?=\w)", re.IGNORECASE)
_PREFIX = re.compile(r"^[-*\s]*\[Turn[^\]\n]{0,20}\]\s*")


class Line(msgspec.Struct, frozen=True):
    """What stands in for the rounds `start` … `end`, and the stretch of entries it replaces."""

    first: str
    last: str
    start: int
    end: int
    text: str

    @property
    def shown(self) -> str:
        turns = f"{self.start}" if self.start == self.end else f"{self.start}-{self.end}"
        return f"[Turn {turns}] {defuse(one_line(self.text, 4_000))}".rstrip()


def known_lines(s: Situation) -> dict[str, str]:
    """Lines that were written down, by the entry their round starts at."""
    return {line.target: line.text for line in s.session.annotations(TurnLine) if line.target}


def line_for(s: Situation, round: Round, known: dict[str, str], limit: int) -> str:
    """The line that was written down for a round, otherwise one by rule."""
    start = s.session.path[s.session.turns[round.number - 1]].id
    return known.get(start) or rule_line(s, round, limit)


def rule_line(s: Situation, round: Round, limit: int) -> str:
    """Asked → done and how it ended, in at most `limit` tokens."""
    groups = abridged.groups(carried.said(s.session, round.first, round.last + 1), continues=False)
    asked = next((text for group in reversed(groups) if (text := _asked(group))), "(nothing asked)")
    came = _outcome(groups)
    if not came:
        return short(asked, limit, s.counter)
    room = max(limit - 1, 2)
    outcome = short(came, max(room - s.counter.text(asked), room // 2), s.counter)
    request = short(asked, room - s.counter.text(outcome), s.counter)
    return short(f"{request} → {outcome}", limit, s.counter)


def accept_line(limit: int, counter: TokenCounter) -> Callable[[str], str]:
    """A model's answer as a line: one line, no label, no longer than it may be."""

    def accept(text: str) -> str:
        lines = [line for line in text.split("\n") if line.strip()]
        line = _PREFIX.sub("", one_line(lines[0], 1_000)) if lines else ""
        if not line:
            raise BadAnswer("empty", "the model wrote no line")
        return short(line, limit, counter)

    return accept


def merge(
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
    old, found, at = lines[:half], list[Line](), 0
    while at < len(old):
        if at + 1 < len(old) and old[at].end + 1 == old[at + 1].start:
            found.append(_joined(old[at], old[at + 1], counter))
            at += 2
        else:
            found.append(old[at])
            at += 1
    if len(found) == len(old):  # nothing to join: halve what there is
        found = [_shorter(line, counter.text(line.text) // 2, counter) for line in old]
    return found + lines[half:]


def _joined(a: Line, b: Line, counter: TokenCounter) -> Line:
    """Both as one range. What was asked goes before what came of it; what does not fit is left out whole, the
    beginning and the end of the range last."""
    room = (counter.text(a.text) + counter.text(b.text)) // 2
    said = [part for line in (a, b) for part in line.text.split("; ") if part]
    if counter.text("; ".join(said)) > room:
        said = [part.split(" → ")[0] for part in said]
    kept = set[int]()
    for at in (0, *range(len(said) - 1, 0, -1)) if said else ():
        if counter.text("; ".join(said[i] for i in sorted(kept | {at}))) <= room:
            kept.add(at)
    text = "; ".join(said[i] for i in sorted(kept)) if kept else short("; ".join(said), room, counter)
    return Line(a.first, b.last, a.start, b.end, text)


def _shorter(line: Line, room: int, counter: TokenCounter) -> Line:
    return msgspec.structs.replace(line, text=short(line.text, room, counter))


def _asked(group: abridged.Group) -> str:
    own = one_line(own_words(group.user).strip() or group.user, 300)
    gist = _POLITE.sub("", own) or own
    return _ARTICLE.sub("", _first_sentence(gist))


def _done(groups: Sequence[abridged.Group]) -> str:
    paths = [path for group in groups for path in (*group.modified, *group.created, *group.deleted)]
    if paths:
        more = f" +{len(paths) - 1}" if len(paths) > 1 else ""
        return posixpath.basename(paths[-1].rstrip("/")) + more
    commands = [command for group in groups for command in group.commands]
    return one_line(commands[-1], 40) if commands else ""


def _outcome(groups: Sequence[abridged.Group]) -> str:
    """What was done, or where nothing was, what was answered."""
    if not groups:
        return ""
    done, last = _done(groups), groups[-1]
    if last.state:
        return f"{done}; interrupted" if done else "interrupted"
    return done or _first_sentence(one_line(last.response, 300))


def _first_sentence(line: str) -> str:
    return next(iter(sentences(line)), "").rstrip(".!?。！？ ")


def short(text: str, room: int, counter: TokenCounter) -> str:
    """The beginning of a text within so many tokens; where it is cut it does not end in half a word."""
    cut = fit(text, room, counter, head)
    if cut != text and not text[len(cut)].isspace() and " " in cut:
        cut = cut[: cut.rindex(" ")]
    return cut if cut == text else cut.rstrip(" ,;:.-–→(")
