"""The line that stands for a turn (D1): what was asked, what was done and how it ended."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from refold.facts import abridged
from refold.facts.call_text import ELLIPSIS, command_in_short, conclusion
from refold.protocols import TokenCounter
from refold.text.redact import redact
from refold.text.sentences import split_sentences
from refold.text.truncate import head, one_line
from refold.tokens.fitting import fit

_MAX_READ_CHARS = 8_000
"""Characters of a text that are looked through for secrets, before it is cut: half a secret is none."""
_ANSWERED = 180
"""Characters of an answer that are told."""
_IN_WORDS = "".join(map(chr, range(ord("!"), ord("~") + 1)))
"""What words of scripts with spaces are made of."""
_ENDS = ".!?。！？ "
_LOOSE = " ,;:.…-–—→(/\\，；：、"


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
    """The beginning of a text within so many tokens: whole words, and an ellipsis where it goes on."""
    return fit(text, room, counter, _beginning)


def _beginning(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    cut = head(text, limit - 1)
    if not text[len(cut)].isspace():
        cut = cut.rstrip(_IN_WORDS)
    cut = cut.rstrip(_LOOSE)
    return f"{cut}…" if cut else ""


def _asked(group: abridged.Group) -> str:
    """The first sentence of the request."""
    request = one_line(redact(group.user[:_MAX_READ_CHARS])[0], 400)
    return "".join(split_sentences(request)[:1]).rstrip(_ENDS)


def _outcome(groups: Sequence[abridged.Group]) -> str:
    """What was done, or where nothing was, what was answered."""
    if not groups:
        return ""
    done, last = _done(groups), groups[-1]
    if last.state:
        return f"{done}; interrupted" if done else "interrupted"
    answered = conclusion(redact(last.response[:_MAX_READ_CHARS])[0], _ANSWERED)
    return done or answered.lstrip(f"{ELLIPSIS} ").rstrip(f"{_ENDS};{ELLIPSIS}")


def _done(groups: Sequence[abridged.Group]) -> str:
    paths = [path for group in groups for path in (*group.modified, *group.created, *group.deleted)]
    if paths:
        more = f" +{len(paths) - 1}" if len(paths) > 1 else ""
        return redact(posixpath.basename(paths[-1].rstrip("/")))[0] + more
    commands = [command for group in groups for command in group.commands]
    return one_line(redact(command_in_short(commands[-1]))[0], 40) if commands else ""
