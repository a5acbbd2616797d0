"""The server of the page, and its access checks.

It listens on 127.0.0.1. Every address begins with a token that only the user's browser has; the Host of a
request, and its Origin if any, must be this server's. Changes are POST requests that repeat the token in a
header, which no page of another origin can send. Answers are JSON or files of `page/`; session text is never
markup.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import secrets
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar

import aiohttp
import msgspec
from aiohttp import web
from multidict import MultiMapping

from refold import errors
from refold.compare.report.html import page_safe, redacted_text
from refold.explorer import gateway_stats
from refold.explorer.session_list import SessionList
from refold.explorer.timeline import Timeline
from refold.explorer.what_if import choices, what_if
from refold.mcp.synced_sessions import SyncedSessions
from refold.registry.sessions import stored
from refold.session import Session
from refold.text.lenient_json import JsonObject

T = TypeVar("T")
STORE_POLL_SECONDS = 1.0
SYNC_SECONDS = 3.0
"""Interval of checks of other programs' files; longer if that takes long."""
QUIET_SECONDS = 15.0
"""Interval of keep-alive messages in an event stream."""
MAX_QUEUED_EVENTS = 64
"""Number of events that a page may be behind before it must reload everything."""
MAX_SUMMARIES = 100
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
HTTP_STATUS = {"gone": 404, "changed": 409, "damaged": 500, "closed": 503, "usage": 400}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
TOKEN_HEADER = "X-Refold-Token"
PAGE = files("refold.explorer").joinpath("page")


class Asked(NamedTuple):
    values: MultiMapping[str]

    def text(self, name: str) -> str:
        return self.values.get(name, "")

    def number(self, name: str) -> int:
        given = self.values.get(name, "0")
        if not given.isascii() or not given.isdigit() or len(given) > 9:
            raise errors.UsageError(f"{name} must be a number, not {given[:40]!r}")
        return int(given)

    def timeline(self, session_list: SessionList) -> Timeline:
        return session_list.timeline(self.text("name"), self.text("leaf"))


QUESTIONS: dict[str, tuple[str, Callable[[SessionList, Asked], JsonObject]]] = {
    "summaries": (
        "slow",
        lambda session_list, asked: session_list.summaries(asked.values.getall("name", [])[:MAX_SUMMARIES]),
    ),
    "search": ("look", lambda session_list, asked: session_list.search(asked.text("q")[:400])),
    "session": (
        "session",
        lambda session_list, asked: session_list.session(
            asked.text("name"), asked.text("leaf"), asked.number("start"), asked.text("last")
        ),
    ),
    "view": ("session", lambda session_list, asked: asked.timeline(session_list).view(asked.number("point"))),
    "message": (
        "session",
        lambda session_list, asked: asked.timeline(session_list).message(
            asked.number("point"), asked.number("at")
        ),
    ),
    "fold": ("session", lambda session_list, asked: asked.timeline(session_list).fold(asked.text("id"))),
}
"""Requests on one or all sessions, and the thread that answers them."""


class Explorer:
    """`async with Explorer(session_list) as explorer: explorer.url`."""

    def __init__(
        self,
        session_list: SessionList,
        *,
        port: int = 0,
        gateway: str | None = None,
        gateway_key: str | None = None,
        first: str = "",
        look_seconds: float = STORE_POLL_SECONDS,
    ) -> None:
        self.session_list, self.port, self.first = session_list, port, first
        self._look_seconds = look_seconds
        self.token = secrets.token_urlsafe(24)
        self._gateway, self._gateway_key = gateway, gateway_key
        self._pages: set[asyncio.Queue[bytes]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._ended = threading.Event()
        # One thread for sessions that are shared, one for what takes long, one for looking and searching.
        self._threads = {
            name: ThreadPoolExecutor(1, f"refold-{name}") for name in ("session", "slow", "look")
        }
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> Explorer:
        app = web.Application(middlewares=[self._guard])
        place = f"/{self.token}"
        app.router.add_get(f"{place}/", partial(_file, "index.html"))
        for file in PAGE.iterdir():
            app.router.add_get(f"{place}/{file.name}", partial(_file, file.name))
        asked = {name: partial(self._ask, *how) for name, how in QUESTIONS.items()}
        asked |= {"sessions": self._list, "what_if": self._what_if, "meter": self._meter}
        for name, work in asked.items():
            app.router.add_get(f"{place}/api/{name}", partial(self._answered, work))
        app.router.add_post(f"{place}/api/change", partial(self._answered, self._change))
        app.router.add_get(f"{place}/api/events", self._events)
        # A page that asks anew does not wait for the answer before.
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        except OSError as error:
            await self._runner.cleanup()
            why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
            raise errors.UsageError(f"Port {self.port} {why}; choose another with --port") from None
        self.port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self.port}{place}/"
        self._looking = asyncio.ensure_future(self._look())
        for collection in self.session_list.collections.by_name.values():
            if collection.synced is not None:
                threading.Thread(target=self._sync, args=(collection.synced,), daemon=True).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended.set()
        if self._looking is not None:
            self._looking.cancel()
        if self._runner is not None:
            await self._runner.cleanup()
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)

    # ── who gets an answer ──────────────────────────────────────────────────────────────────────

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        why = self._refused(request)
        if why:
            response: web.StreamResponse = web.Response(status=403, text=f"{why}\n")
        else:
            try:
                response = await handler(request)
            except web.HTTPException as error:
                response = web.Response(status=error.status, text=f"{error.reason}\n")
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    def _refused(self, request: web.Request) -> str:
        """Why a request is refused; empty if it is not."""
        hosts = (f"127.0.0.1:{self.port}", f"localhost:{self.port}")
        if request.headers.get("Host") not in hosts:
            return "wrong Host"
        origin = request.headers.get("Origin")
        if origin is not None and origin != f"http://{request.headers['Host']}":
            return "wrong Origin"
        opened = request.headers.get("Sec-Fetch-Dest") == "document"  # a link to it may stand anywhere
        if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none") and not opened:
            return "asked by another site"
        given = request.path[1:].partition("/")[0]
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return "the address needs the token that `refold explore` printed"
        if request.method not in ("GET", "HEAD"):
            header = request.headers.get(TOKEN_HEADER, "")
            if origin is None or not secrets.compare_digest(header.encode(), self.token.encode()):
                return "a change needs the token in a header, and an Origin"
        return ""

    # ── questions ───────────────────────────────────────────────────────────────────────────────

    async def _answered(
        self, work: Callable[[web.Request], Awaitable[JsonObject]], request: web.Request
    ) -> web.Response:
        """The answer, or the error as a sentence."""
        try:
            told, status = await work(request), 200
        except (errors.RefoldError, OSError, ValueError) as error:
            kind = _kind(error)
            told, status = {"error": redacted_text(str(error)), "kind": kind}, HTTP_STATUS[kind]
        return web.Response(body=_encoded(told), status=status, content_type="application/json")

    async def _in(self, thread: str, work: Callable[..., T], *given: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads[thread], work, *given)

    async def _ask(
        self, thread: str, work: Callable[[SessionList, Asked], JsonObject], request: web.Request
    ) -> JsonObject:
        return await self._in(thread, work, self.session_list, Asked(request.query))

    async def _list(self, _: web.Request) -> JsonObject:
        told = await self._in("look", self.session_list.list)
        return {**told, "first": self.first, "choices": choices()}

    async def _change(self, request: web.Request) -> JsonObject:
        given = msgspec.json.decode(await request.read(), type=dict[str, str])
        name, deed, target = given.get("name", ""), given.get("do", ""), given.get("target")
        return await self._in("session", self.session_list.change, name, deed, target)

    async def _what_if(self, request: web.Request) -> JsonObject:
        """Plans on a copy, since the conversation may continue meanwhile."""
        asked = Asked(request.query)
        session = await self._in("session", self.session_list.copy, asked.text("name"), asked.text("leaf"))
        return await self._in("slow", what_if, session, *map(asked.text, ("preset", "budget", "model")))

    async def _meter(self, _: web.Request) -> JsonObject:
        """The gateway's own counts, and those of the replies in its sessions."""
        if self._gateway is None:
            return {"error": "no gateway was named: start with --gateway URL"}
        headers = {"x-refold-key": self._gateway_key} if self._gateway_key else {}
        try:
            timeout = aiohttp.ClientTimeout(total=2)
            async with (
                aiohttp.ClientSession(timeout=timeout) as client,
                client.get(f"{self._gateway}/metrics", headers=headers, allow_redirects=False) as answered,
            ):
                text = await answered.text()
        except (aiohttp.ClientError, TimeoutError, ValueError, OSError):
            return {"error": f"no gateway answers at {self._gateway}", "url": self._gateway}
        if answered.status == 401:
            return {"error": "the gateway wants a key: set REFOLD_GATEWAY_KEY", "url": self._gateway}
        if answered.status != 200:
            return {"error": f"the gateway answered {answered.status}", "url": self._gateway}
        told = gateway_stats.metrics(text)
        since = told["started"] or 0.0
        counted = await self._in("slow", self._counted, since)
        return {"url": self._gateway, **told, **msgspec.to_builtins(counted)}

    def _counted(self, since: float) -> gateway_stats.GatewayCounts:
        """What gateways wrote since then, in the user's own stores."""
        found: list[Session] = []
        for collection in self.session_list.collections.by_name.values():
            if collection.writable:
                with suppress(errors.RefoldError, OSError):
                    infos = [one for one in collection.store.sessions() if one.updated >= since]
                    named = [one.id for one in infos if gateway_stats.GATEWAY_ID.search(one.id)]
                    found += [stored(collection.store, id) for id in named]
        return gateway_stats.counts(found, since)

    # ── events ──────────────────────────────────────────────────────────────────────────────────

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events: rows of the list that changed."""
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        waiting: asyncio.Queue[bytes] = asyncio.Queue(MAX_QUEUED_EVENTS)
        self._pages.add(waiting)
        try:
            await response.write(b"event: open\ndata: {}\n\n")
            while True:
                try:
                    async with asyncio.timeout(QUIET_SECONDS):
                        event = await waiting.get()
                except TimeoutError:
                    event = b": still here\n\n"
                await response.write(event)
        except (ConnectionError, asyncio.CancelledError):
            return response
        finally:
            self._pages.discard(waiting)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self._look_seconds)
            try:
                if self._pages and (changes := await self._in("look", self.session_list.changes)):
                    self._tell(changes)
            except Exception:  # a store of another package may raise anything: the next look may work
                logging.getLogger("refold").exception("the sessions could not be looked at")

    def _tell(self, changes: JsonObject) -> None:
        event = b"event: rows\ndata: " + _encoded(changes) + b"\n\n"
        for waiting in self._pages:
            try:
                waiting.put_nowait(event)
            except asyncio.QueueFull:
                while not waiting.empty():
                    waiting.get_nowait()
                waiting.put_nowait(b"event: behind\ndata: {}\n\n")

    def _sync(self, synced: SyncedSessions) -> None:
        """Keeps reading what another program writes; the first reading may take minutes."""
        while not self._ended.is_set():
            began = time.monotonic()
            synced.refresh()
            self._ended.wait(max(SYNC_SECONDS, 5 * (time.monotonic() - began)))


async def _file(name: str, _: web.Request) -> web.Response:
    return web.Response(
        body=PAGE.joinpath(name).read_bytes(), content_type=TYPES[name.rpartition(".")[2]], charset="utf-8"
    )


def _encoded(told: JsonObject) -> bytes:
    return msgspec.json.encode(_visible(told))


def _visible(value: Any) -> Any:
    """Every text without characters that are not allowed in a page."""
    if isinstance(value, str):
        return page_safe(value)
    if isinstance(value, dict):
        return {page_safe(str(key)): _visible(inner) for key, inner in value.items()}  # pyright: ignore
    if isinstance(value, (list, tuple)):
        return [_visible(inner) for inner in value]  # pyright: ignore
    return value


def _kind(error: Exception) -> str:
    """`gone`; `changed` meanwhile; `damaged`; `closed`: it cannot be read or written now, usually because
    another program has locked it; `usage`: a wrong request."""
    if isinstance(error, (errors.UnknownName, errors.EntryNotFound)):
        return "gone"
    if isinstance(error, errors.Conflict):
        return "changed"
    if isinstance(error, errors.FormatError):
        return "damaged"
    return "closed" if isinstance(error, (errors.StorageError, OSError)) else "usage"
