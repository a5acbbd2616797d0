"""A gateway in this process, and an upstream that answers as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

from refold.gateway.server import Gateway
from refold.registry.configuration import GatewaySettings

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def upstream(handler: Handler) -> AsyncGenerator[str]:
    """A server that hands everything to the handler; hanging up cancels it."""
    app = web.Application(client_max_size=1 << 28)
    app.router.add_route("*", "/{rest:.*}", handler)
    runner = web.AppRunner(
        app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1, auto_decompress=False
    )
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def gateway(
    url: str, *, in_process: bool = False, **given: Any
) -> AsyncGenerator[tuple[Gateway, aiohttp.ClientSession]]:
    """A gateway before that upstream, and a client of it that changes nothing by itself."""
    settings = GatewaySettings(**{"upstream": url, "port": 0, "store": "memory:", "window": 100_000, **given})
    log: list[str] = []
    async with Gateway(settings, log=log.append, in_process=in_process) as made:
        made.log_lines = log  # pyright: ignore  for tests alone
        async with aiohttp.ClientSession(base_url=made.url, auto_decompress=False) as client:
            yield made, client


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(120):
            await work()

    asyncio.run(limited())
