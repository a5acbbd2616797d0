"""An end to every wait (R3) and to every series of requests (M10): one clock and one quota for all that a
single `prepare` asks of a summariser, whatever its strategies, chunks and retries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from refold.compaction.plan import PendingRequest
from refold.errors import BadAnswer, sentence
from refold.loop import within
from refold.models.reply import closing
from refold.models.retry import Wrapped
from refold.protocols import Event, Model, Request

PARALLEL = 4
"""Requests of a fold that run side by side."""


@dataclass
class RequestQuota:
    """Counts requests, failed ones and second tries included: at most two, and two more for each window that
    there is to read."""

    least: float = 2
    """Requests that are always allowed."""
    spent: int = 0
    trouble: str = ""
    """Why the newest request failed, where it did."""
    answered_calls: int = 0
    """Requests that only hand over the results of tool calls: they are allowed on top."""
    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(PARALLEL))
    _windows: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def left(self) -> float:
        return self.least + int(2 * sum(self._windows.values())) + self.answered_calls - self.spent

    def reads(self, purpose: str, tokens: int, window: int | None) -> None:
        """So much is there to read for a purpose. That another strategy asks for it again adds nothing."""
        if window:
            usable = window - min(16_384, window // 5)
            self._windows[purpose] = max(self._windows.get(purpose, 0.0), tokens / usable)

    def spend(self) -> None:
        if self.left <= 0:
            asked = f"asked {self.spent} times for this fold, and not again"
            raise BadAnswer("requests", f"{self.trouble} ({asked})" if self.trouble else asked)
        self.spent += 1


@dataclass
class Metered(Wrapped):
    """A model whose requests are counted."""

    model: Model
    quota: RequestQuota
    requests: int = 0

    async def stream(self, request: Request) -> AsyncIterator[Event]:
        self.quota.spend()
        self.requests += 1
        try:
            async with closing(self.model.stream(request)) as events:
                async for event in events:
                    yield event
        except Exception as error:
            self.quota.trouble = sentence(error)
            raise


@dataclass(frozen=True)
class Deadline:
    """When the waiting ends, by the clock of the event loop, and how often may be asked."""

    end: float
    quota: RequestQuota = field(default_factory=RequestQuota)

    @property
    def passed(self) -> bool:
        """Whether it is too late for another request."""
        return self.quota.left <= 0 or asyncio.get_running_loop().time() >= self.end


async def run_pending(pending: Sequence[PendingRequest], limits: Deadline) -> None:
    """Run them, each until the clock has run out. A failure is told to its request and ends nothing else."""

    async def run(request: PendingRequest) -> None:
        async with limits.quota.gate:
            left = limits.end - asyncio.get_running_loop().time()
            try:
                if left <= 0:
                    raise TimeoutError("there is no time to wait for it")
                await within(request.run, left)
            except Exception as error:
                request.failed(error)

    await asyncio.gather(*map(run, pending))
