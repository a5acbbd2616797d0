"""Candidates: every sentence that could stand in a digest, with who said it, when, and how telling it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from refold.digest import dates
from refold.digest.dense import dense
from refold.digest.sentences import sentences
from refold.digest.source import Source, texts
from refold.digest.words import FUNCTION, words

_SPEAKER = re.compile(r"([^\W\d_][\w.'’-]{0,30}(?: [^\W\d_][\w.'’-]{0,30}){0,2}): (?=\S)")
_PICTURE = re.compile(
    r"\[image: (?:an? )?(?:close[- ]?up )?(?:photo|photography|picture|image|screenshot) of ", re.I
)
_OWN = re.compile(r"\b(?:i|we|my|our|me|us)\b|我|咱", re.I)
_YOURS = re.compile(r"\b(?:you|your)\b|你|您", re.I)
_NAME = re.compile(r"(?<=[\w,;:'’)\"“] )[\"“(]?([A-Z][\w'’-]*|[\"“][^\"“”]{2,60}[\"”])")
_KEYED = re.compile(r"\s*#([a-z2-7]{7})$")

ROLES = {"user": "User", "assistant": "Agent", "tool": "Tool", "bash": "User ran", "system": "System"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line was said. `order` sorts; lines of an earlier digest come before everything."""

    order: int
    speaker: str
    role: str
    day: date | None = None
    key: str = ""
    turn: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Fact:
    """A sentence: as `said`, and as `text` with relative dates resolved. `prior`: how telling its form is."""

    place: Place
    text: str
    said: str
    words: tuple[str, ...]
    names: tuple[str, ...]
    prior: float


@dataclass(frozen=True, slots=True)
class Priors:
    """How telling a sentence's form is, before its words are weighed. Tuned leaving one conversation out."""

    question: float = 0.3
    picture: float = 0.6
    own: float = 1.3
    yours: float = 0.8
    dated: float = 2.0
    tool: float = 0.5
    earlier: float = 1.5


PRIORS = Priors()


def facts(
    sources: Sequence[Source], previous: str = "", priors: Priors = PRIORS
) -> tuple[list[Fact], frozenset[str]]:
    """All candidates in order, and the lower-case names of those who speak."""
    placed = list(_placed(sources))
    present = frozenset(place.speaker.lower() for place, _ in placed if place.speaker not in ROLES.values())
    found: list[Fact] = []
    for line, place in _earlier(previous):
        found.extend(_of(line, place, present, priors, earlier=True))
    for place, text in placed:
        found.extend(_of(text, place, present, priors))
    return found, present


def _placed(sources: Sequence[Source]) -> Iterator[tuple[Place, str]]:
    """Each message without its date line and speaker's name, and where it stands."""
    bodies = texts(sources)
    named = _named_roles(zip(sources, bodies, strict=True))
    day: date | None = None
    for order, (source, body) in enumerate(zip(sources, bodies, strict=True)):
        role = source.message.role
        if role in ("user", "assistant"):
            heading, body = _without_heading(body)
            day = heading or day
        here = day or dates.of_time(source.time)
        speaker = source.speaker
        if speaker is None and role in named and (match := _SPEAKER.match(body)):
            speaker, body = match.group(1), body[match.end() :]
        yield Place(order, speaker or ROLES[role], role, here, source.key, source.turn), body


def _named_roles(rows: Iterable[tuple[Source, str]]) -> frozenset[str]:
    """Roles whose messages begin with a name, as in `Maria: …`: few names, on most of the messages."""
    names: dict[str, Counter[str]] = {}
    totals: Counter[str] = Counter()
    for source, body in rows:
        role = source.message.role
        if body and role in ("user", "assistant"):
            totals[role] += 1
            if match := _SPEAKER.match(_without_heading(body)[1]):
                names.setdefault(role, Counter())[match.group(1)] += 1
    return frozenset(
        role
        for role, seen in names.items()
        if totals[role] >= 4 and sum(n for _, n in seen.most_common(12)) * 2 > totals[role]
    )


def _without_heading(body: str) -> tuple[date | None, str]:
    first, _, rest = body.lstrip()[:12_000].partition("\n")
    day = dates.heading(first) if rest and len(first) < 64 else None
    return (day, body.lstrip().partition("\n")[2]) if day else (None, body)


def _earlier(previous: str) -> Iterator[tuple[str, Place]]:
    """The lines of an earlier digest (or of anybody's summary), each at its own place before the rest."""
    day: date | None = None
    lines = [line.strip() for line in previous.split("\n")]
    for number, line in enumerate(line for line in lines if line):
        match = _KEYED.search(line)
        key = match.group(1) if match else ""
        line = line[: match.start()] if match else line
        line = line.lstrip("-*• ")
        day, line = _leading_date(line, day)
        speaker = ""
        if named := _SPEAKER.match(line):
            speaker, line = named.group(1), line[named.end() :]
        yield line, Place(number - len(lines) - 1, speaker, "earlier", day, key)


_LEADING = re.compile(r"\d{1,2} [A-Z][a-z]{2,8} \d{4} ")


def _leading_date(line: str, day: date | None) -> tuple[date | None, str]:
    match = _LEADING.match(line)
    found = dates.heading(match.group()) if match else None
    return (found, line[match.end() :]) if match and found else (day, line)


def _of(
    text: str, place: Place, present: frozenset[str], priors: Priors, earlier: bool = False
) -> Iterator[Fact]:
    day = place.day if place.day and not earlier and dates.relative(text) else None
    for sentence in _pieces(text, earlier):
        dated = sentence
        if day:
            dated = dates.resolve(sentence, day, lambda said, when: f"{said} ({when})")
        # Tuples in order of appearance: sums over sets of strings differ from process to process.
        found = tuple(
            word for word in dict.fromkeys(words(dated)) if word not in FUNCTION and word not in present
        )
        if found:
            prior = _prior(sentence, place, priors, dated != sentence)
            yield Fact(place, dated, sentence, found, _names(sentence, present), prior)


def _pieces(text: str, earlier: bool) -> list[str]:
    if earlier:
        return [piece for line in sentences(text) for piece in line.split("; ")]
    body, picture, rest = text.partition("[image: ")
    return sentences(body) + ([f"[image: {' '.join(rest.split())}"] if picture else [])


def _prior(sentence: str, place: Place, priors: Priors, dated: bool) -> float:
    prior = priors.dated if dated else 1.0
    if place.role == "earlier":
        return prior * priors.earlier
    if place.role in ("tool", "bash"):
        return prior * priors.tool
    if sentence.startswith("[image: "):
        return prior * priors.picture
    if sentence.endswith(("?", "？")):
        prior *= priors.question
    if _OWN.search(sentence):
        return prior * priors.own
    return prior * priors.yours if _YOURS.search(sentence) else prior


def _names(sentence: str, present: frozenset[str]) -> tuple[str, ...]:
    """Words written with a capital inside the sentence, or quoted: names and titles."""
    found: dict[str, None] = {}
    for name in _NAME.findall(sentence):
        if name.lower() not in present and name != "I" and not name.startswith(("I'", "I’")):
            found.update(dict.fromkeys(words(name)))
    return tuple(found)


def dense_text(fact: Fact, present: frozenset[str]) -> str:
    """The fact for a model: dates in place of what they replace, no function words."""
    if fact.place.role == "earlier":
        return fact.text
    text = fact.said
    if fact.place.day:
        text = dates.resolve(text, fact.place.day, lambda _, day: day)
    return dense(_PICTURE.sub("[image: ", text), present)
