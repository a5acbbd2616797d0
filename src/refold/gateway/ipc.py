"""Packets between the server, which moves bytes, and the worker, which reads them.

Each packet is a length and MessagePack. The server never waits for the answer to a packet that is only to be
recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, TypeAlias

import msgspec

from refold.registry.configuration import GatewaySettings

READ_AHEAD_BYTES = 1 << 20


class ClientRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation request as it arrived."""

    number: int
    id: int = 0
    """Id of this packet, under which it is kept until it is recorded."""
    path: str
    raw: bytes
    names: dict[str, str] = {}
    """Headers that may name its session."""
    owner: str = ""


class PassedRequest(ClientRequest, frozen=True, tag="note"):
    """A request that was passed on unchanged; to be recorded."""


class RewriteRequest(ClientRequest, frozen=True, tag="question"):
    """A request to rewrite before it is sent; the client waits."""

    refused: str | None = None
    """The upstream's message, if it refused the request as too long."""
    notes: UpstreamReply | None = None
    """The upstream's answer to a compaction call that was passed on for its notes."""


class UpstreamReply(msgspec.Struct, frozen=True, kw_only=True, tag="reply"):
    """The final answer of the upstream. Sent after every request, if only so that the worker forgets it."""

    number: int
    id: int = 0
    status: int = 0
    kind: str = ""
    encoding: str = ""
    data: bytes = b""
    complete: bool = False


Recordable: TypeAlias = PassedRequest | UpstreamReply


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True, tag="opening"):
    """The first packet to a worker process."""

    settings: GatewaySettings
    secret: bytes


class Recall(msgspec.Struct, frozen=True, kw_only=True, tag="recall"):
    """The model called the recall tool: the request must be sent again with the call and its result."""

    number: int
    body: bytes
    """The body that was sent."""
    kind: str
    said: bytes


class Issued(msgspec.Struct, frozen=True, kw_only=True, tag="issued"):
    """The upstream stores something for this owner under these ids."""

    owner: str
    ids: list[str]


class OwnershipCheck(msgspec.Struct, frozen=True, kw_only=True, tag="check"):
    """Asks whether this owner may use these ids and those that a body refers to."""

    number: int
    owner: str
    ids: list[str] = []
    raw: bytes | None = None


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    """Asks whether the worker is alive."""


ToWorker: TypeAlias = Recordable | RewriteRequest | WorkerSettings | Recall | Issued | OwnershipCheck | Ping


class WorkerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The worker's answer to the request of that number."""

    number: int
    counts: tuple[str, ...] = ()
    """Counters for the metrics."""


class Done(WorkerAnswer, frozen=True, tag="done"):
    """The packet of this id is recorded, or never will be."""

    id: int = 0


class Extras(msgspec.Struct, frozen=True, kw_only=True):
    """How the answer differs from the upstream's."""

    dialect: str
    item: dict[str, Any] | None = None
    """A compaction item or block to put first."""
    usage: dict[str, Any] = {}
    """Usage of the fold."""
    applied: list[dict[str, Any]] | None = None
    """What was cleared; None if nothing was requested."""
    ours: tuple[str, ...] = ()
    """Tools whose calls the gateway answers."""


class SendUpstream(WorkerAnswer, frozen=True, tag="order"):
    """Tells the server to send a body upstream."""

    body: bytes | None = None
    """None: the client's body."""
    done: str = "pass"
    extras: Extras | None = None
    notes: bool = False
    """The upstream's answer is not for the client: ask the worker again with it (`RewriteRequest.notes`)."""


class ReadyAnswer(WorkerAnswer, frozen=True, tag="speech"):
    """A complete answer for the client; the upstream is not asked."""

    body: bytes
    kind: str
    done: str


class RefusedAnswer(WorkerAnswer, frozen=True, tag="refused"):
    """A refusal, to be sent in the client's dialect."""

    status: int
    text: str
    kind: str
    code: str | None = None


class WorkerFailure(WorkerAnswer, frozen=True, tag="broken"):
    """The worker failed: an error of the store, or an unexpected one."""

    error: str


FromWorker: TypeAlias = Done | SendUpstream | ReadyAnswer | RefusedAnswer | WorkerFailure

_encoder = msgspec.msgpack.Encoder()
to_worker: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
from_worker: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)


def encode_packet(packet: ToWorker | FromWorker) -> bytes:
    data = _encoder.encode(packet)
    return len(data).to_bytes(4, "big") + data


async def packets(reader: asyncio.StreamReader, decoder: msgspec.msgpack.Decoder[Any]) -> AsyncGenerator[Any]:
    """Packets as they arrive, until the other side closes."""
    while True:
        try:
            size = int.from_bytes(await reader.readexactly(4), "big")
            yield decoder.decode(await reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            return
