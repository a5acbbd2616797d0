"""The beginning of an answer. It is held back until it is clear whether the stream starts with an error, so
that the request can still be folded and sent once more."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

import aiohttp

from refold.gateway.replies import one_line_end

MAX_ERROR_BYTES = 64 * 1024
"""Bytes of an error or a beginning that are examined."""
SURE = 48
"""Bytes of an event that suffice to recognise an error."""
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
"""Events before the actual answer."""


@dataclass
class StreamOpening:
    head: bytes = b""
    """Bytes read so far, to be passed on first."""
    error: bytes = b""


async def next_piece(answered: aiohttp.ClientResponse) -> bytes:
    """The next piece; empty at the end."""
    try:
        return await answered.content.readany()
    except RuntimeError as error:  # aiohttp's word for a connection that was closed before
        raise aiohttp.ClientPayloadError(str(error)) from error


def look_after(answered: aiohttp.ClientResponse) -> None:
    """Closes an answer whose connection has broken: aiohttp does not wake its reader."""
    content, connection = answered.content, answered.connection
    transport = None if connection is None else connection.transport
    lost = transport is None or transport.is_closing()
    if lost and not content.is_eof() and content.exception() is None:
        content.set_exception(aiohttp.ClientPayloadError("the connection was closed"))


async def opening_of(answered: aiohttp.ClientResponse, *, doubtful: bool) -> StreamOpening:
    """The beginning of an answer: all of an error, the first piece of a stream. If it is `doubtful` whether
    the request fits, enough to see whether an answer begins."""
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
    """True if an error may still follow."""
    rest = _rest(head)
    if not rest or b"\n\n" in rest:
        return doubtful and not rest
    return doubtful or len(rest) < SURE or _ERROR.match(rest) is not None


def _rest(head: bytes) -> bytes:
    """The bytes without events that precede the answer, line ends normalised."""
    head = one_line_end(head)
    while match := _SAYS_NOTHING.match(head):
        head = head[match.end() :]
    return head
