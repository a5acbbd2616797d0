"""A request as far as the gateway reads it: its messages, what else takes room, and whose session it is."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from refold import messages as m
from refold.errors import RefoldError
from refold.gateway.sealed import Reference
from refold.session import dialects
from refold.session.dialects.common import listing
from refold.session.merge import pieces

DIALECTS = {"/v1/chat/completions": "openai", "/v1/responses": "responses", "/v1/messages": "anthropic"}
"""Addresses of conversations."""
COMPACT = "/v1/responses/compact"
PROVIDERS = {"openai": "openai", "responses": "openai", "anthropic": "anthropic"}
SESSION = "x-refold-session"
CLIENTS = (
    "x-claude-code-session-id",
    "thread_id",
    "thread-id",
    "session_id",
    "session-id",
    "conversation_id",
    "x-session-id",
)
"""Headers in which clients name their session."""
_HASHED = re.compile(r"\.[0-9a-f]{10}$")
"""The end of an id whose name every store would not have taken as it was."""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
PROMPTS = ("system", "developer")

Wire = dict[str, Any]


class Head(msgspec.Struct):
    """The one thing that has to be known before anything else; the rest is not read for it."""

    model: str = ""


def model_named(raw: bytes) -> str:
    try:
        return msgspec.json.decode(raw, type=Head).model
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def names(headers: Mapping[str, str]) -> dict[str, str]:
    """Of the headers of a request, those in which its session may be named."""
    return {name: headers[name] for name in (SESSION, *CLIENTS) if name in headers}


class Place(msgspec.Struct, frozen=True):
    """Whose session a request belongs to, and what it is called."""

    owner: str
    usual: str
    """Its id, as earlier releases made it, too."""
    other: str
    """Its id where that one is somebody else's."""
    made: bool = False
    """It exists: a reference of ours names it."""
    unmarked: bool = True
    """It may be one from before owners were written down."""


class Asked(msgspec.Struct, frozen=True):
    """What a request says."""

    dialect: str
    body: Wire
    wire: Sequence[Wire]
    """The list of messages, as it came."""
    messages: Sequence[m.Message]
    place: Place
    chain: Sequence[bytes]
    """One hash for each message and all that come before it; prompts in front are left out."""
    size: int = 0
    """Bytes of the request."""
    since: str | None = None
    """The entry that stands for all that was said before these messages."""

    @property
    def model(self) -> str:
        return f"{PROVIDERS[self.dialect]}:{self.name}"

    @property
    def name(self) -> str:
        """Of the model, as the client calls it."""
        return str(self.body.get("model") or "")

    @property
    def said(self) -> Sequence[Wire]:
        """The messages without the prompts in front."""
        return self.wire[self.prompts :]

    @property
    def prompts(self) -> int:
        """How many system prompts stand in front of the list: they stay as they came."""
        roles = (each.get("role") for each in self.wire)
        return next((n for n, role in enumerate(roles) if role not in PROMPTS), len(self.wire))

    @property
    def beside(self) -> str:
        """Everything that takes room beside the messages."""
        kept = [self.body.get(key) for key in ("system", "instructions", "tools")]
        parts = [*(part for part in kept if part), *self.wire[: self.prompts]]
        return "\n".join(part if isinstance(part, str) else m.compact_json(part) for part in parts)

    def with_tool(self, tool: Wire, name: str) -> Asked:
        """With a tool more, unless there is one of that name."""
        known = listing(self.body.get("tools"))
        names = [each.get("name", (each.get("function") or {}).get("name")) for each in known if each]
        body = self.body if name in names else {**self.body, "tools": [*known, tool]}
        return msgspec.structs.replace(self, body=body)

    def with_messages(self, wire: Sequence[Wire]) -> bytes:
        """The body with other messages; everything else stays."""
        field = dialects.get(self.dialect).field
        return msgspec.json.encode({**self.body, field: [*self.wire[: self.prompts], *wire]})


def read(path: str, raw: bytes, headers: Mapping[str, str], owner: str) -> Asked | None:
    """The request; None where it cannot be read, or its history is kept upstream."""
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    dialect = dialects.get(DIALECTS[path if path != COMPACT else "/v1/responses"])
    if not isinstance(body, dict):
        return None
    request = cast("Wire", body)
    if request.get("previous_response_id") or request.get("conversation"):
        return None
    given = request.get(dialect.field)
    if isinstance(given, str) and dialect.name == "responses":
        given = [{"type": "message", "role": "user", "content": given}]
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in cast("list[Any]", given)):
        return None
    wire = cast("list[Wire]", given)
    try:
        messages = dialect.parse_list(wire)
    except (RefoldError, ValueError, TypeError, KeyError, AttributeError):
        return None
    chain = _chain(messages)
    place = _place(request, headers, messages, chain, owner)
    return Asked(dialect.name, request, wire, messages, place, chain, len(raw))


def since(asked: Asked, wire: Sequence[Wire], reference: Reference | None) -> Asked:
    """The same request with other items, which go on from a place in a session."""
    messages = dialects.get(asked.dialect).parse_list(wire)
    chain = _chain(messages, reference.leaf if reference else "")
    asked = msgspec.structs.replace(asked, wire=wire, messages=messages, chain=chain)
    if reference is None:
        return asked
    place = Place(reference.owner, reference.session, reference.session, made=True)
    return msgspec.structs.replace(asked, place=place, since=reference.leaf)


def apart(asked: Asked, text: str) -> Asked:
    """The same request in a session of those who say this beside their messages, too: what is made there may
    tell of it."""
    mark = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    usual, other = (f"{id[:100]}.{mark}" for id in (asked.place.usual, asked.place.other))
    place = msgspec.structs.replace(asked.place, usual=usual, other=other)
    return msgspec.structs.replace(asked, place=place)


def _chain(messages: Iterable[m.Message], seed: str = "") -> list[bytes]:
    found, said, begun = list[bytes](), hashlib.blake2b(seed.encode(), digest_size=16), False
    for message in messages:
        begun = begun or not isinstance(message, m.System)
        if not begun:
            continue
        for piece in pieces([message]):
            _add(said, (*piece.content, *piece.hints))
        found.append(said.digest())
    return found


def _add(said: hashlib.blake2b, fields: Sequence[str | None]) -> None:
    said.update(b"%d;" % len(fields))
    for field in fields:
        data = b"" if field is None else field.encode("utf-8", "surrogatepass")
        said.update(b"%d:" % (-1 if field is None else len(data)) + data)


def _place(
    body: Wire, headers: Mapping[str, str], messages: Sequence[m.Message], chain: Sequence[bytes], owner: str
) -> Place:
    """The session is called what the client calls it. One client may have several conversations under one
    name (sub-agents, titles): those that begin otherwise are sessions of their own. Only a name that was
    meant for us is taken for one session, whatever is said in it; and only from an owner who is known by a
    key, since a name alone proves nothing."""
    given = headers.get(SESSION)
    name = given or _client_session(body, headers) or "talk"
    parts = [name] if given and owner else [name, _beginning(messages)]
    usual = _joined(owner, *parts)
    exact = [owner, *parts, chain[0].hex() if chain else ""]
    said = hashlib.blake2b(m.compact_json(exact).encode("utf-8", "surrogatepass"), digest_size=8)
    # Earlier releases gave "x" with this name and "-x" with another one the same id.
    clear = not (given and _HASHED.search(given))
    return Place(owner, usual, f"{usual[:100]}.{said.hexdigest()}", unmarked=clear)


def _beginning(messages: Sequence[m.Message]) -> str:
    """What the first message says in words, calls and pictures, in a few digits: part of a session's name. As
    it was from the first release on, so that sessions are found again."""
    first = next((message for message in messages if not isinstance(message, m.System)), None)
    if first is None:
        return "empty"
    side = "assistant" if isinstance(first, m.Assistant) else "user"
    texts = ["result", first.call_id, first.text.strip()] if isinstance(first, m.Result) else list[str]()
    for part in () if isinstance(first, m.Result) else first.parts:
        if isinstance(part, m.Text) and part.text.strip():
            texts += [side, part.text.strip()]
        elif isinstance(part, m.Call):
            texts += ["call", part.id, part.name, m.arguments_json(part)]
        elif isinstance(part, m.Image):
            texts += [side, "image", part.data or part.url or ""]
    said = hashlib.blake2b(digest_size=16)
    for text in texts:
        said.update(b"%d:" % len(text) + text.encode("utf-8", "surrogatepass"))
    return said.hexdigest()[:10]


def _client_session(body: Wire, headers: Mapping[str, str]) -> str:
    for name in CLIENTS:
        if given := headers.get(name):
            return given
    metadata = body.get("metadata")
    user = cast("Wire", metadata).get("user_id") if isinstance(metadata, dict) else None
    if isinstance(user, str) and (ids := _UUID.findall(user)):
        return ids[-1]  # Claude Code: account, then session
    key = body.get("prompt_cache_key")
    return key if isinstance(key, str) else ""


def _joined(*parts: str) -> str:
    """A name that every store takes; what was changed or cut is told apart by a hash."""
    whole = ".".join(part for part in parts if part)
    name = re.sub(r"[^A-Za-z0-9._-]", "-", whole).lstrip(".-")[:120] or "talk"
    if name == whole:
        return name
    return (
        f"{name[:100]}.{hashlib.blake2b(whole.encode('utf-8', 'surrogatepass'), digest_size=5).hexdigest()}"
    )
