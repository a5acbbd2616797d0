"""Keys, rate limits and connection limits; and refusals in the dialect of the caller.

A gateway that only listens locally needs no key. It then checks the Host and Origin of each request, so that
no web page can reach it through a name that resolves to this machine.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import math
import re
import secrets
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from aiohttp import web
from aiohttp.http_parser import RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from refold.errors import SettingError
from refold.registry.configuration import GatewaySettings

UPSTREAM_KEYS = frozenset(("authorization", "x-api-key"))
"""Headers that usually hold the upstream's own key."""
KEY_HEADERS = ("x-refold-key", "authorization", "x-api-key")
"""Headers that may hold a key of the gateway."""
_HASH = re.compile(r"[0-9a-f]{64}")
_KEYED = re.compile(r"/key/([^/?#]+)(/.*)")
_BETWEEN = re.compile(r"[\s,;:=&?\"'<>()\[\]{}]+")
"""Separators between the words of a header."""


def with_key_of_path(message: RawRequestMessage) -> RawRequestMessage:
    """Moves the key of a request to `/key/KEY/v1/…` into a header and strips it from the path, for clients
    that can only be given an address."""
    found = _KEYED.fullmatch(message.path)
    if found is None:
        return message
    headers = CIMultiDict(message.headers)
    headers["x-refold-key"] = found[1]
    return message._replace(path=found[2], url=URL(found[2], encoded=True), headers=CIMultiDictProxy(headers))


class RequestRefused(Exception):
    """Raised for a request that is not passed on."""

    def __init__(
        self, status: int, text: str, kind: str, *, code: str | None = None, wait: float = 0
    ) -> None:
        super().__init__(text)
        self.status, self.text, self.kind, self.code, self.wait = status, text, kind, code, wait


def refusal_response(refusal: RequestRefused, path: str) -> web.Response:
    """The refusal in the format of the provider of that path."""
    error: dict[str, Any] = {"type": refusal.kind, "message": f"refold: {refusal.text}"}
    if path.startswith("/v1/messages"):
        body: dict[str, Any] = {"type": "error", "error": error}
    else:
        body = {"error": {**error, "param": None, "code": refusal.code}}
    headers = {"x-refold": f"refused {refusal.code or refusal.kind}"}
    if refusal.wait:
        headers["retry-after"] = str(math.ceil(refusal.wait))
    if refusal.status == 401:
        headers["www-authenticate"] = "Bearer"
    return web.json_response(body, status=refusal.status, headers=headers)


class Caller(msgspec.Struct, frozen=True):
    owner: str = ""
    """Owner of the key; empty if no keys are required."""
    hidden: frozenset[str] = frozenset()
    """Headers to remove before the request is sent upstream, because they hold keys of the gateway."""


class Auth:
    def __init__(self, settings: GatewaySettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings, self._clock = settings, clock
        self._keys = frozenset(settings.keys.values())
        self.local = is_local(settings.host)
        self.inside = 0
        self._recent: dict[str, tuple[float, float]] = {}
        """Owner → requests left in this minute, and the time of the last one."""
        if not 0 <= settings.port < 65_536:
            raise SettingError("gateway.port", "must be a number from 0 to 65535; 0 takes any free port")
        if not self.local and not settings.keys:
            where = f"{settings.host} can be reached by other machines"
            raise SettingError("gateway.keys", f"{where}: add a key, or listen on 127.0.0.1")
        for owner, hashed in settings.keys.items():
            if not _HASH.fullmatch(hashed) or not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", owner):
                raise SettingError("gateway.keys", "is OWNER = the SHA-256 of a key, 64 hexadecimal digits")

    def admit(self, headers: Mapping[str, str]) -> Caller:
        """The caller that these headers identify; raises `RequestRefused`."""
        if self.settings.keys:
            caller = self._known(headers)
        else:
            self._check_place(headers)
            caller = Caller()
        self._check_rate(caller.owner)
        return caller

    @contextmanager
    def entered(self) -> Generator[None]:
        if self.inside >= self.settings.concurrent:
            raise RequestRefused(503, "too many requests at once", "overloaded_error", wait=1)
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1

    def _known(self, headers: Mapping[str, str]) -> Caller:
        for name in KEY_HEADERS:
            token = _token(name, headers.get(name, ""))
            if owner := self._owner(token):
                # A client with the gateway's key in the place of the upstream's has none for the upstream.
                hidden = {name, *(UPSTREAM_KEYS if name in UPSTREAM_KEYS else ())}
                holding = {each.lower() for each, value in headers.items() if self._holds_key(value, token)}
                return Caller(owner, frozenset(hidden | holding))
        raise RequestRefused(
            401, "missing or unknown gateway key", "authentication_error", code="invalid_api_key"
        )

    def _owner(self, token: str) -> str | None:
        hashed, owner = _hashed(token), None
        for known, wanted in self.settings.keys.items():  # all of them, whichever it is
            if secrets.compare_digest(hashed, wanted):
                owner = known
        return owner if token else None

    def _holds_key(self, value: str, token: str) -> bool:
        """True if a header holds any owner's key, or contains the caller's own."""
        texts = [value, unquote(value), *_decoded(value)]
        words = {word for text in texts for word in (text.strip(), *_BETWEEN.split(text))}
        return any(token in text for text in texts) or any(_hashed(word) in self._keys for word in words)

    def _check_place(self, headers: Mapping[str, str]) -> None:
        origin = headers.get("origin")
        places = [f"//{headers.get('host', '')}", *([origin] if origin is not None else [])]
        for place in places:
            try:
                host = urlsplit(place).hostname or ""
            except ValueError:
                host = ""
            if not is_local(host):
                raise RequestRefused(403, "only programs on this machine are served", "permission_error")

    def _check_rate(self, owner: str) -> None:
        most = self.settings.requests_per_minute
        if most is None:
            return
        now = self._clock()
        left, then = self._recent.get(owner, (float(most), now))
        left = min(float(most), left + (now - then) * most / 60)
        self._recent[owner] = (max(left - 1, 0.0) if left >= 1 else left, now)
        if left < 1:
            raise RequestRefused(429, "too many requests", "rate_limit_error", wait=(1 - left) * 60 / most)


def _decoded(value: str) -> list[str]:
    """The words of a header, base64-decoded where they are base64 (`Basic …`)."""
    found: list[str] = []
    for word in _BETWEEN.split(value):
        padded = word.replace("-", "+").replace("_", "/") + "=" * (-len(word) % 4)
        with suppress(ValueError):
            found.append(base64.b64decode(padded, validate=True).decode("utf-8", "surrogateescape"))
    return found


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _token(name: str, value: str) -> str:
    """The part of a header that may be a key."""
    bearer = name == "authorization" and value[:7].lower() == "bearer "
    return (value[7:] if bearer else value).strip()


def is_local(host: str) -> bool:
    """True if this host name means only this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
