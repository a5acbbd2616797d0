"""Streams that are complete, however they are written and wherever they end: the client gets all of them."""

from __future__ import annotations

import json
from itertools import product

import aiohttp
import pytest
from aiohttp import web

from tests.gateway.kit import gateway, run, upstream
from tests.gateway.test_faults import answer_of
from tests.gateway.test_sessions import PATHS, ask, body, long_talk
from tests.gateway.test_strangers import ENDS, streaming
from tests.gateway.test_worker import ERRORS, events

TEXT = b"said in pieces."


def _without_done(data: bytes) -> bytes:
    return data.replace(b"data: [DONE]\n\n", b"")


WAYS = {
    "as documented": lambda data: data,
    "no blank line at the end": lambda data: data.removesuffix(b"\n"),
    "no line end at the end": lambda data: data.removesuffix(b"\n\n"),
    "no [DONE]": _without_done,
    "no [DONE], no blank line": lambda data: _without_done(data).removesuffix(b"\n"),
    "no [DONE], no line end": lambda data: _without_done(data).removesuffix(b"\n\n"),
    "a comment at the end": lambda data: data + b": bye",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("dialect", PATHS)
def test_a_complete_stream_is_handed_on_whole(dialect: str) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        way, end, step = json.loads(request.headers["x-way"])
        return await streaming(WAYS[way](answer_of(dialect)).replace(b"\n", ENDS[end]), step)(request)

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, window=8_000, recall=True) as (_, client):
            for way, end, step in product(WAYS, range(3), (1, 7, 1 << 20)):
                asked = body(dialect, long_talk(8))
                headers = {"x-way": json.dumps([way, end, step])}
                status, done, got = await ask(client, dialect, asked, **headers)
                assert status == 200 and done.startswith("fold"), (way, end, step)
                assert TEXT in got, (way, end, step)

    run(work)


@pytest.mark.sample(1)
@pytest.mark.parametrize("dialect", PATHS)
def test_an_error_told_in_a_stream_is_the_end_of_it(dialect: str) -> None:
    """All that there is to say was said: the connection is not cut."""
    told = json.loads(
        json.dumps(ERRORS[dialect]).replace("context_length_exceeded", "x").replace("too long", "odd")
    )

    async def answer(request: web.Request) -> web.StreamResponse:
        first = answer_of(dialect).split(b"\n\n")[0] + b"\n\n"
        data = (first + b"".join(events(told))).replace(b"\n", ENDS[int(request.headers["x-end"])])
        return await streaming(data, 5)(request)

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, window=8_000, recall=True) as (_, client):
            for end in range(3):
                status, _, got = await ask(
                    client, dialect, body(dialect, long_talk(8)), **{"x-end": str(end)}
                )
                assert status == 200 and b"error" in got, end

    run(work)


@pytest.mark.sample(1)
@pytest.mark.parametrize("dialect", PATHS)
def test_a_stream_that_stops_in_the_middle_is_cut_whatever_its_lines_end_with(dialect: str) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        data = b"\n\n".join(answer_of(dialect).split(b"\n\n")[:3]).replace(b"\n", b"\r")
        return await streaming(data, 50)(request)

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, window=8_000, recall=True) as (_, client):
            with pytest.raises(aiohttp.ClientError):
                await ask(client, dialect, body(dialect, long_talk(8)))

    run(work)


@pytest.mark.parametrize("dialect", ["anthropic", "responses"])
def test_an_overflow_told_behind_an_event_that_says_nothing_is_folded(dialect: str) -> None:
    tries: list[int] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        tries.append(1)
        first = answer_of(dialect).split(b"\n\n")[0] + b"\n\n"
        data = first + b"".join(events(ERRORS[dialect])) if len(tries) == 1 else answer_of(dialect)
        return await streaming(data.replace(b"\n", b"\r"), 1)(request)

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, window=30_000) as (_, client):
            status, done, got = await ask(client, dialect, body(dialect, long_talk(8)))
            assert status == 200 and TEXT in got and done.endswith("retried")

    run(work)
