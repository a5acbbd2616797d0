"""One ranker for everything that is recalled.

An entry's score for a question is BM25 over its own words and, at a lower weight, those of its neighbours: in
a conversation the words that find an answer often stand in the question before it. Then, as factors: who said
it, whether it tells rather than asks, whether it names a time when a time is asked for, how much of the
question its stretch of conversation covers. The weights were chosen on dialogues other than those they are
judged on (`benchmarks/recall.py`).

Large logs are not scored whole. The rarest terms choose the candidates, within a fixed number of postings;
common terms are only looked up for those.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nlargest
from operator import itemgetter

import msgspec

from refold.recall import dates, words
from refold.recall.index import ASKS, ENDS_ASKING, IS_TOOL, TELLS_TIME, Index


class Weights(msgspec.Struct, frozen=True):
    saturation: float = 0.8
    length: float = 0.5
    before: tuple[float, ...] = (0.26, 0.25, 0.12)
    """Share of an entry's words that count for the entries after it, nearest first."""
    after: tuple[float, ...] = (0.4, 0.2, 0.08)
    """… and for the entries before it."""
    answer: float = 0.64
    """Added to the first of `before` where the entry asks (a question, a tool call)."""
    spread: float = 2.0
    """A term's own and neighbouring counts together saturate once more."""
    speaker: float = 0.8
    asking: float = 0.2
    asks: float = 0.1
    time: float = 0.32
    stretch: float = 0.3
    size: float = 0.14
    date: float = 6.0
    recent: float = 0.0
    name: float = 0.5
    """Weight of a speaker's name as a word."""


WEIGHTS = Weights()
TERMS_LIMIT = 40
POSTINGS_LIMIT = 8000
WHOLE_LIMIT = 2500
"""Up to this many postings everything is scored."""
CANDIDATES = 48
SPEAKER_SHARE = 0.05


class Question(msgspec.Struct, frozen=True):
    """A question, read once. `terms` maps each term to its weight (its idf), rarest first."""

    text: str
    terms: Mapping[str, float]
    speakers: frozenset[str] = frozenset()
    when: dates.When = dates.NEVER
    asks_when: bool = False


def read(index: Index, text: str, weights: Weights = WEIGHTS) -> Question:
    """What the text asks of this index."""
    asked = words.terms(text)
    speakers = _speakers(index, text)
    names = {term for name in speakers for term in words.terms(name)}
    known = [(len(index.positions(term)), term) for term in asked]
    rare = sorted((df, term) for df, term in known if df)[:TERMS_LIMIT]
    terms = {term: idf(len(index), df) * (weights.name if term in names else 1.0) for df, term in rare}
    return Question(
        text=text,
        terms={term: weight for term, weight in terms.items() if weight > 0} or {t: 0.1 for _, t in rare},
        speakers=speakers,
        when=dates.asked(text),
        asks_when=dates.asks_when(text),
    )


def idf(total: int, having: int) -> float:
    return math.log(1 + (total - having + 0.5) / (having + 0.5))


def rank(
    index: Index,
    question: Question,
    *,
    limit: int = 20,
    allowed: Callable[[int], bool] | None = None,
    weights: Weights = WEIGHTS,
) -> list[tuple[int, float]]:
    """Positions and scores, best first; of two equals the newer one."""
    scores = _Scoring(index, question, limit, allowed, weights).run()
    return nlargest(limit, scores.items(), key=lambda found: (found[1], found[0]))


class _Scoring:
    def __init__(
        self,
        index: Index,
        question: Question,
        limit: int,
        allowed: Callable[[int], bool] | None,
        weights: Weights,
    ) -> None:
        self.index, self.question, self.weights = index, question, weights
        self.limit = limit
        self.allowed = allowed
        mean = max(1.0, index.total / max(1, len(index)))
        self.mean = mean
        self.base = weights.saturation * (1 - weights.length)
        self.slope = weights.saturation * weights.length / mean

    def run(self) -> dict[int, float]:
        terms = self.question.terms
        postings = {term: self.index.positions(term) for term in terms}
        if sum(map(len, postings.values())) <= WHOLE_LIMIT:
            own = {term: self._all(postings[term]) for term in terms}
        else:
            wanted = self._around(self._candidates(terms, postings))
            own = {term: self._some(postings[term], wanted) for term in terms}
        scores: dict[int, float] = {}
        for term, weight in terms.items():
            spread = self.weights.spread
            for position, value in self._spread(own[term]).items():
                gained = weight * value * (1 + spread) / (value + spread)
                scores[position] = scores.get(position, 0.0) + gained
        return self._adjusted(scores, postings)

    # ── words ───────────────────────────────────────────────────────────────────────────────────

    def _tf(self, position: int, times: int) -> float:
        norm = self.base + self.slope * self.index.sizes[position]
        return times * (1 + self.weights.saturation) / (times + norm)

    def _all(self, postings: Iterable[int]) -> dict[int, float]:
        return {p >> 8: self._tf(p >> 8, p & 255) for p in postings}

    def _some(self, postings: Sequence[int], wanted: Sequence[int]) -> dict[int, float]:
        times = self.index.times
        return {i: self._tf(i, n) for i in wanted if (n := times(postings, i))}

    def _candidates(self, terms: Mapping[str, float], postings: Mapping[str, Sequence[int]]) -> list[int]:
        """The most promising entries by their own words, read from the rarest terms."""
        left = POSTINGS_LIMIT
        found: dict[int, float] = {}
        get, sizes, base, slope = found.get, self.index.sizes, self.base, self.slope
        for term in sorted(terms, key=lambda t: len(postings[t])):
            rows, weight = postings[term][-left:] if left > 0 else (), terms[term]
            if len(postings[term]) > left and len(found) >= CANDIDATES:
                break
            left -= len(rows)
            for packed in rows:
                i, times = packed >> 8, packed & 255
                found[i] = get(i, 0.0) + weight * times / (times + base + slope * sizes[i])
        if self.allowed is not None:
            found = {i: score for i, score in found.items() if self.allowed(i)}
        best = nlargest(max(CANDIDATES, 3 * self.limit), found.items(), key=itemgetter(1))
        return [i for i, _ in best]

    def _around(self, positions: Iterable[int]) -> list[int]:
        reach = max(len(self.weights.before), len(self.weights.after))
        end = len(self.index)
        return sorted({j for i in positions for j in range(max(0, i - reach), min(end, i + reach + 1))})

    def _spread(self, own: Mapping[int, float]) -> dict[int, float]:
        """The term's counts with those of the neighbours added."""
        index, weights = self.index, self.weights
        found = dict(own)
        get = found.get
        for i, value in own.items():
            first, end = index.starts[index.stretch[i]], index.stretch_end(index.stretch[i])
            for distance, share in enumerate(weights.before, 1):
                j = i + distance
                if j >= end:
                    break
                if distance == 1 and index.flags[i] & ASKS:
                    share += weights.answer
                found[j] = get(j, 0.0) + share * value
            for distance, share in enumerate(weights.after, 1):
                j = i - distance
                if j < first:
                    break
                found[j] = get(j, 0.0) + share * value
        return found

    # ── everything else ─────────────────────────────────────────────────────────────────────────

    def _adjusted(
        self, scores: Mapping[int, float], postings: Mapping[str, Sequence[int]]
    ) -> dict[int, float]:
        index, question, w = self.index, self.question, self.weights
        one_speaker = len(question.speakers) == 1
        total = sum(question.terms.values()) or 1.0
        covered: dict[int, float] = {}
        adjusted: dict[int, float] = {}
        for i, score in scores.items():
            if self.allowed is not None and not self.allowed(i):
                continue
            flags, stretch = index.flags[i], index.stretch[i]
            if one_speaker and index.docs[i].speaker in question.speakers:
                score *= 1 + w.speaker
            if flags & ENDS_ASKING:
                score *= 1 - w.asking
            elif flags & ASKS and not flags & IS_TOOL:
                score *= 1 - w.asks
            if question.asks_when and flags & TELLS_TIME:
                score *= 1 + w.time
            if len(index.starts) > 1:
                if stretch not in covered:
                    covered[stretch] = self._coverage(stretch, postings) / total
                score *= 1 + w.stretch * covered[stretch]
                if question.when != dates.NEVER and question.when.covers(index.dates[stretch]):
                    score += w.date
            score *= 1 + w.size * min(1.0, index.sizes[i] / (2 * self.mean))
            adjusted[i] = score * (1 + w.recent * i / len(index))
        return adjusted

    def _coverage(self, stretch: int, postings: Mapping[str, Sequence[int]]) -> float:
        """The weight of the question's terms that occur anywhere in the stretch."""
        first, end = self.index.starts[stretch] << 8, self.index.stretch_end(stretch) << 8
        covered = 0.0
        for term, weight in self.question.terms.items():
            rows = postings[term]
            at = bisect_left(rows, first)
            if at < len(rows) and rows[at] < end:
                covered += weight
        return covered


def _speakers(index: Index, text: str) -> frozenset[str]:
    """Speakers the question names, by full name or first name. Only who speaks often is one: a message
    may start with `Note:` as well."""
    asked = set(words.spelled(text))
    least = max(3, SPEAKER_SHARE * len(index))
    return frozenset(
        name for name, entries in index.speakers.items() if entries >= least and name.split()[0] in asked
    )
