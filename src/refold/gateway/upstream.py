"""Forwards requests and answers unchanged: no byte of a body is changed, nothing waits for the end of a
stream, and if one side disconnects, the other is closed."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from refold.errors import SettingError
from refold.gateway.auth import UPSTREAM_KEYS, Caller, RequestRefused
from refold.gateway.ipc import UpstreamReply
from refold.gateway.replies import MAX_RECORDED_BYTES, READABLE
from refold.gateway.stored_ids import IdReader
from refold.gateway.stream_probe import look_after, next_piece
from refold.registry.configuration import GatewaySettings

HOPS = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"}
    | {"trailer", "transfer-encoding", "upgrade", "host", "content-length", "expect"}
)
"""Headers that concern only one connection."""
OURS = frozenset(("x-refold-key", "x-refold-session"))
CONNECTION_CHECK_SECONDS = 0.5
"""Interval of the check whether the connections of answers still exist."""
ARRIVED: ContextVar[float | None] = ContextVar("arrived", default=None)
"""When the current request arrived (`time.monotonic`); None once it is passed on."""
AUTOMATIC = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class AnswerInterrupted(Exception):
    """Raised if an answer breaks off; the client's answer has broken off, too."""

    def __init__(self, response: web.StreamResponse) -> None:
        super().__init__("the answer broke off")
        self.response = response


class UpstreamAnswer:
    """The answer, collected for the record."""

    def __init__(self) -> None:
        self.issued: Callable[[list[str]], None] | None = None
        """Called with the ids of what the upstream stores, before the client sees them."""
        self.before_end: Callable[[], None] | None = None
        """Called when the answer is complete, before the client has its end."""
        self.status = 0
        self.kind = ""
        self.encoding = ""
        self.complete = False
        self._pieces: list[bytes] = []
        self._size = 0

    def begin(self, upstream: aiohttp.ClientResponse) -> None:
        self.status, self.kind = upstream.status, upstream.content_type
        self.encoding = upstream.headers.get("content-encoding", "").lower()

    def add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= MAX_RECORDED_BYTES:
            self._pieces.append(piece)

    def reply(self, number: int) -> UpstreamReply:
        """The whole answer; empty if it was too large."""
        return UpstreamReply(
            number=number,
            status=self.status,
            kind=self.kind,
            encoding=self.encoding,
            data=b"".join(self._pieces) if self._size <= MAX_RECORDED_BYTES else b"",
            complete=self.complete,
        )


class Upstream:
    def __init__(self, settings: GatewaySettings, key: str | None) -> None:
        self.base = address_of(settings.upstream or "")
        self._key = key
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=settings.connect_seconds, sock_read=settings.silent_seconds
        )
        self._client: aiohttp.ClientSession | None = None
        self._open: set[aiohttp.ClientResponse] = set()
        self.held, self.held_seconds = 0, 0.0
        """Number of requests passed on, and the total time they were held before."""
        self._looking: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._looking = asyncio.ensure_future(self._look())
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=self._timeout,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=AUTOMATIC,
            max_line_size=65_536,
            max_field_size=65_536,
        )

    async def _look(self) -> None:
        """One timer for all streams; one per stream would cost more than forwarding."""
        while True:
            await asyncio.sleep(CONNECTION_CHECK_SECONDS)
            for answered in self._open:
                look_after(answered)

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        if self._client is not None:
            await self._client.close()

    @asynccontextmanager
    async def asked(
        self, request: web.Request, body: bytes, caller: Caller, *, plain: bool = False
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """The upstream's answer; `plain`: not compressed. Leaving the context early closes it."""
        assert self._client is not None
        url = URL(f"{self.base}{request.rel_url.raw_path_qs}", encoded=True)
        data = io.BytesIO(body) if request.can_read_body or body else None  # written piece by piece
        headers = self._headers(request, caller)
        if plain:
            headers["Accept-Encoding"] = "identity"
        if (arrived := ARRIVED.get()) is not None:
            self.held, self.held_seconds = self.held + 1, self.held_seconds + time.monotonic() - arrived
            ARRIVED.set(None)
        try:
            answered = await self._client.request(
                request.method, url, headers=headers, data=data, allow_redirects=False
            )
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            text = f"the upstream {URL(self.base).origin()} cannot be reached ({type(error).__name__})"
            raise RequestRefused(502, text, "api_error", code="upstream") from None
        self._open.add(answered)
        try:
            if answered.status < 200:
                text = "the upstream asked to switch protocols"
                raise RequestRefused(502, text, "api_error", code="upstream")
            yield answered
        except BaseException:
            answered.close()
            raise
        else:
            answered.release()
        finally:
            self._open.discard(answered)

    def _headers(self, request: web.Request, caller: Caller) -> CIMultiDict[str]:
        headers = _handed_on(request.headers, *OURS, *caller.hidden)
        wanted = [one.partition(";")[0] for one in _listed(request.headers.getall("accept-encoding", []))]
        headers["Accept-Encoding"] = ", ".join(name for name in READABLE if name in wanted) or "identity"
        if self._key is not None:
            for name in UPSTREAM_KEYS:
                headers.popall(name, None)
            if request.path.startswith("/v1/messages"):
                headers["x-api-key"] = self._key
            else:
                headers["Authorization"] = f"Bearer {self._key}"
        return headers


class AnswerStream:
    """An answer that is passed on as it arrives. If it breaks off, the connection is closed without an end,
    so that it does not look complete."""

    def __init__(
        self, request: web.Request, upstream: aiohttp.ClientResponse, answer: UpstreamAnswer, done: str
    ) -> None:
        self._request, self._answer, self._begun = request, answer, False
        headers = _handed_on(upstream.headers)
        headers["x-refold"] = done
        self.response = web.StreamResponse(status=upstream.status, reason=upstream.reason, headers=headers)
        self.streams = upstream.content_type == "text/event-stream"
        answer.begin(upstream)

    async def pieces(self, upstream: aiohttp.ClientResponse, head: bytes = b"") -> AsyncGenerator[bytes]:
        """The pieces of an answer, after `head`, which was already read. Raises `AnswerInterrupted`."""
        streams = upstream.content_type == "text/event-stream"
        issued, ids = self._answer.issued, IdReader(self._request.path, streams=streams)
        try:
            while piece := head or await next_piece(upstream):
                head = b""
                if issued is not None and (found := ids.read(piece)):
                    issued(found)
                yield piece
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise self.broken() from error

    async def write(self, data: bytes) -> None:
        self._answer.add(data)
        await self._write(data)

    async def _write(self, data: bytes) -> None:
        if not self._begun:
            self._begun = True
            await self.response.prepare(self._request)
        if data:
            try:
                await self.response.write(data)
            except ConnectionError as error:
                raise self.broken() from error

    def broken(self, why: str = "the upstream's answer broke off") -> AnswerInterrupted | RequestRefused:
        """Handles an answer that cannot continue. If nothing was sent yet, the reason is sent."""
        if not self._begun:
            return RequestRefused(502, why, "api_error", code="upstream")
        if self._request.transport is not None:
            self._request.transport.close()
        return AnswerInterrupted(self.response)

    async def end(self, last: bytes = b"", *, complete: bool = True) -> web.StreamResponse:
        if not complete:
            raise self.broken()
        self._answer.add(last)
        self._answer.complete = True
        if self._answer.before_end is not None:
            self._answer.before_end()
        await self._write(last)
        await self.response.write_eof()
        return self.response


async def relay(
    request: web.Request,
    upstream: aiohttp.ClientResponse,
    answer: UpstreamAnswer,
    done: str,
    head: bytes = b"",
) -> web.StreamResponse:
    handing = AnswerStream(request, upstream, answer, done)
    handing.response.content_length = upstream.content_length
    await handing.write(b"")
    last, size = b"", 0
    async for piece in handing.pieces(upstream, head):
        size += len(piece)
        if size == upstream.content_length:  # with this piece the client knows that it has all
            last = piece
        else:
            await handing.write(piece)
    return await handing.end(last)


def address_of(text: str) -> str:
    """The address without `/v1/…`."""
    try:
        url = URL(text)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host or url.query_string or url.fragment:
        meant = "" if "://" in text else f"; did you mean http://{text}?"
        raise SettingError("gateway.upstream", f"{text!r} is not an http:// or https:// address{meant}")
    address, mark, endpoint = str(url).rstrip("/").partition("/v1/")
    if mark:
        raise SettingError("gateway.upstream", f"leave out /v1/{endpoint}: give {address}")
    return address.removesuffix("/v1").rstrip("/")


def _handed_on(headers: CIMultiDictProxy[str], *ours: str) -> CIMultiDict[str]:
    """Headers to pass on: neither the gateway's own nor those of one connection."""
    kept_back = {*HOPS, *ours, *_listed(headers.getall("connection", []))}
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in kept_back)


def _listed(values: Iterable[str]) -> set[str]:
    return {one.strip().lower() for value in values for one in value.split(",") if one.strip()}
