"""One request of a conversation, from its bytes to the end of its answer."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from dataclasses import dataclass

import aiohttp
from aiohttp import web

from refold.gateway.compaction import expand, is_marked
from refold.gateway.desk import Desk, Prepared, Turn, is_overflow
from refold.gateway.door import Caller, Refusal
from refold.gateway.requests import COMPACT, DIALECTS, Asked, model_named, read, since
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
        if self._speaks_compaction(raw):
            asked, trigger = await asyncio.wrap_future(self.desk.submit(self._expanded(raw)))
            if asked is not None and (trigger or self.request.path == COMPACT):
                return await self._compact(asked)
            if asked is not None and asked.since is not None:
                return await self._fold(raw)
        if len(raw) < self.desk.window(model_named(raw)) or self.request.path == COMPACT:
            noted = self.desk.submit(self._noted(raw)) if self.request.path != COMPACT else None
            return await self._ask(raw, raw, noted, "pass")
        return await self._fold(raw)

    async def _fold(self, raw: bytes) -> web.StreamResponse:
        prepared = await self._prepared(raw)
        if prepared is None:
            return await self._ask(raw, raw, None, "pass unread")
        noted = Future[Turn | None]()
        noted.set_result(prepared.turn)
        return await self._ask(prepared.body or raw, raw, noted, prepared.done)

    async def _compact(self, asked: Asked) -> web.StreamResponse:
        """The client asks for compaction: nobody else is asked."""
        work = self.desk.submit(self.desk.compact(asked, self.caller.owner))
        compacted = await asyncio.wrap_future(work)
        headers = {"x-refold": f"compact {compacted.before} {compacted.after}"}
        if self.request.path == COMPACT:
            return web.json_response(compacted.whole(), headers=headers)
        if not asked.body.get("stream"):
            return web.json_response(compacted.response(compacted.item), headers=headers)
        response = web.StreamResponse(headers={**headers, "Content-Type": "text/event-stream"})
        await response.prepare(self.request)
        for event in compacted.stream():
            await response.write(event)
        await response.write_eof()
        return response

    async def _ask(
        self, body: bytes, raw: bytes, noted: Future[Turn | None] | None, done: str
    ) -> web.StreamResponse:
        """Pass it on. Where the upstream says that it is too long, once more, folded."""
        answer = Answer()
        try:
            async with self.upstream.asked(self.request, body, self.caller) as answered:
                head = await _error(answered)
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
            if refused is None and self._speaks_compaction(raw):
                text = f"the session of a compaction item cannot be read ({type(error).__name__})"
                raise Refusal(503, text, "api_error") from error
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

    async def _expanded(self, raw: bytes) -> tuple[Asked | None, bool]:
        return self._reading(raw)

    def _read(self, raw: bytes) -> Asked | None:
        return self._reading(raw)[0]

    def _reading(self, raw: bytes) -> tuple[Asked | None, bool]:
        """The request, and whether it asks for compaction."""
        asked = read(self.request.path, raw, self.request.headers, self.caller.owner)
        if asked is None or not self._speaks_compaction(raw):
            return asked, False
        expanded = expand(asked.wire, self.desk.seal, self.caller.owner)
        return since(asked, expanded.items, expanded.reference), expanded.trigger

    def _speaks_compaction(self, raw: bytes) -> bool:
        path = self.request.path
        if not self.desk.settings.protocols:
            return False
        return path == COMPACT or (DIALECTS[path] == "responses" and is_marked(raw))


async def _error(answered: aiohttp.ClientResponse) -> bytes:
    """The beginning of what an upstream says against a request."""
    said = b""
    try:
        while answered.status >= 400 and len(said) < ERROR and (piece := await answered.content.readany()):
            said += piece
    except (aiohttp.ClientError, TimeoutError, ConnectionError):
        pass  # whoever reads on will see it, too
    return said
