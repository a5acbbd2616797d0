"""Retries of transient errors, with back-off and a total time limit."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from refold.errors import Transient
from refold.protocols import Event, Model, Request

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Retry:
    """Number, pauses and total time of retries. Overflow, bad keys and bad requests are never retried.

    The wait before attempt n is `base · 2ⁿ`, at most `cap`, minus a random part of up to `jitter` of it,
    so that many clients do not return together. A provider's `Retry-After` is a lower bound. An attempt
    that could start only after `total` seconds is not made.
    """

    attempts: int = 4
    base: float = 0.5
    cap: float = 30.0
    jitter: float = 0.5
    total: float = 300.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random

    def wait(self, attempt: int, retry_after: float | None = None) -> float:
        """Seconds to wait after the failed attempt number `attempt` (0 is the first)."""
        backoff = min(self.cap, self.base * 2**attempt)
        return max(retry_after or 0.0, backoff * (1 - self.jitter * self.random()))

    async def call(self, action: Callable[[], Awaitable[T]]) -> T:
        """The result of the action; raises its last `Transient` when attempts or time have run out."""
        end = self.clock() + self.total
        attempt = 0
        while True:
            try:
                return await action()
            except Transient as error:
                await self._pause(error, attempt, end)
                attempt += 1

    async def _pause(self, error: Transient, attempt: int, end: float) -> None:
        """Waits for the next attempt, or raises `error` if there is none."""
        wait = self.wait(attempt, error.retry_after)
        if attempt + 1 >= self.attempts or self.clock() + wait >= end:
            raise error
        await self.sleep(wait)


NO_RETRY = Retry(attempts=1)


class Wrapped:
    """A model that wraps another, with the same name and window by default."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def context_window(self) -> int | None:
        return self.model.context_window


class Retrying(Wrapped):
    """A model that retries as long as nothing of the reply has been passed on."""

    def __init__(self, model: Model, retry: Retry = Retry()) -> None:
        super().__init__(model)
        self._retry = retry

    async def stream(self, request: Request) -> AsyncIterator[Event]:
        end = self._retry.clock() + self._retry.total
        attempt = 0
        while True:
            begun = False
            try:
                async for event in self.model.stream(request):
                    begun = True
                    yield event
                return
            except Transient as error:
                if begun:
                    raise
                await self._retry._pause(error, attempt, end)
                attempt += 1
