"""A model that misbehaves: wraps another and injects faults into its replies, the same ones for a seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Literal, TypeAlias, get_args

import msgspec

from refold.errors import Overflow, Transient
from refold.models.reply import closing
from refold.models.retry import Wrapped
from refold.protocols import Event, Model, Request, Stopped

ChaosFault: TypeAlias = Literal[
    "rate_limit", "reset", "cut", "slow", "stall", "truncated", "empty", "refusal", "overflow"
]
"""rate_limit: refused at once · reset: the connection breaks during the reply · cut: the stream ends
without a stop · slow: pauses between events · stall: nothing comes for an hour · truncated: stops for
length halfway · empty: no text · refusal: stops as refused · overflow: refused as too large"""
FAULTS: tuple[ChaosFault, ...] = get_args(ChaosFault)
SLOW_SECONDS = 0.02
STALL = 3600.0


class Injected(msgspec.Struct, frozen=True):
    """A fault injected into the reply to request number `request`."""

    request: int
    fault: ChaosFault


class Chaos(Wrapped):
    """`rate` of the requests get one of `faults`, chosen by the seed; `injected` lists them."""

    def __init__(
        self,
        model: Model,
        seed: int = 0,
        *,
        rate: float = 0.3,
        faults: Sequence[ChaosFault] = FAULTS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(model)
        self.injected: list[Injected] = []
        self._seed, self._random = seed, random.Random(seed)
        self._rate = rate
        self._faults = tuple(faults)
        self._sleep = sleep
        self._count = 0

    @property
    def name(self) -> str:
        return f"chaos:{self._seed}:{self.model.name}"

    async def stream(self, request: Request) -> AsyncIterator[Event]:
        self._count += 1
        # Drawn before anything happens, so that one request's faults do not depend on another's length.
        struck, where = self._random.random() < self._rate, self._random.randint(0, 8)
        fault = self._random.choice(self._faults) if self._faults else None
        if not struck or fault is None:
            async for event in self.model.stream(request):
                yield event
            return
        self.injected.append(Injected(self._count, fault))
        async with closing(self._suffer(fault, where, request)) as events:
            async for event in events:
                yield event

    async def _suffer(self, fault: ChaosFault, where: int, request: Request) -> AsyncIterator[Event]:
        if fault == "rate_limit":
            raise Transient(f"{self.name}: 429 rate limit", retry_after=SLOW_SECONDS)
        if fault == "overflow":
            raise Overflow(f"{self.name}: the request exceeds the context window")
        if fault == "empty":
            yield Stopped("end")
            return
        async with closing(self.model.stream(request)) as events:
            at = 0
            async for event in events:
                if isinstance(event, Stopped) or at == where:
                    for last in await self._strike(fault):
                        yield last
                    if fault != "slow":
                        return
                yield event
                at += 1

    async def _strike(self, fault: ChaosFault) -> list[Event]:
        """The fault, in place of the rest of the reply."""
        match fault:
            case "reset":
                raise Transient(f"{self.name}: connection reset")
            case "truncated":
                return [Stopped("length")]
            case "refusal":
                return [Stopped("refusal")]
            case "slow":
                await self._sleep(SLOW_SECONDS)
            case "stall":
                await self._sleep(STALL)
            case _:
                pass
        return []
