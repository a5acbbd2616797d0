"""Putting a digest together: who gets how much, what is chosen, and the promise that it fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from refold.digest.facts import Fact, decides, dense_text, facts
from refold.digest.lines import fitted, lines
from refold.digest.sections import SHARES, TITLES, Carried, Form, Name, Section, cut_lines, cut_words, parse
from refold.digest.select import PIECE, best, ranked, weigh
from refold.digest.source import Source
from refold.messages import searchable
from refold.preserve import identifiers
from refold.protocols import Steps, TokenCounter
from refold.text.words import terms

CANDIDATES = 1_500
"""At least so many facts are weighed against each other; more with a larger budget."""
_SPARE = 24
"""Tokens left over that are worth another look at the identifiers."""
_ORDER: tuple[Name, ...] = tuple(TITLES)
_HEADING = 4
"""Tokens of a title and the empty line before it, at most."""


class Material:
    """What a digest is made of, read once for both forms."""

    def __init__(
        self, sources: Sequence[Source], previous: str, carried: Carried, kept: Sequence[Source]
    ) -> None:
        self.sources, self.carried, self.kept = sources, carried, kept
        self.earlier = parse(previous)

        self.facts: list[Fact] = []
        self.speakers: frozenset[str] = frozenset()
        self.worth: dict[str, float] = {}
        self.names: list[identifiers.Identifier] = []
        self._read = False

    def read(self) -> Steps[None]:
        """Read the sources, unless that was done."""
        if self._read:
            return
        earlier = "\n".join(filter(None, (self.earlier.get("decisions"), self.earlier.get("facts"))))
        self.facts, self.speakers = yield from facts(self.sources, earlier)
        self.worth = yield from weigh(self.facts)
        messages = [source.message for source in self.sources]
        found = yield from identifiers.collecting(messages, self.earlier.get("identifiers", ""))
        self.names = identifiers.ranked(found.values(), len(messages))
        self._read = True
        yield

    @cached_property
    def works(self) -> bool:
        """Whether tools were used: then there is a task, and its goal and decisions stand apart."""
        return any(source.message.calls for source in self.sources) or "goal" in self.earlier

    @cached_property
    def kept_text(self) -> str:
        return "\n".join(searchable(source.message) for source in self.kept)


def compose(material: Material, budget: int, counter: TokenCounter, form: Form) -> Steps[tuple[Section, ...]]:
    """The sections of one form; rendered together they never pass `budget`."""
    yield from material.read()
    room = budget
    for _ in range(4):
        made = yield from _Composition(material, room, counter.text, form).made()
        over = counter.text("\n\n".join(section.render() for section in made)) - budget
        if over <= 0:
            return made
        room -= over + 2
    return ()


class _Composition:
    """One attempt to fill `budget`. Sections are made in the order of their claim to the room."""

    def __init__(self, material: Material, budget: int, count: Callable[[str], int], form: Form) -> None:
        self.material, self.budget, self.count, self.form = material, budget, count, form
        self.room = budget
        self.texts: dict[Name, str] = {}
        self.used: set[int] = set()
        self.rendered: dict[int, str] = {}

    def made(self) -> Steps[tuple[Section, ...]]:
        self._carried()
        if self.material.works:
            yield from self._goal()
            yield from self._decisions()
        yield
        self._identifiers(int(self.room * SHARES["identifiers"]))
        yield
        yield from self._facts()
        if self.room > _SPARE:
            self._identifiers(self.room + self.count(self.texts.pop("identifiers", "")))
        return tuple(
            Section(name, self.texts[name], self.count(self.texts[name]))
            for name in _ORDER
            if name in self.texts
        )

    def _add(self, name: Name, text: str) -> None:
        if text:
            self.texts[name] = text
            self.room -= self.count(text) + _HEADING

    def _carried(self) -> None:
        given = self.material.carried
        texts: dict[Name, str] = {"constraints": given.constraints, "pins": given.pins, "trail": given.trail}
        if self.material.works:  # what the turns of a plain conversation were about is what the facts say
            texts["history"] = given.history
        for name, text in texts.items():
            text = text or self.material.earlier.get(name, "")
            most = min(self.room - _HEADING, int(self.budget * SHARES[name]))
            self._add(name, cut_lines(text, most, self.count, newest=name == "history"))

    def _goal(self) -> Steps[None]:
        most = min(self.room - _HEADING, int(self.budget * SHARES["goal"]))
        found = [fact for fact in self.material.facts if fact.place.role == "user"]
        ends = [found[0].place, found[-1].place] if found else []
        earlier = cut_words(self.material.earlier.get("goal", ""), most // 2, self.count)
        if earlier:
            ends = ends[1:]
            most -= self.count(earlier) + 1
        wanted = [fact for fact in found if fact.place in ends]
        chosen, text = yield from self._chosen(wanted, most)
        self.used.update(map(id, chosen))
        self._add("goal", "\n".join(filter(None, (earlier, text))))

    def _decisions(self) -> Steps[None]:
        most = min(self.room - _HEADING, int(self.budget * SHARES["decisions"]))
        found: list[Fact] = []
        for number, fact in enumerate(self.material.facts):
            if number % PIECE == 0:
                yield
            told = id(fact) not in self.used and fact.place.role in ("user", "assistant", "earlier")
            if told and decides(fact.said):
                found.append(fact)
        chosen, text = yield from self._chosen(found, most)
        self.used.update(map(id, chosen))
        self._add("decisions", text)

    def _identifiers(self, most: int) -> None:
        present = "\n".join(self.texts.values())
        hidden = frozenset(name for name, _ in identifiers.identifiers(self.material.kept_text))
        self._add(
            "identifiers",
            identifiers.index(self.material.names, most - _HEADING, self.count, present, hidden),
        )

    def _facts(self) -> Steps[None]:
        found = [fact for fact in self.material.facts if id(fact) not in self.used]
        covered = terms(self.material.kept_text[-60_000:])
        _, text = yield from self._chosen(found, self.room - _HEADING, covered=covered)
        self._add("facts", text)

    def _chosen(
        self, found: Sequence[Fact], most: int, covered: Iterable[str] = ()
    ) -> Steps[tuple[list[Fact], str]]:
        """The facts worth most within `most` tokens, and their lines."""
        if most <= 0 or not found:
            return [], ""
        pool = yield from best(found, self.material.worth, max(CANDIDATES, most // 4))
        order = yield from ranked(pool, self.material.worth, self._cost, most, dict.fromkeys(covered))
        joint = " " if self.form == "readable" else "; "
        return (yield from fitted(order, lambda some: lines(some, self._text, joint, most), self.count, most))

    def _text(self, fact: Fact) -> str:
        text = self.rendered.get(id(fact))
        if text is None:
            text = fact.text if self.form == "readable" else dense_text(fact, self.material.speakers)
            self.rendered[id(fact)] = text
        return text

    def _cost(self, fact: Fact) -> int:
        return self.count(" " + self._text(fact))
