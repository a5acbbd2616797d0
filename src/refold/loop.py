"""One persistent event loop for callers that are not asynchronous themselves.

`asyncio.run` would end background work with every call and fails where a loop is running already
(notebooks); a loop in a thread of its own does neither.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

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


def _running() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="refold-loop", daemon=True).start()
        return _loop
