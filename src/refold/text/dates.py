"""Dates: the day that a text names, the date of a stretch of conversation, and "yesterday" as a date.

A record is read long after the conversation; "last Friday" means nothing there. Nothing is guessed: an
expression that cannot be computed from the date of its message is unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from refold.text import words
from refold.text.patterns import lazy_pattern

_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH = {name[:3]: number for number, name in enumerate(_MONTHS, 1)}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "couple of": 2, "a couple of": 2,
}  # fmt: skip

_numeric = lazy_pattern(r"(?<!\d)((?:19|20)\d\d)[-/年](\d{1,2})(?:[-/月](\d{1,2})(?!\d))?")
_named = lazy_pattern(rf"\b(?:{'|'.join(_MONTHS)}|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b", re.I)
_year = re.compile(r"\b(?:19|20)\d\d\b")
_day = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)?\b")
_clock = re.compile(r"\b\d{1,2}:\d\d(?::\d\d)?\b")
_first_line = re.compile(r"\s*+([^\n]{6,60}+)\n")
_letters = re.compile(r"[^\W\d_]+")
_IN_A_DATE = frozenset(
    (
        *_MONTHS, *_MONTH, "sept", *_DAYS, *(name[:3] for name in _DAYS), "st", "nd", "rd", "th", "on", "at",
        "of", "the", "am", "pm", "a", "p", "m", "utc", "gmt", "z", "t", "年", "月", "日", "星期",
    )
)  # fmt: skip
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
    """A date, as far as stated; 0 for missing parts."""

    year: int = 0
    month: int = 0
    day: int = 0

    def covers(self, other: When) -> bool:
        """True if `other` states everything that this one does."""
        return all(mine in (0, theirs) for mine, theirs in zip(self, other, strict=True))

    @property
    def date(self) -> date | None:
        """The day; None if incomplete or impossible."""
        try:
            return date(*self)
        except ValueError:
            return None


NO_DATE = When()


def read_date(text: str, *, capitals: bool = False) -> When:
    """The date in a text, as far as stated: `8 May 2023`, `May 8th`, `2023-05-08`, `2023年5月`, `2023`.
    `capitals`: months must be capitalised; lower-case `may` or `march` is a verb."""
    if number := _numeric.search(text):
        year, month, day = (int(part or 0) for part in number.groups())
        return When(year, month, day) if 1 <= month <= 12 and day <= 31 else When(year)
    year = int(found[0]) if (found := _year.search(text)) else 0
    month = next((m for m in _named.finditer(text) if not capitals or m[0][0].isupper()), None)
    if month is None:
        return When(year)
    around = _clock.sub(" ", text[max(0, month.start() - 8) : month.end() + 8])
    day = next((int(d[1]) for d in _day.finditer(around) if 1 <= int(d[1]) <= 31), 0)
    return When(year, _MONTH[month[0].lower()[:3]], day)


def heading(text: str) -> tuple[When, int]:
    """The date in a first line that holds nothing else (`# 2024-03-01`, `[Monday, 8 May 2023, 1:56 pm]`), and
    where the text continues; `NO_DATE, 0` if there is none."""
    line = _first_line.match(text)
    if line and any(map(str.isdigit, line[1])) and _IN_A_DATE.issuperset(_letters.findall(line[1].lower())):
        when = read_date(line[1])
        if when.year and when.month:
            return when, line.end()
    return NO_DATE, 0


LATEST = 4e10
"""Seconds since 1970: a time after that is none."""


def in_utc(time: float) -> datetime:
    """A time of a log, in UTC. What no calendar has is the beginning of 1970: a file may be damaged, or count
    in microseconds."""
    return datetime.fromtimestamp(time if 0 < time < LATEST else 0.0, UTC)


def of_time(time: float | None) -> When:
    """The UTC day of seconds since 1970; `NO_DATE` if missing or out of range."""
    if not time or not 0 < time < LATEST:
        return NO_DATE
    day = in_utc(time)
    return When(day.year, day.month, day.day)


def tells_time(terms: Iterable[str]) -> bool:
    """True if any of a text's terms refers to a time."""
    return not _TELLING_TERMS.isdisjoint(terms)


def asks_when(question: str) -> bool:
    return _asks_when.match(question) is not None


def written_date(day: date) -> str:
    """`7 May 2023`: unambiguous everywhere, and in the words that questions use."""
    return f"{day.day} {month_written(day)}"


def month_written(day: date) -> str:
    return f"{_MONTHS[day.month - 1].capitalize()} {day.year}"


# ── relative expressions ────────────────────────────────────────────────────────────────────────

_RELATIVE = lazy_pattern(
    rf"""(?<!like\ )(?<!like\ just\ )\b(?:
      (?P<plain>yesterday|last\ night|today|tonight|tomorrow|this\ morning|this\ afternoon|this\ evening)
    | the\ day\ (?P<beside>before\ yesterday|after\ tomorrow)
    | (?P<count>\d{{1,3}}|an?|one|two|three|four|five|six|seven|eight|nine|ten|(?:a\ )?couple\ of)
      \ (?P<unit>day|week|weekend|month|year)s?\ ago
    | (?P<vague>a\ few|few|some|several)\ (?P<vague_unit>day|week|weekend|month|year)s?\ ago
    | (?P<side>last|next|this|this\ past|past|this\ coming)
      \ (?P<what>week|weekend|month|year|{"|".join(_DAYS)})
    )\b
    | (?P<chinese>昨天|昨晚|今天|今晚|今早|明天|前天|后天|上周|上个月|去年|下个月|明年|上星期|下周|下星期)""",
    re.I | re.X,
)
_SHIFTS = {"yesterday": -1, "last night": -1, "tomorrow": 1, "before yesterday": -2, "after tomorrow": 2,
           "昨天": -1, "昨晚": -1, "明天": 1, "前天": -2, "后天": 2}  # fmt: skip

_STEPS = {"last": -1, "past": -1, "this past": -1, "next": 1, "this coming": 1}


def relative(text: str) -> bool:
    """Whether `text` has an expression that `resolve` may replace."""
    return _RELATIVE.search(text) is not None


def resolve(text: str, day: date, say: Callable[[str, str], str]) -> str:
    """`text` with every relative expression passed through `say(expression, absolute)`."""

    def replaced(match: re.Match[str]) -> str:
        absolute = _absolute(match, day)
        return say(match.group(), absolute) if absolute else match.group()

    return _RELATIVE.sub(replaced, text)


def _absolute(match: re.Match[str], day: date) -> str | None:
    try:
        found = match.groupdict()
        if plain := found["plain"] or found["beside"]:
            return _shifted("day", _SHIFTS.get(plain.lower(), 0), day)
        if count := found["count"]:
            number = int(count) if count.isdigit() else _NUMBERS[count.lower()]
            return _shifted(found["unit"].lower(), -number, day)
        if vague := found["vague"]:
            number = vague.lower().removeprefix("a ")
            return f"{number} {found['vague_unit'].lower()}s before {written_date(day)}"
        if side := found["side"]:
            step, what = _STEPS.get(side.lower(), 0), found["what"].lower()
            return _weekday(step, what, day) if what in _DAYS else _shifted(what, step, day)
        return _chinese(match.group(), day)
    except (OverflowError, ValueError):
        return None


def _shifted(unit: str, steps: int, day: date) -> str:
    """A day moved by this many days, weeks …, as precise as the expression."""
    if unit == "day":
        return written_date(day + timedelta(days=steps))
    if unit == "month":
        return month_written(_months(day, steps))
    if unit == "year":
        return str(_months(day, 12 * steps).year)
    named = {0: unit, 1: unit, 2: f"two {unit}s"}.get(abs(steps), f"{abs(steps)} {unit}s")
    return f"{named} {'before' if steps < 0 else 'after' if steps else 'of'} {written_date(day)}"


def _weekday(step: int, name: str, day: date) -> str:
    ahead = (_DAYS.index(name) - day.weekday()) % 7
    distance = ahead - 7 if step < 0 else ahead or 7
    return f"{name.capitalize()} {written_date(day + timedelta(days=distance))}"


def _chinese(said: str, day: date) -> str:
    if said in ("去年", "明年"):
        return f"{day.year + (1 if said == '明年' else -1)}年"
    if said.endswith("个月"):
        shifted = _months(day, 1 if said[0] == "下" else -1)
        return f"{shifted.year}年{shifted.month}月"
    if said[-1] in "周期":
        return f"{day.year}年{day.month}月{day.day}日的{'后' if said[0] == '下' else '前'}一周"
    shifted = day + timedelta(days=_SHIFTS.get(said, 0))
    return f"{shifted.year}年{shifted.month}月{shifted.day}日"


def _months(day: date, step: int) -> date:
    index = day.year * 12 + day.month - 1 + step
    year, month = divmod(index, 12)
    from calendar import monthrange  # with `locale`: not needed to start with

    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))
