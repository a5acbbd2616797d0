"""An event loop that persists, for callers that are not asynchronous themselves.

`asyncio.run` would end background work with every call and fails where a loop is running already
(notebooks); a loop in a thread of its own does neither.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

CANCEL_GRACE = 1.0
"""Seconds that a task gets to end after it was cancelled; one that takes longer is left behind."""

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, from synchronous code. An interrupt cancels it."""
    future = asyncio.run_coroutine_threadsafe(coroutine, _running())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def beside(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that runs on the loop of `run`, from a coroutine on any other: what belongs
    to that loop is never touched by two threads. Cancelling this cancels that."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, _running()))


def aside(work: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Makes a function whose coroutines run on that loop, wherever they are awaited."""

    @wraps(work)
    async def called(*args: P.args, **kwargs: P.kwargs) -> T:
        return await beside(work(*args, **kwargs))

    return called


async def ended(tasks: Collection[asyncio.Future[Any]]) -> None:
    """Cancel tasks and wait for their end, but not for those that do not care."""
    for task in tasks:
        task.cancel()
    done, _ = await asyncio.wait(tasks, timeout=CANCEL_GRACE) if tasks else ((), ())
    for task in done:
        _ = task.cancelled() or task.exception()  # retrieved, so that asyncio does not report it


async def within(work: Callable[[], Awaitable[T]], seconds: float | None) -> T:
    """The result of foreign work; `TimeoutError` where it takes longer, `RuntimeError` where
    it cancelled itself. A task of its own: what it does to itself does not happen to
    us."""

    async def task_of() -> T:
        return await work()

    task = asyncio.ensure_future(task_of())
    try:
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise TimeoutError(f"it took longer than {seconds:g} seconds")
        if task.cancelled():
            raise RuntimeError("the task cancelled itself")
        return task.result()
    finally:
        if not task.done():
            await ended([task])


def _begin_again() -> None:
    """A forked process has no threads but the one that forked: its loop is another one."""
    global _lock, _loop
    _lock, _loop = threading.Lock(), None


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_begin_again)


def _running() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="refold-loop", daemon=True).start()
        return _loop
