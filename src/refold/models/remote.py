"""What the models behind an HTTP interface share: clients, failures, closing."""

from __future__ import annotations

import asyncio
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from refold.errors import ModelError, Transient, UsageError
from refold.models.chunks import Malformed
from refold.models.failures import Secrets, translate
from refold.models.reply import closing
from refold.protocols import Event, Request, Stopped
from refold.session.dialects.common import Wire
from refold.session.invariants import repair
from refold.session.items import Item

TIMEOUT = 600.0
"""Seconds without a byte after which a request is given up, where nobody says otherwise."""
LINGER = 1.0
"""Seconds that a stream may stay open after the reply has ended."""
_BAD = (json.JSONDecodeError, UnicodeDecodeError, Malformed)
_HTTP = ("httpx", "httpx2", "httpcore", "httpcore2")


class Remote(ABC):
    """A model behind an SDK client. Errors and `repr` never show its key."""

    sdk_error: ClassVar[str]
    """The base of what the SDK raises, as `module.Name`: looked up late, the SDK may not be installed."""

    def __init__(
        self,
        name: str,
        *,
        context_window: int | None,
        api_key: str | None,
        base_url: str | None,
        timeout: float,
        extra: Mapping[str, Any] | None,
    ) -> None:
        if base_url and urlsplit(base_url).password is not None:
            # HTTP libraries write addresses into their logs.
            raise UsageError(f"{name}: base_url holds a password; give it as api_key instead")
        self.name = name
        self.context_window = context_window
        self._key = api_key
        self._base_url = base_url
        self._timeout = timeout
        self._extra = dict(extra or {})
        self._secrets = Secrets(api_key)
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def stream(self, request: Request) -> AsyncIterator[Event]:
        failure: ModelError | None = None
        try:
            async with closing(self._events(request)) as events:
                async for event in events:
                    yield event
                    if isinstance(event, Stopped):
                        await self._drained(events)
                        break
        except self._caught() as error:
            failure = self._translated(error)
        if failure is not None:  # raised out here, so that it does not hold the SDK's error and its request
            raise failure

    async def _drained(self, events: AsyncIterator[Event]) -> None:
        """The reply is whole: a connection that ends now can be used again, one that stays open or breaks
        is no reason to wait or to lose it."""
        with suppress(TimeoutError, *self._caught()):
            async with asyncio.timeout(LINGER):
                async for _ in events:
                    pass

    async def aclose(self) -> None:
        """Close the idle connections of the running loop. Good manners before a loop ends."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def client(self) -> Any:
        """The SDK's client. One per event loop: connections cannot move between loops. Made in a thread,
        since importing an SDK takes seconds in which the loop has better things to do."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            made = await asyncio.to_thread(self._connect)
            self._clients.setdefault(loop, made)
        return self._clients[loop]

    @abstractmethod
    def body(self, request: Request) -> Wire:
        """The request as it goes over the wire, without what only streaming needs."""

    @abstractmethod
    def _connect(self) -> Any: ...

    @abstractmethod
    def _events(self, request: Request) -> AsyncGenerator[Event]: ...

    def _caught(self) -> tuple[type[Exception], ...]:
        """What may come out of the SDK (if it is there), of the HTTP library below it, or of a bad stream."""
        module, _, name = self.sdk_error.partition(".")
        raised = getattr(sys.modules.get(module), name, None)
        return (*([raised] if raised else []), *_transport_errors(), *_BAD)

    def _translated(self, error: Exception) -> ModelError:
        if not isinstance(error, _BAD):
            return translate(self.name, error, self._secrets)
        text = self._secrets.hide(str(error))[:200]
        return Transient(f"{self.name}: a malformed piece came in the stream ({text}); try again")


def shown(request: Request, dialect: str) -> list[Item]:
    """The request's messages as this dialect takes them. The end of the stable part is marked like the end
    of a fold, so that a cache breakpoint comes there."""
    items = [
        Item(message, (), "stable" if at == request.stable else None)
        for at, message in enumerate(request.messages, start=1)
    ]
    return repair(items, dialect)


def _transport_errors() -> tuple[type[Exception], ...]:
    """Exceptions of the HTTP libraries that are loaded: not every SDK wraps them in mid-stream."""
    modules = [module for name in _HTTP if (module := sys.modules.get(name))]
    found = [getattr(module, kind, None) for module in modules for kind in ("TransportError", "NetworkError")]
    return (*(kind for kind in found if kind is not None), OSError)
