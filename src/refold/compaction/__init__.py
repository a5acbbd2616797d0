"""Decisions about folding: pure functions of the log and of what was handed over with the question."""
