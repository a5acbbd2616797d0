"""Dates: finding the day a stretch of conversation happened on, and saying "yesterday" as a date.

A digest is read long after the words were said; "last Friday" is worthless there without its day.
Nothing is guessed: an expression that cannot be computed from the day of its message stays as it is.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

_MONTHS: list[str] = [
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
]  # fmt: skip
_MONTH = "|".join((*_MONTHS, *(name[:3] for name in _MONTHS), "sept"))
_DAYS: list[str] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "couple of": 2, "a couple of": 2,
}  # fmt: skip

_DAY_FIRST = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s({_MONTH})\b\.?,?\s(\d{{4}})\b", re.I)
_MONTH_FIRST = re.compile(rf"\b({_MONTH})\b\.?\s(\d{{1,2}})(?:st|nd|rd|th)?,?\s(\d{{4}})\b", re.I)
_ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_CHINESE = re.compile(r"(\d{4})年(\d{1,2})月(\d{1,2})日")


def written(day: date) -> str:
    """`7 May 2023`: unambiguous everywhere, and the words people ask with."""
    return f"{day.day} {_MONTHS[day.month - 1].capitalize()} {day.year}"


def month_written(day: date) -> str:
    return f"{_MONTHS[day.month - 1].capitalize()} {day.year}"


def of_time(time: float | None) -> date | None:
    """The UTC day of seconds since 1970; None where there is none or it is out of range."""
    if not time:
        return None
    try:
        return datetime.fromtimestamp(time, UTC).date()
    except (OverflowError, OSError, ValueError):
        return None


def heading(line: str) -> date | None:
    """The date of a line that is nothing but one, such as `[1:56 pm on 8 May, 2023]` or `# 2024-03-01`."""
    line = line.strip()
    if not 6 <= len(line) <= 60 or not (line[0] in "[(#=-*" or line[0].isalnum()):
        return None
    for pattern, order in ((_DAY_FIRST, "dmy"), (_MONTH_FIRST, "mdy"), (_ISO, "ymd"), (_CHINESE, "ymd")):
        match = pattern.search(line)
        if match and len(line) - len(match.group()) <= 24:
            return _built(dict(zip(order, match.groups(), strict=True)))
    return None


def _built(parts: dict[str, str]) -> date | None:
    month = parts["m"].lower()
    number = int(month) if month.isdigit() else [name[:3] for name in _MONTHS].index(month[:3]) + 1
    try:
        return date(int(parts["y"]), number, int(parts["d"]))
    except ValueError:
        return None


# ── relative expressions ────────────────────────────────────────────────────────────────────────

_RELATIVE = re.compile(
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


def relative(text: str) -> bool:
    """Whether `text` holds an expression that `resolve` may replace."""
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
            return written(day + timedelta(days=_SHIFTS.get(plain.lower(), 0)))
        if count := found["count"]:
            number = int(count) if count.isdigit() else _NUMBERS[count.lower()]
            return _ago(number, found["unit"].lower(), day)
        if vague := found["vague"]:
            return f"{vague.lower().removeprefix('a ')} {found['vague_unit'].lower()}s before {written(day)}"
        if side := found["side"]:
            return _beside(
                side.lower().split()[-1] if side.lower() != "this past" else "last",
                found["what"].lower(),
                day,
            )
        return _chinese(match.group(), day)
    except (OverflowError, ValueError):
        return None


def _ago(number: int, unit: str, day: date) -> str:
    if unit == "day":
        return written(day - timedelta(days=number))
    if unit == "month":
        return month_written(_months(day, -number))
    if unit == "year":
        return str(_months(day, -12 * number).year)
    named = {1: unit, 2: f"two {unit}s"}.get(number, f"{number} {unit}s")
    return f"{named} before {written(day)}"


def _beside(side: str, what: str, day: date) -> str:
    step = {"last": -1, "past": -1, "next": 1, "coming": 1}.get(side, 0)
    if what == "year":
        return str(_months(day, 12 * step).year)
    if what == "month":
        return month_written(_months(day, step))
    link = {-1: "before", 1: "after", 0: "of"}[step]
    if what in ("week", "weekend"):
        return f"{what} {link} {written(day)}"
    return _weekday(step, what, day)


def _weekday(step: int, name: str, day: date) -> str:
    distance = (_DAYS.index(name) - day.weekday()) % 7
    if step < 0:
        return f"{name.capitalize()} {written(day + timedelta(days=distance - 7))}"
    return f"{name.capitalize()} {written(day + timedelta(days=distance or 7))}"


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
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))
