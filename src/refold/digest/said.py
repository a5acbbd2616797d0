"""The sentences of a conversation that tell most within a number of tokens.

They are chosen greedily: the most telling new words per token, with a soft decay for what was said. Coverage
with decay is submodular, so the lazy greedy choice (a heap of stale gains, re-weighed when they come up) is
exact. It is linear as well, since a word's worth ends: a fact is weighed again only where one of its words
lost worth, and each word does so some fifty times.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from itertools import groupby
from operator import attrgetter
from typing import Literal, TypeAlias

from refold.digest.facts import Fact, Source, dense_text, facts
from refold.messages import searchable
from refold.protocols import TokenCounter
from refold.text.dates import written_date
from refold.text.words import terms
from refold.tokens.fitting import largest

# How words and lengths count. Tuned leaving one conversation out.
_DECAY = 0.65
"""What a word is worth the second time, of what it was worth before."""
_LEAST = 1e-9
"""Of its first worth; what is less is nothing."""
_ALPHA = 0.55
"""Gain is divided by tokens to this power: below one, whole facts beat crumbs."""
_NUMBER = 1.5
_NAME = 2.0
_RARITY = 2.0
"""Power of the logarithm of a word's rarity: what everybody says carries little."""


def weigh(facts: Sequence[Fact]) -> dict[str, float]:
    """The worth of each word: rare ones more, names and numbers more."""
    spread: Counter[str] = Counter()
    capital: Counter[str] = Counter()
    for fact in facts:
        spread.update(fact.words)
        capital.update(fact.names)
    total = len(facts)
    worth: dict[str, float] = {}
    for word, count in spread.items():
        value = math.log(1 + total / count) ** _RARITY
        if word[0].isdigit():
            value *= _NUMBER
        elif capital[word] * 2 > count:
            value *= _NAME
        worth[word] = value
    return worth


def ranked(
    facts: Sequence[Fact],
    worth: dict[str, float],
    cost: Callable[[Fact], int],
    limit: int,
    covered: Iterable[str] = (),
) -> list[Fact]:
    """Facts in the order they are chosen, until their costs pass `limit`. `covered` words stand elsewhere."""
    left = dict(worth)
    for word in covered:
        if word in left:
            left[word] *= _DECAY
    costs = [max(cost(fact), 1) for fact in facts]

    def gain(i: int) -> float:
        return facts[i].prior * sum(left[word] for word in facts[i].words) / costs[i] ** _ALPHA

    heap = [(-gain(i), i) for i in range(len(facts))]
    heapq.heapify(heap)
    chosen: list[Fact] = []
    while heap and limit >= 0:
        _, i = heapq.heappop(heap)
        now = gain(i)
        if heap and now < -heap[0][0]:
            heapq.heappush(heap, (-now, i))
            continue
        chosen.append(facts[i])
        limit -= costs[i]
        for word in facts[i].words:
            fresh = left[word] * _DECAY
            left[word] = fresh if fresh > _LEAST * worth[word] else 0.0
    return chosen


DigestForm: TypeAlias = Literal["readable", "dense"]
KEY_SHARE, KEY_TOKENS = 0.04, 8
"""Keys may take this part of a text; with less room they stand on fewer lines."""
COVERED = 60_000
"""Characters of what stands elsewhere that are looked at."""


class FactDigest:
    """What was said, read once for texts of any size and form. `kept`: what stays in the view need not be
    repeated."""

    def __init__(self, sources: Sequence[Source], kept: Sequence[Source] = ()) -> None:
        self._kept = kept
        self._facts = facts(sources)
        self._worth = weigh(self._facts)
        # A fact is told in the dense form for every number of facts that is tried.
        self._dense = cache(dense_text)

    @cached_property
    def _covered(self) -> dict[str, None]:
        text = "\n".join(searchable(source.message) for source in self._kept)
        return dict.fromkeys(terms(text[-COVERED:]))

    def lines(self, budget: int, counter: TokenCounter, form: DigestForm = "dense", beside: str = "") -> str:
        """The facts worth most within `budget` tokens, in the order of the conversation. Words of what is
        kept count less; a sentence that stands in the text `beside` them is not repeated."""
        if budget <= 0:
            return ""
        tell: Callable[[Fact], str] = attrgetter("text") if form == "readable" else self._dense
        pool = self._facts
        if beside:
            pool = [fact for fact in pool if fact.said not in beside and tell(fact) not in beside]
        enough = budget + budget // 8  # in lines they may cost less than one by one
        order = ranked(pool, self._worth, lambda fact: counter.text(tell(fact)), enough, self._covered)
        joint = " " if form == "readable" else "; "

        def some(number: int) -> str:
            return _lines(order[:number], tell, joint, budget)

        # Not quite monotonic (a key may move to another line); what is found fits all the same.
        return some(largest(len(order), lambda number: counter.text(some(number)) <= budget))


def _lines(facts: Iterable[Fact], tell: Callable[[Fact], str], joint: str, budget: int) -> str:
    """One line for what was said in a message: day, speaker, sentences, and on some lines the recall key."""
    in_order = sorted(facts, key=lambda fact: (fact.place.order, fact.number))
    groups = [(place, list(group)) for place, group in groupby(in_order, key=lambda fact: fact.place)]
    affordable = int(budget * KEY_SHARE / KEY_TOKENS)
    stride = -(-len(groups) // affordable) if affordable else 0
    rendered: list[str] = []
    day = None
    for number, (place, group) in enumerate(groups):
        said = joint.join(filter(None, map(tell, group)))
        if not said:
            continue
        front = f"{written_date(place.day)} " if place.day and place.day != day else ""
        day = place.day or day
        key = f" [{place.key}]" if place.key and stride and number % stride == 0 else ""
        rendered.append(f"{front}{place.speaker}: {said}{key}")
    return "\n".join(rendered)
