"""What goes wrong between an upstream and a client: nothing is invented, nothing hangs, nobody gets past a key."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from refold.models.scripted import say
from refold.testing import wire_streams
from tests.gateway.kit import gateway, run, upstream
from tests.gateway.test_auth import KEYS
from tests.gateway.test_pass_through import PATHS as ALL
from tests.gateway.test_pass_through import strange_body
from tests.gateway.test_sessions import PATHS, body, long_talk

KINDS = ("whole", "reset", "stall", "drip", "chunk", "429", "500", "529", "leaves", "refuses")
ENDS = {"openai": b"[DONE]", "responses": b"response.completed", "anthropic": b"message_stop"}
SILENT = 2.0
WRITERS = {
    "openai": wire_streams.chat,
    "responses": wire_streams.responses,
    "anthropic": wire_streams.messages,
}


def answer_of(dialect: str) -> bytes:
    """A stream as the provider would send it."""
    data = b""
    for name, payload in WRITERS[dialect](say("An answer of some words, said in pieces."), "m"):
        text = payload if isinstance(payload, str) else json.dumps(payload)
        data += (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()
    return data


@dataclass
class Upstream:
    """Breaks off as the header `x-fault` of a request says."""

    within: float
    """Seconds after which it is to be closed."""
    closed: dict[str, float] = field(default_factory=dict[str, float])
    """When the other side hung up, by the header `x-run`."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1").lower()
            headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
            await reader.readexactly(int(headers.get("content-length", 0)))
            kind, after, dialect = headers["x-fault"].split(" ")
            await self._answer(writer, kind, int(after), dialect)
            if kind in ("stall", "leaves"):
                await reader.read(1)
                self.closed[headers["x-run"]] = time.monotonic()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, kind: str, after: int, dialect: str) -> None:
        if kind == "refuses":
            return
        if kind.isdigit():
            text = json.dumps({"error": {"type": "odd", "message": kind}})
            writer.write(
                f"HTTP/1.1 {kind} X\r\nConnection: close\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()
            )
            await writer.drain()
            return
        data = answer_of(dialect)
        part = data if kind in ("whole", "drip") else data[: after % len(data)]
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        step = 40 if kind == "drip" else 1 << 20
        for at in range(0, len(part), step):
            piece = part[at : at + step]
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
            await asyncio.sleep(0.002)
        if kind in ("whole", "drip"):
            writer.write(b"0\r\n\r\n")
        elif kind == "chunk":
            writer.write(b"zz\r\nnonsense\r\n")
        elif kind == "reset" and writer.transport:
            writer.transport.abort()


@asynccontextmanager
async def faulty(within: float) -> AsyncGenerator[tuple[str, Upstream]]:
    made = Upstream(within)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", made
    await asyncio.sleep(0.1)  # transports that are closed want a turn


async def one(client: aiohttp.ClientSession, made: Upstream, number: int, chance: random.Random) -> None:
    dialect, kind = chance.choice(list(PATHS)), KINDS[number % len(KINDS)]
    after, long = chance.randrange(1, 5000), number % 4 == 0
    asked = body(dialect, long_talk(3) if long else [("user", f"Question {number}")])
    headers = {"x-fault": f"{kind} {after} {dialect}", "x-run": str(number), "X-Refold-Session": f"s{number}"}
    got, clean, status = b"", False, 0
    try:
        async with client.post(PATHS[dialect], json=asked, headers=headers) as reply:
            status = reply.status
            if kind == "leaves":
                await asyncio.sleep(0.02)
                reply.close()
                left = time.monotonic()
                await _closed(made, number, left)
                return
            async for piece in reply.content.iter_any():
                got += piece
            clean = True
    except aiohttp.ClientError:
        pass
    where = (number, kind, dialect, long, status, got[-200:])
    whole = kind in ("whole", "drip")
    if kind.isdigit():
        assert (status, clean, json.loads(got)["error"]["message"]) == (int(kind), True, kind), where
    elif kind == "refuses" or not status:
        assert status == 502, where
    if status == 502:
        told = json.loads(got)
        assert (told.get("type") == "error") == (dialect == "anthropic"), where
        assert told["error"]["type"] == "api_error", where
    elif not kind.isdigit():
        assert clean == whole, where
        assert (ENDS[dialect] in got) == whole or (not whole and answer_of(dialect).startswith(got)), where
    if kind == "stall":
        await _closed(made, number, time.monotonic())


async def _closed(made: Upstream, number: int, since: float) -> None:
    left = made.within - (time.monotonic() - since)
    for _ in range(int(max(left, 0) / 0.01)):
        if str(number) in made.closed:
            return
        await asyncio.sleep(0.01)
    assert str(number) in made.closed, "the upstream is still open"


def faults(runs: int, at_once: int, within: float) -> None:
    async def work() -> None:
        chance, numbers = random.Random(5), iter(range(runs))
        settings: dict[str, Any] = {"window": 8_000, "recall": True, "silent_seconds": SILENT}
        async with faulty(within) as (url, made), gateway(url, **settings) as (served, client):

            async def some() -> None:
                for number in numbers:
                    try:
                        async with asyncio.timeout(120):
                            await one(client, made, number, chance)
                    except TimeoutError:
                        raise AssertionError(f"run {number} hangs: {KINDS[number % len(KINDS)]}") from None

            await asyncio.gather(*(some() for _ in range(at_once)))
            assert not served.counts["failed"]

    asyncio.run(work())


@pytest.mark.slow
def test_faults_of_the_upstream_and_clients_that_leave() -> None:
    faults(60, 10, within=60.0)


@pytest.mark.torture
def test_a_thousand_faults() -> None:
    faults(1000, 20, within=1.0)


def identical(requests: int) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=hashlib.sha256(await request.read()).hexdigest())

    async def work() -> None:
        chance = random.Random(9)
        async with upstream(answer) as url, gateway(url) as (_, client):
            for number in range(requests):
                sent = strange_body(chance)
                async with client.post(ALL[number % 4], data=sent) as reply:
                    assert await reply.text() == hashlib.sha256(sent).hexdigest()

    asyncio.run(work())


@pytest.mark.torture
def test_ten_thousand_bodies_go_through_byte_for_byte() -> None:
    identical(10_000)


def hostile(chance: random.Random, key: bytes) -> bytes:
    """A request that nobody would send."""

    def junk(letters: bytes, most: int) -> bytes:
        return bytes(chance.choice(letters) for _ in range(chance.randrange(most)))

    printable, odd = bytes(range(33, 127)), bytes(range(256))
    path = chance.choice(
        [
            *(path.encode() for path in ALL),
            b"/v1/models/%2e%2e",
            b"//v1/messages",
            b"/metrics",
            b"/" + junk(printable, 30),
        ]
    )
    method = chance.choice([b"POST", b"GET", b"PUT", b"OPTIONS", junk(printable, 8) or b"X"])
    content = chance.choice(
        [
            junk(odd, 300),
            b'{"model":"m","messages":' + b"[" * 300,
            b'{"messages":[{"role":"user","content":"x"}]}',
        ]
    )
    names = [
        b"authorization",
        b"x-api-key",
        b"x-refold-key",
        b"host",
        b"content-type",
        b"x-refold-session",
        b"connection",
        b"content-encoding",
    ]
    values = [
        junk(printable, 60),
        b"Bearer " + junk(printable, 40),
        b"gzip",
        b"\xff\xfe",
        b"close, x-refold-key",
        hashlib.sha256(b"secret-of-ann").hexdigest().encode(),
    ]
    headers = [
        chance.choice([*names, junk(printable, 12) or b"a"]) + b": " + chance.choice(values)
        for _ in range(chance.randrange(6))
    ]
    length = chance.choice([b"%d" % len(content), b"%d" % len(content), b"-1", b"9" * 30, junk(printable, 4)])
    headers += [b"Content-Length: " + length, b"Host: 127.0.0.1", *([b"x-refold-key: " + key] if key else [])]
    return method + b" " + path + b" HTTP/1.1\r\n" + b"\r\n".join(headers) + b"\r\n\r\n" + content


def besiege(requests: int) -> None:
    reached: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        reached.append(request.path)
        await request.read()
        return web.json_response({})

    async def ask(port: int, data: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(data)
            writer.write_eof()
            async with asyncio.timeout(120):
                return await reader.read()
        except (ConnectionError, OSError):
            return b""
        finally:
            writer.close()
            with suppress(ConnectionError, OSError):
                await writer.wait_closed()

    async def work() -> None:
        chance = random.Random(11)
        async with upstream(answer) as url, gateway(url, keys=KEYS, window=200) as (made, _):
            port = int(made.url.rpartition(":")[2])
            for number in range(requests):
                key = b"secret-of-ann" if number % 2 else b""
                before = len(reached)
                said = await ask(port, hostile(chance, key))
                assert not said.startswith(b"HTTP/1.1 500"), said
                if not key:
                    assert len(reached) == before and not said.startswith(b"HTTP/1.1 2"), said

    run(work)


def test_hostile_headers_and_bodies_are_no_fault_of_ours_and_no_way_past_a_key() -> None:
    besiege(150)


@pytest.mark.torture
def test_a_thousand_hostile_headers_and_bodies() -> None:
    besiege(1000)
