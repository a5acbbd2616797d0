"""Calls with their results, next to the word index: what was run, with what outcome, and when.

A call says in a few words what a step is about (`mise run lint`), while tool output is full of the same
words. The head of a call is therefore a field of its own, through which its result is found. If several runs
match equally well, the newest comes first, or the one that the question's words of time ask for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from refold.messages import Call, argument_text
from refold.text import words

CALL_HEAD_CHARS = 400
"""Characters of a call that say what it is about; the rest is content."""
MIN_MATCH = 0.5
"""Least share of a question, weighted by how rare its words are in calls, that a call must contain."""
TIE_SHARE = 0.9
"""Runs with at least this share of the best score match equally well."""
MINOR_CALL_WEIGHT = 0.6
"""Weight of a call that neither runs a command nor names a path: a todo, a task."""
MAX_CALLS = 1000
"""For a word in more than twice as many calls: the first and the last this many are looked at."""
_PLACES = frozenset({"command", "cmd", "file_path", "filePath", "path", "pattern", "query", "url"})
_CLAUSE = re.compile(r"\b(after|before|once|when|since)\b", re.IGNORECASE)
# Words that ask for the outcome of a run, or for one of several runs. They affect the order only.
_OUTCOME = frozenset(
    words.terms("pass fail succeed work result output print report show say run return happen end")
)
_FIRST = frozenset(words.terms("first initial initially original originally earliest"))


class StepQuestion(NamedTuple):
    """The part of a question that is about something that was run."""

    about: Sequence[str]
    """Terms that the call must contain."""
    outcome: bool
    """Whether it asks for the outcome."""
    first: bool
    after: bool
    """Whether the run comes after what `clause` describes, or before."""
    clause: str


def asked_of_steps(text: str) -> StepQuestion:
    """What a question asks about calls and results. Text after `after` or `before` only says when."""
    main, *rest = _CLAUSE.split(text, maxsplit=1)
    if not _about(main):
        main, rest = text, []
    terms = frozenset(words.terms(main))
    return StepQuestion(
        about=_about(main),
        outcome=not terms.isdisjoint(_OUTCOME),
        first=not terms.isdisjoint(_FIRST),
        after=not rest or rest[0].lower() != "before",
        clause="".join(rest[1:]),
    )


def _about(text: str) -> list[str]:
    return [term for term in words.terms(text) if term not in _OUTCOME and term not in _FIRST]


class StepIndex:
    """The results of an index by the calls they answer."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[int, Call]] = {}
        self._of: dict[int, tuple[int, Call]] = {}
        """Position of a result → position of the calling message, and the call."""
        self._results: dict[int, list[int]] = {}
        self._postings: dict[str, list[int]] = {}
        self._sizes: dict[int, int] = {}
        self._weights: dict[int, float] = {}
        self._total = 0

    def call(self, position: int, call: Call) -> None:
        self._calls[call.id] = position, call

    def tool(self, call_id: str) -> str:
        """Name of the called tool; empty if the call is unknown."""
        return self._calls[call_id][1].name if call_id in self._calls else ""

    def result(self, position: int, call_id: str) -> None:
        if call_id not in self._calls:
            return
        at, call = self._of[position] = self._calls[call_id]
        self._results.setdefault(at, []).append(position)
        terms = words.terms(_head(call))
        self._sizes[position] = len(terms)
        self._weights[position] = 1 if _PLACES & call.arguments.keys() else MINOR_CALL_WEIGHT
        self._total += len(terms)
        for term in terms:
            self._postings.setdefault(term, []).append(position)

    def call_of(self, position: int) -> Call | None:
        return self._of[position][1] if position in self._of else None

    def halves(self, position: int) -> Sequence[int]:
        """The other half of a step: the results of a call, or the message that made a result's call."""
        return (self._of[position][0],) if position in self._of else self._results.get(position, ())

    def run(self, position: int) -> object:
        """Identifies repeated calls: the command without pipes and redirections of its output, or all
        arguments; for anything but a result, the position."""
        call = self.call_of(position)
        return position if call is None else (call.name, _run(call) or argument_text(call))

    def fitting(self, asked: StepQuestion, anchor: Callable[[str], int | None]) -> list[int]:
        """Results whose calls match the question, best first. `anchor` finds the position of a clause."""
        scores = self._scores(asked.about)
        worth = sum(self._rarity(term) for term in asked.about if term in self._postings)
        fit = {at: score for at, score in scores.items() if score >= MIN_MATCH * worth}
        least = TIE_SHARE * max(fit.values(), default=0.0)
        place = anchor(asked.clause) if fit and asked.clause else None

        def order(at: int) -> tuple[float, bool, int]:
            if fit[at] < least:
                return -fit[at], False, -at
            if place is None:
                return -math.inf, False, at if asked.first else -at
            return -math.inf, (at > place) != asked.after, at if asked.after else -at

        return sorted(fit, key=order)

    def _scores(self, terms: Iterable[str]) -> dict[int, float]:
        """Results scored by how rare the matching words of their calls are, and how few others these have."""
        found: dict[int, float] = {}
        mean = self._total / max(1, len(self._sizes))
        for term in terms:
            rarity = self._rarity(term)
            having = self._postings.get(term, [])
            for at in having if len(having) <= 2 * MAX_CALLS else (*having[:MAX_CALLS], *having[-MAX_CALLS:]):
                short = 2.2 / (1 + 1.2 * (0.25 + 0.75 * self._sizes[at] / mean))
                found[at] = found.get(at, 0.0) + rarity * short * self._weights[at]
        return found

    def _rarity(self, term: str) -> float:
        return idf(len(self._sizes), len(self._postings.get(term, ())))


def idf(total: int, having: int) -> float:
    """How telling a term is that so many of all entries have."""
    return math.log(1 + (total - having + 0.5) / (having + 0.5))


def _run(call: Call) -> str:
    """The command of a call without pipes and redirections of its output; empty if it has none."""
    command = call.arguments.get("command")
    return command.partition("|")[0].replace("2>&1", "").strip() if isinstance(command, str) else ""


def _head(call: Call) -> str:
    """What a call is about: tool, command and other arguments."""
    said = argument_text(call)
    if run := _run(call):
        said = said.replace(call.arguments["command"], run, 1)
    return f"{call.name} {said[:CALL_HEAD_CHARS]}"
