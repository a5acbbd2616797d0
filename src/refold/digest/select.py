"""Choosing facts: the most telling new words per token, greedily, with a soft decay for what was said.

Coverage with decay is submodular, so the lazy greedy choice (a heap of stale gains, re-weighed when they
come up) is exact. It is linear as well, since a word's worth ends: a fact is weighed again only where one
of its words lost worth, and each word does so some fifty times.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from refold.digest.facts import Fact


@dataclass(frozen=True, slots=True)
class Weights:
    """How words and lengths count. Tuned leaving one conversation out."""

    decay: float = 0.65
    """What a word is worth the second time, of what it was worth before."""
    least: float = 1e-9
    """Of its first worth; what is less is nothing."""
    alpha: float = 0.55
    """Gain is divided by tokens to this power: below one, whole facts beat crumbs."""
    overhead: int = 2
    number: float = 1.5
    name: float = 2.0
    rarity: float = 2.0
    """Power of the logarithm of a word's rarity: what everybody says carries little."""


WEIGHTS = Weights()


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
        value = math.log(1 + total / count) ** WEIGHTS.rarity
        if word[0].isdigit():
            value *= WEIGHTS.number
        elif capital[word] * 2 > count:
            value *= WEIGHTS.name
        worth[word] = value
    return worth


def best(facts: Sequence[Fact], worth: dict[str, float], most: int) -> list[Fact]:
    """The `most` facts of the highest gain before any is chosen; order kept. Bounds the work that follows."""
    if len(facts) <= most:
        return list(facts)

    def static(fact: Fact) -> float:
        return fact.prior * sum(worth[word] for word in fact.words) / (8 + len(fact.said)) ** 0.6

    gains: list[tuple[float, int]] = []
    for number, fact in enumerate(facts):
        gains.append((static(fact), -number))
    chosen = heapq.nlargest(most, gains)
    return [facts[i] for i in sorted(-number for _, number in chosen)]


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
            left[word] *= WEIGHTS.decay
    costs = [cost(fact) for fact in facts]

    def gain(i: int) -> float:
        fact = facts[i]
        fresh = sum(left[word] for word in fact.words)
        return fact.prior * fresh / (costs[i] + WEIGHTS.overhead) ** WEIGHTS.alpha

    heap = [(-gain(i), i) for i in range(len(facts))]
    heapq.heapify(heap)
    chosen: list[Fact] = []
    used = 0
    while heap and used <= limit:
        _, i = heapq.heappop(heap)
        now = gain(i)
        if heap and now < -heap[0][0]:
            heapq.heappush(heap, (-now, i))
            continue
        chosen.append(facts[i])
        used += costs[i]
        for word in facts[i].words:
            fresh = left[word] * WEIGHTS.decay
            left[word] = fresh if fresh > WEIGHTS.least * worth[word] else 0.0
    return chosen
