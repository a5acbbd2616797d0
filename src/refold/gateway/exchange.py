"""One conversation request, from its bytes to the end of its answer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from refold.gateway import ipc
from refold.gateway.auth import Caller, RequestRefused
from refold.gateway.client_compaction import is_candidate
from refold.gateway.compaction import is_marked
from refold.gateway.model_routing import ModelRouting
from refold.gateway.replies import MAX_RECORDED_BYTES, decompressed
from refold.gateway.requests import COMPACT_PATH, identifying_headers, model_named
from refold.gateway.response_rewriter import ResponseRewriter, response_rewriter
from refold.gateway.stored_ids import is_shared, may_refer
from refold.gateway.stream_probe import StreamOpening, opening_of
from refold.gateway.upstream import AnswerStream, Upstream, UpstreamAnswer, relay
from refold.gateway.worker import is_upstream_overflow
from refold.gateway.worker_client import WorkerClient

MAX_READ_BYTES = 1024 * 1024
"""Largest body that this process reads itself; reading more would delay other requests."""
ROUNDS = 5
"""Maximum number of recalls in one answer."""


@dataclass
class RequestExchange:
    upstream: Upstream
    worker: WorkerClient
    routing: ModelRouting
    request: web.Request
    caller: Caller
    number: int
    answer: UpstreamAnswer = field(default_factory=UpstreamAnswer)
    _note: ipc.PassedRequest | None = None
    """Packet that the worker has yet to receive."""
    _told: bool = False

    async def run(self, raw: bytes) -> web.StreamResponse:
        """Handles a request. A body with fewer bytes than the window has tokens certainly fits: it is passed
        on and recorded meanwhile."""
        await self.worker.room()
        if is_shared(self.routing.settings, self.request.path):
            raw = await self._own(raw)
        marked = is_marked(self.routing.settings, self.request.path, raw)
        if not marked and self.request.path == COMPACT_PATH:
            return await self._ask(raw, ipc.SendUpstream(number=0))
        looked_at, asked = marked or is_candidate(self.routing.settings, raw), self._asked(raw)
        if not looked_at and len(raw) < MAX_READ_BYTES and len(raw) < self.routing.of(model_named(raw)):
            self._note = ipc.PassedRequest(**asked)
            return await self._ask(raw, ipc.SendUpstream(number=self.number))
        answer = await self.worker.ask(ipc.RewriteRequest(**asked))
        if isinstance(answer, ipc.SendUpstream) and answer.notes:
            answer = await self.worker.ask(ipc.RewriteRequest(**asked, notes=await self._notes(raw)))
        self._note = ipc.PassedRequest(**asked)  # a worker that comes after this one does not know it
        if isinstance(answer, ipc.ReadyAnswer):
            headers = {"x-refold": answer.done}
            return web.Response(body=answer.body, content_type=answer.kind, headers=headers)
        return await self._ask(raw, self._order(raw, answer, marked), doubtful=True)

    async def _notes(self, raw: bytes) -> ipc.UpstreamReply:
        """The upstream's answer to a compaction call, for notes; empty if it fails."""
        with suppress(RequestRefused, aiohttp.ClientError, TimeoutError, OSError):
            async with self.upstream.asked(self.request, raw, self.caller, plain=True) as answered:
                return ipc.UpstreamReply(
                    number=self.number,
                    status=answered.status,
                    kind=answered.content_type,
                    encoding=answered.headers.get("content-encoding", ""),
                    data=await answered.read(),
                )
        return ipc.UpstreamReply(number=self.number)

    async def _own(self, raw: bytes) -> bytes:
        """The body, once everything it refers to is the caller's. Ids in its answer will be, too."""
        self.answer.issued = self.worker.issuing(self.caller.owner)
        if not may_refer(self.request.path, raw, self.request.headers.get("content-encoding", "")):
            return raw
        return await self.worker.checked(
            ipc.OwnershipCheck(number=self.number, owner=self.caller.owner, raw=raw)
        )

    async def _ask(
        self, raw: bytes, order: ipc.SendUpstream, *, doubtful: bool = False
    ) -> web.StreamResponse:
        """Passes the request on. If the upstream finds it too long, it is folded and sent once more."""
        self.answer.before_end = self._tell_reply if order.number else None
        try:
            async with self._sent(raw, order) as answered:
                opening = await opening_of(answered, doubtful=doubtful)
                again = await self._after_refusal(raw, answered, opening) if order.number else None
                if again is None or again.body is None:
                    asyncio.get_running_loop().call_soon(self._tell_note)  # the first bytes go first
                    return await self._hand_on(order, answered, order.done, opening.head)
            async with self._sent(raw, again) as answered:
                return await self._hand_on(again, answered, f"{again.done} retried")
        finally:
            if order.number:
                self._tell_reply()

    def _tell_reply(self) -> None:
        """Sends the reply to the worker, before the client gets the end of its answer."""
        if not self._told:
            self._told = True
            self._tell_note()
            self.worker.tell(self.answer.reply(self.number))

    def _tell_note(self) -> None:
        """Sends the answered request to the worker: recording it earlier would delay the answer."""
        if self._note is not None:
            self.worker.tell(self._note)
            self._note = None

    def _sent(self, raw: bytes, order: ipc.SendUpstream) -> Any:
        body, read = order.body or raw, order.extras is not None or self.answer.issued is not None
        return self.upstream.asked(self.request, body, self.caller, plain=read)

    async def _hand_on(
        self, order: ipc.SendUpstream, answered: aiohttp.ClientResponse, done: str, head: bytes = b""
    ) -> web.StreamResponse:
        encoded = answered.headers.get("content-encoding", "identity").lower() != "identity"
        if order.extras is None or answered.status != 200 or encoded:
            return await relay(self.request, answered, self.answer, done, head)
        handing = AnswerStream(self.request, answered, self.answer, done)
        shape = response_rewriter(order.extras)
        body = order.body
        said = await self._round(shape, handing, answered, head)
        while (
            shape.again
            and order.extras.ours
            and body
            and shape.round < ROUNDS
            and len(said) <= MAX_RECORDED_BYTES
        ):
            kind = answered.content_type
            packet = ipc.Recall(number=self.number, body=body, kind=kind, said=said)
            order_again = await self.worker.ask(packet)
            body = order_again.body if isinstance(order_again, ipc.SendUpstream) else None
            if body is None:
                break  # what the model said so far is all there is
            shape.begin()
            said = await self._further(shape, handing, body)
        last = shape.end() if handing.streams else shape.result()
        return await handing.end(last, complete=shape.ended)

    async def _further(self, shape: ResponseRewriter, handing: AnswerStream, body: bytes) -> bytes:
        """One more round of the same answer. If it fails, the client gets an error in its stream."""
        try:
            async with self.upstream.asked(self.request, body, self.caller, plain=True) as answered:
                if answered.status == 200:
                    return await self._round(shape, handing, answered)
                text = f"the upstream refused to go on ({answered.status})"
        except RequestRefused as refusal:
            text = refusal.text
        if handing.streams:
            await handing.write(shape.error(text))
        raise handing.broken(text)

    async def _round(
        self,
        shape: ResponseRewriter,
        handing: AnswerStream,
        answered: aiohttp.ClientResponse,
        head: bytes = b"",
    ) -> bytes:
        """One answer of the upstream, passed on as far as possible."""
        pieces: list[bytes] = []
        async for piece in handing.pieces(answered, head):
            pieces.append(piece)
            if handing.streams:
                await handing.write(shape.stream(piece))
        said = b"".join(pieces)
        if handing.streams:
            await handing.write(shape.finish())
        else:
            shape.whole(said)
        return said

    async def _after_refusal(
        self, raw: bytes, answered: aiohttp.ClientResponse, opening: StreamOpening
    ) -> ipc.SendUpstream | None:
        """The folded request after the upstream refused it for its size; None if it cannot be folded."""
        encoding = answered.headers.get("content-encoding", "")
        said = decompressed(opening.error, encoding).decode("utf-8", "replace")
        if not said or not is_upstream_overflow(answered.status, said):
            return None
        self.worker.counts["overflow"] += 1
        folded = await self.worker.ask(ipc.RewriteRequest(**self._asked(raw), refused=said))
        return folded if isinstance(folded, ipc.SendUpstream) else None

    def _order(self, raw: bytes, answer: ipc.FromWorker, marked: bool) -> ipc.SendUpstream:
        """What to send upstream, or a refusal. If the worker fails, what may fit is passed on unchanged."""
        if isinstance(answer, ipc.SendUpstream):
            return answer
        if isinstance(answer, ipc.RefusedAnswer):
            raise RequestRefused(answer.status, answer.text, answer.kind, code=answer.code)
        why = answer.error if isinstance(answer, ipc.WorkerFailure) else ""
        if not marked and len(raw) // 4 < self.routing.of(model_named(raw)):
            self.worker.counts["passed_open"] += 1
            return ipc.SendUpstream(number=self.number, done="pass unread")
        what = "the gateway cannot do this" if marked else "this request is too long and cannot be folded"
        text = f"{what} now ({why}): try again"
        raise RequestRefused(503, text, "overloaded_error", code="try_again", wait=5)

    def _asked(self, raw: bytes) -> dict[str, Any]:
        return {
            "number": self.number,
            "path": self.request.path,
            "raw": raw,
            "names": identifying_headers(self.request.headers),
            "owner": self.caller.owner,
        }
