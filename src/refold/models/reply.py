"""A whole reply from a stream of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import NoneType
from typing import cast

import msgspec

from refold.errors import ModelError, PluginGuard, Transient, UsageError, WrongType, expect
from refold.messages import AnyPart, Assistant, Content, Stop, Text, Thinking, Usage
from refold.models.retry import Retry
from refold.protocols import Event, Model, PartDone, Request, Stopped, TextDelta, ThinkingDelta, UsageSeen
from refold.session.validation import kept, validated

YIELD_EVERY_EVENTS = 256
"""Number of events after which other tasks may run."""
MAX_EVENTS, MAX_CHARS = 2_000_000, 2**26


class AwaitedPluginGuard(PluginGuard):
    """A plug-in guard around an await: a plug-in that cancels itself has failed."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task and not task.cancelling():
            raise self.kind(f"{self.title} cancelled itself") from error
        super().__exit__(kind, error, trace)


class Reply(msgspec.Struct, frozen=True):
    """A model's answer and its usage."""

    message: Assistant
    usage: Usage | None
    model: str

    @property
    def text(self) -> str:
        return self.message.text


class Collector:
    """Assembles a reply. Deltas count until their part arrives whole."""

    def __init__(self) -> None:
        self._parts: list[AnyPart] = []
        self._open: list[str] = []
        self._kind: type[Text] | type[Thinking] = Text
        self.usage: Usage | None = None
        self.stop: Stop | None = None
        self.events = self.size = 0
        """How many came, and how many characters they had."""

    def add(self, event: Event) -> None:
        self.events += 1
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
        self.size += len(text)

    def _flush(self) -> None:
        if text := "".join(self._open):
            self._parts.append(self._kind(text))
        self._open.clear()


@asynccontextmanager
async def closing(events: AsyncIterator[Event]) -> AsyncGenerator[AsyncIterator[Event]]:
    """Closes the stream on exit, so that an abandoned reply frees its connection at once."""
    try:
        yield events
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()


async def collect(model: Model, request: Request) -> Reply:
    """The reply of one attempt. A stream without `Stopped` was cut off and raises `Transient`."""
    collector = Collector()
    with AwaitedPluginGuard(model.name, ModelError):
        async with closing(model.stream(request)) as events:
            async for event in events:
                collector.add(event)
                if collector.events % YIELD_EVERY_EVENTS == 0:
                    await asyncio.sleep(0)  # a stream that never waits would block the loop
                if collector.events > MAX_EVENTS or collector.size > MAX_CHARS:
                    raise ModelError(f"{model.name}: the reply did not end; it was abandoned")
        if collector.stop is None:
            raise Transient(f"{model.name}: the reply was cut off before its end; try again")
        message, usage = Assistant(collector.content, stop=collector.stop), collector.usage
        return Reply(*_read(message, usage, model.name), model.name)


def _read(message: Assistant, usage: Usage | None, name: str) -> tuple[Assistant, Usage | None]:
    """What a model said, of the types that messages have."""
    try:
        content = tuple(map(kept, message.content))
        message = validated(msgspec.structs.replace(message, content=content))
        return message, None if usage is None else validated(usage)
    except UsageError as error:
        raise ModelError(f"{name}: the reply cannot be read: {error}") from error


def checked_model(model: Model) -> Model:
    """The model, if it is a valid one; raises `WrongType` otherwise."""
    with PluginGuard("the model"):
        if not isinstance(cast("object", model), Model) or isinstance(model, type):
            kind = type(model).__name__
            raise WrongType(
                f"expected a model, got {kind}: pass a name such as openai:gpt-5, or refold.model(…)"
            )
        name, window = model.name, model.context_window
        expect(name, str, "the name of a model must be a string")
        expect(window, (int, NoneType), "the window of a model must be a whole number, or None")
        if window is not None and not 0 < window < 2**53:
            raise WrongType(f"the window of {name!r} is not a number of tokens")
    return model


async def complete(  # the limit covers all attempts together, so it is ours to keep
    model: Model,
    request: Request,
    *,
    timeout: float | None = None,  # noqa: ASYNC109
    retries: Retry = Retry(),
) -> Reply:
    """The whole reply of `model`. Transient errors are retried by `retries` (`NEVER`: not at all).

    `request.timeout` limits one attempt, `timeout` all of them; exceeding either raises `Transient`.
    Cancelling closes the connection.
    """

    async def within(seconds: float | None, work: Callable[[], Awaitable[Reply]]) -> Reply:
        try:
            async with asyncio.timeout(seconds):
                return await work()
        except TimeoutError as error:
            text = f"{model.name}: no whole answer within {seconds:g} s; try again or allow more time"
            raise Transient(text) from error

    async def attempt() -> Reply:
        return await within(request.timeout, lambda: collect(model, request))

    return await within(timeout, lambda: retries.call(attempt))
