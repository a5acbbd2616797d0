"""Decisions about folding: pure functions of the log and of what was handed over with the question."""

from refold.compaction.plan import Due, Failed, Plan, Reason

__all__ = ["Due", "Failed", "Plan", "Reason"]
