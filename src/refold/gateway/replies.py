"""A model's reply, read from the bytes that were passed on."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import msgspec

from refold.errors import RefoldError
from refold.gateway.ipc import UpstreamReply
from refold.messages import Assistant, Usage
from refold.models.anthropic import MessageStream
from refold.models.openai_streams import ChatStream, ResponsesStream, StreamRefused
from refold.models.reply import Collector
from refold.models.stream_chunks import Malformed
from refold.session import dialects

READABLE = ("gzip", "deflate", "identity")
"""Encodings that can be decoded here; other values of the client's `accept-encoding` are not passed on."""
MAX_RECORDED_BYTES = 32 * 1024 * 1024
"""Bytes of an answer kept for recording."""
_READERS = {"openai": ChatStream, "responses": ResponsesStream, "anthropic": MessageStream}
_ODD = (msgspec.DecodeError, RefoldError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""Exceptions raised by answers that cannot be read."""


class Recorded(msgspec.Struct, frozen=True):
    message: Assistant
    usage: Usage | None = None
    cut: bool = False
    """True if the answer is incomplete."""


def read_reply(dialect: str, answer: UpstreamReply) -> Recorded | None:
    if answer.status != 200:
        return None
    data = decompressed(answer.data, answer.encoding)
    if answer.kind == "text/event-stream":
        return _streamed(dialect, data)
    try:
        body = msgspec.json.decode(data)
        if body.get("status") in ("queued", "in_progress"):  # `background`: there is no answer yet
            return None
        message, usage, _ = dialects.get(dialect).parse_reply(body)
    except _ODD:
        return None
    return Recorded(message, usage)


def _streamed(dialect: str, data: bytes) -> Recorded | None:
    reader, collector, error = _READERS[dialect](), Collector(), None
    try:
        for event in events(data):
            for each in reader.read(event):
                collector.add(each)
        for each in reader.end():
            collector.add(each)
    except (Malformed, StreamRefused) as broken:
        error = str(broken)[:500]
    cut = collector.stop is None
    content = collector.content
    if cut and not content and error is None:
        return None
    return Recorded(Assistant(content, collector.stop or "aborted", error), collector.usage, cut)


def events(data: bytes) -> Iterator[Any]:
    """The payloads of server-sent events; the last one may be incomplete."""
    for block in one_line_end(data).split(b"\n\n"):
        payload = payload_of(block)
        if not payload or payload == b"[DONE]":
            continue
        try:
            yield msgspec.json.decode(payload)
        except _ODD:
            return


def one_line_end(data: bytes) -> bytes:
    """Normalises the three kinds of line ends of events."""
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def payload_of(block: bytes) -> bytes:
    lines = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines)


def decompressed(data: bytes, encoding: str) -> bytes:
    """The decoded answer; empty if it cannot be read."""
    if encoding.lower() in ("", "identity"):
        return data
    try:
        return (
            zlib.decompressobj(47).decompress(data, MAX_RECORDED_BYTES)
            if encoding.lower() in READABLE
            else b""
        )
    except zlib.error:
        return b""
