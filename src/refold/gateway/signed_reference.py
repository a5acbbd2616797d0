"""References to folded sessions that clients keep: signed, expiring, and bound to an owner."""

from __future__ import annotations

import base64
import binascii
import hmac
import time
from collections.abc import Callable

import msgspec

from refold.gateway.auth import RequestRefused

REFERENCE_PREFIX = "refold1"
LIFE = 90 * 86_400.0
"""Lifetime of a reference in seconds."""


class Reference(msgspec.Struct, frozen=True):
    """A position in a session."""

    session: str
    leaf: str
    owner: str
    until: float


class ReferenceSigner:
    def __init__(self, secret: bytes, *, clock: Callable[[], float] = time.time) -> None:
        self._secret, self._clock = secret, clock

    def sign(self, session: str, leaf: str, owner: str) -> str:
        reference = Reference(session, leaf, owner, self._clock() + LIFE)
        payload = _packed(msgspec.json.encode(reference))
        return f"{REFERENCE_PREFIX}.{payload}.{self._signature(payload)}"

    def verified(self, text: object, owner: str) -> Reference:
        """The reference that was signed for this owner; raises `RequestRefused` for anything else."""
        mark, _, rest = text.partition(".") if isinstance(text, str) else ("", "", "")
        payload, _, signature = rest.partition(".")
        good = hmac.compare_digest(signature.encode("utf-8", "replace"), self._signature(payload).encode())
        if mark != REFERENCE_PREFIX or not good:
            raise _refusal("was not made by this gateway, or was changed")
        try:
            padded = payload + "=" * (-len(payload) % 4)
            reference = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=Reference)
        except (msgspec.DecodeError, binascii.Error, ValueError):
            raise _refusal("cannot be read") from None
        if reference.owner != owner:
            raise _refusal("belongs to another owner")
        if reference.until < self._clock():
            raise _refusal("is too old")
        return reference

    def _signature(self, payload: str) -> str:
        return _packed(hmac.digest(self._secret, payload.encode("utf-8", "replace"), "sha256"))


def _packed(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _refusal(why: str) -> RequestRefused:
    text = f"this compaction item {why}"
    return RequestRefused(400, text, "invalid_request_error", code="invalid_encrypted_content")
