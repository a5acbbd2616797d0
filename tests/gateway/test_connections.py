"""Connections: those that say nothing are in nobody's way, those that close their own half get their answer."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from refold.gateway import connections
from tests.gateway.kit import gateway, run, upstream
from tests.gateway.test_auth import BODY, KEYS, PATH
from tests.gateway.test_strangers import post


async def _fine(request: web.Request) -> web.Response:
    await request.read()
    return web.json_response({"fine": True})


@contextlib.contextmanager
def _few_files(number: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


HALVES = {
    "nothing": b"",
    "half a head": b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nx-pad: ",
    "a head without a body": b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n",
    "a refused request, kept alive": b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("half", HALVES)
def test_half_requests_without_a_key_stop_nobody(half: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as there may be files open, and more."""
    monkeypatch.setattr(connections, "open_files", lambda: 200)
    monkeypatch.setattr("refold.gateway.server.open_files", lambda: 200, raising=False)

    async def work() -> None:
        async with upstream(_fine) as url, gateway(url, keys=KEYS) as (made, client):
            port, writers = urlsplit(made.url).port, list[asyncio.StreamWriter]()
            for _ in range(300):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(HALVES[half])
                writers.append(writer)
            await asyncio.sleep(0.1)
            for _ in range(3):
                headers = {"x-refold-key": "secret-of-ann"}
                async with client.post(PATH, data=BODY, headers=headers) as reply:
                    assert (reply.status, await reply.json()) == (200, {"fine": True})
            held = len(made._runner.server.connections)  # pyright: ignore
            assert held < 100, "the process would have no files left"
            for writer in writers:
                writer.close()

    run(work)


def test_a_head_has_to_come_within_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)

    async def work() -> None:
        async with upstream(_fine) as url, gateway(url) as (made, client):
            for first in (b"", post(PATH, content=BODY)):
                reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(made.url).port)
                writer.write(first)
                if first:
                    assert await reader.readuntil(b'{"fine": true}')
                    await asyncio.sleep(0.5)  # between two requests there is more time
                writer.write(b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n")
                with contextlib.suppress(ConnectionError):
                    while True:  # until `run` breaks it off
                        writer.write(b"x: 1\r\n")
                        await writer.drain()
                        await asyncio.sleep(0.05)
                writer.close()
            async with client.post(PATH, data=BODY) as reply:
                assert reply.status == 200

    run(work)


def test_as_many_files_as_there_may_be() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with _few_files(100):
        connections.open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard


@pytest.mark.sample(1)
@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("streams", [True, False])
def test_a_client_that_closes_its_half_gets_its_answer(streams: bool, version: str) -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        await request.read()
        await asyncio.sleep(0.5)
        if not streams:
            return web.json_response({"said": "fine"})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for _ in range(3):
            await response.write(b'data: {"said": "so"}\n\n')
            await asyncio.sleep(0.05)
        await response.write(b'data: {"said": "fine"}\n\n')
        return response

    async def work() -> None:
        async with upstream(slow) as url, gateway(url) as (made, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(made.url).port)
            writer.write(post(PATH, content=BODY).replace(b"HTTP/1.1", b"HTTP/" + version.encode(), 1))
            writer.write_eof()
            got = await asyncio.wait_for(reader.read(), 10)
            assert b"200 OK" in got and b"fine" in got
            assert (b"100 Continue" in got) == (version == "1.1")
            writer.close()

    run(work)


def test_a_client_that_goes_before_its_answer_begins_is_not_waited_for() -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        asked.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            gone.set()
            raise
        return web.json_response({})

    async def work() -> None:
        async with upstream(slow) as url, gateway(url) as (made, _):
            _, writer = await asyncio.open_connection("127.0.0.1", urlsplit(made.url).port)
            writer.write(post(PATH, content=BODY))
            await asked.wait()
            writer.close()
            await gone.wait()

    run(work)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models"])
def test_an_upstream_that_wants_another_protocol_is_refused(path: str) -> None:
    async def switch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nanything")
        await writer.drain()
        await reader.read()
        writer.close()

    async def work() -> None:
        server = await asyncio.start_server(switch, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, gateway(url) as (_, client):
            method = "GET" if path == "/v1/models" else "POST"
            async with client.request(method, path, data=BODY if method == "POST" else None) as reply:
                assert reply.status == 502 and b"protocol" in await reply.read()

    run(work)
