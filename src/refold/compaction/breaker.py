"""The breaker: after three failures in a row a model is not asked again for a while. Read off the log."""

from __future__ import annotations

from itertools import islice

from refold import entries as e
from refold.session import Session

FAILURES = 3
REST = 300.0
"""Seconds of rest before the model is tried again."""
NOT_ITS_FAULT = ("stale", "cancelled", "aborted")
"""Codes of attempts that came to nothing whatever the model answered."""


def is_open(session: Session, now: float) -> bool:
    """Have the last attempts all failed, the newest of them a short while ago?"""
    failures = (f for f in reversed(session.annotations(e.Failure)) if f.code not in NOT_ITS_FAULT)
    recent = list(islice(failures, FAILURES))[::-1]
    if len(recent) < FAILURES or not 0 <= now - recent[-1].time < REST:
        return False  # a clock that was set back does not prolong the rest
    successes = [fold for fold in session.annotations(e.Fold) if fold.requests]
    return not successes or successes[-1].time < recent[0].time
