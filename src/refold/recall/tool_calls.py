"""Calls with their results, beside the words of an index: what was run, what came of it, and when.

What a step is about stands in its call, in a few words (`mise run lint`), while the same words are all over
what tools printed. So the head of a call is a field of its own, and its result is found by it. Where several
runs fit a question alike, the newest comes first, or the one that its words of time ask for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from refold.messages import Call, argument_text
from refold.text import words

CALL_HEAD_CHARS = 400
"""Characters of a call that say what it is about; what follows is content."""
FITTING = 0.5
"""Share of a question, by how rare its words are in calls, that a call has to have."""
ALIKE = 0.9
"""Runs that have at least this share of the best one's score fit the question alike."""
OTHER = 0.6
"""What a call counts that neither runs a command nor names a place: a todo, a task."""
EACH = 1000
"""Of a word that more calls have, so many of the first and of the last are looked at."""
_PLACES = frozenset({"command", "cmd", "file_path", "filePath", "path", "pattern", "query", "url"})
_CLAUSE = re.compile(r"\b(after|before|once|when|since)\b", re.IGNORECASE)
_OUTCOME = frozenset(
    words.terms("pass fail succeed work result output print report show say run return happen end")
)
_FIRST = frozenset(words.terms("first initial initially original originally earliest"))
"""Words that ask what came of a run, and for which of several. They rank; no call is left out by them."""


class StepQuestion(NamedTuple):
    """A question, as far as it is about something that was run."""

    about: Sequence[str]
    """Terms that the call is to have."""
    outcome: bool
    """Whether it asks what came of it."""
    first: bool
    after: bool
    """Whether the run comes after what `clause` tells of, or before."""
    clause: str


def asked_of_steps(text: str) -> StepQuestion:
    """What a question asks of calls and results. What follows `after` or `before` only says when."""
    main, *rest = _CLAUSE.split(text, maxsplit=1)
    if not _about(main):
        main, rest = text, []
    terms = frozenset(words.terms(main))
    late = not rest or rest[0].lower() != "before"
    return StepQuestion(
        _about(main),
        not terms.isdisjoint(_OUTCOME),
        not terms.isdisjoint(_FIRST),
        late,
        "".join(rest[1:]),
    )


def _about(text: str) -> list[str]:
    return [term for term in words.terms(text) if term not in _OUTCOME and term not in _FIRST]


class StepIndex:
    """The results of an index by the calls they answer."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[int, Call]] = {}
        self._of: dict[int, tuple[int, Call]] = {}
        """Position of a result → that of the message which made its call, and the call."""
        self._results: dict[int, list[int]] = {}
        self._postings: dict[str, list[int]] = {}
        self._sizes: dict[int, int] = {}
        self._weights: dict[int, float] = {}
        self._total = 0

    def call(self, position: int, call: Call) -> None:
        self._calls[call.id] = position, call

    def tool(self, call_id: str) -> str:
        """The name of the tool that was called; empty where the call is not known."""
        return self._calls[call_id][1].name if call_id in self._calls else ""

    def result(self, position: int, call_id: str) -> None:
        if call_id not in self._calls:
            return
        at, call = self._of[position] = self._calls[call_id]
        self._results.setdefault(at, []).append(position)
        terms = words.terms(_head(call))
        self._sizes[position] = len(terms)
        self._weights[position] = 1 if _PLACES & call.arguments.keys() else OTHER
        self._total += len(terms)
        for term in terms:
            self._postings.setdefault(term, []).append(position)

    def call_of(self, position: int) -> Call | None:
        """The call that a result answers."""
        return self._of[position][1] if position in self._of else None

    def halves(self, position: int) -> Sequence[int]:
        """The other half of a step: the results of a call, the message that made the call of a result."""
        return (self._of[position][0],) if position in self._of else self._results.get(position, ())

    def run(self, position: int) -> object:
        """What makes two results those of the same call: the command without what is done with its output, or
        all arguments. The position itself, for what is no result."""
        call = self.call_of(position)
        return position if call is None else (call.name, _run(call) or argument_text(call))

    def fitting(self, asked: StepQuestion, anchor: Callable[[str], int | None]) -> list[int]:
        """Results whose calls fit the question, best first. `anchor` finds the place of a clause."""
        scores = self._scores(asked.about)
        worth = sum(self._rarity(term) for term in asked.about if term in self._postings)
        fit = {at: score for at, score in scores.items() if score >= FITTING * worth}
        least = ALIKE * max(fit.values(), default=0.0)
        place = anchor(asked.clause) if fit and asked.clause else None

        def order(at: int) -> tuple[float, bool, int]:
            if fit[at] < least:
                return -fit[at], False, -at
            if place is None:
                return -math.inf, False, at if asked.first else -at
            return -math.inf, (at > place) != asked.after, at if asked.after else -at

        return sorted(fit, key=order)

    def _scores(self, terms: Iterable[str]) -> dict[int, float]:
        """Results by how rare the words are that their calls have, and how few others those have."""
        found: dict[int, float] = {}
        mean = self._total / max(1, len(self._sizes))
        for term in terms:
            rarity = self._rarity(term)
            having = self._postings.get(term, [])
            for at in having if len(having) <= 2 * EACH else (*having[:EACH], *having[-EACH:]):
                short = 2.2 / (1 + 1.2 * (0.25 + 0.75 * self._sizes[at] / mean))
                found[at] = found.get(at, 0.0) + rarity * short * self._weights[at]
        return found

    def _rarity(self, term: str) -> float:
        having = len(self._postings.get(term, ()))
        return math.log(1 + (len(self._sizes) - having + 0.5) / (having + 0.5))


def _run(call: Call) -> str:
    """The command of a call without what is done with its output; empty where it has none."""
    command = call.arguments.get("command")
    return command.partition("|")[0].replace("2>&1", "").strip() if isinstance(command, str) else ""


def _head(call: Call) -> str:
    """What a call is about: the tool, the command, and what else was given along."""
    said = argument_text(call)
    if run := _run(call):
        said = said.replace(call.arguments["command"], run, 1)
    return f"{call.name} {said[:CALL_HEAD_CHARS]}"
