"""Responses that the provider stores (`store`, `background`), and the owner of each.

Owners who share the upstream's key look the same to it. So that no owner can read, delete or continue
another's responses, the server reads the ids of answers as they pass, and the worker records their owners and
checks what a request refers to.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec

from refold.entries import State
from refold.errors import SessionExists, UnknownName
from refold.gateway.auth import RequestRefused
from refold.gateway.replies import MAX_RECORDED_BYTES, one_line_end, payload_of
from refold.messages import leaves
from refold.protocols import SessionInfo, Store
from refold.registry.configuration import GatewaySettings
from refold.session.dialects.common import list_or_empty, object_or_empty
from refold.session.tree import random_id

RESPONSES_PATH, MESSAGES_PATH = "/v1/responses", "/v1/messages"
SESSION_PATTERN = "gateway+responses+%Y-%m"
"""Names of the sessions that hold the ids, one per month. This month and the last one count, because
providers keep answers for thirty days."""
MAX_ID_CHARS = 200
_REFERS = {
    RESPONSES_PATH: re.compile(rb'ids?"|"con(?:versation|tainer)"|\\u'),
    MESSAGES_PATH: re.compile(rb'"container"|\\u00'),
}
"""A body without any of these refers to nothing. Names can be written with escapes."""


def is_shared(settings: GatewaySettings, path: str) -> bool:
    """True if the upstream stores answers of this path for several owners."""
    shared = bool(settings.keys) and settings.upstream_key_env is not None
    return shared and (path in (RESPONSES_PATH, MESSAGES_PATH) or path.startswith(f"{RESPONSES_PATH}/"))


def may_refer(path: str, raw: bytes, encoding: str) -> bool:
    """True if a request may refer to something stored upstream; raises `RequestRefused` if it cannot be read,
    because the upstream might be able to."""
    if encoding.lower() not in ("", "identity"):
        raise _unreadable()
    _decoded(raw, _Head)
    return _REFERS.get(path, _REFERS[RESPONSES_PATH]).search(raw) is not None


class _Head(msgspec.Struct):
    """A JSON object, whatever is in it."""


def _decoded(raw: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _unreadable() from None


def _unreadable() -> RequestRefused:
    text = "where owners share the upstream's key, only a plain JSON object is passed on"
    return RequestRefused(400, text, "invalid_request_error")


class References(msgspec.Struct, frozen=True):
    body: bytes
    """The request as it was parsed. Duplicate keys are removed, because others may read them differently."""
    kept: Sequence[str] = ()
    """Ids of things stored upstream."""
    given: Sequence[str] = ()
    """Other texts that may be ids, wherever they stand: of items sent back whole, of containers. A client or
    an operator may have made them up."""


def references(raw: bytes) -> References:
    request: dict[str, Any] = _decoded(raw, dict[str, Any])
    names = ("previous_response_id", "conversation", "container")
    kept = [_id_of(request.get(name)) for name in names]
    for item in map(object_or_empty, list_or_empty(request.get("input"))):
        kind = item.get("type")
        if kind == "item_reference" or (kind is None and "role" not in item):
            kept.append(item.get("id"))
    given = {text for text in leaves(request) if len(text) <= MAX_ID_CHARS}
    return References(msgspec.json.encode(request), [str(id) for id in kept if id is not None], [*given])


def _id_of(value: Any) -> Any:
    return cast("dict[str, Any]", value).get("id") if isinstance(value, dict) else value


class StoredIds:
    """Owners of ids, kept in the store so that other gateway processes know them."""

    def __init__(self, store: Callable[[], Store], *, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._months: dict[str, _Month] = {}

    def put(self, owner: str, ids: Sequence[str]) -> None:
        """Records ids from an answer to this owner. If an upstream gives an id twice, both owners have it."""
        months = self._recent()
        news = [id for id in ids if owner not in _owners(months, id)]
        if not news:
            return
        month, store = months[0], self._store()
        month.add(owner, news)
        entry = State(id=random_id(), time=self._clock(), name=owner, value=news)
        with suppress(SessionExists):
            store.create(SessionInfo(id=month.session, created=self._clock()))
        store.append(month.session, (entry,), after=None)

    def check(self, owner: str, kept: Sequence[str], given: Sequence[str] = ()) -> None:
        """Raises `RequestRefused` if the owner may not use an id."""
        months = self._recent()
        if not all(_owners(months, id) for id in (*kept, *given)):
            for month in months:
                month.read(self._store())
        others = (owners for id in given if (owners := _owners(months, id)))
        if not all(owner in owners for owners in (*(_owners(months, id) for id in kept), *others)):
            text = "no such answer, or it belongs to another owner"
            raise RequestRefused(404, text, "invalid_request_error", code="response_not_found")

    def _recent(self) -> list[_Month]:
        """The ids of this month and the last."""
        now = time.gmtime(self._clock())
        before = time.gmtime(self._clock() - now.tm_mday * 86_400)
        names = [time.strftime(SESSION_PATTERN, when) for when in (now, before)]
        self._months = {name: self._months.get(name) or _Month(name) for name in names}
        return list(self._months.values())


class _Month:
    def __init__(self, session: str) -> None:
        self.session, self.owners, self._seen = session, dict[str, list[str]](), 0

    def add(self, owner: str, ids: Sequence[str]) -> None:
        for id in ids:
            if owner not in (owners := self.owners.setdefault(id, [])):
                owners.append(owner)

    def read(self, store: Store) -> None:
        """Reads what other processes have written since."""
        with suppress(UnknownName):
            loaded = store.load(self.session, self._seen).entries
            self._seen += len(loaded)
            for entry in loaded:
                if isinstance(entry, State):
                    self.add(entry.name, list_or_empty(entry.value))


def _owners(months: Sequence[_Month], id: str) -> set[str]:
    return {owner for month in months for owner in month.owners.get(id, ())}


def _ids(told: Any) -> Iterator[str]:
    """The ids of an answer, one of its items, or an event; without fields that clients set themselves."""
    for each in list_or_empty(told):
        yield from _ids(each)
    if isinstance(told, dict):
        fields = cast("dict[str, Any]", told)
        yield from (id for name in ("id", "container_id") if isinstance(id := fields.get(name), str) and id)
        for name in ("environment", "item", "output", "response"):
            yield from _ids(fields.get(name))


def _container_ids(told: Any) -> Iterator[str]:
    """The ids of an answer or an event of Anthropic, which only stores containers."""
    event = object_or_empty(told)
    for place in (event, event.get("message"), event.get("delta")):
        container = object_or_empty(object_or_empty(place).get("container"))
        if isinstance(id := container.get("id"), str) and id:
            yield id


class IdReader:
    """Reads the ids of an answer that arrives in pieces."""

    def __init__(self, path: str, *, streams: bool) -> None:
        self._ids = _container_ids if path == MESSAGES_PATH else _ids
        self._streams, self._rest, self._seen = streams, b"", set[str]()

    def read(self, piece: bytes) -> list[str]:
        """Ids that are new with this piece."""
        self._rest += piece
        payloads: list[bytes] = []
        if self._streams:
            *blocks, self._rest = one_line_end(self._rest).split(b"\n\n")
            payloads = [payload_of(block) for block in blocks]
        elif self._rest.rstrip().endswith(b"}"):
            payloads = [self._rest]
        if len(self._rest) > MAX_RECORDED_BYTES:
            self._rest = b""
        found: list[str] = []
        for payload in payloads:
            with suppress(msgspec.DecodeError):  # an event without any, or half of an answer
                found += self._ids(msgspec.json.decode(payload))
        news = [id for id in dict.fromkeys(found) if id not in self._seen]
        self._seen.update(news)
        return news
