"""Programs of the load run of the gateway, each a process of its own: `python -m benchmarks.gateway_parts PART …`.

`upstream` thinks for a while and answers with a stream; `bare` passes requests and answers on and does nothing
else; `clients` hold conversations for a while and print what they saw as one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import sys
import time
from collections.abc import Coroutine
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

THINK = 0.2
"""Seconds until the upstream says anything."""
PIECES, PAUSE = 20, 0.5
"""Of an answer; a stream lasts some ten seconds."""
PATH = "/v1/chat/completions"
WORDS = [f"value-{n}" for n in range(2000)]


def _event(text: str | None, finish: str | None = None) -> bytes:
    delta = {} if text is None else {"role": "assistant", "content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    whole = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + msgspec.json.encode(whole) + b"\n\n"


async def _answer(request: web.Request) -> web.StreamResponse:
    await request.read()
    await asyncio.sleep(THINK)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for number in range(PIECES):
        await response.write(_event(f"Piece {number} of the answer. "))
        await asyncio.sleep(PAUSE)
    await response.write(_event(None, "stop") + b"data: [DONE]\n\n")
    await response.write_eof()
    return response


async def serve(handler: Any) -> None:
    """The first line is the address."""
    app = web.Application(client_max_size=1 << 28)
    app.router.add_post("/{rest:.*}", handler)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


async def bare(upstream: str) -> None:
    """What passing on costs with the same libraries, and nothing else."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), auto_decompress=False, timeout=aiohttp.ClientTimeout(None)
    ) as client:

        async def passed(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            headers = {"Content-Type": request.headers.get("Content-Type", "")}
            async with client.post(f"{upstream}{request.path}", data=body, headers=headers) as answered:
                kind = {"Content-Type": answered.headers["Content-Type"]}
                response = web.StreamResponse(headers=kind)
                await response.prepare(request)
                async for piece in answered.content.iter_any():
                    await response.write(piece)
                await response.write_eof()
                return response

        await serve(passed)


class Clients:
    """Conversations that are held at once. Each begins with 10 to 400 kB and grows with every turn."""

    def __init__(self, url: str, streams: int, seconds: float, model: str) -> None:
        self.url, self.streams, self.seconds, self.model = url, streams, seconds, model
        self.first: list[tuple[float, float]] = []
        """(when, seconds until the first byte)"""
        self.whole = self.errors = self.truncated = self.sent = 0
        self.chance = random.Random(7)
        self.began = time.perf_counter()

    async def run(self) -> dict[str, Any]:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(None)) as client:
            self.began = time.perf_counter()
            await asyncio.gather(*(self._talk(client, n) for n in range(self.streams)))
        return {
            "answers": self.whole,
            "errors": self.errors,
            "truncated": self.truncated,
            "megabytes": round(self.sent / 1e6),
            "first": [(round(at, 3), round(1000 * took, 2)) for at, took in self.first],
        }

    async def _talk(self, client: aiohttp.ClientSession, number: int) -> None:
        """One conversation after the other: ten turns, or until the time is over. Not all begin at once."""
        await asyncio.sleep(number / self.streams * PIECES * PAUSE)
        messages: list[dict[str, str]] = []
        turns = 0
        while time.perf_counter() - self.began < self.seconds:
            if not messages or turns == 10:
                messages, turns = [{"role": "user", "content": self._text(self._size())}], 0
            reply = await self._ask(client, messages)
            turns += 1
            messages = [*messages, {"role": "assistant", "content": reply}]
            messages.append({"role": "user", "content": self._text(2000)})

    def _size(self) -> int:
        return int(10_000 * 40 ** self.chance.random())

    def _text(self, size: int) -> str:
        """Some words are common and most are not, as in any language."""
        words = self.chance.choices(WORDS, cum_weights=_WEIGHTS, k=size // 10)
        return " ".join(words) or "x"

    async def _ask(self, client: aiohttp.ClientSession, messages: list[dict[str, str]]) -> str:
        body = msgspec.json.encode({"model": self.model, "stream": True, "messages": messages})
        self.sent += len(body)
        headers = {"Content-Type": "application/json", "Authorization": "Bearer key"}
        began, data = time.perf_counter(), b""
        try:
            async with client.post(f"{self.url}{PATH}", data=body, headers=headers) as reply:
                async for piece in reply.content.iter_any():
                    if not data:
                        self.first.append((began - self.began, time.perf_counter() - began))
                    data += piece
                if reply.status != 200:
                    self.errors += 1
                    return ""
        except (aiohttp.ClientError, OSError):
            self.errors += 1
            await asyncio.sleep(0.1)
            return ""
        ended = data.count(b"Piece ") == PIECES and data.endswith(b"data: [DONE]\n\n")
        self.whole += ended
        self.truncated += not ended
        return "".join(f"Piece {number} of the answer. " for number in range(PIECES))


_WEIGHTS = [sum(1 / (rank + 30) for rank in range(n + 1)) for n in range(len(WORDS))]


async def interrupt(url: str, size: int, every: float, model: str) -> None:
    """Requests of one size, again and again, until somebody ends this."""
    chance, turns = Clients(url, 1, 1, model), 0
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(None)) as client:
        while True:
            turns += 1
            roles = ("user", "assistant") * 10
            text = [{"role": role, "content": f"{turns}: {chance._text(size // 20)}"} for role in roles]
            asking = asyncio.ensure_future(chance._ask(client, text))
            await asyncio.sleep(every)
            del asking


def main(arguments: list[str]) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    part, rest = arguments[0], arguments[1:]
    if part == "clients":
        clients = Clients(rest[0], int(rest[1]), float(rest[2]), rest[3])
        print(json.dumps(_run(clients.run())), flush=True)
    elif part == "interrupt":
        _run(interrupt(rest[0], int(rest[1]), float(rest[2]), rest[3]))
    else:
        _run(serve(_answer) if part == "upstream" else bare(rest[0]))


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        import uvloop  # leaves more of the machine to what is measured
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


if __name__ == "__main__":
    main(sys.argv[1:])
