"""An event loop whose clock jumps: hours of waiting take no time, and waiting for nothing at all is an error.
What else the worker does is done at once: another thread knows nothing of that clock."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from unittest.mock import patch

from refold import worker

T = TypeVar("T")


class WaitsForEver(AssertionError):
    """Everybody waits, and no timer is set that could wake anybody."""


class _Jumping(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise WaitsForEver
        self.now += max(timeout, 0.0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.clock = _Jumping()
        super().__init__(self.clock)

    def time(self) -> float:
        return self.clock.now


def run_virtually(work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """The outcome, and how many seconds it would have taken."""
    loop = VirtualLoop()
    with patch.object(worker, "run_in_worker", at_once):
        return _run(loop, work)


async def at_once(work: Callable[[], T]) -> T:
    return work()


def _run(loop: VirtualLoop, work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    try:
        return loop.run_until_complete(asyncio.wait_for(work, 1e6)), loop.time()
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
