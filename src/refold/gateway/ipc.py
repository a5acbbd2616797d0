"""What the server and the worker write to each other: the one moves bytes, the other reads them.

Each packet is a length and MessagePack. The server never waits for an answer to what it only wants written
down.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, TypeAlias

import msgspec

from refold.registry.configuration import GatewaySettings

READ_AHEAD_BYTES = 1 << 20
"""Bytes that are read ahead of a packet."""


class ClientRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a conversation, as it came."""

    number: int
    id: int = 0
    """Of this packet, where it is kept until it is done."""
    path: str
    raw: bytes
    names: dict[str, str] = {}
    """Headers in which its session may be named."""
    owner: str = ""


class PassedRequest(ClientRequest, frozen=True, tag="note"):
    """It was passed on as it is: to be written down, whenever there is time."""


class RewriteRequest(ClientRequest, frozen=True, tag="question"):
    """A request to rewrite before it is sent; the client waits."""

    refused: str | None = None
    """The upstream has said that it is too long, in these words."""
    notes: UpstreamReply | None = None
    """What the upstream answers to a compaction call that was passed on for its notes."""


class UpstreamReply(msgspec.Struct, frozen=True, kw_only=True, tag="reply"):
    """What the upstream answered in the end. Comes after every note and question, if only to forget it."""

    number: int
    id: int = 0
    status: int = 0
    kind: str = ""
    encoding: str = ""
    data: bytes = b""
    complete: bool = False


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True, tag="opening"):
    """The first packet to a worker that is a process of its own."""

    settings: GatewaySettings
    secret: bytes


class Recall(msgspec.Struct, frozen=True, kw_only=True, tag="recall"):
    """The model has asked what was said before: send this again, with what it said and what it asked for."""

    number: int
    body: bytes
    """What was sent."""
    kind: str
    said: bytes


class Issued(msgspec.Struct, frozen=True, kw_only=True, tag="issued"):
    """The upstream keeps something for this owner, under these ids."""

    owner: str
    ids: list[str]


class OwnershipCheck(msgspec.Struct, frozen=True, kw_only=True, tag="check"):
    """May this owner use what these ids stand for, and those that a body refers to?"""

    number: int
    owner: str
    ids: list[str] = []
    raw: bytes | None = None


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    """Is the worker there?"""


ToWorker: TypeAlias = (
    PassedRequest | RewriteRequest | UpstreamReply | WorkerSettings | Recall | Issued | OwnershipCheck | Ping
)


class WorkerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Of the worker, about the request of that number."""

    number: int
    counts: tuple[str, ...] = ()
    """What has happened, for the figures."""


class Done(WorkerAnswer, frozen=True, tag="done"):
    """The packet of this id is written down, or never will be."""

    id: int = 0


class Extras(msgspec.Struct, frozen=True, kw_only=True):
    """How the answer differs from what the upstream says."""

    dialect: str
    item: dict[str, Any] | None = None
    """A compaction item, or block, that stands before all that the model says."""
    usage: dict[str, Any] = {}
    """What making it took."""
    applied: list[dict[str, Any]] | None = None
    """What was cleared before; None: it was not asked for."""
    ours: tuple[str, ...] = ()
    """Tools whose calls are answered here."""


class Order(WorkerAnswer, frozen=True, tag="order"):
    """Send this."""

    body: bytes | None = None
    """None: what came."""
    done: str = "pass"
    extras: Extras | None = None
    notes: bool = False
    """The answer is no answer to the client: ask again with it (`Question.notes`)."""


class Speech(WorkerAnswer, frozen=True, tag="speech"):
    """The answer for the client; the upstream is not asked."""

    body: bytes
    kind: str
    done: str


class RefusedAnswer(WorkerAnswer, frozen=True, tag="refused"):
    """Say this in the client's dialect."""

    status: int
    text: str
    kind: str
    code: str | None = None


class WorkerFailure(WorkerAnswer, frozen=True, tag="broken"):
    """The worker cannot do it: the store fails, or an unexpected error."""

    error: str


FromWorker: TypeAlias = Done | Order | Speech | RefusedAnswer | WorkerFailure

_encoder = msgspec.msgpack.Encoder()
to_worker: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
from_worker: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)


def encode_packet(packet: ToWorker | FromWorker) -> bytes:
    data = _encoder.encode(packet)
    return len(data).to_bytes(4, "big") + data


async def packets(reader: asyncio.StreamReader, decoder: msgspec.msgpack.Decoder[Any]) -> AsyncGenerator[Any]:
    """All that come, until the other side is gone."""
    while True:
        try:
            size = int.from_bytes(await reader.readexactly(4), "big")
            yield decoder.decode(await reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            return
