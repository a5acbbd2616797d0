"""Clients and upstreams that do odd but legal things, and some that try to get further than they may."""

from __future__ import annotations

import asyncio
import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from refold import messages as m
from refold.gateway.ipc import Extras
from refold.gateway.response_rewriter import response_rewriter
from refold.gateway.server import is_climbing
from tests.gateway.kit import gateway, run, upstream
from tests.gateway.test_auth import BODY, KEYS, PATH
from tests.gateway.test_faults import answer_of
from tests.gateway.test_sessions import PATHS, ask, body, long_talk, said, sessions
from tests.gateway.test_worker import ERRORS, events, until

ENDS = [b"\n", b"\r\n", b"\r"]


def streaming(data: bytes, step: int) -> Any:
    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for at in range(0, len(data), step):
            await response.write(data[at : at + step])
        return response

    return answer


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("dialect", PATHS)
def test_a_stream_in_single_bytes_is_handed_on_and_written_down(
    dialect: str, end: bytes, tmp_path: Path
) -> None:
    """Characters in two halves, every line end that is allowed, comments and empty events between."""
    plain = answer_of(dialect).replace(b"An answer", "Ein Übermaß 😀".encode())
    data = (b": keep alive\n\n" + plain.replace(b"\n\n", b"\n\n: ping\n\n", 3)).replace(b"\n", end)

    async def work() -> None:
        async with (
            upstream(streaming(data, 1)) as url,
            gateway(url, store=f"sqlite:{tmp_path / 'a.db'}") as (_, client),
        ):
            status, _, got = await ask(client, dialect, body(dialect, [("user", "x")]))
            assert (status, got) == (200, data)

    run(work)
    [session] = sessions(tmp_path / "a.db")
    assert said(session)[-1] == ("assistant", "Ein Übermaß 😀 of some words, said in pieces.")


@pytest.mark.sample(1)
@pytest.mark.parametrize("dialect", PATHS)
def test_an_overflow_told_in_single_bytes_is_folded(dialect: str) -> None:
    tries: list[int] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        tries.append(1)
        data = b"".join(events(ERRORS[dialect])) if len(tries) == 1 else b"data: fine\n\n"
        return await streaming(data, 1)(request)

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, window=200_000) as (_, client):
            status, done, got = await ask(client, dialect, body(dialect, long_talk(8)))
            assert (status, got) == (200, b"data: fine\n\n") and done.endswith("retried")

    run(work)


@pytest.mark.parametrize("end", ENDS)
def test_a_shape_reads_events_however_they_are_split(end: bytes) -> None:
    data = answer_of("anthropic")
    whole = response_rewriter(Extras(dialect="anthropic", ours=("recall_conversation",)))
    wanted = whole.stream(data) + whole.end()
    split = response_rewriter(Extras(dialect="anthropic", ours=("recall_conversation",)))
    odd = data.replace(b"\n", end)
    got = (
        b"".join(split.stream(odd[at : at + 1]) for at in range(len(odd))) + split.stream(b"\n") + split.end()
    )
    assert got.replace(b"\n\n\n", b"\n\n") == wanted and split.ended


async def raw(port: int, *pieces: bytes, wait: float = 5.0) -> bytes:
    """What comes back for these bytes, until the other side closes or says nothing for a while."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    got = b""
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)
        with suppress(TimeoutError):
            while piece := await asyncio.wait_for(reader.read(65_536), wait if not got else 0.5):
                got += piece
    except ConnectionError:
        pass
    finally:
        writer.close()
        with suppress(ConnectionError, OSError):
            await writer.wait_closed()
    return got


def post(path: str, *headers: str, content: bytes = BODY, length: bool = True) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *headers]
    lines += [f"Content-Length: {len(content)}"] if length else []
    return "\r\n".join([*lines, "", ""]).encode() + content


def chunked(data: bytes) -> bytes:
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.mark.slow
def test_ways_to_send_a_request_that_http_allows_and_those_it_does_not() -> None:
    seen: list[tuple[str, bytes]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.raw_path, await request.read()))
        return web.json_response({"path": request.raw_path, "id": len(seen)})

    async def work() -> None:
        async with upstream(answer) as url, gateway(url) as (made, _):
            port = int(made.url.rpartition(":")[2])
            # Chunks, a wish for a sign to go on, two requests in one breath, an address with a host in it.
            got = await raw(
                port, post(PATH, "Transfer-Encoding: chunked", content=chunked(BODY), length=False)
            )
            assert b"200 OK" in got and seen[-1] == (PATH, BODY)
            head, _, content = post(PATH, "Expect: 100-continue").partition(b"\r\n\r\n")
            got = await raw(port, head + b"\r\n\r\n", content)
            assert b"100 Continue" in got and b"200 OK" in got and seen[-1] == (PATH, BODY)
            got = await raw(port, post(PATH) + post("/v1/messages"))
            assert got.count(b"200 OK") == 2 and [path for path, _ in seen[-2:]] == [PATH, "/v1/messages"]
            got = await raw(port, post(f"http://elsewhere.example{PATH}"))
            assert b"200 OK" not in got or seen[-1][0] == PATH
            # Two lengths of one body: nobody may take the second half for a request.
            before = len(seen)
            for headers in (
                ("Transfer-Encoding: chunked",),
                ("Content-Length: 3",),
                ("Transfer-Encoding: x",),
            ):
                got = await raw(port, post(PATH, *headers, content=b"0\r\n\r\n" + post("/v1/models")))
                assert b"200 OK" not in got and b" 500 " not in got, got
            many = [f"x-{n}: {n}" for n in range(20_000)]
            assert b"200 OK" not in await raw(port, post(PATH, *many))
            assert len(seen) == before

    run(work)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/../files",
        "/v1/models/%2e%2e/files",
        "/v1/models/%252e%252e/files",
        "/v1/models/x/..%2f..%2ffiles",
        "/v1/models/..\\files",
        "/v1/responses/../files",
        "/v1/responses/resp_1%2f..%2f..%2ffiles",
        "//v1/chat/completions",
        "/v1//chat/completions",
        "/v1/chat/completions/",
        "/v1/embeddings",
        "/v1/files",
        "/v1/batches",
        "/v2/messages",
    ],
)
def test_nothing_but_what_is_served_reaches_the_upstream(path: str) -> None:
    reached: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        reached.append(request.raw_path)
        return web.json_response({})

    async def work() -> None:
        async with upstream(answer) as url, gateway(url) as (made, _):
            port = int(made.url.rpartition(":")[2])
            for method in ("GET", "POST", "DELETE"):
                got = await raw(port, post(path, "Connection: close").replace(b"POST", method.encode(), 1))
                assert b" 404 " in got.partition(b"\r\n")[0] + b" " and b"served" in got, got
                assert got.count(b"/v1/models/{name}") == got.count(b"/v1/responses/{id},") == 1
            assert reached == []

    run(work)


def test_names_with_dots_are_names() -> None:
    for path in ("/v1/models/gpt-4.1", "/v1/models/a..b", "/v1/models/meta/llama-3.1%2f8b"):
        assert not is_climbing(path)


def test_who_wants_a_websocket_is_told_to_go_on_without() -> None:
    async def work() -> None:
        async with gateway("http://127.0.0.1:1") as (_, client):
            headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
            async with client.get("/v1/responses", headers=headers) as reply:
                assert reply.status == 426

    run(work)


def test_answers_that_are_kept_upstream_can_be_asked_for() -> None:
    """`background`, `store`: what is kept upstream is looked up there, and such requests are passed on."""
    seen: list[tuple[str, str, bytes]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.method, request.raw_path, await request.read()))
        return web.json_response({"id": "resp_1", "object": "response", "status": "queued", "output": []})

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, window=2000) as (_, client):
            given = {"model": "m", "input": "x" * 9000, "background": True, "previous_response_id": "resp_0"}
            sent = json.dumps(given).encode()
            async with client.post("/v1/responses", data=sent) as reply:
                assert (reply.status, reply.headers["x-refold"]) == (200, "pass unread")
            for method, path in (
                ("GET", "?stream=true"),
                ("POST", "/cancel"),
                ("GET", "/input_items"),
                ("DELETE", ""),
            ):
                async with client.request(method, f"/v1/responses/resp_1{path}") as reply:
                    assert reply.status == 200
            assert seen[0] == ("POST", "/v1/responses", sent)
            assert [f"{method} {path}" for method, path, _ in seen[1:]] == [
                "GET /v1/responses/resp_1?stream=true",
                "POST /v1/responses/resp_1/cancel",
                "GET /v1/responses/resp_1/input_items",
                "DELETE /v1/responses/resp_1",
            ]

    run(work)


def test_an_answer_that_has_not_been_given_yet_is_not_written_down(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"id": "resp_1", "object": "response", "status": "queued", "output": []})

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, store=f"sqlite:{tmp_path / 'a.db'}") as (_, client):
            given = {"model": "m", "input": "Hello?", "background": True}
            async with client.post("/v1/responses", json=given) as reply:
                assert reply.status == 200

    run(work)
    [session] = sessions(tmp_path / "a.db")
    assert said(session) == [("user", "Hello?")]


def test_of_several_choices_the_first_is_written_down(tmp_path: Path) -> None:
    pieces = [(0, "One "), (1, "Other "), (0, "answer."), (1, "words.")]
    chunks = [{"id": "c", "choices": [{"index": n, "delta": {"content": text}}]} for n, text in pieces]
    ends = [{"id": "c", "choices": [{"index": n, "delta": {}, "finish_reason": "stop"}]} for n in (1, 0)]
    data = b"".join(events(*chunks, *ends)) + b"data: [DONE]\n\n"

    async def work() -> None:
        async with (
            upstream(streaming(data, 40)) as url,
            gateway(url, store=f"sqlite:{tmp_path / 'a.db'}") as (_, client),
        ):
            _, _, got = await ask(client, "openai", {**body("openai", [("user", "x")]), "n": 2})
            assert got == data

    run(work)
    [session] = sessions(tmp_path / "a.db")
    assert said(session) == [("user", "x"), ("assistant", "One answer.")]


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
def test_bodies_that_are_packed_go_through_as_they_are(encoding: str, tmp_path: Path) -> None:
    packed = gzip.compress(BODY) if encoding == "gzip" else b"\x28\xb5\x2f\xfd" + BODY
    plain = json.dumps({"choices": [{"message": {"role": "assistant", "content": "Packed."}}]}).encode()
    answered = gzip.compress(plain) if encoding == "gzip" else b"\x28\xb5" + plain

    async def answer(request: web.Request) -> web.Response:
        assert (await request.read(), request.headers["Content-Encoding"]) == (packed, encoding)
        headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
        return web.Response(body=answered, headers=headers)

    async def unpacked(request: web.Request) -> web.Response:
        return web.Response(body=gzip.compress(plain), headers={"Content-Encoding": "gzip"})

    async def work() -> None:
        async with upstream(answer) as url, gateway(url) as (_, client):
            given = {"Content-Encoding": encoding, "Accept-Encoding": "gzip, br, zstd"}
            async with client.post(PATH, data=packed, headers=given) as reply:
                assert (reply.status, await reply.read()) == (200, answered)
                assert reply.headers["Content-Encoding"] == encoding
        store = f"sqlite:{tmp_path / 'a.db'}"
        async with (
            upstream(unpacked) as url,
            gateway(url, store=store) as (_, client),
            client.post(PATH, data=BODY, headers={"Accept-Encoding": "gzip"}) as reply,
        ):
            assert gzip.decompress(await reply.read()) == plain

    run(work)
    [session] = sessions(tmp_path / "a.db")
    assert said(session)[-1] == ("assistant", "Packed.")


def test_the_same_words_of_two_owners_are_two_sessions(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            upstream(streaming(answer_of("openai"), 99)) as url,
            gateway(url, keys=KEYS, store=f"sqlite:{tmp_path / 'a.db'}") as (_, client),
        ):
            for key in ("secret-of-ann", "secret-of-bob"):
                await ask(client, "openai", body("openai", [("user", "Same?")]), **{"x-refold-key": key})

    run(work)
    assert [len(session.path) for session in sessions(tmp_path / "a.db")] == [2, 2]


def test_clients_that_vanish_leave_their_place(tmp_path: Path) -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: 1\n\n")
        await asyncio.sleep(30)
        return response

    async def work() -> None:
        async with upstream(slow) as url, gateway(url, concurrent=5) as (made, client):
            for _ in range(4):
                held = [await client.post(PATH, data=BODY) for _ in range(5)]
                async with client.post(PATH, data=BODY) as reply:
                    assert reply.status == 503
                for reply in held:
                    reply.close()
                await until(lambda: made.auth.inside == 0)

    run(work)


def test_parallel_calls_of_one_answer_are_one_reply(tmp_path: Path) -> None:
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": f'{{"n": {n}}}'}}
        for n in range(3)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"choices": [{"message": message, "finish_reason": "tool_calls"}]})

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, store=f"sqlite:{tmp_path / 'a.db'}") as (_, client):
            await ask(client, "openai", body("openai", [("user", "x")], stream=False))

    run(work)
    [session] = sessions(tmp_path / "a.db")
    assert session.last_reply and isinstance(session.last_reply.message, m.Assistant)
    assert [call.id for call in session.last_reply.message.calls] == ["c0", "c1", "c2"]
