"""What a question about work aims at besides its subject: the cause, what changed, the first or the last.

Lists of words rank here, they decide nothing: an entry that gives a reason moves ahead of one that only names
the subject. Asked of logs with tool calls alone, where every file that was read names the subject too.
"""

from __future__ import annotations

import re

import msgspec

from refold.messages import Message, Result

LOOKED_AT = 4_000
"""Characters of a message in which a reason is looked for."""

_CAUSE = re.compile(
    r"\b(?:why|how come|what caused|causes? of|reasons? (?:for|that))\b|为什么|なぜ|\bwarum\b", re.I
)
_CHANGE = re.compile(r"\bwhat (?:was |has |did \w+ )?(?:been )?chang|\bwhat is different\b", re.I)
_FIRST = re.compile(r"\b(?:at first|first|initially|originally|in the beginning)\b", re.I)
_LAST = re.compile(r"\b(?:at last|last|latest|finally|in the end|most recent(?:ly)?)\b", re.I)
_ADVERB = re.compile(r"\b(?:at (?:first|last)|initially|originally|finally|in the (?:beginning|end))\b", re.I)
_REASON = re.compile(
    r"\b(?:because|due to|caused by|root cause|the (?:reason|cause|problem|issue|culprit)|turns? out|"
    r"(?:fail|broke|miss)\w* since|that(?:'s| is| was) why)\b|因为|原因|原因は|\bweil\b|\bUrsache\b",
    re.I,
)
_CHANGED = re.compile(
    r"\b(?:chang|replac|renam|mov|remov|add|switch|rewr\w+|fix)(?:ed|d|ten|ote)\b|\binstead of\b", re.I
)


class Aim(msgspec.Struct, frozen=True):
    cause: bool = False
    change: bool = False
    order: int = 0
    """-1: the first, 1: the last."""

    def worth(self, message: Message, place: float) -> float:
        """A factor for an entry at this place (0: the beginning of the log, 1: its end)."""
        worth = 1.0
        if self.cause:
            worth += _gives(message, _REASON)
            worth += 0.5 * (isinstance(message, Result) and message.is_error)
        if self.change:
            worth += _gives(message, _CHANGED)
        if self.order:
            worth *= 1 + 0.5 * (place if self.order > 0 else 1 - place)
        return worth


NONE = Aim()


def read(question: str) -> Aim:
    order = -1 if _FIRST.search(question) else 1 if _LAST.search(question) else 0
    return Aim(_CAUSE.search(question) is not None, _CHANGE.search(question) is not None, order)


def subject(question: str) -> str:
    """The question without what only asks for an order: `at first`."""
    return _ADVERB.sub(" ", question)


def _gives(message: Message, pattern: re.Pattern[str]) -> float:
    """Prose that says it; a file that was read says anything."""
    return float(not isinstance(message, Result) and pattern.search(message.text[:LOOKED_AT]) is not None)
