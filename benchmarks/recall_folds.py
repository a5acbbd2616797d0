"""What recall's weights are worth on a dialogue they have not seen.

For each conversation in turn: start from textbook BM25 with every feature switched off, choose the weights by
coordinate search on the *other* conversations, and score this one. What is held out are the weights; that these
features exist at all was decided while reading the same dialogues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from refold.recall import Index, rank

DEPTHS = (5, 20, 100)
NEUTRAL = rank.RankWeights(
    saturation=1.2, length=0.75, before=(), after=(), answer=0, spread=1e9, speaker=0, asking=0, time=0,
    date=0, size=0
)  # fmt: skip
"""Textbook BM25 over an entry's own words."""

GRID: dict[str, tuple[Any, ...]] = {
    "before": ((), (0.25,), (0.5,), (0.25, 0.25), (0.5, 0.25), (0.25, 0.25, 0.1), (0.5, 0.25, 0.1)),
    "after": ((), (0.25,), (0.5,), (0.25, 0.25), (0.5, 0.25), (0.25, 0.25, 0.1), (0.5, 0.25, 0.1)),
    "speaker": (0, 0.5, 1.0),
    "answer": (0, 0.25, 0.5, 0.75),
    "spread": (1.0, 2.0, 4.0, 1e9),
    "length": (0.25, 0.5, 0.75),
    "saturation": (0.8, 1.2, 1.6),
    "asking": (0, 0.2, 0.4),
    "time": (0, 0.5, 1.0),
    "date": (0, 5.0, 10.0),
    "size": (0, 0.1, 0.2),
}
ROUNDS = 2
_BY_WORDS = ("saturation", "length", "before", "after", "answer", "spread")
Shares = list[tuple[float, ...]]


class Asked(msgspec.Struct, frozen=True):
    question: str
    category: int
    evidence: frozenset[int]


class Judge:
    """The questions about one conversation, scored again and again: the part of a score that comes from
    words is kept while only the other weights change."""

    def __init__(self, index: Index, asked: Sequence[Asked]) -> None:
        self.index, self.asked = index, asked
        self._known: dict[rank.RankWeights, Shares] = {}
        self._words: dict[tuple[Any, ...], list[tuple[rank.Scoring, dict[int, float]]]] = {}

    def shares(self, weights: rank.RankWeights) -> Shares:
        """Per question, the share of the evidence among the first 5, 20, 100."""
        if weights not in self._known:
            rows = self._known[weights] = Shares()
            for (scoring, scores), asked in zip(self._by_words(weights), self.asked, strict=True):
                scoring.weights = weights  # only those beyond the words differ
                rows.append(self._share(scoring.adjusted(scores), asked.evidence))
        return self._known[weights]

    def worth(self, weights: rank.RankWeights) -> float:
        return sum(row[0] + row[1] for row in self.shares(weights))

    def _by_words(self, weights: rank.RankWeights) -> list[tuple[rank.Scoring, dict[int, float]]]:
        named = tuple(getattr(weights, name) for name in _BY_WORDS)
        if named not in self._words:
            if len(self._words) >= 3:
                del self._words[next(iter(self._words))]
            scorings = [
                rank.Scoring(
                    self.index, rank.parse_question(self.index, asked.question, weights), DEPTHS[-1], None
                )
                for asked in self.asked
            ]
            self._words[named] = [(scoring, scoring.by_words()) for scoring in scorings]
        return self._words[named]

    @staticmethod
    def _share(scores: dict[int, float], evidence: frozenset[int]) -> tuple[float, ...]:
        best = sorted(scores.items(), key=lambda found: (-found[1], -found[0]))
        places = {position: place for place, (position, _) in enumerate(best[: DEPTHS[-1]])}
        at = [places.get(position, DEPTHS[-1]) for position in evidence]
        return tuple(sum(place < depth for place in at) / len(at) for depth in DEPTHS)


def chosen(judges: Sequence[Judge], start: rank.RankWeights = NEUTRAL) -> rank.RankWeights:
    """The best weights for these conversations, one coordinate at a time."""
    best, worth = start, sum(judge.worth(start) for judge in judges)
    for _ in range(ROUNDS):
        before = best
        for name, values in GRID.items():
            for value in values:
                if getattr(best, name) == value:
                    continue
                other = msgspec.structs.replace(best, **{name: value})
                found = sum(judge.worth(other) for judge in judges)
                if found > worth:
                    best, worth = other, found
        if best == before:
            break
    return best


def held_out(judges: Sequence[Judge]) -> list[tuple[rank.RankWeights, Shares]]:
    """Per conversation: the weights that all others chose, and what they find in this one."""
    found: list[tuple[rank.RankWeights, Shares]] = []
    for judge in judges:
        weights = chosen([other for other in judges if other is not judge])
        found.append((weights, judge.shares(weights)))
    return found
