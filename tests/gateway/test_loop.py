"""No piece of work keeps the server's loop for long: what takes time is done by the worker."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import threading
import time
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.kit import gateway, run, upstream
from tests.gateway.test_sessions import PATHS, body, long_talk
from tests.timing import JUDGED

LONGEST = 0.005


@pytest.mark.timing
@pytest.mark.torture
def test_nothing_takes_five_milliseconds_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the processor, so that it does not matter what else this machine does."""
    took: list[tuple[float, str]] = []
    inner, own = asyncio.Handle._run, threading.get_ident()

    def measured(handle: Any) -> Any:
        began = time.thread_time()
        try:
            return inner(handle)
        finally:
            if threading.get_ident() == own:
                took.append((time.thread_time() - began, repr(handle)[:300]))

    async def answer(request: web.Request) -> web.StreamResponse:
        async for _ in request.content.iter_chunked(65_536):
            pass
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for _ in range(50):
            await response.write(b"data: {}\n\n")
            await asyncio.sleep(0)
        return response

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, in_process=True, window=100_000) as (_, client):
            bodies = [
                (path, json.dumps(body(dialect, long_talk(turns))).encode())
                for dialect, path in PATHS.items()
                for turns in (1, 40, 240)  # 10 kB, 400 kB and 2 MB; the last two are folded
            ]
            monkeypatch.setattr(asyncio.Handle, "_run", measured)
            for path, data in bodies:
                async with client.post(path, data=io.BytesIO(data)) as reply:
                    assert reply.status == 200, await reply.text()
                    async for _ in reply.content.iter_any():
                        pass
            monkeypatch.setattr(asyncio.Handle, "_run", inner)

    gc.disable()  # it pauses when it likes
    try:
        run(work)
    finally:
        gc.enable()
    longest = sorted(took, reverse=True)[:3]
    assert not JUDGED or longest[0][0] < LONGEST, longest
