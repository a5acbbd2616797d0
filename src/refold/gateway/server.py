"""The server: routes, metrics, logging, starting and stopping."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import re
import secrets
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast
from urllib.parse import unquote

from aiohttp import web
from aiohttp.http_parser import RawRequestMessage

from refold import tracing
from refold.errors import RefoldError, SettingError, UsageError
from refold.gateway.auth import Auth, Caller, RequestRefused, refusal_response, with_key_of_path
from refold.gateway.connections import ClientConnection, ClientConnections, open_files
from refold.gateway.exchange import RequestExchange
from refold.gateway.ipc import OwnershipCheck, WorkerSettings
from refold.gateway.model_routing import ModelRouting
from refold.gateway.requests import COMPACT_PATH, DIALECT_OF_PATH, model_named
from refold.gateway.stored_ids import is_shared
from refold.gateway.upstream import ARRIVED, AnswerInterrupted, Upstream, UpstreamAnswer, relay
from refold.gateway.worker_client import WorkerClient
from refold.registry.configuration import GatewaySettings
from refold.stores import open_store

PASSED = (
    ("POST", "/v1/messages/count_tokens"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{name:.+}"),
    # Answers that are kept upstream (`store`, `background`).
    ("GET", "/v1/responses/{id}"),
    ("DELETE", "/v1/responses/{id}"),
    ("GET", "/v1/responses/{id}/input_items"),
    ("POST", "/v1/responses/{id}/cancel"),
)
_silent = logging.getLogger("refold.gateway.silent")
_silent.disabled = True
BODY_SECONDS = 30.0
"""Longest time that a body may lag behind `SLOW`, from its first byte and at any later one."""
SLOW = 20_000
"""Minimum bytes per second of a body."""
SMALL_BODY, HELD_BYTES = 1 << 20, 1 << 28
"""Bytes of a body for which there always is room, and bytes of all larger ones that are held at once."""
CLIENT_LINES = {
    "Claude Code": "ANTHROPIC_BASE_URL={url} claude",
    "Codex": "codex -c model_provider=refold -c 'model_providers.refold={{"
    'name="OpenAI", base_url="{url}/v1", wire_api="responses", env_key="OPENAI_API_KEY"}}\'',
    "aider": "aider --openai-api-base {url}/v1 --max-chat-history-tokens 1000000",
    "OpenAI clients": "export OPENAI_BASE_URL={url}/v1",
}
"""What to type so that a client uses the gateway."""
STOP_SECONDS = 20.0
"""Time that open requests have to finish when the gateway stops."""


class Gateway:
    """`async with Gateway(settings) as gateway: gateway.url`. `in_process`: a separate process keeps and
    folds sessions; otherwise a thread. `listening`: a socket that is already open."""

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        log: Callable[[str], None] | None = None,
        in_process: bool = True,
        listening: socket.socket | None = None,
    ) -> None:
        self.settings, self._log = settings, log or _to_stderr
        self.auth = Auth(settings)
        self.upstream = Upstream(settings, _variable(settings.upstream_key_env))
        secret = _variable(settings.secret_env)
        signed_with = secret.encode() if secret else secrets.token_bytes(32)
        self.routing = ModelRouting(settings)
        self.worker = WorkerClient(
            WorkerSettings(settings=settings, secret=signed_with), in_process=in_process
        )
        self.counts: Counter[str] = Counter()
        self.started = time.time()
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None
        self._socket = listening
        self._held: dict[int, int] = {}
        """Bytes of large bodies whose requests are not answered yet, by the request's `id`."""
        self.url = ""

    async def __aenter__(self) -> Gateway:
        app = web.Application()
        for path in (*DIALECT_OF_PATH, COMPACT_PATH):
            app.router.add_post(path, self._served(self._talk))
        for method, path in PASSED:
            app.router.add_route(method, path, self._served(self._pass))
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_route("*", "/{rest:.*}", self._served(self._unknown))
        await self.upstream.open()
        await self.worker.open()
        # Who hangs up is not waited for.
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=STOP_SECONDS)
        await self._runner.setup()
        try:
            self._listening = await self._listen(self._runner.server)
        except (OSError, OverflowError) as error:
            await self.__aexit__()
            where, port = self.settings.host, self.settings.port
            if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
                raise UsageError(f"Port {port} is in use; choose another with --port") from None
            raise SettingError("gateway", f"cannot listen on {where} port {port}: {error}") from None
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        self.url = f"http://{host}:{self._listening.sockets[0].getsockname()[1]}"
        return self

    async def _listen(self, server: Any) -> asyncio.Server:
        loop, everyone = asyncio.get_running_loop(), ClientConnections(open_files())
        make = server.request_factory

        def keyed(message: RawRequestMessage, *given: Any) -> Any:
            return make(with_key_of_path(message), *given)

        server.request_factory = keyed

        def connection() -> ClientConnection:
            return ClientConnection(
                everyone,
                server,
                loop=loop,
                access_log=None,
                logger=_silent,  # it quotes what it cannot read
                auto_decompress=False,
                max_line_size=65_536,
                max_field_size=65_536,
            )

        if self._socket is not None:
            return await loop.create_server(connection, sock=self._socket, backlog=1024)
        return await loop.create_server(connection, self.settings.host, self.settings.port, backlog=1024)

    async def __aexit__(self, *_: object) -> None:
        """Stops accepting requests and waits a while for open ones."""
        if self._listening is not None:
            self._listening.close()
        if self._runner is not None:
            await self._runner.cleanup()
        await self.upstream.close()
        await self.worker.close()

    def _served(
        self, handle: Callable[[web.Request, Caller], Awaitable[web.StreamResponse]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Wraps every request: authentication, metrics, and a log line without contents."""

        async def served(request: web.Request) -> web.StreamResponse:
            began, status, done = time.monotonic(), 499, ""
            ARRIVED.set(began)
            try:
                caller = self.auth.admit(request.headers)
                with self.auth.entered():
                    response = await handle(request, caller)
                status, done = response.status, response.headers.get("x-refold", "")
            except RequestRefused as refusal:
                response = refusal_response(refusal, request.path)
                status, done = refusal.status, response.headers["x-refold"]
            except AnswerInterrupted as cut:
                response, status, done = cut.response, cut.response.status, "cut"
            except Exception as error:  # unexpected: answered in the caller's dialect, and visible
                refusal = RequestRefused(500, f"internal error ({type(error).__name__})", "api_error")
                response = refusal_response(refusal, request.path)
                status, done = 500, f"failed {type(error).__name__}"
            finally:
                self._held.pop(id(request), None)
                self._note(request, status, done, time.monotonic() - began)
            return response

        return served

    async def _pass(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        if is_climbing(request.raw_path):  # to what is not served here, with the upstream's key
            return await self._unknown(request, caller)
        body, answer = await self._body(request), UpstreamAnswer()
        if is_shared(self.settings, request.path):
            number, ids = self.worker.number(), [request.match_info["id"]]
            await self.worker.checked(OwnershipCheck(number=number, owner=caller.owner, ids=ids))
            if not request.path.endswith("/input_items"):  # which tells what the client has sent itself
                answer.issued = self.worker.issuing(caller.owner)
        async with self.upstream.asked(request, body, caller, plain=answer.issued is not None) as answered:
            return await relay(request, answered, answer, "pass")

    async def _talk(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        number = self.worker.number()
        exchange = RequestExchange(self.upstream, self.worker, self.routing, request, caller, number)
        raw = await self._body(request)
        if not tracing.is_on():
            return await exchange.run(raw)
        provider = "anthropic" if request.path == "/v1/messages" else "openai"
        with tracing.model_call(f"{provider}:{model_named(raw)}") as span:
            response = await exchange.run(raw)
            tracing.passed(span, response.status, response.headers.get("x-refold", ""))
        return response

    async def _body(self, request: web.Request) -> bytes:
        """All of it. Every byte gives more time: a slow line is waited for, a stopped client is not."""
        body, now = bytearray(), asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(BODY_SECONDS) as limit:
                self._check_size(request.content_length or 0)
                async for piece in request.content.iter_any():
                    until = cast("float", limit.when()) + len(piece) / SLOW
                    limit.reschedule(min(until, now() + BODY_SECONDS))
                    body += piece
                    self._check_size(len(body))
                    self._hold(request, len(body))
        except TimeoutError:
            raise RequestRefused(408, "the request did not arrive in time", "invalid_request_error") from None
        return bytes(body)

    def _check_size(self, size: int) -> None:
        if size > self.settings.largest:
            text = f"the request is too large: {self.settings.largest:,} bytes are allowed"
            raise RequestRefused(413, text, "request_too_large")

    def _hold(self, request: web.Request, size: int) -> None:
        """Bytes of a body that have arrived; they are held until its answer ends."""
        if size <= SMALL_BODY:
            return
        self._held[id(request)] = size
        if sum(self._held.values()) > HELD_BYTES:
            text = "too many large requests at once: try again"
            raise RequestRefused(503, text, "overloaded_error", code="try_again", wait=5)

    async def _unknown(self, request: web.Request, _: Caller) -> web.StreamResponse:
        if request.headers.get("upgrade"):  # who knows this answer (Codex does) goes on without
            raise RequestRefused(426, "this gateway speaks plain HTTP only", "invalid_request_error")
        passed = (path.replace(":.+", "") for _, path in PASSED)
        served = ", ".join(dict.fromkeys((*DIALECT_OF_PATH, COMPACT_PATH, *passed)))
        raise RequestRefused(404, f"this address is not served; served are {served}", "not_found_error")

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _metrics(self, request: web.Request) -> web.Response:
        try:
            self.auth.admit(request.headers)
        except RequestRefused as refusal:
            return refusal_response(refusal, request.path)
        events = sorted((self.counts + self.worker.counts).items())
        lines = [
            "# TYPE refold_gateway_events_total counter",
            *(f'refold_gateway_events_total{{what="{what}"}} {count}' for what, count in events),
            "# TYPE refold_gateway_inside gauge",
            f"refold_gateway_inside {self.auth.inside}",
            "# TYPE refold_gateway_started_seconds gauge",
            f"refold_gateway_started_seconds {self.started:.3f}",
            "# TYPE refold_gateway_added_seconds summary",
            f"refold_gateway_added_seconds_sum {self.upstream.held_seconds:.6f}",
            f"refold_gateway_added_seconds_count {self.upstream.held}\n",
        ]
        return web.Response(text="\n".join(lines), content_type="text/plain")

    def _note(self, request: web.Request, status: int, done: str, seconds: float) -> None:
        self.counts["requests"] += 1
        self.counts[f"status {status // 100}xx"] += 1
        if done:
            self.counts[done.partition(" ")[0]] += 1
        line = {
            "time": round(time.time(), 3),
            "method": request.method,
            "route": request.match_info.route.resource.canonical if request.match_info.route.resource else "",
            "status": status,
            "refold": done,
            "seconds": round(seconds, 4),
        }
        self._log(json.dumps(line))


async def serve(settings: GatewaySettings, *, say: Callable[[str], None]) -> None:
    """Serves until the process is asked to stop. Prints the address first."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stopped.set)
    async with Gateway(settings) as gateway:
        say(gateway.url)
        for client, line in CLIENT_LINES.items():
            say(f"{client}:  {line.format(url=gateway.url)}")
        await asyncio.to_thread(_look_at_store, settings)
        await stopped.wait()


def _look_at_store(settings: GatewaySettings) -> None:
    """Logs at the start if the store cannot be used, since requests are passed on regardless."""
    try:
        store = open_store(settings.store).store
        next(iter(store.sessions()), None)
        store.close()
    except (RefoldError, OSError) as error:
        line = {"time": round(time.time(), 3), "warning": "sessions are not stored", "why": str(error)}
        _to_stderr(json.dumps(line))


def is_climbing(path: str) -> bool:
    """True if a server that resolves `..`, in any spelling, would leave this path."""
    for _ in range(3):
        path = unquote(path)
    return ".." in re.split(r"[/\\?#;]", path)


def _variable(name: str | None) -> str | None:
    if name is None:
        return None
    value = os.environ.get(name)
    if not value:
        raise SettingError("gateway", f"the variable {name} is not set")
    return value


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
