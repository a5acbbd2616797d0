"""The breaker: after three failures in a row a model is not asked again for a while. Read off the log."""

from __future__ import annotations

from refold import entries as e
from refold.session import Session

FAILURES = 3
REST = 300.0
"""Seconds of rest before the model is tried again."""


def is_open(session: Session, now: float) -> bool:
    """Have the last attempts all failed, the newest of them a short while ago?"""
    failures = session.annotations(e.Failure)
    if len(failures) < FAILURES:
        return False
    recent = failures[-FAILURES:]
    if now - recent[-1].time >= REST:
        return False
    successes = [fold for fold in session.annotations(e.Fold) if fold.requests]
    return not successes or successes[-1].time < recent[0].time
