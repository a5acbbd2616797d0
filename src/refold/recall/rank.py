"""The ranking of everything that recall finds.

An entry's score is BM25 over its own words and, with a lower weight, those of its neighbours: in a
conversation, the words that find an answer are often in the question before it. Factors: the speaker, stating
rather than asking, and naming a time when one is asked for. Results on dialogues not used for tuning:
`benchmarks/recall_folds.py`.

Large logs are not scored whole: the rarest terms choose the candidates, within a fixed number of postings,
and common terms are looked up only for those.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import islice, zip_longest
from operator import itemgetter

import msgspec

from refold.recall.index import ASKS, BOILERPLATE, ENDS_ASKING, SILENT, TELLS_TIME, Doc, Index
from refold.recall.tool_calls import asked_of_steps, idf
from refold.text import dates, words


class RankWeights(msgspec.Struct, frozen=True):
    saturation: float = 1.2
    length: float = 0.5
    before: tuple[float, ...] = (0.5, 0.25, 0.1)
    """Share of an entry's words that counts for each of the following entries, nearest first."""
    after: tuple[float, ...] = (0.5, 0.25)
    """Share of an entry's words that counts for each of the preceding entries, nearest first."""
    answer: float = 0.5
    """Added to the first `before` share if the entry asks (a question, a tool call)."""
    spread: float = 2.0
    """Second saturation, applied to a term's own and neighbouring counts together."""
    speaker: float = 1.0
    """Bonus for entries by the one speaker whom the question names."""
    asking: float = 0.2
    """Penalty for entries that end with a question."""
    time: float = 0.5
    """Bonus for entries that name a time, if the question asks for one."""
    date: float = 10.0
    """Bonus for stretches on the day, month or year that the question names."""
    silent: float = 0.0
    """Penalty for entries that explain nothing."""
    size: float = 0.1
    """Bonus for longer entries."""
    boilerplate: float = 0.95
    """Penalty for text that a client adds by itself."""
    repeat: float = 1.0
    """Remaining weight of a term for the next hit once a hit contains it. 1: hits are ranked
    independently."""


DIALOGUE = RankWeights()
WORK = RankWeights(length=0.0, before=(0.0,), after=(), answer=0.3, spread=0.7, boilerplate=0.0, repeat=0.4)
"""For identifiers in a log with tool calls: neighbours' words mislead, a result answers its call, and the
hits should cover the question together (a call names many things, found in different entries)."""
EXPLAINED = RankWeights(silent=0.4)
"""For questions in plain words on a log with tool calls: reasons, order and changes are in what was said
about the work, but tool output repeats the same words ten times as often."""

WORK_SHARE = 0.1
MANY_TERMS = 12
MIN_QUESTION_WORDS = 5
"""Least words in a question in plain words."""
PLAIN_SHARE = 0.75
"""Least share of its words that consist of letters only."""
MIN_RUN_WORDS = 3
"""Least words in a question about a run."""
TERMS_LIMIT = 80
POSTINGS_LIMIT = 4000
LOOKUPS = 7000
"""Most lookups for a long question: only its rarest terms are looked up for each candidate."""
FEWEST_TERMS = 16
"""Terms that are looked up in any case."""
WHOLE_LIMIT = 1200
"""Up to this many postings, every entry is scored."""
MAX_CANDIDATES = 40
SPEAKER_SHARE = 0.05

_role = re.compile(r"\b(?:the|did|does|has|had) (user|assistant)\b", re.IGNORECASE)
_identifier = re.compile(r"\w{2}[./\\_:@#]+\w{2}|[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z]|/\w")


class ParsedQuestion(msgspec.Struct, frozen=True):
    """A parsed question. `terms` maps each term to its weight (its idf), rarest first."""

    text: str
    terms: Mapping[str, float]
    weights: RankWeights = DIALOGUE
    speakers: frozenset[str] = frozenset()
    when: dates.When = dates.NO_DATE
    asks_when: bool = False
    asks_outcome: bool = False
    """Whether tool output may hold the answer: a question in plain words on a log with tools that does not
    ask for a reason."""


def parse_question(index: Index, text: str, weights: RankWeights | None = None) -> ParsedQuestion:
    """Parse a question for this index. Unless given, weights are chosen by question and log."""
    asked = words.terms(text)
    outcome = weights is None and _asks_outcome(index, text, asked)
    weights = weights or _fitting(index, text, asked)
    speakers = _speakers(index, text)
    known = sorted((having, term) for term in asked if (having := len(index.positions(term))))
    terms = {term: idf(len(index), having) for having, term in known[:TERMS_LIMIT]}
    when = dates.read_date(text, capitals=True)
    return ParsedQuestion(text, terms, weights, speakers, when, dates.asks_when(text), outcome)


def _asks_outcome(index: Index, text: str, asked: Sequence[str]) -> bool:
    """Whether a question may be about a run: in plain words, and not asking for a reason."""
    given = text.split()
    return (
        index.tool_entries >= WORK_SHARE * len(index)
        and len(asked) <= MANY_TERMS
        and _plain(given) >= max(MIN_RUN_WORDS, PLAIN_SHARE * len(given))
        and "why" not in words.spelled(text)
    )


def _plain(given: Sequence[str]) -> int:
    return sum(word.strip(".,:;!?'\"()").isalpha() for word in given)


def _fitting(index: Index, text: str, asked: Sequence[str]) -> RankWeights:
    """Weights for a log with tools: identifiers or very many words ask for something different than a
    question in plain words, even one that names an identifier."""
    if index.tool_entries < WORK_SHARE * len(index):
        return DIALOGUE
    given = text.split()
    if len(asked) <= MANY_TERMS and _plain(given) >= max(MIN_QUESTION_WORDS, PLAIN_SHARE * len(given)):
        return EXPLAINED
    return WORK if len(asked) > MANY_TERMS or _identifier.search(text) else DIALOGUE


def rank(
    index: Index, question: ParsedQuestion, *, limit: int = 20, allowed: Callable[[int], bool] | None = None
) -> list[tuple[int, float]]:
    """Positions and scores, best first; of equals the newer. `allowed` limits the answer; other positions
    still lend their words to their neighbours."""
    scoring = Scoring(index, question, limit, allowed)
    scores = scoring.adjusted(scoring.by_words())
    together = question.weights.repeat < 1 and len(question.terms) > 1
    pool = max(MAX_CANDIDATES, 3 * limit) if together else limit
    best = nlargest(pool, scores.items(), key=lambda found: (found[1], found[0]))
    best = _covering(scoring.own, question, best, limit) if together else best
    return _with_runs(index, question, best, limit, allowed) if question.asks_outcome else best


def _with_runs(
    index: Index,
    question: ParsedQuestion,
    best: Sequence[tuple[int, float]],
    limit: int,
    allowed: Callable[[int], bool] | None,
) -> list[tuple[int, float]]:
    """Statements and runs merged: alternating if the question asks for an outcome, otherwise only the best
    run, in second place. Of a call and its result, and of runs of the same command, the first is kept."""
    steps, asked = index.steps, asked_of_steps(question.text)

    def anchor(clause: str) -> int | None:
        found = rank(
            index, msgspec.structs.replace(parse_question(index, clause), asks_outcome=False), limit=1
        )
        return found[0][0] if found else None

    said = [at for at, _ in best]
    runs = [at for at in steps.fitting(asked, anchor) if allowed is None or allowed(at)]
    if asked.outcome:
        mixed = [at for pair in zip_longest(runs[: 4 * limit], said) for at in pair if at is not None]
    else:
        mixed = [*said[:1], *runs[:1], *said[1:]]
    chosen: list[int] = []
    known: set[object] = set()
    for at in mixed:
        bare = steps.halves(at) if index.flags[at] & SILENT and not steps.call_of(at) else ()
        same = {steps.run(each) for each in (*bare, at)}
        if known.isdisjoint(same) and known.isdisjoint(steps.halves(at)) and len(chosen) < limit:
            chosen.append(at)
            known |= {*same, at}
    top = max((score for _, score in best), default=1.0)
    return [(at, top * (1 - place / (2 * limit))) for place, at in enumerate(chosen)]


def _covering(
    own: Mapping[str, Container[int]], question: ParsedQuestion, best: Sequence[tuple[int, float]], limit: int
) -> list[tuple[int, float]]:
    """Hits chosen one by one, each for the terms that earlier ones lack. `own`: which entries have a term."""
    has = {i: [term for term, having in own.items() if i in having] for i, _ in best}
    worth = dict(question.terms)
    full = {i: sum(worth[t] for t in terms) for i, terms in has.items()}
    left = {i: score for i, score in best if full[i]}
    rest = [(i, score) for i, score in best if not full[i]]
    chosen: list[tuple[int, float]] = []
    now = dict(left)
    while left and len(chosen) < limit:
        i = max(now, key=lambda i: (now[i], i))
        chosen.append((i, now.pop(i)))
        del left[i]
        for term in has[i]:
            worth[term] *= question.weights.repeat
        now = {j: score * sum(worth[t] for t in has[j]) / full[j] for j, score in left.items()}
    return (chosen + rest)[:limit]


class Scoring:
    """One question on one index: first the words, then everything else."""

    def __init__(
        self, index: Index, question: ParsedQuestion, limit: int, allowed: Callable[[int], bool] | None
    ) -> None:
        weights = question.weights
        self.index, self.question, self.weights = index, question, weights
        self.limit = limit
        self.allowed = allowed
        self.mean = max(1.0, index.total / max(1, len(index)))
        self.shares = [(distance, share) for distance, share in enumerate(weights.before, 1) if share]
        self.shares += [(-distance, share) for distance, share in enumerate(weights.after, 1) if share]
        self.own: dict[str, dict[int, float]] = {}
        """Term → entry → weight of the term in it, for the entries looked at."""
        self.postings = {term: index.positions(term) for term in question.terms}
        self.base = weights.saturation * (1 - weights.length)
        self.slope = weights.saturation * weights.length / self.mean

    def by_words(self) -> dict[int, float]:
        """Position → score by its own and its neighbours' words."""
        terms, postings = self.question.terms, self.postings
        if sum(map(len, postings.values())) <= WHOLE_LIMIT:
            self.own = {term: self._all(postings[term]) for term in terms}
        else:
            wanted = self._around(self._candidates(terms, postings))
            most = max(FEWEST_TERMS, LOOKUPS // max(1, len(wanted)))
            terms = dict(islice(terms.items(), most))  # the rarest
            among = frozenset(wanted)
            self.own = {term: self._some(postings[term], wanted, among) for term in terms}
        scores: dict[int, float] = {}
        for term, weight in terms.items():
            spread = self.weights.spread
            for position, value in self._spread(self.own[term]).items():
                gained = weight * value * (1 + spread) / (value + spread)
                scores[position] = scores.get(position, 0.0) + gained
        return scores

    # ── words ───────────────────────────────────────────────────────────────────────────────────

    def _tf(self, position: int, times: int) -> float:
        norm = self.base + self.slope * self.index.sizes[position]
        return times * (1 + self.weights.saturation) / (times + norm)

    def _all(self, postings: Iterable[int]) -> dict[int, float]:
        return {p >> 8: self._tf(p >> 8, p & 255) for p in postings}

    def _some(
        self, postings: Sequence[int], wanted: Sequence[int], among: frozenset[int]
    ) -> dict[int, float]:
        end = len(postings)
        if end <= len(wanted):
            return self._all(p for p in postings if p >> 8 in among)
        found: dict[int, float] = {}
        at = 0
        for i in wanted:  # ascending, and so are the postings
            at = bisect_left(postings, i << 8, at)
            if at == end:
                break
            packed = postings[at]
            if packed >> 8 == i:
                found[i] = self._tf(i, packed & 255)
        return found

    def _candidates(self, terms: Mapping[str, float], postings: Mapping[str, Sequence[int]]) -> list[int]:
        """The best entries by their own words, found through the rarest terms."""
        found: dict[int, float] = {}
        get, sizes, base, slope = found.get, self.index.sizes, self.base, self.slope
        # Under a condition the wanted entries may be anywhere: then all postings are read.
        left = POSTINGS_LIMIT if self.allowed is None else sum(map(len, postings.values()))
        for term in sorted(terms, key=lambda t: len(postings[t])):
            if left <= 0 or (len(postings[term]) > left and len(found) >= MAX_CANDIDATES):
                break
            rows, weight = postings[term][-left:], terms[term]
            left -= len(rows)
            for packed in rows:
                i, times = packed >> 8, packed & 255
                found[i] = get(i, 0.0) + weight * times / (times + base + slope * sizes[i])
        if self.allowed is not None:
            found = {i: score for i, score in found.items() if self.allowed(i)}
        best = nlargest(max(MAX_CANDIDATES, 3 * self.limit), found.items(), key=itemgetter(1))
        return [i for i, _ in best]

    def _around(self, positions: Iterable[int]) -> list[int]:
        reach = max(len(self.weights.before), len(self.weights.after))
        end = len(self.index)
        return sorted({j for i in positions for j in range(max(0, i - reach), min(end, i + reach + 1))})

    def _spread(self, own: Mapping[int, float]) -> dict[int, float]:
        """Counts of the term with those of the neighbours added, within a stretch."""
        flags, stretch, answer = self.index.flags, self.index.stretch, self.weights.answer
        end = len(stretch)
        found = dict(own)
        get = found.get
        for i, value in own.items():
            here = stretch[i]
            if flags[i] & BOILERPLATE:
                continue  # it is about no neighbour
            for distance, share in self.shares:
                j = i + distance
                if 0 <= j < end and stretch[j] == here:
                    found[j] = get(j, 0.0) + share * value
            if flags[i] & ASKS and i + 1 < end and stretch[i + 1] == here:
                found[i + 1] = get(i + 1, 0.0) + answer * value
        return found

    # ── everything else ─────────────────────────────────────────────────────────────────────────

    def adjusted(self, scores: Mapping[int, float]) -> dict[int, float]:
        """The scores after all factors other than words: speaker, time, asking or stating."""
        index, question, w = self.index, self.question, self.weights
        one_speaker = len(question.speakers) == 1
        dated = question.when != dates.NO_DATE and len(index.dates) > 1
        adjusted: dict[int, float] = {}
        for i, score in scores.items():
            if score <= 0 or (self.allowed is not None and not self.allowed(i)):
                continue
            flags = index.flags[i]
            if one_speaker and _says(index.docs[i], question.speakers):
                score *= 1 + w.speaker
            if flags & ENDS_ASKING:
                score *= 1 - w.asking
            if flags & SILENT:
                score *= 1 - w.silent
            if flags & BOILERPLATE:
                score *= 1 - w.boilerplate
            if question.asks_when and flags & TELLS_TIME:
                score *= 1 + w.time
            if dated and question.when.covers(index.dates[index.stretch[i]]):
                score += w.date
            score *= 1 + w.size * min(1.0, index.sizes[i] / (2 * self.mean))
            adjusted[i] = score
        return adjusted


def _says(doc: Doc, speakers: Container[str]) -> bool:
    return doc.speaker in speakers or (not doc.speaker and doc.message.role in speakers)


def _speakers(index: Index, text: str) -> frozenset[str]:
    """Speakers named in the question, by full or first name, and roles (`what did the user say`). Rare ones
    do not count: a message may also start with `Note:`."""
    asked = frozenset(words.spelled(text))
    least = max(3, SPEAKER_SHARE * len(index))
    named = (name for name, entries in index.speakers.items() if entries >= least)
    found = [name for name in named if name.split()[0] in asked]
    return frozenset(found or (role.lower() for role in _role.findall(text)))
