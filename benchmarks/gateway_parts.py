"""Programs of the load run of the gateway, each a process of its own: `python -m benchmarks.gateway_parts PART …`.

`upstream` thinks for a while and answers with a stream of as many pieces as `max_tokens` says; `bare` passes requests
and answers on and does nothing else; `clients` hold conversations for a while and write what they saw into a file; `interrupt` sends requests that take long.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

THINK = 0.2
"""Seconds until the upstream says anything."""
PAUSE = 0.5
"""Between two pieces of an answer."""
RAMP = 10.0
"""Seconds in which the first streams are opened, some of which end early: then as many end as begin."""
WINDOW = 5.0
"""Seconds in which one kind of interruption comes."""
KINDS = ("alone", "2 MB", "folds")
PATH = "/v1/chat/completions"
WORDS = [f"value-{n}" for n in range(2000)]


class Asked(msgspec.Struct):
    max_tokens: int = 20


def _event(text: str | None, finish: str | None = None) -> bytes:
    delta = {} if text is None else {"role": "assistant", "content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    whole = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + msgspec.json.encode(whole) + b"\n\n"


_PIECES = [_event(f"Piece {number} of the answer. ") for number in range(1000)]
_END = _event(None, "stop") + b"data: [DONE]\n\n"


async def _answer(request: web.Request) -> web.StreamResponse:
    pieces = msgspec.json.decode(await request.read(), type=Asked).max_tokens
    await asyncio.sleep(THINK)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for number in range(pieces):
        await response.write(_PIECES[number])
        await asyncio.sleep(PAUSE)
    await response.write(_END)
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
    """Conversations, each of which begins with 10 to 400 kB and grows with every turn, up to ten. Requests come by
    chance, as many a second as it takes to have `streams` of them open: nobody waits for the answer of another."""

    def __init__(self, url: str, streams: int, lasting: float, seconds: float, model: str = "m") -> None:
        self.url, self.streams, self.lasting, self.seconds, self.model = url, streams, lasting, seconds, model
        self.first: list[tuple[float, float]] = []
        """(when by the clock, seconds until the first byte)"""
        self.late: list[float] = []
        """Seconds by which a request was sent too late: by our own fault."""
        self.whole = self.errors = self.truncated = self.sent = self.open = 0
        self.opened: list[int] = []
        self.chance = random.Random(7)
        self.idle: list[list[dict[str, str]]] = []
        weights = [sum(1 / (rank + 30) for rank in range(n + 1)) for n in range(len(WORDS))]
        some = (self.chance.choices(WORDS, cum_weights=weights, k=200) for _ in range(300))
        self.texts = [" ".join(words) for words in some]
        """Some words are common and most are not, as in any language."""
        self.began = time.perf_counter()

    async def run(self) -> dict[str, Any]:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(None)) as client:
            self.began = time.perf_counter()
            async with asyncio.TaskGroup() as group:
                for at, lasting in self._arrivals():
                    await asyncio.sleep(max(0.0, at - (time.perf_counter() - self.began)))
                    self.late.append(time.perf_counter() - self.began - at)
                    if at > RAMP:
                        self.opened.append(self.open)
                    group.create_task(self._talk(client, max(1, round(lasting / PAUSE))))
        return {
            "answers": self.whole,
            "errors": self.errors,
            "truncated": self.truncated,
            "open": sorted(self.opened)[len(self.opened) // 2],
            "megabytes": round(self.sent / 1e6),
            "late_p99_ms": round(1000 * sorted(self.late)[int(0.99 * len(self.late))], 1),
            "first": [(round(at, 3), round(1000 * took, 2)) for at, took in self.first],
        }

    def _arrivals(self) -> list[tuple[float, float]]:
        """(when, how long the answer lasts). Those of the first seconds are what one finds who comes in the middle."""
        found = [
            (RAMP * n / self.streams, RAMP + self.lasting * self.chance.random()) for n in range(self.streams)
        ]
        at = RAMP
        while (at := at + self.chance.expovariate(self.streams / self.lasting)) < RAMP + self.seconds:
            found.append((at, self.lasting))
        return [(at, lasting - at if at < RAMP else lasting) for at, lasting in found]

    async def _talk(self, client: aiohttp.ClientSession, pieces: int) -> None:
        if self.idle and self.chance.random() < 0.9:
            messages = self.idle.pop(self.chance.randrange(len(self.idle)))
            messages.append({"role": "user", "content": self._text(2000)})
        else:
            messages = [{"role": "user", "content": self._text(int(10_000 * 40 ** self.chance.random()))}]
        self.open += 1
        reply = await self._ask(client, messages, pieces)
        self.open -= 1
        if reply and len(messages) < 20:
            self.idle.append([*messages, {"role": "assistant", "content": reply}])

    def _text(self, size: int) -> str:
        some = self.chance.choices(self.texts, k=size // 1900 + 1)
        return " ".join(some)[:size]

    async def _ask(self, client: aiohttp.ClientSession, messages: list[dict[str, str]], pieces: int) -> str:
        body = msgspec.json.encode(
            {"model": self.model, "stream": True, "max_tokens": pieces, "messages": messages}
        )
        self.sent += len(body)
        headers = {"Content-Type": "application/json", "Authorization": "Bearer key"}
        at, began, got = time.time(), time.perf_counter(), list[bytes]()
        try:
            async with client.post(f"{self.url}{PATH}", data=body, headers=headers) as reply:
                async for piece in reply.content.iter_any():
                    if not got:
                        self.first.append((at, time.perf_counter() - began))
                    got.append(piece)
                if reply.status != 200:
                    self.errors += 1
                    return ""
        except (aiohttp.ClientError, OSError):
            self.errors += 1
            return ""
        data = b"".join(got)
        ended = data.count(b"Piece ") == pieces and data.endswith(b"data: [DONE]\n\n")
        self.whole += ended
        self.truncated += not ended
        return "".join(f"Piece {number} of the answer. " for number in range(pieces))


async def interrupt(url: str) -> None:
    """For some seconds nothing, for some a request of 2 MB each second, for some one that is folded; again and again,
    until somebody ends this."""
    chance, turns = Clients(url, 1, 1, 1), 0
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(None)) as client:
        while True:
            await asyncio.sleep(1 - time.time() % 1)
            kind, turns = kind_at(time.time()), turns + 1
            if kind == "alone":
                continue
            size, chance.model = (2_000_000, "m") if kind == "2 MB" else (300_000, "small")
            roles = ("user", "assistant") * 10
            talk = [{"role": role, "content": f"{turns}: {chance._text(size // 20)}"} for role in roles]
            asking = asyncio.ensure_future(chance._ask(client, [*talk, {"role": "user", "content": "?"}], 5))
            await asyncio.sleep(0.1)
            del asking


def kind_at(clock: float) -> str:
    return KINDS[int(clock / WINDOW) % len(KINDS)]


def main(arguments: list[str]) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    part, rest = arguments[0], arguments[1:]
    if part == "clients":
        clients = Clients(rest[0], int(rest[1]), float(rest[2]), float(rest[3]))
        Path(rest[4]).write_text(json.dumps(_run(clients.run())))
    elif part == "interrupt":
        _run(interrupt(rest[0]))
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
