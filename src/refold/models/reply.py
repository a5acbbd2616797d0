"""One whole reply from a stream of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from refold.errors import Transient
from refold.messages import AnyPart, Assistant, Content, Stop, Text, Thinking, Usage
from refold.models.retry import NEVER, Retry
from refold.protocols import Event, Model, PartDone, Request, Stopped, TextDelta, ThinkingDelta, UsageSeen


class Reply(msgspec.Struct, frozen=True):
    """What a model answered, and what the provider counted."""

    message: Assistant
    usage: Usage | None
    model: str

    @property
    def text(self) -> str:
        return self.message.text


class Collector:
    """Puts a reply together. Deltas count until the part they belong to arrives whole."""

    def __init__(self) -> None:
        self._parts: list[AnyPart] = []
        self._open: list[str] = []
        self._kind: type[Text] | type[Thinking] = Text
        self.usage: Usage | None = None
        self.stop: Stop | None = None

    def add(self, event: Event) -> None:
        match event:
            case TextDelta(text):
                self._delta(Text, text)
            case ThinkingDelta(text):
                self._delta(Thinking, text)
            case PartDone(part):
                if isinstance(part, self._kind):
                    self._open.clear()
                self._flush()
                self._parts.append(part)
            case UsageSeen(usage):
                self.usage = usage
            case Stopped(reason):
                self.stop = reason

    @property
    def content(self) -> Content:
        self._flush()
        return tuple(self._parts)

    def _delta(self, kind: type[Text] | type[Thinking], text: str) -> None:
        if kind is not self._kind:
            self._flush()
            self._kind = kind
        self._open.append(text)

    def _flush(self) -> None:
        if text := "".join(self._open):
            self._parts.append(self._kind(text))
        self._open.clear()


@asynccontextmanager
async def closing(events: AsyncIterator[Event]) -> AsyncGenerator[AsyncIterator[Event]]:
    """Closes the stream on the way out, so that an abandoned reply frees its connection at once."""
    try:
        yield events
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()


async def collect(model: Model, request: Request) -> Reply:
    """The reply to one attempt. A stream that ends without `Stopped` was cut off: `Transient`, however
    complete the text may look."""
    collector = Collector()
    async with closing(model.stream(request)) as events:
        async for event in events:
            collector.add(event)
    if collector.stop is None:
        raise Transient(f"{model.name}: the reply was cut off before its end; try again")
    message = Assistant(collector.content, stop=collector.stop)
    return Reply(message, collector.usage, model.name)


async def complete(  # the limit covers all attempts together, so it is ours to keep
    model: Model,
    request: Request,
    *,
    timeout: float | None = None,  # noqa: ASYNC109
    retries: Retry = Retry(),
) -> Reply:
    """The whole reply of `model`. Transient errors are tried again as `retries` says (`NEVER`: not at all).

    `request.timeout` limits one attempt, `timeout` everything together; passing either raises `Transient`.
    Cancelling closes the connection."""

    async def attempt() -> Reply:
        return await _within(request.timeout, model, request)

    try:
        async with asyncio.timeout(timeout):
            return await retries.call(attempt)
    except TimeoutError as error:
        raise _late(model, timeout) from error


async def _within(seconds: float | None, model: Model, request: Request) -> Reply:
    try:
        async with asyncio.timeout(seconds):
            return await collect(model, request)
    except TimeoutError as error:
        raise _late(model, seconds) from error


def _late(model: Model, seconds: float | None) -> Transient:
    return Transient(f"{model.name}: no whole answer within {seconds:g} s; try again or allow more time")


__all__ = ["NEVER", "Collector", "Reply", "closing", "collect", "complete"]
