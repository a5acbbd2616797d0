"""Connections of clients: their number, the time limit for request headers, and clients that close only their
side.

Connections without a request are closed after a while, and the oldest of them at once when there are too
many.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

from aiohttp import StreamReader
from aiohttp.web import BaseRequest, StreamResponse
from aiohttp.web_protocol import RequestHandler

try:
    import resource
except ImportError:  # not POSIX: there is no such limit
    resource = None

HEAD_SECONDS = 20.0
"""Time limit from the first byte of a request to the end of its headers."""
IDLE_SECONDS = 120.0
"""Maximum time between two requests."""
PROBES = (0.1, 0.2, 1.0, 5.0)
"""Seconds between checks whether a client that closed its side is still there."""
OPEN_FILES = 1024
"""Maximum number of connections if the system sets no limit on open files."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def open_files() -> int:
    """How many files this process may have open, after raising the limit as far as allowed."""
    if resource is None:
        return OPEN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft if soft != resource.RLIM_INFINITY else 1 << 20


class ClientConnections:
    """All connections, most recently active last."""

    def __init__(self, files: int) -> None:
        # A request needs a file for its client and one for the upstream; stores and others need some, too.
        self.most = max(16, (files - 64) // 2)
        self.most_idle = max(8, self.most // 4)
        self._open: dict[ClientConnection, None] = {}

    def enter(self, connection: ClientConnection) -> None:
        """Adds a connection; of too many, the oldest idle one of the busiest address is closed."""
        self._open[connection] = None
        if len(self._open) <= self.most_idle:
            return
        idle = [each for each in self._open if each.is_idle]
        if len(idle) > self.most_idle or len(self._open) > self.most:
            [(busiest, _)] = Counter(each.address for each in idle).most_common(1)
            next(each for each in idle if each.address == busiest).drop()

    def spoke(self, connection: ClientConnection) -> None:
        self._open[connection] = self._open.pop(connection, None)

    def leave(self, connection: ClientConnection) -> None:
        self._open.pop(connection, None)


class ClientConnection(RequestHandler):
    __slots__ = ("_all", "_answered", "_body", "_late", "_probe", "address")

    def __init__(self, everyone: ClientConnections, *given: Any, **options: Any) -> None:
        super().__init__(*given, keepalive_timeout=IDLE_SECONDS, **options)
        self._all, self.address = everyone, ""
        self._late: asyncio.TimerHandle | None = None
        self._probe: asyncio.TimerHandle | None = None
        self._answered = 0
        self._body: StreamReader | None = None
        """Body of the newest request."""

    @property
    def is_idle(self) -> bool:
        """True if all requests have been answered."""
        return self._answered >= self._request_count

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.address = str((transport.get_extra_info("peername") or ("",))[0])
        self._late = self._loop.call_later(HEAD_SECONDS, self.drop)
        self._all.enter(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._all.leave(self)
        for timer in (self._late, self._probe):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def drop(self) -> None:
        self._all.leave(self)
        if self.transport is not None:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        before = self._request_count
        super().data_received(data)
        if self._request_count > before:
            self._all.spoke(self)
            self._body = self._messages[-1][1]
            if self._late is not None:
                self._late.cancel()
                self._late = None
        elif data and self._late is None and self.is_idle:
            self._late = self._loop.call_later(HEAD_SECONDS, self.drop)

    def eof_received(self) -> bool | None:  # pyright: ignore[reportIncompatibleMethodOverride]  asyncio's own
        """The client closed its side: it may still wait for an answer, unless that has begun."""
        if not self._is_unanswered():
            return None
        self.close()  # behind this answer
        self._probe = self._loop.call_later(PROBES[0], self._look, 1)
        return True

    async def finish_response(
        self, request: BaseRequest, resp: StreamResponse, start_time: float | None
    ) -> tuple[StreamResponse, bool]:
        finished = await super().finish_response(request, resp, start_time)
        self._answered += 1
        return finished

    def _is_unanswered(self) -> bool:
        begun = self._current_request is not None and self._current_request.writer.output_size
        return not self.is_idle and not begun and self._body is not None and self._body.is_eof()

    def _look(self, number: int) -> None:
        """Sends `100 Continue`, which means nothing and fails if the client has gone."""
        if self.transport is None or not self._is_unanswered():
            return
        request = self._current_request
        if request is not None and request.version >= (1, 1):
            self.transport.write(CONTINUE)
        self._probe = self._loop.call_later(PROBES[min(number, len(PROBES) - 1)], self._look, number + 1)
