"""The sentences of a conversation, and those that tell most within a number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import groupby
from typing import Literal, TypeAlias

from refold.digest.facts import Fact, dense_text, facts
from refold.digest.select import best, ranked, weigh
from refold.digest.source import Source
from refold.messages import searchable
from refold.protocols import TokenCounter
from refold.text.dates import written_date
from refold.text.words import terms

Form: TypeAlias = Literal["readable", "dense"]
CANDIDATES = 1_500
"""At least so many facts are weighed against each other; more with a larger budget."""
KEY_SHARE, KEY_TOKENS = 0.04, 8
"""Keys may take this part of a text; with less room they stand on fewer lines."""
COVERED = 60_000
"""Characters of what stands elsewhere that are looked at."""


class Said:
    """What was said, read once for texts of any size and form. `previous`: text of an earlier digest; its
    lines compete again and keep their recall keys. `kept`: what stays in the view need not be repeated."""

    def __init__(self, sources: Sequence[Source], previous: str = "", kept: Sequence[Source] = ()) -> None:
        self._kept = kept
        self._facts, self._speakers = facts(sources, previous)
        self._worth = weigh(self._facts)
        self._told: dict[tuple[int, Form], str] = {}

    @cached_property
    def _covered(self) -> dict[str, None]:
        text = "\n".join(searchable(source.message) for source in self._kept)
        return dict.fromkeys(terms(text[-COVERED:]))

    def lines(self, budget: int, counter: TokenCounter, form: Form = "dense") -> str:
        """The facts worth most within `budget` tokens, in the order of the conversation. Words of what is
        kept count less."""
        if budget <= 0 or not self._facts:
            return ""

        def tell(fact: Fact) -> str:
            key = (id(fact), form)
            if key not in self._told:
                self._told[key] = fact.text if form == "readable" else dense_text(fact, self._speakers)
            return self._told[key]

        pool = best(self._facts, self._worth, max(CANDIDATES, budget // 4))
        enough = budget + budget // 8  # in lines they may cost less than one by one
        order = ranked(pool, self._worth, lambda fact: counter.text(" " + tell(fact)), enough, self._covered)
        joint = " " if form == "readable" else "; "
        # The longest prefix that fits. Not quite monotonic (a key may move to another line); what is found
        # fits all the same.
        size, text = 0, ""
        half = high = len(order)  # mostly all of it fits
        while size < high:
            made = _lines(order[:half], tell, joint, budget)
            if counter.text(made) <= budget:
                size, text = half, made
            else:
                high = half - 1
            half = (size + high + 1) // 2
        return text


def _lines(facts: Iterable[Fact], tell: Callable[[Fact], str], joint: str, budget: int) -> str:
    """One line for what was said in a message: day, speaker, sentences, and on some lines the recall key."""
    in_order = sorted(facts, key=lambda fact: (fact.place.order, fact.number))
    groups = [(place, list(group)) for place, group in groupby(in_order, key=lambda fact: fact.place)]
    affordable = int(budget * KEY_SHARE / KEY_TOKENS)
    stride = -(-len(groups) // affordable) if affordable else 0
    rendered: list[str] = []
    day, last_key = None, -stride
    for number, (place, group) in enumerate(groups):
        said = joint.join(filter(None, map(tell, group)))
        if not said:
            continue
        front = f"{written_date(place.day)} " if place.day and place.day != day else ""
        day = place.day or day
        name = f"{place.speaker}: " if place.speaker else ""
        # Keys of an earlier digest stay: nothing else leads back to what it stood for.
        keyed = place.key and stride and (place.role == "earlier" or number - last_key >= stride)
        last_key = number if keyed else last_key
        rendered.append(f"{front}{name}{said}{f' [{place.key}]' if keyed else ''}")
    return "\n".join(rendered)
