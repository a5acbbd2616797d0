"""How an answer begins: an error that is told inside of a stream comes before anything was handed on, so that
the request can still be folded and sent once more."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

import aiohttp

from refold.gateway.replies import one_line_end

MAX_ERROR_BYTES = 64 * 1024
"""Bytes of an error, or of a beginning, that are looked at."""
SURE = 48
"""Bytes of an event by which one sees whether it tells of an error."""
HELD_SECONDS = 2.0
"""How long the beginning of a stream is held back at most."""
_ERROR = re.compile(
    rb'event: *(?:error|response\.failed)\b|data: *\{ *"(?:error"|type" *: *"(?:error|response\.failed)")'
)
_KINDS = rb"(?:message_start|ping|response\.(?:created|in_progress|queued))"
_SAYS_NOTHING = re.compile(
    rb"(?:event: *" + _KINDS + rb"\n)?"
    rb'(?:data: *\{ *"type" *: *"' + _KINDS + rb'"[^\n]*|:[^\n]*)\n\n'
)
"""Events in which no answer has begun yet."""


@dataclass
class StreamOpening:
    head: bytes = b""
    """What was read, to be handed on first."""
    error: bytes = b""
    """What the upstream says against the request."""


async def next_piece(answered: aiohttp.ClientResponse) -> bytes:
    """What comes next; nothing: it is all."""
    try:
        return await answered.content.readany()
    except RuntimeError as error:  # aiohttp's word for a connection that was closed before
        raise aiohttp.ClientPayloadError(str(error)) from error


def look_after(answered: aiohttp.ClientResponse) -> None:
    """aiohttp closes a connection on which nonsense comes, but does not wake up who reads from it."""
    content, connection = answered.content, answered.connection
    transport = None if connection is None else connection.transport
    lost = transport is None or transport.is_closing()
    if lost and not content.is_eof() and content.exception() is None:
        content.set_exception(aiohttp.ClientPayloadError("the connection was closed"))


async def opening_of(answered: aiohttp.ClientResponse, *, doubtful: bool) -> StreamOpening:
    """Of an error, all of it. Of a stream, the first piece; where it is `doubtful` whether the request fits,
    so much that one sees whether an answer begins."""
    opening = StreamOpening()
    stream = answered.status == 200 and answered.content_type == "text/event-stream"
    plain = answered.headers.get("content-encoding", "identity").lower() == "identity"
    if answered.status < 400 and not (stream and plain):
        return opening
    try:
        async with asyncio.timeout(HELD_SECONDS if stream else None):
            while len(opening.head) < MAX_ERROR_BYTES and (piece := await next_piece(answered)):
                opening.head += piece
                if stream and not _is_open(opening.head, doubtful):
                    break
    except (aiohttp.ClientError, TimeoutError, ConnectionError):
        pass  # the next read raises it again
    if not stream or _ERROR.match(_rest(opening.head)):
        opening.error = opening.head
    return opening


def _is_open(head: bytes, doubtful: bool) -> bool:
    """Might an error still come before anything else?"""
    rest = _rest(head)
    if not rest or b"\n\n" in rest:
        return doubtful and not rest
    return doubtful or len(rest) < SURE or _ERROR.match(rest) is not None


def _rest(head: bytes) -> bytes:
    """Without the events that say nothing, in lines that end alike."""
    head = one_line_end(head)
    while match := _SAYS_NOTHING.match(head):
        head = head[match.end() :]
    return head
