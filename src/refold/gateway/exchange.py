"""One request of a conversation, from its bytes to the end of its answer."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from dataclasses import dataclass

import aiohttp
from aiohttp import web

from refold.gateway.desk import Desk, Prepared, Turn, is_overflow
from refold.gateway.door import Caller, Refusal
from refold.gateway.requests import Asked, model_named, read
from refold.gateway.upstream import Answer, Upstream, decoded, relay

ERROR = 64 * 1024
"""Bytes of an error that are looked at."""


@dataclass
class Exchange:
    upstream: Upstream
    desk: Desk
    request: web.Request
    caller: Caller

    async def run(self, raw: bytes) -> web.StreamResponse:
        """A body of fewer bytes than the window has tokens fits, whatever it says: it is passed on, and
        written down meanwhile."""
        if len(raw) < self.desk.window(model_named(raw)):
            noted = self.desk.submit(self._noted(raw))
            return await self._ask(raw, raw, noted, "pass")
        prepared = await self._prepared(raw)
        if prepared is None:
            return await self._ask(raw, raw, None, "pass unread")
        noted = Future[Turn | None]()
        noted.set_result(prepared.turn)
        return await self._ask(prepared.body or raw, raw, noted, prepared.done, again=prepared.body is None)

    async def _ask(
        self, body: bytes, raw: bytes, noted: Future[Turn | None] | None, done: str, *, again: bool = True
    ) -> web.StreamResponse:
        """Pass it on. Where the upstream says that it is too long, once more, folded."""
        answer = Answer()
        try:
            async with self.upstream.asked(self.request, body, self.caller) as answered:
                head = await _error(answered) if again else b""
                prepared = await self._after_refusal(raw, answered, head)
                if prepared is None or prepared.body is None:
                    return await relay(self.request, answered, answer, done, head)
            noted = Future[Turn | None]()
            noted.set_result(prepared.turn)
            async with self.upstream.asked(self.request, prepared.body, self.caller) as answered:
                return await relay(self.request, answered, answer, f"{prepared.done} retried")
        finally:
            if noted is not None:
                self.desk.submit(self._finished(noted, answer))

    async def _prepared(self, raw: bytes, *, refused: str | None = None) -> Prepared | None:
        """What the desk makes of it; None: pass it on as it is."""
        try:
            return await asyncio.wrap_future(self.desk.submit(self._preparing(raw, refused)))
        except Refusal:
            if refused is not None:
                return None  # the upstream has said it already
            raise
        except Exception as error:
            if refused is not None or len(raw) // 4 < self.desk.window(model_named(raw)):
                self.desk.counts["passed_open"] += 1
                return None
            text = f"this request is too long and could not be folded ({type(error).__name__})"
            raise Refusal(503, text, "api_error", code="context_length_exceeded") from error

    async def _after_refusal(
        self, raw: bytes, answered: aiohttp.ClientResponse, head: bytes
    ) -> Prepared | None:
        """The request folded, where the upstream refused it for its size."""
        said = decoded(head, answered.headers.get("content-encoding", "")).decode("utf-8", "replace")
        if not is_overflow(answered.status, said):
            return None
        self.desk.counts["overflow"] += 1
        return await self._prepared(raw, refused=said)

    async def _preparing(self, raw: bytes, refused: str | None) -> Prepared | None:
        asked = self._read(raw)
        return None if asked is None else await self.desk.prepare(asked, refused=refused)

    async def _noted(self, raw: bytes) -> Turn | None:
        asked = self._read(raw)
        return None if asked is None else await self.desk.take(asked)

    async def _finished(self, noted: Future[Turn | None], answer: Answer) -> None:
        # Not awaited where it is there: the client's next request must not come in between.
        turn = noted.result() if noted.done() else await asyncio.wrap_future(noted)
        await self.desk.answered(turn, answer)

    def _read(self, raw: bytes) -> Asked | None:
        return read(self.request.path, raw, self.request.headers, self.caller.owner)


async def _error(answered: aiohttp.ClientResponse) -> bytes:
    """The beginning of what an upstream says against a request."""
    said = b""
    try:
        while answered.status >= 400 and len(said) < ERROR and (piece := await answered.content.readany()):
            said += piece
    except (aiohttp.ClientError, TimeoutError, ConnectionError):
        pass  # whoever reads on will see it, too
    return said
