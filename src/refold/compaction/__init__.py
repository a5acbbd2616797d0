"""Decisions about folding: pure functions of the log and of what was handed over with the question."""

from refold.compaction.plan import Failed, Plan, Reason
from refold.compaction.situation import Due

__all__ = ["Due", "Failed", "Plan", "Reason"]
