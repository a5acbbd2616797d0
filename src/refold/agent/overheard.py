"""A model whose replies are heard as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from refold.messages import Assistant, Call, Content, Thinking
from refold.models.reply import Collector, closing
from refold.models.retry import Wrapped
from refold.protocols import Event, Model, Request

INTERRUPTED = "interrupted: the reply is not complete"


class Overheard(Wrapped):
    """Hands every event on and keeps what has come of the reply under way. `begin` is awaited before each
    attempt, with its number since the last whole reply."""

    def __init__(
        self, model: Model, begin: Callable[[int], Awaitable[None]], hear: Callable[[Event], None]
    ) -> None:
        super().__init__(model)
        self._begin = begin
        self._hear = hear
        self._attempts = 0
        self._collector: Collector | None = None

    async def stream(self, request: Request) -> AsyncIterator[Event]:
        self._attempts += 1
        self._collector = None
        await self._begin(self._attempts)
        self._collector = collector = Collector()
        async with closing(self.model.stream(request)) as events:
            async for event in events:
                collector.add(event)
                self._hear(event)
                yield event

    def whole(self) -> None:
        """The reply is in the log."""
        self._attempts, self._collector = 0, None

    def partial(self) -> Assistant | None:
        """What was said of a reply that is not to come any more, marked; None where that is nothing. Its
        calls were never run and are left out, so is thinking, which is only valid with all it led to."""
        collector, self._collector, self._attempts = self._collector, None, 0
        parts: Content = () if collector is None else collector.content
        said = tuple(part for part in parts if not isinstance(part, Call | Thinking))
        return Assistant(said, stop="aborted", error=INTERRUPTED) if said else None
