"""What fits goes through byte for byte, piece by piece, and errors as they are."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from tests.gateway.kit import gateway, run, upstream

PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens")


def strange_body(chance: random.Random) -> bytes:
    """JSON with spaces, escapes and orders that no writer would make again; or no JSON at all."""
    kind = chance.randrange(4)
    if kind == 0:
        return chance.randbytes(chance.randrange(5000))
    text = "".join(
        chance.choice('ab "\\\n\u00e9\u4f60\U0001f600\ud83d') for _ in range(chance.randrange(2000))
    )
    body: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": "user", "content": text}],
        "x": 1e-7,
        "n": None,
    }
    written = json.dumps(body, indent=chance.choice([None, 1, 7]), ensure_ascii=True)
    return (written.replace(": ", ":\t ") if kind == 1 else written).encode()


def test_bodies_go_through_byte_for_byte() -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(hashlib.sha256(await request.read()).hexdigest())
        return web.json_response({"ok": True})

    async def work() -> None:
        chance = random.Random(1)
        async with upstream(answer) as url, gateway(url) as (_, client):
            for n in range(300):
                body = strange_body(chance)
                async with client.post(PATHS[n % 4], data=body) as reply:
                    assert reply.status == 200
                    assert reply.headers["x-refold"] == "pass"
                assert seen[-1] == hashlib.sha256(body).hexdigest()

    run(work)


def test_headers_and_query_are_kept_and_those_of_a_connection_are_not() -> None:
    seen: list[web.Request] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request)
        return web.Response(text="x", headers=[("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("X-Id", "7")])

    async def work() -> None:
        async with upstream(answer) as url, gateway(f"{url}/v1/") as (_, client):
            given = {"Authorization": "Bearer k", "anthropic-beta": "x,y", "X-Own": "1", "Keep-Alive": "3"}
            async with client.post(
                URL("/v1/messages?beta=true&x=%2F", encoded=True), data=b"{}", headers=given
            ) as reply:
                assert reply.headers.getall("Set-Cookie") == ["a=1", "b=2"]
                assert reply.headers["X-Id"] == "7"
        [request] = seen
        assert request.raw_path == "/v1/messages?beta=true&x=%2F"
        for name in ("Authorization", "anthropic-beta", "X-Own"):
            assert request.headers[name] == given[name]
        assert "Keep-Alive" not in request.headers

    run(work)


@pytest.mark.parametrize("status", [301, 400, 401, 404, 429, 500, 529])
def test_errors_of_the_upstream_come_as_they_are(status: int) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(
            status=status, text='{"error": "odd  "}', headers={"Location": "http://127.0.0.1:1/"}
        )

    async def work() -> None:
        async with (
            upstream(answer) as url,
            gateway(url) as (_, client),
            client.post(PATHS[0], data=b"{}", allow_redirects=False) as reply,
        ):
            assert (reply.status, await reply.text()) == (status, '{"error": "odd  "}')

    run(work)


def test_a_stream_is_handed_on_piece_by_piece() -> None:
    turn = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for n in range(20):
            await response.write(b"data: %d\n\n" % n)
            await turn.wait()  # until the client has it
            turn.clear()
        await response.write_eof()
        return response

    async def work() -> None:
        async with (
            upstream(answer) as url,
            gateway(url) as (_, client),
            client.post(PATHS[0], data=b"{}") as reply,
        ):
            for n in range(20):
                assert await reply.content.readany() == b"data: %d\n\n" % n
                turn.set()
            assert await reply.content.read() == b""

    run(work)


@pytest.mark.parametrize("after", [1, 100, 5000])
@pytest.mark.parametrize("sized", [True, False])
def test_an_answer_that_breaks_off_breaks_off_for_the_client(after: int, sized: bool) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if sized:
            response.content_length = 10_000
        await response.prepare(request)
        await response.write(b"x" * after)
        assert request.transport is not None
        request.transport.close()
        return response

    async def work() -> None:
        async with upstream(answer) as url, gateway(url) as (_, client):
            got = b""
            with pytest.raises(aiohttp.ClientError):
                async with client.post(PATHS[0], data=b"{}") as reply:
                    async for piece in reply.content.iter_any():
                        got += piece
            assert got == b"x" * after

    run(work)


def test_an_upstream_that_says_nothing_any_more_is_left() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begun")
        await asyncio.sleep(30)
        return response

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, silent_seconds=0.3) as (made, client):
            with pytest.raises(aiohttp.ClientError):
                async with client.post(PATHS[0], data=b"{}") as reply:
                    await reply.read()
            assert made.counts["cut"] == 1

    run(work)


@pytest.mark.parametrize("silent", [True, False])
def test_a_client_that_leaves_closes_the_upstream(silent: bool) -> None:
    left = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"more")
                await asyncio.sleep(600 if silent else 0.05)
        finally:
            left.set()

    async def work() -> None:
        async with upstream(answer) as url, gateway(url) as (_, client):
            async with client.post(PATHS[0], data=b"{}") as reply:
                await reply.content.readany()
                reply.close()
            await left.wait()  # `run` breaks it off

    run(work)


@pytest.mark.parametrize("path", PATHS)
def test_an_upstream_that_is_not_there_is_an_error_in_the_callers_dialect(path: str) -> None:
    async def work() -> None:
        async with gateway("http://127.0.0.1:1") as (_, client), client.post(path, data=b"{}") as reply:
            assert reply.status == 502
            told = await reply.json()
            assert told["error"]["type"] == "api_error"
            assert "the upstream http://127.0.0.1:1 cannot be reached" in told["error"]["message"]
            assert (told.get("type") == "error") == path.startswith("/v1/messages")

    run(work)
