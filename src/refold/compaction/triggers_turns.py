"""Triggers of housekeeping: what a design does as rounds end, whatever the size of the view."""

from __future__ import annotations

from dataclasses import dataclass

from refold.compaction.plan import Due, Reason
from refold.compaction.rounds import finished
from refold.compaction.situation import Situation


@dataclass(frozen=True)
class RoundEnded:
    """There are finished rounds: whether one of them has to change is for the rung to say."""

    text: str
    least: int = 1

    def due(self, s: Situation, /) -> Due | Reason:
        count = finished(s)
        if count < self.least:
            return Reason("no_round", "no round is finished yet")
        return Due("round_ended", self.text)
