"""Errors of providers as errors of refold.

Both official SDKs raise similar errors, which are read by their attributes, so that neither SDK is
imported here. Texts are shortened and cleaned of secrets, and the new error does not reference the old
one: an SDK's error holds the request, and the request the key.
"""

from __future__ import annotations

import email.utils
import html
import re
import time
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote

from refold.compaction import overflow
from refold.errors import ModelError, ModelUnavailable, Overflow, Transient
from refold.session.dialects.common import object_or_empty
from refold.text.truncate import one_line

MAX_ERROR_CHARS = 600
HIDDEN = "•••"

_LATER = {408, 409, 425, 429}
_LATER_KINDS = {
    "overloaded_error",
    "rate_limit_error",
    "rate_limit_exceeded",
    "api_error",
    "timeout_error",
    "server_error",
}
_NO_CREDIT = re.compile(r"insufficient_quota|credit balance|requires more credits|billing", re.IGNORECASE)
_PAGE = re.compile(r"\s*<(?:!doctype html|html)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title>([^<]{1,200})</title>", re.IGNORECASE)


class Secrets:
    """Texts that must never be shown, not even by `repr`."""

    __slots__ = ("_texts",)

    def __init__(self, *texts: str | None) -> None:
        plain = [text for text in texts if text and len(text) >= 4]
        self._texts = tuple(dict.fromkeys([*plain, *(quote(text, safe="") for text in plain)]))

    def hide(self, text: str) -> str:
        for secret in self._texts:
            text = text.replace(secret, HIDDEN)
        return text

    def __repr__(self) -> str:
        return f"Secrets({len(self._texts)})"


def translate(name: str, error: Exception, secrets: Secrets) -> ModelError:
    """The `ModelError` for an exception of an SDK."""
    if isinstance(error, ModelError):
        return error
    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) else None
    text = secrets.hide(_text(error))
    answered = f"HTTP {status}: " if status else ""
    line = answered + one_line(_of_page(text), MAX_ERROR_CHARS).removeprefix(f"{status} ").rstrip(".")
    if sign := overflow.in_error(f"{status} {text}" if status and not text.startswith(str(status)) else text):
        said = f"{name}: the request is larger than the model's window: {line}"
        return Overflow(said, sign.window, certain=sign.certain)
    if _NO_CREDIT.search(f"{text} {_kind(error)}"):
        return ModelUnavailable(f"{name}: the account has no credit left: {line}")
    if status in (401, 403):
        return ModelUnavailable(f"{name}: the key was not accepted: {line}")
    if status == 404:
        return ModelUnavailable(f"{name}: the server does not know this model or address: {line}")
    if _passes(error, status):
        return Transient(f"{name}: {line}; try again later", retry_after(_headers(error)))
    return ModelError(f"{name}: the request was refused: {line}")


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that a server asks to wait: milliseconds, seconds or a date; nonsense is ignored."""
    for key, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[key]) * unit)
        except (KeyError, ValueError):
            continue
    date = email.utils.parsedate_tz(headers.get("retry-after", ""))
    if date is None:
        return None
    return max(0.0, email.utils.mktime_tz(date) - (time.time() if now is None else now))


def _passes(error: Exception, status: int | None) -> bool:
    """True if a retry may succeed."""
    kind = _kind(error)
    if kind in _LATER_KINDS:
        return True
    if _headers(error).get("x-should-retry") == "false":
        return False
    if status is None or status < 400:  # the connection broke, or an error came inside a stream
        return kind != "invalid_request_error"
    return status in _LATER or status >= 500


def _text(error: Exception) -> str:
    body = _body(error)
    for holder in (object_or_empty(body.get("error")), body):
        message, code = holder.get("message"), holder.get("code")
        if isinstance(message, str) and message:
            return f"{message} ({code})" if isinstance(code, str) and code else message
    said, response = str(error).strip(), getattr(error, "response", None)
    if response is not None and said in ("", f"Error code: {response.status_code}"):
        return response.reason_phrase
    if (request := vars(error).get("request")) is None or response is not None:
        return said or type(error).__name__
    reached, cause = f"{request.url.scheme}://{request.url.netloc.decode()}", str(error.__cause__ or "")
    return f"{said.rstrip('.')} at {reached}" + (f": {cause}" if cause else "")


def _of_page(text: str) -> str:
    """What a page of a proxy says that came instead of an answer; any other text as it is."""
    title = _TITLE.search(text) if _PAGE.match(text) else None
    return html.unescape(title[1]) if title else "a web page" if _PAGE.match(text) else text


def _kind(error: Exception) -> str | None:
    """The error's `type`, as both providers write it."""
    body = _body(error)
    holder = object_or_empty(body.get("error")) or body
    for key in ("type", "code"):
        if isinstance(holder.get(key), str) and holder[key] != "error":
            return holder[key]
    return None


def _body(error: Exception) -> dict[str, Any]:
    return object_or_empty(getattr(error, "body", None))


def _headers(error: Exception) -> Mapping[str, str]:
    headers = getattr(getattr(error, "response", None), "headers", None)
    return cast("Mapping[str, str]", headers) if isinstance(headers, Mapping) else {}
