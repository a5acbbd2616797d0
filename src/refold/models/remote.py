"""Common part of models behind an HTTP API: clients, failures, closing."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from importlib import import_module
from operator import attrgetter
from typing import Any, ClassVar, TypedDict
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from refold.errors import ModelError, ModelUnavailable, Transient, UsageError
from refold.models.failures import Secrets, translate
from refold.models.reply import closing
from refold.models.stream_chunks import Malformed, StreamReader
from refold.protocols import Event, Request, Stopped
from refold.session.dialects import Dialect
from refold.session.invariants import repair
from refold.session.items import Item
from refold.text.lenient_json import JsonObject

SILENCE_SECONDS = 600.0
"""Default of `timeout`: seconds without a byte before a request fails."""
LINGER = 1.0
"""Seconds that a stream may stay open after the end of the reply."""
_BAD = (json.JSONDecodeError, UnicodeDecodeError, Malformed)
_HTTP = ("httpx", "httpx2", "httpcore", "httpcore2")


class RemoteOptions(TypedDict, total=False):
    """Options of `Remote`, for subclasses."""

    name: str | None
    api_key: str | None
    base_url: str | None
    context_window: int | None
    timeout: float
    temperature: bool
    extra: Mapping[str, Any] | None


class Remote(ABC):
    """A model behind an SDK client. Errors and `repr` never show its key."""

    provider: ClassVar[str]
    brand: ClassVar[str]
    """The provider's name in the SDK; in lower case its package, which may not be installed."""
    home: ClassVar[str]
    """The provider's own host."""
    resource: ClassVar[str]
    """Attribute of the SDK's client that is called …"""
    required: ClassVar[tuple[str, ...]]
    """… and fields of the body that it takes as separate arguments."""

    def __init__(
        self,
        model: str,
        *,
        name: str | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        context_window: int | None = None,
        timeout: float = SILENCE_SECONDS,
        temperature: bool = True,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """`temperature=False`: none is sent. `extra` is added to every request."""
        self.name = name or f"{self.provider}:{model}"
        self.model = model
        self.context_window = context_window
        self._key = api_key or os.environ.get(f"{self.brand.upper()}_API_KEY")
        self._base_url = base_url or os.environ.get(f"{self.brand.upper()}_BASE_URL")
        if self._base_url and urlsplit(self._base_url).password is not None:
            # HTTP libraries write addresses into their logs.
            raise UsageError(f"{self.name}: base_url contains a password; pass it as api_key instead")
        self._timeout = timeout
        self._takes_temperature = temperature
        self._extra = dict(extra or {})
        self._secrets = Secrets(self._key)
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def at_home(self) -> bool:
        """True for the provider itself, not a compatible server."""
        return self._base_url is None or self.home in self._base_url

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
        """Reads the end of a stream after the complete reply, so that the connection can be reused; a
        connection that stays open or breaks does not matter."""
        with suppress(TimeoutError, *self._caught()):
            async with asyncio.timeout(LINGER):
                async for _ in events:
                    pass

    async def aclose(self) -> None:
        """Closes the idle connections of the running loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def client(self) -> Any:
        """The SDK's client, one per event loop, because connections cannot move between loops. Made in a
        thread, since importing an SDK takes seconds."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            made = await asyncio.to_thread(self._connect)
            self._clients.setdefault(loop, made)
        return self._clients[loop]

    @abstractmethod
    def body(self, request: Request) -> JsonObject:
        """The request as it is sent, without what only streaming needs."""

    @abstractmethod
    def reader(self) -> StreamReader:
        """Reads one stream."""

    def streaming(self, request: Request) -> JsonObject:
        """The body of a request for a stream."""
        return self.body(request)

    def _common(self, request: Request) -> JsonObject:
        chosen = request.temperature if self._takes_temperature else None
        return {"model": self.model, **({} if chosen is None else {"temperature": chosen})}

    async def _events(self, request: Request) -> AsyncGenerator[Event]:
        """Sends the body unchanged: the SDK's own arguments would drop fields it does not know."""
        reader, body, client = self.reader(), self.streaming(request), await self.client()
        given = {key: body.pop(key) for key in self.required}
        more = {} if request.timeout is None else {"timeout": request.timeout}
        create = attrgetter(self.resource)(client).create
        async with await create(**given, stream=True, extra_body=body, **more) as stream:
            async for piece in stream:
                for event in reader.read(piece):
                    yield event
        for event in reader.end():
            yield event

    def _connect(self) -> Any:
        package = self.brand.lower()
        try:
            sdk = import_module(package)
        except ImportError:
            raise ModelUnavailable(f'{self.name}: run pip install "refold[{package}]" first') from None
        if not self._key and self.at_home:
            key = f"{self.brand.upper()}_API_KEY"
            raise ModelUnavailable(f"{self.name}: set {key}, or give a base_url that needs no key")
        # Retries are ours (they know overflow from overload); local servers want some key, whichever.
        return getattr(sdk, f"Async{self.brand}")(
            api_key=self._key or "none", base_url=self._base_url, max_retries=0, timeout=self._timeout
        )

    def _caught(self) -> tuple[type[Exception], ...]:
        """Exceptions of the SDK (if installed), of the HTTP library, or of a malformed stream."""
        raised = getattr(sys.modules.get(self.brand.lower()), f"{self.brand}Error", None)
        return (*([raised] if raised else []), *_transport_errors(), *_BAD)

    def _translated(self, error: Exception) -> ModelError:
        if not isinstance(error, _BAD):
            return translate(self.name, error, self._secrets)
        text = self._secrets.hide(str(error))[:200]
        return Transient(f"{self.name}: a malformed piece came in the stream ({text}); try again")


def wire_items(request: Request, dialect: str) -> list[Item]:
    """The request's messages. The end of the stable part is marked, for a cache breakpoint."""
    items = [
        Item(message, (), "stable" if at == request.stable else None)
        for at, message in enumerate(request.messages, start=1)
    ]
    return repair(items, dialect)


def wire_prompt(request: Request, dialect: Dialect) -> JsonObject:
    """Messages and tools of a request in a dialect with a list."""
    said = {dialect.field: dialect.render(wire_items(request, dialect.name), system=request.system)}
    return {**said, "tools": dialect.render_tools(request.tools)} if request.tools else said


def _transport_errors() -> tuple[type[Exception], ...]:
    """Exceptions of the loaded HTTP libraries, which not every SDK wraps during a stream."""
    modules = [module for name in _HTTP if (module := sys.modules.get(name))]
    found = [getattr(module, kind, None) for module in modules for kind in ("TransportError", "NetworkError")]
    return (*(kind for kind in found if kind is not None), OSError)
