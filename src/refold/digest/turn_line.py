"""The line that stands for a turn (D1): what was asked, what was done and how it ended, never half a
sentence."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from refold.facts import abridged
from refold.facts.call_text import command_in_short, telling
from refold.protocols import TokenCounter
from refold.text.patterns import lazy_pattern
from refold.text.redact import redact
from refold.text.truncate import head, one_line
from refold.tokens.fitting import fit

_POLITE = lazy_pattern(
    r"^(?:(?:please|pls|now|ok(?:ay)?|so|then|hi|hello|hey|thanks|great|and|also|can you|could you|"
    r"would you|i want you to|i need you to|let us|let's)\b[ ,.!:]*){1,6}",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"\b(?:the|an?) (?=\w)", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
_CLAUSE = lazy_pattern(
    r"[.!?;,:)](?=\s)|[。！？；，：、]|(?=\s(?:[→–—-]|because|which|but|while|when|unless|so that)\s)"
)
_DANGLING = lazy_pattern(
    r"(?:^|\s)(?:because|and|or|but|so|that|which|who|when|while|where|if|after|before|since|until|the|an?|of|to|"
    r"in|on|at|by|for|with|without|from|as|is|are|was|were|be|into|than|not|no|now|still|its?|their|→|[-–—]+)$",
    re.IGNORECASE,
)
_UNIT = re.compile(r"\s?(?:%|[^\W\d_]{1,3}\b)")
"""What may follow a figure and belongs to it."""
_MAX_READ_CHARS = 8_000
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
    own = one_line(redact(group.user[:_MAX_READ_CHARS])[0], 400)
    gist = _POLITE.sub("", own) or own
    return _ARTICLE.sub("", _SENTENCE.split(gist, maxsplit=1)[0]).rstrip(_ENDS)


def _done(groups: Sequence[abridged.Group]) -> str:
    paths = [path for group in groups for path in (*group.modified, *group.created, *group.deleted)]
    if paths:
        more = f" +{len(paths) - 1}" if len(paths) > 1 else ""
        return redact(posixpath.basename(paths[-1].rstrip("/")))[0] + more
    commands = [command for group in groups for command in group.commands]
    return one_line(redact(command_in_short(commands[-1]))[0], 40) if commands else ""


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
    found = telling(redact(text[:_MAX_READ_CHARS])[0])
    figures = [sentence for sentence in found if re.search(r"\d", sentence)]
    return " ".join(dict.fromkeys((*found[:1], *figures[:1]))).rstrip(_ENDS)
