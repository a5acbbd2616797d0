"""What the digest of a conversation without tools reads: messages, a bounded amount of their text; and every
sentence of it that could stand there, with who said it, on which day, and how telling its form is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import date

import msgspec

from refold.facts.words import typed
from refold.messages import Assistant, Message, User, spoken
from refold.text import dates
from refold.text.patterns import lazy_pattern
from refold.text.sentences import speaker_of, split_sentences
from refold.text.truncate import middle
from refold.text.words import terms

_MOST_CHARS = 12_000
"""Characters of a message that are looked at for facts."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One message and what only its place gives it. `time` is seconds since 1970; `key` brings it back."""

    message: Message
    id: str = ""
    key: str = ""
    time: float | None = None


def _said(message: Message) -> str:
    """What people and the agent said, cut in the middle where it is long."""
    match message:
        case User():
            return middle(typed(message), _MOST_CHARS, "\n", 2 / 3)
        case Assistant():
            # Without fenced blocks: what the agent wrote stands in the files, what it meant around it.
            return middle("\n".join(spoken(message).split("```")[::2]), _MOST_CHARS, "\n", 2 / 3)
        case _:
            return ""


_SPOKEN = 2.0
"""Seconds from one message of a person to the next, at least, on average."""
_NAMED = 3
"""Messages that begin with a name, as in `Maria: …`: a single one proves nothing."""
ROLES = {"user": "User", "assistant": "Agent"}
"""What speakers without a name are called."""


@dataclass(frozen=True, slots=True)
class LineContext:
    """Where a line was said. `order` sorts."""

    order: int
    speaker: str
    day: date | None = None
    key: str = ""


def placed(sources: Sequence[Source]) -> list[tuple[LineContext, str]]:
    """Each message without its date line and speaker's name, and where it stands."""
    bodies, spoken = [_said(source.message) for source in sources], not _written_down_at_once(sources)
    headings = [dates.heading(body) for body in bodies]  # a first line that is only a date
    names = Counter(speaker_of(body, end)[0] for body, (_, end) in zip(bodies, headings, strict=True))
    day: date | None = None
    rows: list[tuple[LineContext, str]] = []
    for order, (source, body, (when, end)) in enumerate(zip(sources, bodies, headings, strict=True)):
        if not body:
            continue
        day = when.date or day
        speaker, start = speaker_of(body, end)
        if not speaker or names[speaker] < _NAMED:
            speaker, start = ROLES[source.message.role], end
        here = day or (dates.of_time(source.time).date if spoken else None)
        rows.append((LineContext(order, speaker, here, source.key), body[start:].lstrip()))
    return rows


def _written_down_at_once(sources: Sequence[Source]) -> bool:
    """Did the messages of people come faster than anybody speaks? Their times are not those of what was said,
    and "yesterday" is any day. (One time for all of them is the time of the conversation.)"""
    times = [x.time for x in sources if x.time is not None and x.message.role == "user"]
    return len({*times}) > 1 and max(times) - min(times) < _SPOKEN * (len(times) - 1)


_OWN = re.compile(r"\b(?:i|we|my|our|me|us)\b|我|咱", re.I)
_NAME = lazy_pattern(r"(?<=[\w,;:'’)\"“] )[\"“(]?([A-Z][\w'’-]*|[\"“][^\"“”]{2,60}[\"”])")
_QUESTION, _REMARK, _ANSWER, _OF_ONESELF, _DATED = 0.3, 0.6, 1.3, 1.5, 1.6
"""How telling a sentence's form is, before its words are weighed: what is asked; what stands in brackets,
"[laughs]"; what follows a question; what people say of themselves; what has a date. Tuned leaving one
conversation out."""


@dataclass(frozen=True, slots=True, eq=False)
class Fact:
    """A sentence: as `said`, and as `text` with relative dates resolved. `prior`: how telling its form is."""

    place: LineContext
    number: int
    """Of the sentence in its message."""
    text: str
    said: str
    words: tuple[str, ...]
    names: tuple[str, ...]
    prior: float


def facts(sources: Sequence[Source]) -> list[Fact]:
    """All candidates in order."""
    rows = placed(sources)
    speakers = frozenset(place.speaker.lower() for place, _ in rows) - {
        role.lower() for role in ROLES.values()
    }
    silent = frozenset(term for name in speakers for term in terms(name))
    made, asked = list[Fact](), False
    for place, text in rows:
        standing = _ANSWER if asked else 1.0
        day = place.day if place.day and dates.relative(text) else None
        for number, said in enumerate(split_sentences(text)):
            dated = dates.resolve(said, day, lambda time, when: f"{time} ({when})") if day else said
            # Tuples in order of appearance: sums over sets of strings differ from process to process.
            words = tuple(term for term in terms(dated) if term not in silent)
            # One plain word, "Thanks, Maria!", is an answer, not a fact.
            if len(words) > 1 or (words and not words[0].isalpha()):
                prior = standing * _prior(said) * (_DATED if dated != said else 1.0)
                made.append(Fact(place, number, dated, said, words, tuple(_names(said, speakers)), prior))
        asked = text.rstrip().endswith(("?", "？"))
    return made


def _prior(said: str) -> float:
    if said[0] == "[" and said[-1] == "]":
        return _REMARK
    prior = _QUESTION if said.endswith(("?", "？")) else 1.0
    return prior * _OF_ONESELF if _OWN.search(said) else prior


def _names(said: str, speakers: Set[str]) -> Iterator[str]:
    """Words written with a capital inside the sentence, or quoted: names and titles."""
    for name in _NAME.findall(said):
        if name.lower() not in speakers and name != "I" and not name.startswith(("I'", "I’")):
            yield from terms(name)


def dense_text(fact: Fact) -> str:
    """The fact for a model: dates in place of what they replace, small words left out."""
    day = fact.place.day
    return dense(dates.resolve(fact.said, day, lambda _, when: when) if day else fact.said)


# ── the dense form of a sentence ────────────────────────────────────────────────────────────────

_OPENERS = "oh ah hey hi hello wow haha lol yeah yep yup ok okay please btw anyway honestly so just"
_FUNCTION_WORDS = "a an the am is are and in on at to of my also really"
_INTERJECTIONS, _SMALL_WORDS = frozenset(_OPENERS.split()), frozenset(_FUNCTION_WORDS.split())
_SPEAKER = frozenset({"I", "I'm", "I’m", "I've", "I’ve"})
_OPPOSITE_ALONE = frozenset({"few", "little", "all", "far", "because"})
"""Behind a small word these say something else with it: "a few", "at all", "so far"."""
_MARKS = ".,!?…;:"
_QUOTATION = re.compile(r'(["“][^"“”\n]{1,120}["”])')
_CODE = re.compile(r"[`_/\\={}<>#@|]|\$[A-Za-z_{(]|[A-Za-z]\.[A-Za-z]|\w\(")


def dense(sentence: str) -> str:
    """`sentence` without articles, the speaker's own pronouns, copulas, prepositions and interjections where
    a word in small letters follows: not before names and numbers, nor at the end of a clause ("turn it on").
    Quotations and sentences with code stay as they are. A reading model answers as well from this."""
    if _CODE.search(sentence):
        return sentence
    parts = _QUOTATION.split(sentence)
    for number in range(0, len(parts), 2):
        words = _without_small_words(parts[number].split(), opens=number == 0)
        before = " " if parts[number][:1].isspace() else ""
        parts[number] = f"{before}{' '.join(words)}{' ' if parts[number][-1:].isspace() else ''}"
    return " ".join("".join(parts).split()).strip(" ,;:.!")


def _without_small_words(words: Sequence[str], *, opens: bool) -> list[str]:
    """`opens`: the sentence begins with these words."""
    if opens:
        is_opening = (word.rstrip(_MARKS).lower() in _INTERJECTIONS for word in words)
        first = next((at for at, is_one in enumerate(is_opening) if not is_one), 0)
        if first and words[first].rstrip(_MARKS).lower() not in _OPPOSITE_ALONE:
            words = words[first:]
    kept: list[str] = []
    after = ""  # the next word that is not small
    for at in range(len(words) - 1, -1, -1):
        word, before = words[at], words[at - 1] if at else ""
        is_small = (
            word in _SMALL_WORDS
            or (word in _SPEAKER and before != "and")
            or (opens and at == 0 and word.lower() in _SMALL_WORDS)
        )
        if is_small and "a" <= after[:1] <= "z" and after.rstrip(_MARKS) not in _OPPOSITE_ALONE:
            continue
        kept.append(word)
        after = after if is_small else word
    return kept[::-1]
