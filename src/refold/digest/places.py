"""Who said it, and on which day: messages and the lines of an earlier digest, each with its place."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from refold.digest.source import PIECE, Source, texts
from refold.protocols import Steps
from refold.text import dates
from refold.text.sentences import speaker_of

_KEYED = re.compile(r"\s\[([a-z2-7]{7})\]$")
_LEADING = re.compile(r"\d{1,2} [A-Z][a-z]{2,8} \d{4} ")

ROLES = {"user": "User", "assistant": "Agent", "tool": "Tool", "bash": "User ran", "system": "System"}
"""What speakers without a name are called."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line was said. `order` sorts; lines of an earlier digest (role `earlier`) come first."""

    order: int
    speaker: str
    role: str
    day: date | None = None
    key: str = ""


def placed(sources: Sequence[Source]) -> Steps[list[tuple[Place, str]]]:
    """Each message without its date line and speaker's name, and where it stands."""
    bodies = yield from texts(sources)
    named = yield from _named_roles(sources, bodies)
    day: date | None = None
    rows: list[tuple[Place, str]] = []
    for order, (source, body) in enumerate(zip(sources, bodies, strict=True)):
        role = source.message.role
        if role in ("user", "assistant"):
            heading, body = without_heading(body)
            day = heading or day
        speaker = source.speaker
        if speaker is None and role in named:
            speaker, start = speaker_of(body)
            body = body[start:]
        here = day or dates.of_time(source.time).date
        rows.append((Place(order, speaker or ROLES[role], role, here, source.key), body))
        if order % PIECE == 0:
            yield
    return rows


def _named_roles(sources: Sequence[Source], bodies: Sequence[str]) -> Steps[frozenset[str]]:
    """Roles whose messages begin with a name, as in `Maria: …`: few names, on most of the messages."""
    names: dict[str, Counter[str]] = {"user": Counter(), "assistant": Counter()}
    totals: Counter[str] = Counter()
    for number, (source, body) in enumerate(zip(sources, bodies, strict=True)):
        if number % PIECE == 0:
            yield
        role = source.message.role
        if body and role in names:
            totals[role] += 1
            if speaker := speaker_of(body, dates.heading(body)[1])[0]:
                names[role][speaker] += 1
    return frozenset(
        role
        for role, seen in names.items()
        if totals[role] >= 4 and sum(n for _, n in seen.most_common(12)) * 2 > totals[role]
    )


def without_heading(body: str) -> tuple[date | None, str]:
    """The day of a first line that is only a date, and the text after it."""
    when, end = dates.heading(body)
    return (when.date, body[end:]) if when.date else (None, body.lstrip())


def earlier(previous: str) -> Iterator[tuple[Place, str]]:
    """The lines of an earlier digest, or of anybody's summary, in their order before everything else."""
    day: date | None = None
    lines = [line.strip() for line in previous.split("\n") if line.strip()]
    for number, line in enumerate(lines):
        match = _KEYED.search(line[-12:])
        key = match.group(1) if match else ""
        line = line[: -len(match.group())] if match else line
        day, line = _leading_date(line.lstrip("-*• "), day)
        speaker, start = speaker_of(line)
        yield Place(number - len(lines), speaker, "earlier", day, key), line[start:]


def _leading_date(line: str, day: date | None) -> tuple[date | None, str]:
    match = _LEADING.match(line)
    found = dates.read(match.group()).date if match else None
    return (found, line[match.end() :]) if match and found else (day, line)
