r"""Repairs lines that the protocol's reader refuses: half a character (`"\ud83d"`) from a program that cut a
text, or a number that is too long. Anything else that cannot be read is answered with an error, so that no
client waits; so is a line that is longer than any request, because reading it takes a minute for 50 MB.

Requests that are not answered yet are bounded: the next line is read when there is room for it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from mcp import types
from refold.errors import RefoldError
from refold.session.dialects.common import json_copy
from refold.text.lenient_json import load_json

MAX_REPAIRED_CHARS = 1 << 20
MAX_UNANSWERED = 100
"""Maximum requests that are handled at once, until their answers are written."""


class LenientStream:
    """The stream of a client's messages, and where to send errors."""

    def __init__(self, incoming: Any, outgoing: Any) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._room = anyio.Semaphore(MAX_UNANSWERED)

    @property
    def last_context(self) -> LenientStream:
        """What starts the task of the message that was received last."""
        return self

    def run(self, start: Callable[..., None], handle: Callable[[], Awaitable[None]]) -> None:
        """Starts a message's task, which keeps its place until it ends."""

        async def handle_in_place() -> None:
            async with self._room:
                await handle()

        self._incoming.last_context.run(start, handle_in_place)

    async def receive(self) -> SessionMessage | Exception:
        while True:
            async with self._room:
                pass
            item = await self._incoming.receive()
            if not isinstance(item, Exception):
                return item
            value = _value(item)
            if message := _message(value):
                return SessionMessage(message)
            await self._outgoing.send(SessionMessage(_refusal(value)))

    def __aiter__(self) -> LenientStream:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._incoming.aclose()

    async def __aenter__(self) -> LenientStream:
        return self

    async def __aexit__(self, exc_type: object, exc_val: object, exc_tb: object) -> None:
        await self.aclose()


def _value(error: Exception) -> Any:
    """The JSON value of a refused line; None if it has none."""
    line = error.errors()[0].get("input") if isinstance(error, ValidationError) else None
    if isinstance(line, str | bytes) and len(line) > MAX_REPAIRED_CHARS:
        return None
    try:
        return load_json(line) if isinstance(line, str | bytes) else line
    except RefoldError:
        return None


def _message(value: Any) -> types.JSONRPCMessage | None:
    try:
        text = json.dumps(json_copy(value), ensure_ascii=False)
        return types.jsonrpc_message_adapter.validate_json(text, by_name=False)
    except (ValueError, TypeError, RecursionError):
        return None


def _refusal(value: Any) -> types.JSONRPCError:
    id = cast("dict[str, Any]", value).get("id") if isinstance(value, dict) else None
    known = isinstance(id, int | str) and not isinstance(id, bool) and len(str(id)) < 100
    error = types.ErrorData(code=types.PARSE_ERROR, message="this line is not a readable request")
    return types.JSONRPCError(jsonrpc="2.0", id=id if known else None, error=error)
