"""Whatever stands in a body, and wherever: what is sent fits, or the client is told that it does not."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from refold.gateway import request_rewriter, requests, server, verbatim
from refold.gateway.auth import RequestRefused
from refold.registry.configuration import GatewaySettings
from refold.session import path_digests
from tests.gateway.kit import gateway, run, upstream
from tests.gateway.test_sessions import PATHS
from tests.virtual import run_virtually

WINDOW = 4_000
LONG = " ".join(f"word-{n}" for n in range(20_000))  # fifteen times the window
SCHEMA = {"type": "object", "properties": {"x": {"type": "string", "description": LONG}}}
HI = {"role": "user", "content": "Hi."}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}

BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "functions": ("openai", {"functions": [{"name": "f", "parameters": SCHEMA}]}),
    "tools": ("openai", {"tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]}),
    "response_format": ("openai", {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}),
    "prediction": ("openai", {"prediction": {"type": "content", "content": LONG}}),
    "name": ("openai", {"messages": [{**HI, "name": LONG}]}),
    "a field of a message": ("openai", {"messages": [HI, {"role": "assistant", "content": "x", "audio": {"id": LONG}}, HI]}),
    "a part": ("openai", {"messages": [{"role": "user", "content": [{"type": "odd", "odd": LONG}]}]}),
    "a field of a part": ("openai", {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "odd": LONG}]}]}),
    "a field of the server": ("openai", {"guided_json": SCHEMA}),
    "text.format": ("responses", {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}}),
    "prompt.variables": ("responses", {"prompt": {"id": "p", "variables": {"x": LONG}}}),
    "instructions": ("responses", {"instructions": LONG}),
    "an item": ("responses", {"input": [HI, {"type": "odd", "odd": LONG}, HI]}),
    "the last item": ("responses", {"input": [HI, {"type": "odd", "odd": LONG}]}),
    "an item in front": ("responses", {"input": [{"type": "additional_tools", "role": "developer", "tools": [SCHEMA]}, HI]}),
    "a field of an item": ("responses", {"input": [HI, {**CALL, "namespace": LONG},
        {"type": "function_call_output", "call_id": "c", "output": "x"}]}),
    "reasoning": ("responses", {"input": [HI, {"type": "reasoning", "id": "r", "encrypted_content": "x", "summary": [
        {"type": "summary_text", "text": LONG}]}, {"type": "message", "role": "assistant", "content": "x"}, HI]}),
    "reasoning.content": ("responses", {"input": [HI, {"type": "reasoning", "id": "r", "summary": [], "content": [
        {"type": "reasoning_text", "text": LONG}], "encrypted_content": "x"}, CALL,
        {"type": "function_call_output", "call_id": "c", "output": "x"}]}),
    "mcp_servers": ("anthropic", {"mcp_servers": [{"type": "url", "url": "https://x", "name": LONG}]}),
    "output_config": ("anthropic", {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
    "a block": ("anthropic", {"messages": [{"role": "user", "content": [{"type": "odd", "odd": LONG}]}]}),
    "citations": ("anthropic", {"messages": [HI, {"role": "assistant", "content": [
        {"type": "text", "text": "x", "citations": [{"type": "odd", "cited_text": LONG}]}]}, HI]}),
    "a field of a block": ("anthropic", {"messages": [{"role": "user", "content": [
        {"type": "text", "text": "x", "odd": LONG}]}]}),
    "a field of a result": ("anthropic", {"messages": [HI,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}, "caller": LONG}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "x", "toolset_name": LONG}]}]}),
}  # fmt: skip


@pytest.mark.sample(8)
@pytest.mark.parametrize("place", BODIES)
def test_what_is_too_long_is_not_sent_wherever_it_stands(place: str) -> None:
    dialect, fields = BODIES[place]
    seen: list[int] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(len(await request.read()))
        return web.json_response({})

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, window=WINDOW) as (_, client):
            listed = {"responses": "input"}.get(dialect, "messages")
            asked = {"model": "m", "max_tokens": 9, listed: [HI], **fields}
            async with client.post(PATHS[dialect], json=asked) as reply:
                told = reply.headers["x-refold"]
                assert told == "refused context_length_exceeded" or told.startswith("fold"), told
                assert "larger window" not in (text := await reply.text()) or "[gateway.models]" in text
                assert (reply.status, reply.headers["x-refold"]) != (200, "pass")

    run(work)
    assert all(size < 4 * WINDOW for size in seen)


@pytest.mark.parametrize(
    ("dialect", "fields"),
    [
        ("openai", {"metadata": {"x": LONG}, "user": LONG, "messages": [{**HI, "name": "ann"}]}),
        ("responses", {"metadata": {"x": LONG}, "prompt_cache_key": LONG, "safety_identifier": LONG}),
        ("anthropic", {"metadata": {"user_id": LONG}}),
    ],
)
def test_what_no_model_reads_does_not_count(dialect: str, fields: dict[str, Any]) -> None:
    seen: list[dict[str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(json.loads(await request.read()))
        return web.json_response({})

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, window=WINDOW) as (_, client):
            listed = {"responses": "input"}.get(dialect, "messages")
            asked = {"model": "m", "max_tokens": 9, listed: [HI], **fields}
            async with client.post(PATHS[dialect], json=asked) as reply:
                assert reply.headers["x-refold"] == "pass"
            assert seen == [asked]

    run(work)


def test_numbers_that_are_slow_to_read_are_read_as_fast_as_others() -> None:
    """Sixty-four megabytes of them would keep the worker busy for minutes."""
    from time import process_time

    from refold.gateway.requests import read_request

    def seconds(number: bytes) -> float:
        values = b",".join([number] * 40_000)
        raw = b'{"model":"m","messages":[{"role":"user","content":"x"}],"metadata":[%s]}' % values
        began = process_time()
        assert read_request("/v1/chat/completions", raw, {}, "") is not None
        return process_time() - began

    plain = min(seconds(b"1.25") for _ in range(3))
    assert min(seconds(b"1e308") for _ in range(3)) < 10 * plain
    assert read_request("/v1/chat/completions", b'{"messages":[],"top_p":1e999}', {}, "") is None


def test_every_message_of_a_request_is_read_once_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One digest each; only what is not written as the gateway writes it is compared with that word by
    word."""
    calls: Counter[str] = Counter()

    def counted(module: Any, name: str) -> None:
        work = getattr(module, name)

        def count(*given: Any, **named: Any) -> Any:
            calls[name] += 1
            return work(*given, **named)

        monkeypatch.setattr(module, name, count)

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.json_response({})

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, window=WINDOW) as (_, client):
            said = [{"role": ("user", "assistant")[n % 2], "content": "x"} for n in range(1_001)]
            for messages, done in ((said[:501], "pass"), (said, "fold")):
                calls.clear()
                asked = {"model": "m", "messages": messages}
                async with client.post(PATHS["openai"], json=asked) as reply:
                    assert reply.headers["x-refold"].startswith(done)
                assert len(messages) <= calls["_extended"] <= len(messages) + 5
                assert not calls["leaves"]

    counted(path_digests, "_extended")
    counted(verbatim, "leaves")
    run(work)


@pytest.mark.parametrize("chunked", [False, True])
def test_large_bodies_are_held_up_to_a_limit_and_small_ones_always(
    chunked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "SMALL_BODY", 20_000)
    monkeypatch.setattr(server, "HELD_BYTES", 100_000)
    goes_on, inside = asyncio.Event(), asyncio.Semaphore(0)

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        inside.release()
        await goes_on.wait()
        return web.json_response({})

    def sent(size: int) -> Any:
        async def pieces() -> AsyncGenerator[bytes]:
            for at in range(0, size, 5_000):
                yield asked[at : at + 5_000]

        asked = json.dumps({"model": "m", "messages": [HI], "metadata": {"x": "x" * (size - 90)}}).encode()
        return pieces() if chunked else asked

    async def status(client: aiohttp.ClientSession, size: int) -> tuple[int, str]:
        async with client.post(PATHS["openai"], data=sent(size)) as reply:
            await reply.read()
            return reply.status, reply.headers["x-refold"]

    async def work() -> None:
        async with upstream(answer) as url, gateway(url) as (_, client):
            waiting = [asyncio.ensure_future(status(client, 45_000)) for _ in range(2)]
            for _ in waiting:
                await inside.acquire()
            for _ in range(3):
                assert await status(client, 45_000) == (503, "refused try_again")
            waiting += [asyncio.ensure_future(status(client, 15_000)) for _ in range(9)]
            for _ in range(9):
                await inside.acquire()
            goes_on.set()
            assert await asyncio.gather(*waiting) == [(200, "pass")] * 11
            assert [await status(client, 45_000) for _ in range(3)] == [(200, "pass")] * 3

    run(work)


def test_clients_that_stop_in_the_middle_of_large_bodies_do_not_keep_their_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "BODY_SECONDS", 0.2)
    monkeypatch.setattr(server, "SMALL_BODY", 20_000)
    monkeypatch.setattr(server, "HELD_BYTES", 100_000)

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.json_response({})

    async def stalled(port: int, head: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + head + b" " * 45_000)
        said = await reader.readuntil(b"\r\n")
        writer.close()
        return said

    async def work() -> None:
        async with upstream(answer) as url, gateway(url) as (made, client), asyncio.timeout(20):
            port, large = urlsplit(made.url).port or 0, {"x": "x" * 90_000}
            for head in (
                b"Content-Length: 60000000\r\n\r\n",
                b"Transfer-Encoding: chunked\r\n\r\n2DC6C0\r\n",
            ):
                said = await asyncio.gather(*(stalled(port, head) for _ in range(2)))
                assert [line.split()[1] for line in said] == [b"408"] * 2
                asked = {"model": "m", "messages": [HI], "metadata": large}
                async with client.post(PATHS["openai"], json=asked) as reply:
                    assert reply.status == 200, "all room is free again"

    run(work)


SECOND, WAIT = server.SLOW, server.BODY_SECONDS


@pytest.mark.parametrize(
    ("piece", "pause", "number", "arrives"),
    [
        (SECOND, 1.0, 3_000, True),  # the slowest line there may be, for the largest body there may be
        (SECOND * 20, 20.0, 100, True),
        (1, WAIT - 1, 1, True),
        (1, WAIT - 1, 2, False),  # a byte from time to time is no progress
        (SECOND * 2_000, WAIT + 1, 1, False),  # however much came at once before
        (SECOND // 2, 1.0, 100, False),
    ],
)
def test_a_body_may_be_slow_and_not_stop(piece: int, pause: float, number: int, arrives: bool) -> None:
    class Content:
        async def iter_any(self) -> AsyncGenerator[bytes]:
            for _ in range(number):
                yield b" " * piece
                await asyncio.sleep(pause)

    made = server.Gateway(GatewaySettings(upstream="http://localhost", store="memory:"))
    request = SimpleNamespace(content=Content(), content_length=None)

    async def arrived() -> bool:
        try:
            return len(await made._body(cast("Any", request))) == piece * number  # pyright: ignore
        except RequestRefused as refusal:
            assert refusal.status == 408
            return False

    assert run_virtually(arrived())[0] == arrives


@pytest.mark.parametrize("dialect", PATHS)
def test_what_would_take_minutes_to_fold_is_refused_and_pictures_are_not(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_rewriter, "MAX_FOLDED_CHARACTERS", 60_000)
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(60_000)).decode()
    pictures = {
        "openai": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        "responses": {"type": "input_image", "image_url": f"data:image/png;base64,{data}"},
        "anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
    }
    talk = [{"role": ("user", "assistant")[n % 2], "content": "word " * 1_000} for n in range(19)]

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.json_response({})

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, window=WINDOW) as (_, client):
            for messages, status, done in (
                (talk[-9:], 200, "fold"),
                (talk, 400, "refused context_length_exceeded"),
                ([{"role": "user", "content": [pictures[dialect]]}], 200, "pass"),
            ):
                field = "input" if dialect == "responses" else "messages"
                asked = {"model": "m", "max_tokens": 9, field: messages}
                async with client.post(PATHS[dialect], json=asked) as reply:
                    text = await reply.text()
                    assert (reply.status, reply.headers["x-refold"][: len(done)]) == (status, done), text
                    assert status == 200 or "characters; at most 60,000 can be folded" in text

    run(work)


@pytest.mark.parametrize("dialect", PATHS)
def test_a_document_of_one_page_is_not_too_long_however_many_bytes_it_has(dialect: str) -> None:
    data = base64.b64encode(b"%PDF-1.4 << /Type /Page >>" + bytes(200_000)).decode()
    url = f"data:application/pdf;base64,{data}"
    document = {
        "openai": {"type": "file", "file": {"filename": "a.pdf", "file_data": url}},
        "responses": {"type": "input_file", "filename": "a.pdf", "file_data": url},
        "anthropic": {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}},
    }[dialect]  # fmt: skip
    field = "input" if dialect == "responses" else "messages"
    asked = {"model": "m", "max_tokens": 9, field: [{"role": "user", "content": [document]}]}

    async def answer(request: web.Request) -> web.Response:
        assert data in await request.text()
        return web.json_response({})

    async def work() -> None:
        async with (
            upstream(answer) as url,
            gateway(url, window=10_000) as (_, client),
            client.post(PATHS[dialect], json=asked) as reply,
        ):
            assert (reply.status, reply.headers["x-refold"]) == (200, "pass"), await reply.text()

    run(work)


def test_the_folder_is_looked_for_where_clients_say_it() -> None:
    def folder(front: int) -> str | None:
        text = "x" * front + "\nWorking directory: /home/me/shop\n"
        raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
        asked = requests.read_request(PATHS["openai"], raw, {}, "")
        assert asked is not None
        return asked.folder

    assert (folder(50_000), folder(200_000)) == ("/home/me/shop", None)
