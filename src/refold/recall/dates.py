"""When something was said: dates in questions, date lines over a stretch of dialogue, words of time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from refold.text import words

_NAMES = "january february march april may june july august september october november december"
_MONTHS = _NAMES.split()
_MONTH = {name[:3]: number for number, name in enumerate(_MONTHS, 1)}
_named = re.compile(
    r"\b(" + "|".join(_MONTHS) + r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b", re.IGNORECASE
)
_year = re.compile(r"\b(?:19|20)\d\d\b")
_iso = re.compile(r"\b((?:19|20)\d\d)[-/](\d{1,2})(?:[-/](\d{1,2}))?\b")
_day = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)?\b")
_header = re.compile(r"\s*\[([^\]\n]{6,60})\][ \t]*(?:\n|$)")
_clock = re.compile(r"\b\d{1,2}:\d\d(?::\d\d)?\b")

_TELLING = """
    yesterday today tonight tomorrow ago recently last next since week weekend month year morning afternoon
    evening night spring summer autumn fall winter monday tuesday wednesday thursday friday saturday sunday
    january february march april june july august september october november december
    昨天 今天 明天 上周 下周 去年 明年 上个月 星期 昨日 今日 先週 来週"""
_TELLING_TERMS = frozenset([*words.terms(_TELLING), *map(str, range(1980, 2040))])
_asks_when = re.compile(
    r"\s*(?:when|since when|how long|what (?:date|day|time|month|year)|什么时候|何时|いつ)\b", re.I
)


class When(NamedTuple):
    """A day, or as much of it as was said; 0 where unsaid."""

    year: int = 0
    month: int = 0
    day: int = 0

    def covers(self, other: When) -> bool:
        """True if `other` says everything that this one says."""
        return all(mine in (0, theirs) for mine, theirs in zip(self, other, strict=True))


NEVER = When()


def asked(question: str) -> When:
    """The date a question names. A lower-case `may` or `march` alone is a verb."""
    return _read(question, names_need_capitals=True)


def header(text: str) -> tuple[When, int]:
    """The date line a text starts with (`[1:56 pm on 8 May, 2023]`) and where the text goes on; `NEVER, 0`
    if there is none."""
    match = _header.match(text)
    if match is None:
        return NEVER, 0
    when = _read(match.group(1))
    return (when, match.end()) if when.year and when.month else (NEVER, 0)


def at(time: float) -> When:
    """The day of a time in seconds since 1970; `NEVER` where it is unknown."""
    if not 0 < time < 4e10:
        return NEVER
    day = datetime.fromtimestamp(time, UTC)
    return When(day.year, day.month, day.day)


def tells_time(terms: Iterable[str]) -> bool:
    """True if among the terms of a text are some that place it in time."""
    return not _TELLING_TERMS.isdisjoint(terms)


def asks_when(question: str) -> bool:
    return _asks_when.match(question) is not None


def _read(text: str, names_need_capitals: bool = False) -> When:
    iso = _iso.search(text)
    if iso:
        return When(int(iso[1]), int(iso[2]), int(iso[3] or 0))
    year = _year.search(text)
    month = next((m for m in _named.finditer(text) if not names_need_capitals or m[0][0].isupper()), None)
    if month is None:
        return When(int(year[0])) if year else NEVER
    around = _clock.sub(" ", text[max(0, month.start() - 8) : month.end() + 8])
    day = next((int(d[1]) for d in _day.finditer(around) if 1 <= int(d[1]) <= 31), 0)
    return When(int(year[0]) if year else 0, _MONTH[month[0].lower()[:3]], day)
