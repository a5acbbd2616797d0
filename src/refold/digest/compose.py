"""Putting a digest together: who gets how much, what is chosen, the lines it stands in, and the promise that
it fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import groupby

from refold.digest.facts import Fact, dense_text, facts
from refold.digest.sections import SHARES, TITLES, Form, Name, Section, cut_lines, cut_words, parse
from refold.digest.select import best, ranked, weigh
from refold.digest.source import Source
from refold.messages import searchable
from refold.preserve.lines import acts
from refold.protocols import TokenCounter
from refold.text.dates import written
from refold.text.words import terms

CANDIDATES = 1_500
"""At least so many facts are weighed against each other; more with a larger budget."""
_HEADING = 4
"""Tokens of a title and the empty line before it, at most."""
KEY_SHARE = 0.04
"""Keys may take this part of a section; with less room they stand on fewer lines."""
KEY_TOKENS = 8


class Material:
    """What a digest is made of, read once for both forms."""

    def __init__(self, sources: Sequence[Source], previous: str, kept: Sequence[Source]) -> None:
        self.sources, self.kept = sources, kept
        self.earlier = parse(previous)
        self.facts, self.speakers = facts(sources, self.earlier.get("facts", ""))
        self.worth = weigh(self.facts)

    @cached_property
    def works(self) -> bool:
        """Whether tools were used: then there is a task, and its goal and what was done stand apart."""
        return any(source.message.calls for source in self.sources) or "goal" in self.earlier

    @cached_property
    def kept_text(self) -> str:
        return "\n".join(searchable(source.message) for source in self.kept)


def compose(material: Material, budget: int, counter: TokenCounter, form: Form) -> tuple[Section, ...]:
    """The sections of one form; rendered together they never pass `budget`."""
    room = budget
    for spared in (0, 2, 10, 50):  # percent more: what gives way is a line or nothing
        made = _sections(_Choice(material, counter.text, form), room)
        over = counter.text("\n\n".join(section.render() for section in made)) - budget
        if over <= 0:
            return made
        room -= over + 2 + budget * spared // 100
    return ()


def _sections(choice: _Choice, budget: int) -> tuple[Section, ...]:
    """One attempt to fill `budget`: sections in the order of their claim to the room."""
    material, count = choice.material, choice.count
    texts: dict[Name, str] = {}
    room = budget
    for name in TITLES:
        if name != "facts" and not material.works:
            continue
        most = min(room - _HEADING, int(budget * SHARES.get(name, 1.0)))
        texts[name] = {"goal": _goal, "done": _done, "facts": _facts}[name](choice, most)
        room -= count(texts[name]) + _HEADING if texts[name] else 0
    return tuple(Section(name, text, count(text)) for name, text in texts.items() if text)


def _goal(choice: _Choice, most: int) -> str:
    """The goal that an earlier digest names; of what the user said, the first of it and the newest."""
    found = [fact for fact in choice.material.facts if fact.place.role == "user"]
    ends = [found[0].place, found[-1].place] if found else []
    earlier = cut_words(choice.material.earlier.get("goal", ""), most // 2, choice.count)
    if earlier:
        ends = ends[1:]
        most -= choice.count(earlier) + 1
    text = choice.text([fact for fact in found if fact.place in ends], most)
    return "\n".join(filter(None, (earlier, text)))


def _done(choice: _Choice, most: int) -> str:
    """What an earlier digest says was done; then what was called and how it ended, the newest of it."""
    left, rows = most, list[str]()
    for row in acts([source.message for source in choice.material.sources]):
        left -= choice.count(row) + 2
        if left < 0:
            break
        rows.append(f"- {row}")
    text = "\n".join(filter(None, (choice.material.earlier.get("done"), *rows[::-1])))
    return cut_lines(text, most, choice.count, newest=True)


def _facts(choice: _Choice, most: int) -> str:
    """What adds most to everything else that stays in the view."""
    found = [fact for fact in choice.material.facts if id(fact) not in choice.used]
    return choice.text(found, most, covered=terms(choice.material.kept_text[-60_000:]))


class _Choice:
    """Which facts are told, in one form: each once."""

    def __init__(self, material: Material, count: Callable[[str], int], form: Form) -> None:
        self.material, self.count, self.form = material, count, form
        self.used: set[int] = set()
        self._told: dict[int, str] = {}

    def text(self, found: Sequence[Fact], most: int, covered: Iterable[str] = ()) -> str:
        """The lines of the facts worth most within `most` tokens. What is in `covered` words counts less."""
        if most <= 0 or not found:
            return ""
        pool = best(found, self.material.worth, max(CANDIDATES, most // 4))
        enough = most + most // 8  # in lines they may cost less than one by one
        order = ranked(pool, self.material.worth, self._cost, enough, dict.fromkeys(covered))
        joint = " " if self.form == "readable" else "; "
        chosen, text = fitted(order, lambda some: lines(some, self._tell, joint, most), self.count, most)
        self.used.update(map(id, chosen))
        return text

    def _tell(self, fact: Fact) -> str:
        text = self._told.get(id(fact))
        if text is None:
            text = fact.text if self.form == "readable" else dense_text(fact, self.material.speakers)
            self._told[id(fact)] = text
        return text

    def _cost(self, fact: Fact) -> int:
        return self.count(" " + self._tell(fact))


def lines(facts: Sequence[Fact], text: Callable[[Fact], str], joint: str, budget: int) -> str:
    """`facts` in the order of the conversation."""
    in_order = sorted(facts, key=lambda fact: (fact.place.order, fact.number))
    groups = [(place, list(group)) for place, group in groupby(in_order, key=lambda fact: fact.place)]
    stride = key_stride(len(groups), budget)
    rendered: list[str] = []
    day, last_key = None, -stride
    for number, (place, group) in enumerate(groups):
        said = joint.join(filter(None, (text(fact) for fact in group)))
        if not said:
            continue
        front = f"{written(place.day)} " if place.day and place.day != day else ""
        day = place.day or day
        name = f"{place.speaker}: " if place.speaker else ""
        # Keys of an earlier digest stay: nothing else leads back to what it stood for.
        keyed = place.key and stride and (place.role == "earlier" or number - last_key >= stride)
        last_key = number if keyed else last_key
        rendered.append(f"{front}{name}{said}{f' [{place.key}]' if keyed else ''}")
    return "\n".join(rendered)


def key_stride(groups: int, budget: int) -> int:
    """A key on every so many lines."""
    affordable = int(budget * KEY_SHARE / KEY_TOKENS)
    return -(-groups // affordable) if affordable else 0


def fitted(
    ranked: Sequence[Fact], render: Callable[[Sequence[Fact]], str], count: Callable[[str], int], budget: int
) -> tuple[list[Fact], str]:
    """The longest prefix of `ranked` whose rendering fits, and that rendering."""
    # Not quite monotonic (a key may move to another line); what is found fits all the same.
    size = 0
    half = high = len(ranked)  # mostly all of it fits
    while size < high:
        if count(render(ranked[:half])) <= budget:
            size = half
        else:
            high = half - 1
        half = (size + high + 1) // 2
    return list(ranked[:size]), render(ranked[:size])
