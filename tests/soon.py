"""Waiting on an event loop for something that another thread does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(happened: Callable[[], object]) -> None:
    """Until something has happened; an error where it does not."""
    async with asyncio.timeout(120):
        while not happened():  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0.002)


async def a_while() -> None:
    """Long enough for whatever is ready to run, here and in the worker."""
    for _ in range(50):
        await asyncio.sleep(0.002)
