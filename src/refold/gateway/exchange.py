"""One request of a conversation, from its bytes to the end of its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web

from refold.gateway.desk import is_overflow, speaks_compaction
from refold.gateway.door import Caller, Refusal
from refold.gateway.letters import Broken, FromDesk, Note, Order, Question, Refused, Reply, Speech
from refold.gateway.line import Line
from refold.gateway.openings import Opening, opening_of
from refold.gateway.replies import decoded
from refold.gateway.requests import COMPACT, model_named, names
from refold.gateway.upstream import Answer, Upstream, relay
from refold.gateway.windows import Windows

READ = 1024 * 1024
"""Bytes of a request that are looked at here: more take too long while others wait."""


@dataclass
class Exchange:
    upstream: Upstream
    line: Line
    windows: Windows
    request: web.Request
    caller: Caller
    number: int

    async def run(self, raw: bytes) -> web.StreamResponse:
        """A body of fewer bytes than the window has tokens fits, whatever it says: it is passed on, and
        written down meanwhile."""
        speaks = self._speaks(raw)
        if not speaks and self.request.path == COMPACT:
            return await self._ask(raw, Order(number=0))
        if not speaks and len(raw) < READ and self._fits(raw):
            self.line.tell(Note(**self._asked(raw)))
            return await self._ask(raw, Order(number=self.number))
        answer = await self.line.ask(Question(**self._asked(raw)))
        if isinstance(answer, Speech):
            headers = {"x-refold": answer.done}
            return web.Response(body=answer.body, content_type=answer.kind, headers=headers)
        return await self._ask(raw, self._order(raw, answer), doubtful=True)

    async def _ask(self, raw: bytes, order: Order, *, doubtful: bool = False) -> web.StreamResponse:
        """Pass it on. Where the upstream says that it is too long, once more, folded."""
        answer, done = Answer(), order.done
        try:
            async with self.upstream.asked(self.request, order.body or raw, self.caller) as answered:
                opening = await opening_of(answered, doubtful=doubtful)
                again = await self._after_refusal(raw, answered, opening) if order.number else None
                if again is None or again.body is None:
                    return await relay(self.request, answered, answer, done, opening.head)
            async with self.upstream.asked(self.request, again.body, self.caller) as answered:
                return await relay(self.request, answered, answer, f"{again.done} retried")
        finally:
            if order.number:
                self.line.tell(Reply(number=self.number, **answer.said()))

    async def _after_refusal(
        self, raw: bytes, answered: aiohttp.ClientResponse, opening: Opening
    ) -> Order | None:
        """The request folded, where the upstream refused it for its size; None: it cannot be."""
        encoding = answered.headers.get("content-encoding", "")
        said = decoded(opening.error, encoding).decode("utf-8", "replace")
        if not said or not is_overflow(answered.status, said):
            return None
        self.line.counts["overflow"] += 1
        folded = await self.line.ask(Question(**self._asked(raw), refused=said))
        return folded if isinstance(folded, Order) else None

    def _order(self, raw: bytes, answer: FromDesk) -> Order:
        """What is sent; raises `Refusal`. Where the desk fails, what may fit is passed on as it is."""
        if isinstance(answer, Order):
            return answer
        if isinstance(answer, Refused):
            raise Refusal(answer.status, answer.text, answer.kind, code=answer.code)
        why = answer.error if isinstance(answer, Broken) else ""
        if self._speaks(raw):
            raise Refusal(503, f"the session of a compaction item cannot be read ({why})", "api_error")
        if len(raw) // 4 < self.windows.of(model_named(raw)):
            self.line.counts["passed_open"] += 1
            return Order(number=self.number, done="pass unread")
        text = f"this request is too long and could not be folded ({why})"
        raise Refusal(503, text, "api_error", code="context_length_exceeded")

    def _asked(self, raw: bytes) -> dict[str, Any]:
        return {
            "number": self.number,
            "path": self.request.path,
            "raw": raw,
            "names": names(self.request.headers),
            "owner": self.caller.owner,
        }

    def _fits(self, raw: bytes) -> bool:
        return len(raw) < self.windows.of(model_named(raw))

    def _speaks(self, raw: bytes) -> bool:
        return speaks_compaction(self.windows.settings.protocols, self.request.path, raw)
