"""What a digest reads: messages and the lines of an earlier digest, a bounded amount of their text; and every
sentence of it that could stand in a digest, with who said it, on which day, and how telling its form is."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import msgspec

from refold.facts.words import typed
from refold.messages import Assistant, Message, User, spoken
from refold.text import dates
from refold.text.patterns import lazy_pattern
from refold.text.sentences import speaker_of, split_sentences
from refold.text.truncate import level, middle
from refold.text.words import terms

_MAX_READ_CHARS = 600_000
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
    most = level(caps, _MAX_READ_CHARS)
    return [middle(text, min(cap, most), "\n", 2 / 3) for text, cap in zip(raw, caps, strict=True)]


def _said(message: Message) -> str:
    """What people and the agent said. Output of tools is bulk: how a call ended stands among what was done,
    and what the agent made of it in the agent's words."""
    match message:
        case User():
            return typed(message)
        case Assistant():
            # Without fenced blocks: what the agent wrote stands in the files, what it meant around it.
            return "\n".join(spoken(message).split("```")[::2])
        case _:
            return ""


_KEYED = re.compile(r"\s\[([a-z2-7]{7})\]$")
_LEADING = re.compile(r"\d{1,2} [A-Z][a-z]{2,8} \d{4} ")

_SPOKEN = 2.0
"""Seconds from one message of a person to the next, at least, on average."""
ROLES = {"user": "User", "assistant": "Agent", "tool": "Tool", "bash": "User ran", "system": "System"}
"""What speakers without a name are called."""


@dataclass(frozen=True, slots=True)
class LineContext:
    """Where a line was said. `order` sorts; lines of an earlier digest (role `earlier`) come first."""

    order: int
    speaker: str
    role: str
    day: date | None = None
    key: str = ""


def placed(sources: Sequence[Source]) -> list[tuple[LineContext, str]]:
    """Each message without its date line and speaker's name, and where it stands."""
    bodies = texts(sources)
    named, spoken = _named_roles(sources, bodies), not _written_down_at_once(sources)
    day: date | None = None
    rows: list[tuple[LineContext, str]] = []
    for order, (source, body) in enumerate(zip(sources, bodies, strict=True)):
        role = source.message.role
        if role in ("user", "assistant"):
            when, end = dates.heading(body)  # a first line that is only a date
            day, body = (when.date, body[end:]) if when.date else (day, body.lstrip())
        speaker = source.speaker
        if speaker is None and role in named:
            speaker, start = speaker_of(body)
            body = body[start:]
        here = day or (dates.of_time(source.time).date if spoken else None)
        rows.append((LineContext(order, speaker or ROLES[role], role, here, source.key), body))
    return rows


def _written_down_at_once(sources: Sequence[Source]) -> bool:
    """Did the messages of people come faster than anybody speaks? Their times are not those of what was said,
    and "yesterday" is any day. (One time for all of them is the time of the conversation.)"""
    times = [x.time for x in sources if x.time is not None and x.message.role == "user"]
    return len({*times}) > 1 and max(times) - min(times) < _SPOKEN * (len(times) - 1)


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


def earlier(previous: str) -> Iterator[tuple[LineContext, str]]:
    """The lines of an earlier digest, or of another writer's summary, before everything else."""
    day: date | None = None
    lines = [line.strip() for line in previous.split("\n") if line.strip()]
    for number, line in enumerate(lines):
        match = _KEYED.search(line[-12:])
        key = match.group(1) if match else ""
        line = line[: -len(match.group())] if match else line
        line = line.lstrip("-*• ")
        dated = _LEADING.match(line)
        if dated and (found := dates.read_date(dated.group()).date):
            day, line = found, line[dated.end() :]
        speaker, start = speaker_of(line)
        yield LineContext(number - len(lines), speaker, "earlier", day, key), line[start:]


_OWN = re.compile(r"\b(?:i|we|my|our|me|us)\b|我|咱", re.I)
_YOURS = re.compile(r"\b(?:you|your)\b|你|您", re.I)
_INTENT = re.compile(
    r"(?:now |first,? |next,? |then,? |ok(?:ay)?,? |and )*(?:let me|let's|i'll|i will|now,? i)\b", re.I
)
_DECISION = lazy_pattern(
    r"\b(?:decid|agreed?\b|settled on"
    r"|(?:let's|we'll|i'll|will|should) (?:use|go with|keep|switch|drop)"
    r"|going with|chose|chosen|instead of|switched to|the plan is|root cause|turns out|conclusion|confirmed)"
    r"|决定|改用|采用|选择|方案|结论|原因是|确认",
    re.I,
)
_CODE_STARTS = (
    "import ", "export ", "const ", "def ", "class ", "return ", "function ", "public ", "private ",
    "if (", "for (", ")", "}", "]", "* ", "| ", "+ ", "// ",
)  # fmt: skip
_NAME = lazy_pattern(r"(?<=[\w,;:'’)\"“] )[\"“(]?([A-Z][\w'’-]*|[\"“][^\"“”]{2,60}[\"”])")


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


@dataclass(frozen=True, slots=True)
class Priors:
    """How telling a sentence's form is, before its words are weighed. Tuned leaving one conversation out."""

    question: float = 0.3
    remark: float = 0.6
    """ "[laughs]", "[a picture of a dog]": wholly in brackets, about the talk rather than in it."""
    own: float = 1.5
    yours: float = 0.7
    dated: float = 1.6
    answer: float = 1.3
    """Said right after a question."""
    lead: float = 1.2
    """The first sentence of a message."""
    intent: float = 0.4
    """ "Let me look": what is about to be done is told by what came of it."""
    decision: float = 1.5
    """A choice or a finding, in a piece of work."""
    code: float = 0.25
    request: float = 1.6
    """The user's words where there is work to do."""
    newest: float = 1.8
    """The end of the work against its start: later findings replace earlier ones."""
    earlier: float = 1.5
    """It was chosen before: the next pass should not forget what this one kept."""


PRIORS = Priors()


def facts(sources: Sequence[Source], previous: str = "") -> tuple[list[Fact], frozenset[str]]:
    """All candidates in order, and the lower-case names of those who speak."""
    rows = placed(sources)
    before = list(earlier(previous))
    present = frozenset(
        place.speaker.lower() for place, _ in rows + before if place.speaker not in ROLES.values()
    )
    works = any(source.message.calls for source in sources)
    reader = _Reader(present, len(rows) if works else 0)
    fresh = list(reader.read(rows))
    return [*_unsaid(reader.read(before), fresh), *fresh], present


def _unsaid(before: Iterable[Fact], fresh: Sequence[Fact]) -> Iterator[Fact]:
    """The facts of an earlier digest that no sentence at hand says in full."""
    before = list(before)
    if not before:
        return
    having: defaultdict[str, list[Fact]] = defaultdict(list)
    for fact in fresh:
        having[max(fact.words, key=len)].append(fact)
    for old in before:
        wanted = set(old.words)
        if not any(wanted.issubset(fact.words) for word in old.words for fact in having[word][:50]):
            yield old


class _Reader:
    """Turns placed text into facts. `work` is the number of messages where tools are used, else 0."""

    def __init__(self, present: frozenset[str], work: int) -> None:
        self.present, self.work = present, work
        self.silent = frozenset(term for name in present for term in terms(name))

    def read(self, rows: Iterable[tuple[LineContext, str]]) -> Iterator[Fact]:
        asked = False
        for place, text in rows:
            factor = self._standing(place) * (PRIORS.answer if asked else 1.0)
            for number, (said, dated) in enumerate(_sentences(text, place)):
                lead = PRIORS.lead if number == 0 else 1.0
                yield from self._fact(place, number, said, dated, factor * lead)
            asked = text.rstrip().endswith(("?", "？")) and place.role in ("user", "assistant")

    def _standing(self, place: LineContext) -> float:
        """What a message's role and age are worth in a piece of work; in a conversation all are equal."""
        if not self.work or place.role == "earlier":
            return 1.0
        role = PRIORS.request if place.role == "user" else 1.0
        return role * PRIORS.newest ** (place.order / self.work - 0.5)

    def _fact(self, place: LineContext, number: int, said: str, dated: str, factor: float) -> Iterator[Fact]:
        # Tuples in order of appearance: sums over sets of strings differ from process to process.
        found = [term for term in terms(dated) if term not in self.silent]
        if not found or (len(found) == 1 and found[0].isalpha() and place.role != "earlier"):
            return  # one plain word, "Thanks, Maria!", is an answer, not a fact
        prior = factor * self._prior(said, place) * (PRIORS.dated if dated != said else 1.0)
        yield Fact(place, number, dated, said, tuple(found), tuple(self._names(said)), prior)

    def _prior(self, said: str, place: LineContext) -> float:
        if place.role == "earlier":
            return PRIORS.earlier
        if said[0] == "[" and said[-1] == "]":
            return PRIORS.remark
        prior = PRIORS.question if said.endswith(("?", "？")) else 1.0
        if _is_code(said):
            prior *= PRIORS.code
        if _INTENT.match(said):
            prior *= PRIORS.intent
        if self.work and _DECISION.search(said):
            prior *= PRIORS.decision
        if _OWN.search(said):
            return prior * PRIORS.own
        return prior * PRIORS.yours if _YOURS.search(said) else prior

    def _names(self, said: str) -> Iterator[str]:
        """Words written with a capital inside the sentence, or quoted: names and titles."""
        for name in _NAME.findall(said):
            if name.lower() not in self.present and name != "I" and not name.startswith(("I'", "I’")):
                yield from terms(name)


def _is_code(said: str) -> bool:
    return (
        said[-1] in ";{}([," or said.startswith(_CODE_STARTS) or "=>" in said or said.endswith((");", "):"))
    )


def _sentences(text: str, place: LineContext) -> Iterator[tuple[str, str]]:
    """Each sentence as said, and with what it says of time made absolute."""
    if place.role == "earlier":
        for line in split_sentences(text):
            yield from ((piece, piece) for piece in line.split("; "))
        return
    day = place.day if place.day and dates.relative(text) else None
    for said in split_sentences(text):
        yield said, dates.resolve(said, day, lambda time, when: f"{time} ({when})") if day else said


def dense_text(fact: Fact, present: frozenset[str]) -> str:
    """The fact for a model: dates in place of what they replace, no function words."""
    text = fact.said
    if fact.place.day and fact.place.role != "earlier":
        text = dates.resolve(text, fact.place.day, lambda _, when: when)
    return dense(text, present)


# ── the dense form of a sentence ────────────────────────────────────────────────────────────────

_DEGREE_WORDS = """
as so very just also really actually basically literally definitely totally absolutely certainly pretty quite
kinda sorta super
"""
_DROPPED = """
a an the am is are and in on at to of i my i'm i've im ive
oh ah hey hi hello wow haha lol yeah yep yup well okay ok thanks thank please btw anyway honestly
"""
_NEGATION_WORDS = """
not no never nor none nobody nothing neither without cannot hardly barely
dont doesnt didnt isnt wasnt arent cant wont
"""
_DEGREES, _NEGATIONS = frozenset(_DEGREE_WORDS.split()), frozenset(_NEGATION_WORDS.split())
"""Words of degree stay behind a negation in the same clause: "not just slow" is slow."""
_DROP = _DEGREES.union(_DROPPED.split())
"""Whoever is meant beside the speaker, and what tells the past, stays; so do "be" and "by", without which
"can be asked" and "blocked by it" say something else."""
_OPENING = frozenset({"well", "ok", "okay"})
"""Fillers where a clause begins; elsewhere they say how it went."""
_CLOSING = frozenset({"in", "on", "at", "to", "of", "so", "pretty"})
"""They stay where a clause ends with them: "turn it on", "I think so"."""
_TOGETHER = frozenset({"a few", "a little", "at all", "as well", "so far", "just because"})
"""The second word alone says something else."""
_SHORTENED = {"i'll": "will", "i'd": "would"}
"""Contractions of the speaker whose verb is the tense."""

_EDGE = ',.;:!?()"“”…~'
_STOPS = ",.;:!?…)"
"""A clause ends with one of them."""
_TOKEN = re.compile(r'["“][^"“”\n]{1,120}["”]\S*|\S+')
"""A word, or a quotation, which stays as it is."""
_CODE = re.compile(r"[`_/\\={}<>#@|]|\$[A-Za-z_{(]|[A-Za-z]\.[A-Za-z]|\w\(")
_MARKS = str.maketrans({"’": "'", "‘": "'"})
_CHINESE_FILLERS = lazy_pattern(
    r"(?<![呢吧啊呀哦嗯啦嘛])[呢吧啊呀哦嗯啦嘛]++(?=[，。！？；,.!?]|$)|(?:其实|真的|就是说|的话)"
)
_GREETINGS = ("hey", "hi", "hello", "thanks", "wow", "bye", "congrats")


def dense(sentence: str, forms_of_address: frozenset[str] = frozenset()) -> str:
    """`sentence` without what carries no fact: names, numbers, negations, tenses, other persons, quotations,
    code and all other words stay; articles, the speaker's own pronouns, copulas, prepositions outside of
    names, fillers and interjections go, where what is said stays the same. A reading model answers as well
    from this. `forms_of_address`: lower-case names of those present, dropped only where set off by
    punctuation ("Thanks, Maria!")."""
    if _CODE.search(sentence):
        return sentence
    kept: list[str] = []
    tokens = _TOKEN.findall(_CHINESE_FILLERS.sub("", sentence.translate(_MARKS)))
    begins, denied = True, False
    for position, token in enumerate(tokens):
        core = token.strip(_EDGE)
        low = core.lower()
        small = low in _DROP and _is_plain(core, position)
        goes = not core or (small and not _is_needed(tokens, position, begins=begins, denied=denied))
        if goes:
            if kept and token[-1] in ";:," and kept[-1][-1] not in ",;:.":
                kept[-1] += ","
        elif low in _SHORTENED and _is_plain(core, position):
            kept.append(_SHORTENED[low])
        elif low not in forms_of_address or not _is_address(tokens, position):
            kept.append(_trimmed(token, core))
        ends = token[-1] in _STOPS
        begins = ends or (begins and goes)
        denied = not ends and (denied or low in _NEGATIONS or low.endswith("n't"))
    return " ".join(kept).strip(" ,;:.!?")


def _is_plain(core: str, position: int) -> bool:
    """Not a name that looks like a small word: "US", "IT", the "A" of a title."""
    return core.islower() or core[:2] in ("I", "I'") or (position == 0 and core == core.capitalize())


def _is_needed(tokens: Sequence[str], position: int, *, begins: bool, denied: bool) -> bool:
    """A small word without which something else would be said. `begins`: nothing of its clause is said yet;
    `denied`: there is a negation in it."""
    before, word, after = (
        tokens[at].strip(_EDGE).lower() if 0 <= at < len(tokens) else ""
        for at in (position - 1, position, position + 1)
    )
    ends = not after or tokens[position][-1] in _STOPS
    return (
        (denied and word in _DEGREES)
        or (not begins and (word in _OPENING or (ends and word in _CLOSING)))
        or f"{word} {after}" in _TOGETHER
        or f"{before} {word}" in _TOGETHER
        or _joins(tokens, position)
    )


def _joins(tokens: Sequence[str], position: int) -> bool:
    """A small word inside of a name, "Lord of the Rings", between two numbers, or of "Anna and I"."""
    before, after = tokens[:position], tokens[position + 1 :]
    if tokens[position] == "I":
        return before[-1:] == ["and"]
    beside = [next((word for word in side if word not in _DROP), "") for side in (before[::-1], after)]
    names, numbers = (all(map(alike, beside)) for alike in (_begins_large, _is_number))
    return after[:1] == ["I"] or names or numbers


def _begins_large(word: str) -> bool:
    return word[:1].isupper()


def _is_number(word: str) -> bool:
    return word.lstrip("$€£(")[:1].isdigit()


def _is_address(tokens: list[str], position: int) -> bool:
    closed = tokens[position][-1] in ",.!?" or position + 1 == len(tokens)
    before = tokens[position - 1] if position else ","
    return closed and (before[-1] in ",!." or before.lower() in _GREETINGS)


def _trimmed(token: str, core: str) -> str:
    """The word with a comma after it where there was a stop (lists need it); quotes and `?` stay."""
    inner = token.rstrip(".!?,;:")
    stop = "?" if "?" in token[len(inner) :] else "," if token[-1] in ",;:" else ""
    quoted = inner and (inner[0] in '"“' or inner[-1] in '"”')
    return (inner if quoted else core) + stop
