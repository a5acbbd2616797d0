"""One thread of our own for long work: the event loop stays free, and exit never waits for it.

Work is a plain function of values. It runs one piece after the other, so that six folds at once share the
interpreter with the loop as two threads do, not as seven. Work that is no longer wanted ends at its next
`checkpoint`; work that goes on past its limit is left behind, and another thread takes over.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, TypeVar

from refold.cancellation import Cancellable, current
from refold.errors import PluginError

T = TypeVar("T")

MAX_WORK_SECONDS = 120.0
"""Seconds after which work is abandoned: a strategy of an application may never return."""
CHECKPOINT_GRACE = 5.0
"""Seconds that cancelled work has to reach a checkpoint before another thread takes over."""


class _Job(Cancellable):
    def __init__(self, work: Callable[[], Any]) -> None:
        self._work: Callable[[], Any] | None = work
        self._context = copy_context()
        self.future: Future[Any] = Future()
        self.deadline = math.inf
        self.left_behind = False
        """True if it was late: another thread has taken over."""

    def perform(self) -> None:
        """Do it. Nothing of it is kept but what came of it."""
        try:
            self.future.set_result(self._context.run(self._done))
        except BaseException as error:
            self.future.set_exception(error)

    def _done(self) -> Any:
        work, self._work = self._work, None
        token = current.set(self)
        try:
            return work() if work else None
        finally:
            current.reset(token)

    def abandon(self) -> None:
        self.unwanted = True
        self.deadline = min(self.deadline, time.monotonic() + CHECKPOINT_GRACE)


class Worker:
    """Runs jobs in one daemon thread, which begins with the first of them."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._running: _Job | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """The result of work. Where the caller is cancelled, the work ends, too."""
        if current.get() is not None:  # work that needs more work of this kind does it itself
            return work()
        job = _Job(work)
        self._jobs.put(job)
        with self._lock:
            if self._thread is None:
                self._start()
        future = asyncio.wrap_future(job.future)
        try:
            while not (await asyncio.wait([future], timeout=min(CHECKPOINT_GRACE, MAX_WORK_SECONDS)))[0]:
                self._replace_late()
                if job.left_behind:
                    raise PluginError(
                        f"planning took longer than {MAX_WORK_SECONDS:g} seconds and was abandoned"
                    )
            return future.result()
        finally:
            job.abandon()
            job.future.cancel()
            future.cancel()  # a later failure is of no concern
            del job, future  # a failure names this frame: what the work held goes now

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="refold-worker", daemon=True)
        self._thread.start()

    def _replace_late(self) -> None:
        """Leaves a job behind that is past its deadline; any caller may notice it first. Another thread goes
        on with those that wait; the thread that hangs ends with its job, if ever."""
        with self._lock:
            late = self._running
            if late is not None and time.monotonic() >= late.deadline:
                late.unwanted, late.left_behind, self._running = True, True, None
                self._start()

    def _work(self) -> None:
        while self._thread is threading.current_thread():
            job = self._jobs.get()
            if job.future.set_running_or_notify_cancel():
                job.deadline = time.monotonic() + MAX_WORK_SECONDS
                self._running = job
                job.perform()
                with self._lock:
                    if self._running is job:
                        self._running = None
            del job


@contextmanager
def at_once() -> Generator[None]:
    """Inside, `run_in_worker` does its work where it is called: nothing else happens meanwhile."""
    token = current.set(Cancellable())
    try:
        yield
    finally:
        current.reset(token)


_worker = Worker()


def _begin_again() -> None:
    """A forked process has no threads but the one that forked."""
    global _worker
    _worker = Worker()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_begin_again)


async def run_in_worker(work: Callable[[], T]) -> T:
    """The result of work, from the one worker of this process."""
    return await _worker.run(work)
