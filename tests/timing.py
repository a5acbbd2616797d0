"""Costs. How many seconds something takes says little on a busy machine, so seconds are judged in `make torture`
alone (one process, `REFOLD_TIMING=1`); what takes part in `make test` counts steps, or only has to come to an end."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

JUDGED = os.environ.get("REFOLD_TIMING") == "1"


def seconds_of(work: Callable[[], object]) -> float:
    """Seconds of the processor."""
    began = time.process_time()
    work()
    return time.process_time() - began


@contextmanager
def within(seconds: float) -> Generator[None]:
    """The block takes at most that much of the processor; judged in `make torture`."""
    began = time.process_time()
    yield
    took = time.process_time() - began
    assert not JUDGED or took < seconds, f"{took:.2f} s"


def steps(work: Callable[[], object]) -> int:
    """How many lines of Python `work` runs through in this thread, each turn of a loop anew: the same number
    every time. (Counting single instructions is not reliable from Python 3.12 on.)"""
    count = 0

    def trace(_frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@contextmanager
def alarm(seconds: int) -> Generator[None]:
    """The block is broken off when it hangs, and so is the end of it, ten seconds later. (No code that catches errors
    catches this one.)"""

    def ring(*_: object) -> None:
        pytest.fail(f"it hangs: {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    left = signal.setitimer(signal.ITIMER_REAL, seconds, 10)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *left)
        signal.signal(signal.SIGALRM, before)
