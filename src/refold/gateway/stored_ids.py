"""Answers that are kept upstream (`store`, `background`), and whose they are.

Where owners share the upstream's key, the upstream cannot tell them apart: what it keeps is one owner's, and
another one can neither read nor delete it, nor go on from it. The server reads the ids of answers as they
pass; the desk writes down whose they are, and says what a request may refer to.
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
from refold.gateway.door import Refusal
from refold.gateway.replies import KEPT, one_line_end, payload_of
from refold.protocols import SessionInfo, Store
from refold.registry.configuration import GatewaySettings
from refold.session.dialects.common import listing
from refold.session.tree import random_id

SESSIONS = "gateway+responses+%Y-%m"
"""Sessions in which ids stand, one for each month: no client's session is called so. Those of this month and
the last one count: providers keep answers for thirty days."""
_REFERS = re.compile(rb'"(?:previous_response_id|conversation|item_reference|id)"|\\u')
"""What a body has to hold that refers to something. A key can be written with escapes."""
RESPONSES = "/v1/responses"
_NO_SUCH = "there is no such answer, or it is another owner's"


def is_shared(settings: GatewaySettings, path: str) -> bool:
    """Is this an address of answers that the upstream keeps for several owners?"""
    shared = bool(settings.keys) and settings.upstream_key_env is not None
    return shared and (path == RESPONSES or path.startswith(f"{RESPONSES}/"))


class Glance(msgspec.Struct, frozen=True):
    """What is seen of a request without reading it."""

    refers: bool
    """It may refer to what is kept upstream."""
    kept: bool
    """Its answer may be kept there."""


class _Head(msgspec.Struct):
    store: Any = None


def glance(raw: bytes, encoding: str) -> Glance:
    """`Refusal` where nothing can be seen: the upstream may read what we cannot."""
    if encoding.lower() not in ("", "identity"):
        raise _unreadable()
    try:
        head = msgspec.json.decode(raw, type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _unreadable() from None
    return Glance(_REFERS.search(raw) is not None, head.store is not False)


class References(msgspec.Struct, frozen=True):
    """What a request refers to."""

    body: bytes
    """The request as it was understood: names that occur twice are read otherwise by others."""
    kept: Sequence[str] = ()
    """Ids that stand for what is kept upstream."""
    given: Sequence[str] = ()
    """Ids of items that are handed back whole; clients make such ids up, too."""


def _unreadable() -> Refusal:
    text = "where owners share the upstream's key, only plain JSON is passed on"
    return Refusal(400, text, "invalid_request_error")


def references(raw: bytes) -> References:
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _unreadable() from None
    if not isinstance(body, dict):
        return References(raw)
    request = cast("dict[str, Any]", body)
    conversation = request.get("conversation")
    if isinstance(conversation, dict):
        conversation = cast("dict[str, Any]", conversation).get("id", "")
    kept = [each for each in (request.get("previous_response_id"), conversation) if each is not None]
    given: list[Any] = []
    for item in listing(request.get("input")):
        if not isinstance(item, dict) or cast("dict[str, Any]", item).get("id") is None:
            continue
        named = cast("dict[str, Any]", item)
        alone = named.get("type") in (None, "item_reference") and "role" not in named
        (kept if alone else given).append(named["id"])
    return References(msgspec.json.encode(request), [*map(str, kept)], [*map(str, given)])


class StoredIds:
    """Whose the ids are. Written to the store, so that another process of the gateway knows them, too."""

    def __init__(self, store: Callable[[], Store], *, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._months: dict[str, _Month] = {}

    def put(self, owner: str, ids: Sequence[str]) -> None:
        """The upstream has given these to an answer of this owner. The first owner stays it."""
        news = [id for id in ids if self._known(id) is None]
        if not news:
            return
        month, store = self._recent()[0], self._store()
        month.owners.update(dict.fromkeys(news, owner))
        entry = State(id=random_id(), time=self._clock(), name=owner, value=news)
        with suppress(SessionExists):
            store.create(SessionInfo(id=month.session, created=self._clock()))
        store.append(month.session, (entry,), after=None)

    def check(self, owner: str, kept: Sequence[str], given: Sequence[str] = ()) -> None:
        """Raises `Refusal`."""
        for id in kept:
            if self._owner_of(id) != owner:
                raise Refusal(404, _NO_SUCH, "invalid_request_error", code="response_not_found")
        for id in given:
            if self._owner_of(id) not in (owner, None):
                raise Refusal(404, _NO_SUCH, "invalid_request_error", code="item_not_found")

    def _owner_of(self, id: str) -> str | None:
        if self._known(id) is None:
            for month in self._recent():
                month.read(self._store())
        return self._known(id)

    def _known(self, id: str) -> str | None:
        return next((month.owners[id] for month in self._recent() if id in month.owners), None)

    def _recent(self) -> list[_Month]:
        """This month and the last."""
        now = time.gmtime(self._clock())
        before = time.gmtime(self._clock() - now.tm_mday * 86_400)
        names = [time.strftime(SESSIONS, when) for when in (now, before)]
        self._months = {name: self._months.get(name) or _Month(name) for name in names}
        return list(self._months.values())


class _Month:
    def __init__(self, session: str) -> None:
        self.session, self.owners, self._seen = session, dict[str, str](), 0

    def read(self, store: Store) -> None:
        """What other processes have written since."""
        with suppress(UnknownName):
            loaded = store.load(self.session, self._seen).entries
            self._seen += len(loaded)
            for entry in loaded:
                if isinstance(entry, State):
                    for id in listing(entry.value):
                        self.owners.setdefault(id, entry.name)


class _Item(msgspec.Struct):
    id: str | None = None


class _Told(msgspec.Struct):
    """An answer, or an event of one. What clients put in themselves is elsewhere."""

    id: str | None = None
    output: list[_Item] | None = None
    item: _Item | None = None
    response: _Told | None = None

    def ids(self) -> Iterator[str]:
        for each in (self, self.item, *(self.output or ())):
            if each is not None and each.id:
                yield each.id
        if self.response is not None:
            yield from self.response.ids()


class IdReader:
    """The ids that an answer holds, as it comes in pieces."""

    def __init__(self, *, streams: bool) -> None:
        self._streams, self._rest, self._seen = streams, b"", set[str]()

    def read(self, piece: bytes) -> list[str]:
        """Those that are new with this piece."""
        self._rest += piece
        payloads: list[bytes] = []
        if self._streams:
            *blocks, self._rest = one_line_end(self._rest).split(b"\n\n")
            payloads = [payload_of(block) for block in blocks]
        elif self._rest.rstrip().endswith(b"}"):
            payloads = [self._rest]
        if len(self._rest) > KEPT:
            self._rest = b""
        found: list[str] = []
        for payload in payloads:
            with suppress(msgspec.DecodeError):  # an event without any, or half of an answer
                found += msgspec.json.decode(payload, type=_Told).ids()
        news = [id for id in dict.fromkeys(found) if id not in self._seen]
        self._seen.update(news)
        return news
