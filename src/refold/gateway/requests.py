"""A request as the gateway reads it: its messages, what else takes room, and its session."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from refold import messages as m
from refold.errors import RefoldError
from refold.facts.words import typed as typed_text
from refold.gateway.signed_reference import Reference
from refold.session import dialects
from refold.session.dialects import anthropic, openai_chat, openai_responses
from refold.session.dialects.common import Given, list_or_empty, object_or_empty
from refold.session.merge import prompts
from refold.session.path_digests import digests
from refold.text.lenient_json import JsonObject
from refold.text.truncate import one_line
from refold.transcripts.client_requests import with_origins

DIALECT_OF_PATH = {
    "/v1/chat/completions": "openai",
    "/v1/responses": "responses",
    "/v1/messages": "anthropic",
}
"""Path → dialect of conversation requests."""
WIRES: dict[str, Any] = {wire.name: wire for wire in (openai_chat, openai_responses, anthropic)}
COMPACT_PATH = "/v1/responses/compact"
DIALECT_PROVIDERS = {"openai": "openai", "responses": "openai", "anthropic": "anthropic"}
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
PROGRAM = "user-agent"
_FOLDER = re.compile(r"(?im)working directory: *(/[^\n<]{1,1000}?) *$|<cwd>(/[^\n<]{1,1000})</cwd>")
"""Where Claude Code, opencode and Codex state their working folder."""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
FOLDER_CHARACTERS = 100_000
"""Characters of a text that are searched for the folder: a picture may have megabytes."""
TITLE = 80
"""Characters of the user's words in a session's title."""
PROMPTS = ("system", "developer")
UNREAD = frozenset(
    {"model", "metadata", "user", "safety_identifier", "prompt_cache_key", "logit_bias", "context_management"}
)
"""Fields that may be long and that no model reads."""


class ModelField(msgspec.Struct):
    """The model's name, decoded without reading the rest of the body."""

    model: str = ""


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("no number of JSON")
    return value


_BODY = msgspec.json.Decoder(Any, float_hook=_float)
"""Reads numbers such as 1e308 thirty times faster than msgspec's default."""


def model_named(raw: bytes) -> str:
    try:
        return msgspec.json.decode(raw, type=ModelField).model
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def identifying_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers that may name the session or the client."""
    return {name: headers[name] for name in (SESSION, *CLIENTS, PROGRAM) if name in headers}


class ConversationRequest(msgspec.Struct, frozen=True):
    dialect: str
    body: JsonObject
    wire: Sequence[JsonObject]
    """The list of messages as it arrived."""
    given: Sequence[Given]
    """Its messages, without the leading prompts."""
    session: str
    size: int = 0
    """Size of the request in bytes."""
    since: str | None = None
    """The entry that stands for everything before these messages."""
    client: str = ""
    """The client's name for itself."""
    owner: str = ""
    """Owner of the key it came with."""

    @property
    def title(self) -> str | None:
        """The user's first words and the client."""
        typed = next((text for message in self.messages if (text := typed_text(message))), "")
        return " · ".join(filter(None, (one_line(typed, TITLE), self.client))) or None

    @property
    def folder(self) -> str | None:
        """The client's working folder, from its prompt or its first message."""
        spoken = [self.body.get("system"), self.body.get("instructions"), *self.wire[: self.prompts + 2]]
        found = next(
            filter(None, (_FOLDER.search(text, 0, FOLDER_CHARACTERS) for text in m.leaves(spoken))), None
        )
        return found and (found[1] or found[2])

    @property
    def messages(self) -> list[m.Message]:
        return [given.message for given in self.given]

    @property
    def model(self) -> str:
        return f"{DIALECT_PROVIDERS[self.dialect]}:{self.name}"

    @property
    def name(self) -> str:
        """The model's name."""
        return str(self.body.get("model") or "")

    @property
    def said(self) -> Sequence[JsonObject]:
        """The messages without the leading prompts."""
        return self.wire[self.prompts :]

    @property
    def prompts(self) -> int:
        """Number of leading system prompts, which are kept as they are."""
        roles = (each.get("role") for each in self.wire)
        return next((n for n, role in enumerate(roles) if role not in PROMPTS), len(self.wire))

    @property
    def beside(self) -> str:
        """Everything that takes room besides the messages: the whole body except known exceptions."""
        unread = {*UNREAD, dialects.get(self.dialect).field}
        fields = [value for name, value in self.body.items() if name not in unread]
        parts = [part for part in (*fields, *self.wire[: self.prompts]) if part not in (None, True, False)]
        return "\n".join(part if isinstance(part, str) else m.compact_json(part) for part in parts)

    def with_tool(self, tool: JsonObject, name: str) -> ConversationRequest:
        """The request with one more tool, unless it has a tool of that name."""
        known = list_or_empty(self.body.get("tools"))
        names = [each.get("name", (each.get("function") or {}).get("name")) for each in known if each]
        body = self.body if name in names else {**self.body, "tools": [*known, tool]}
        return msgspec.structs.replace(self, body=body)

    def with_messages(self, wire: Sequence[JsonObject]) -> bytes:
        field = dialects.get(self.dialect).field
        return msgspec.json.encode({**self.body, field: [*self.wire[: self.prompts], *wire]})


def read_request(path: str, raw: bytes, headers: Mapping[str, str], owner: str) -> ConversationRequest | None:
    """The request; None if it cannot be read or its history is kept upstream."""
    try:
        body = _BODY.decode(raw)
    except (ValueError, RecursionError):
        return None
    dialect = dialects.get(DIALECT_OF_PATH[path if path != COMPACT_PATH else "/v1/responses"])
    if not isinstance(body, dict):
        return None
    request = cast("JsonObject", body)
    if request.get("previous_response_id") or request.get("conversation"):
        return None
    given = request.get(dialect.field)
    if isinstance(given, str) and dialect.name == "responses":
        given = [{"type": "message", "role": "user", "content": given}]
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in cast("list[Any]", given)):
        return None
    wire = cast("list[JsonObject]", given)
    try:
        given = _given(dialect.name, wire)
    except (RefoldError, ValueError, TypeError, KeyError, AttributeError):
        return None
    session = _session(request, headers, given[0].message if given else None, owner)
    client = headers.get(PROGRAM, "").partition("/")[0][:40]
    return ConversationRequest(
        dialect.name, request, wire, given, session, len(raw), client=client, owner=owner
    )


def _given(dialect: str, wire: Sequence[JsonObject]) -> list[Given]:
    """The messages without the leading prompts."""
    given: list[Given] = WIRES[dialect].parse_given(wire)
    messages = with_origins([each.message for each in given])
    named = [
        msgspec.structs.replace(each, message=message) for each, message in zip(given, messages, strict=True)
    ]
    return named[prompts(messages) :]


def since(
    asked: ConversationRequest, wire: Sequence[JsonObject], reference: Reference | None
) -> ConversationRequest:
    """The same request with other items, which continue from a place in a session."""
    asked = msgspec.structs.replace(asked, wire=wire, given=_given(asked.dialect, wire))
    if reference is None:
        return asked
    return msgspec.structs.replace(asked, session=reference.session, since=reference.leaf)


def _session(body: JsonObject, headers: Mapping[str, str], begin: m.Message | None, owner: str) -> str:
    """The id of the session: the client's name for it, and a hash of the owner and of everything else that
    identifies the session, so that ids of different owners or programs never collide. Conversations under one
    name that begin differently (sub-agents, titles) are separate sessions. Only `X-Refold-Session`, sent with
    a key, names one session whatever is in it."""
    given = headers.get(SESSION)
    name = given or _client_session(body, headers) or "talk"
    first = b"" if begin is None or (given and owner) else digests([begin])[0][-1]
    whole = m.compact_json([owner, name, first.hex(), _instructions(body)]).encode("utf-8", "surrogatepass")
    shown = re.sub(r"[^A-Za-z0-9._-]", "-", f"{owner}.{name}").lstrip(".-")[:80]
    if owner.startswith("-"):  # no option of a command, and not what an owner without it is called
        shown = f"+{owner}.{shown}"[:80]
    return f"{shown or 'talk'}.{hashlib.blake2b(whole, digest_size=16).hexdigest()}"


def _instructions(body: JsonObject) -> list[Any]:
    """Instructions for summaries, which may quote them: sessions with others are kept apart."""
    edits = list_or_empty(object_or_empty(body.get("context_management")).get("edits"))
    return [cast("JsonObject", edit).get("instructions") for edit in edits if isinstance(edit, dict)]


def _client_session(body: JsonObject, headers: Mapping[str, str]) -> str:
    for name in CLIENTS:
        if given := headers.get(name):
            return given
    user = object_or_empty(body.get("metadata")).get("user_id")
    if isinstance(user, str) and (ids := _UUID.findall(user)):
        return ids[-1]  # Claude Code: account, then session
    key = body.get("prompt_cache_key")
    return key if isinstance(key, str) else ""
