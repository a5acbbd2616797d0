"""What a digest reads: messages and the lines of an earlier digest, each with who said it and on which day,
and a bounded amount of their text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import msgspec

from refold.messages import Assistant, Message, User
from refold.preserve.words import typed
from refold.text import dates
from refold.text.sentences import speaker_of
from refold.text.truncate import level, middle

READ = 600_000
"""Characters of a conversation that are looked at for facts. Beyond it the longest are cut."""
_CAPS = {"user": 12_000, "assistant": 8_000}


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One message and what only its place gives it. `time` is seconds since 1970; `key` brings it back."""

    message: Message
    id: str = ""
    key: str = ""
    turn: int = 0
    time: float | None = None
    speaker: str | None = None


def texts(sources: Sequence[Source]) -> list[str]:
    """The text of each source that facts may come from, cut in the middle where it is long."""
    raw = [_said(source.message) for source in sources]
    caps = [min(len(text), _CAPS.get(x.message.role, 0)) for text, x in zip(raw, sources, strict=True)]
    most = level(caps, READ)
    return [middle(text, min(cap, most), "\n", 2 / 3) for text, cap in zip(raw, caps, strict=True)]


def _said(message: Message) -> str:
    """What people and the agent said. Output of tools is bulk: how a call ended stands among what was done,
    and what the agent made of it in the agent's words."""
    match message:
        case User():
            return typed(message)
        case Assistant():
            return without_code(message.text)
        case _:
            return ""


def without_code(text: str) -> str:
    """Without fenced blocks: what the agent wrote stands in the files, what it meant stands around it."""
    if "```" not in text:
        return text
    return "\n".join(text.split("```")[::2])


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


def placed(sources: Sequence[Source]) -> list[tuple[Place, str]]:
    """Each message without its date line and speaker's name, and where it stands."""
    bodies = texts(sources)
    named = _named_roles(sources, bodies)
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
    return rows


def _named_roles(sources: Sequence[Source], bodies: Sequence[str]) -> frozenset[str]:
    """Roles whose messages begin with a name, as in `Maria: …`: few names, on most of the messages."""
    names: dict[str, Counter[str]] = {"user": Counter(), "assistant": Counter()}
    totals: Counter[str] = Counter()
    for source, body in zip(sources, bodies, strict=True):
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
    """The lines of an earlier digest, or of another writer's summary, before everything else."""
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
    found = dates.read_date(match.group()).date if match else None
    return (found, line[match.end() :]) if match and found else (day, line)
