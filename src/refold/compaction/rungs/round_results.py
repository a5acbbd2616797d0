"""Reason with everything, remember the essence: tool results are shortened once their round has ended."""

from __future__ import annotations

from dataclasses import dataclass

from refold.compaction import carried
from refold.compaction.plan import Finished, Proposal, Reason
from refold.compaction.reduce import Reduction, shrink_results
from refold.compaction.rounds import finished, left_alone, round_at
from refold.compaction.situation import Situation
from refold.messages import Result
from refold.shrink import Limits

THROUGH = "shrunk_through"


@dataclass(frozen=True)
class ShrinkRounds:
    """One edit for every result of a finished round that its rule makes shorter."""

    limits: Limits = Limits()
    name: str = "shrink"

    def propose(self, s: Situation, /) -> Proposal | Reason:
        rounds = finished(s)
        end = round_at(s, rounds - 1).last + 1 if rounds else 0
        indexes = self._results(s, _seen(s), end)
        if not indexes:
            return Reason("no_results", "no tool result of a finished round is left to shorten")
        reduction = Reduction(s)
        shrink_results(reduction, indexes, self.limits)
        edits = tuple(reduction.edits())
        if not edits:
            return Reason("nothing_shrinks", "no rule makes a result of the finished rounds shorter")
        files = carried.reading(s.session).trail.files()
        details = {THROUGH: s.session.path[end - 1].id}
        saved = sum(s.counter_size(index) - reduction.size(index) for index in reduction.changed)
        return Proposal(
            rung=self.name,
            finish=lambda _: Finished(edits=edits, files=files, details=details),
            stretch=(edits[0].first, edits[-1].last),
            masked=reduction.ids("shrink"),
            first_kept=edits[0].first,
            files=files,
            tokens_after=s.tokens - saved,
        )

    def _results(self, s: Situation, first: int, end: int) -> list[int]:
        alone = left_alone(s)
        found: list[int] = []
        for index in range(s.item_at(first), s.item_at(end)):
            item, at = s.items[index], s.position_of(index)
            if (
                isinstance(item.message, Result)
                and item.fold is None
                and not any(a <= at <= b for a, b in alone)
            ):
                found.append(index)
        return found


def _seen(s: Situation) -> int:
    """Path position up to which results were looked at before."""
    for fold in reversed(s.folds):
        position = s.session.position(fold.details.get(THROUGH, ""))
        if position is not None:
            return position + 1
    return s.floor
