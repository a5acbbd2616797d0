"""The providers' compaction protocols, for models that do not have them. OpenAI: `/v1/responses/compact`,
items `compaction_trigger` and, in later requests, `compaction`. Anthropic: `compaction` blocks."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import msgspec

from refold import entries as e
from refold.gateway.auth import RequestRefused
from refold.gateway.requests import COMPACT_PATH, DIALECT_OF_PATH, PROMPTS
from refold.gateway.signed_reference import Reference, ReferenceSigner
from refold.registry.configuration import GatewaySettings
from refold.session import View
from refold.session.dialects.common import list_or_empty, object_or_empty
from refold.text.lenient_json import JsonObject

COMPACTION_TYPE, TRIGGER_TYPE = "compaction", "compaction_trigger"


_OWN = re.compile(r"(^|\.)(api\.openai\.com|chatgpt\.com|openai\.azure\.com)$")
_MARKS = {
    "responses": (b'"compaction"', b'"compaction_trigger"', b'"context_management"'),
    "anthropic": (b'"compaction"', b'"context_management"'),
    "openai": (),
}
"""Text in a body that requests compaction. A message that only mentions it has escaped quotes."""


class Expanded(msgspec.Struct, frozen=True):
    """An input with compaction items and triggers removed."""

    items: Sequence[JsonObject]
    trigger: bool
    reference: Reference | None
    """The position in a session that stands for everything before, except the prompts."""


def is_marked(settings: GatewaySettings, path: str, raw: bytes) -> bool:
    """True if this body must be read because it may request compaction, however short it is."""
    dialect = DIALECT_OF_PATH.get(path, "responses")
    if not handles_compaction(settings.protocols, settings.upstream, dialect):
        return False
    return path == COMPACT_PATH or any(mark in raw for mark in _MARKS[dialect])


@lru_cache
def handles_compaction(protocols: bool | None, upstream: str | None, dialect: str) -> bool:
    """True if the gateway answers the provider's protocols, false if the upstream does. By default the
    upstream answers if it is the provider itself."""
    host = urlsplit(upstream or "").hostname or ""
    own = host == "api.anthropic.com" if dialect == "anthropic" else bool(_OWN.search(host))
    return not own if protocols is None else protocols


def expand_compactions(
    dialect: str, wire: Sequence[JsonObject], signer: ReferenceSigner, owner: str
) -> Expanded:
    """Replaces compaction items by references; refuses forged items and misplaced triggers."""
    return _blocks(wire, signer, owner) if dialect == "anthropic" else _items(wire, signer, owner)


def _blocks(wire: Sequence[JsonObject], signer: ReferenceSigner, owner: str) -> Expanded:
    """Drops everything before the last block. If the client did not keep the block's signature, its text is
    used; a block with neither marks a failed compaction and is ignored."""
    messages: list[JsonObject] = []
    reference: Reference | None = None
    for message in wire:
        blocks = list_or_empty(message.get("content"))
        kept: list[Any] = []
        for block in blocks:
            item = object_or_empty(block)
            if item.get("type") != COMPACTION_TYPE:
                kept.append(block)
                continue
            signed, text = item.get("encrypted_content"), item.get("content")
            if signed is None and not text:
                continue
            reference = None if signed is None else signer.verified(signed, owner)
            messages, kept = [] if signed is not None else [{"role": "user", "content": str(text)}], []
        if kept or not blocks:
            messages.append({**message, "content": kept} if blocks else message)
    return Expanded(messages, False, reference)


def item_of(dialect: str, signed: str, view: View) -> JsonObject:
    """The compaction item for the folded part of a view. Anthropic's is readable, OpenAI's is not."""
    if dialect != "anthropic":
        id = f"cmp_{secrets.token_hex(12)}"
        return {"id": id, "type": COMPACTION_TYPE, "encrypted_content": signed}
    texts = [f"{item.message.role}: {item.message.text}" for item in view.items if item.fold is not None]
    return {"content": "\n\n".join(texts) or "(nothing)", "encrypted_content": signed}


def fold_usage(fold: e.Fold | None) -> JsonObject:
    usage = fold.usage if fold is not None else None
    return {} if usage is None else {"input_tokens": usage.prompt, "output_tokens": usage.output}


def compaction_message(item: JsonObject, model: str, *, stream: bool) -> tuple[bytes, str]:
    """An Anthropic answer with only a compaction block, and its content type."""
    more: JsonObject = {"context_management": {"applied_edits": []}}
    return _message(
        {**item, "type": COMPACTION_TYPE}, block_events(item), model, "compaction", 0, more, stream=stream
    )


def text_message(text: str, model: str, tokens: int, *, stream: bool) -> tuple[bytes, str]:
    """An Anthropic answer with this text, and its content type."""
    events: list[JsonObject] = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
    ]
    return _message({"type": "text", "text": text}, events, model, "end_turn", tokens, {}, stream=stream)


def _message(
    block: JsonObject,
    events: list[JsonObject],
    model: str,
    reason: str,
    tokens: int,
    more: JsonObject,
    *,
    stream: bool,
) -> tuple[bytes, str]:
    usage = {"input_tokens": 0, "output_tokens": tokens}
    stop = {"stop_reason": reason, "stop_sequence": None}
    message: JsonObject = {
        "id": f"msg_{secrets.token_hex(12)}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [block],
        **stop,
        "usage": usage,
        **more,
    }
    if not stream:
        return msgspec.json.encode(message), "application/json"
    events = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        *events,
        {"type": "message_delta", "delta": stop, "usage": usage, **more},
        {"type": "message_stop"},
    ]
    return b"".join(map(sse_event, events)), "text/event-stream"


def block_events(item: JsonObject) -> list[JsonObject]:
    """The events of a compaction block that starts a stream."""
    empty = {"type": COMPACTION_TYPE, "content": None, "encrypted_content": None}
    return [
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": {**item, "type": "compaction_delta"}},
        {"type": "content_block_stop", "index": 0},
    ]


def sse_event(event: JsonObject) -> bytes:
    """A server-sent event, named after its type."""
    return b"event: %s\ndata: %s\n\n" % (event["type"].encode(), msgspec.json.encode(event))


def _items(wire: Sequence[JsonObject], signer: ReferenceSigner, owner: str) -> Expanded:
    items, trigger = list(wire), False
    if items and items[-1].get("type") == TRIGGER_TYPE:
        trigger = True
        items.pop()
    if any(item.get("type") == TRIGGER_TYPE for item in items):
        text = "a compaction_trigger must be the final input item"
        raise RequestRefused(400, text, "invalid_request_error", code="invalid_value")
    at = [n for n, item in enumerate(items) if item.get("type") == COMPACTION_TYPE]
    if not at:
        return Expanded(items, trigger, None)
    references = [signer.verified(items[n].get("encrypted_content"), owner) for n in at]
    prompts = [item for item in items[: at[-1]] if item.get("role") in PROMPTS]
    return Expanded([*prompts, *items[at[-1] + 1 :]], trigger, references[-1])


def text_response(text: str, model: str, tokens: int, *, stream: bool) -> tuple[bytes, str]:
    """A responses answer with this text, and its content type."""
    content: list[JsonObject] = [{"type": "output_text", "text": text, "annotations": []}]
    item: JsonObject = {"id": f"msg_{secrets.token_hex(12)}", "type": "message", "role": "assistant",
                  "status": "completed", "content": content}  # fmt: skip
    return item_response(item, model, 0, tokens, whole=False, stream=stream)


def item_response(
    item: JsonObject, model: str, before: int, after: int, *, whole: bool, stream: bool
) -> tuple[bytes, str]:
    """A responses answer with only this item; `whole`: in the format of the compact endpoint."""
    usage = {
        "input_tokens": before,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": after,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": before + after,
    }
    begun: JsonObject = {
        "id": f"resp_{secrets.token_hex(12)}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "model": model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": None,
    }
    end: JsonObject = {**begun, "status": "completed", "output": [item], "usage": usage}
    if whole:
        end["object"] = "response.compaction"
        end = {key: end[key] for key in ("id", "object", "created_at", "output", "usage")}
    if whole or not stream:
        return msgspec.json.encode(end), "application/json"
    place = {"output_index": 0, "item": item}
    events: list[JsonObject] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        {"type": "response.output_item.added", **place},
        {"type": "response.output_item.done", **place},
        {"type": "response.completed", "response": end},
    ]
    numbered = ({**event, "sequence_number": number} for number, event in enumerate(events))
    return b"".join(map(sse_event, numbered)), "text/event-stream"


def text_completion(text: str, model: str, tokens: int, *, stream: bool) -> tuple[bytes, str]:
    """A chat completions answer with this text, and its content type."""
    usage = {"prompt_tokens": 0, "completion_tokens": tokens, "total_tokens": tokens}
    message = {"role": "assistant", "content": text}
    base: JsonObject = {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "created": int(time.time()),
        "model": model,
    }
    if not stream:
        choices: Sequence[JsonObject] = [{"index": 0, "message": message, "finish_reason": "stop"}]
        whole = {**base, "object": "chat.completion", "choices": choices, "usage": usage}
        return msgspec.json.encode(whole), "application/json"
    base["object"] = "chat.completion.chunk"
    chunks: list[JsonObject] = [
        {**base, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {**base, "choices": [], "usage": usage},
    ]
    pieces = [*map(msgspec.json.encode, chunks), b"[DONE]"]
    return b"".join(b"data: %s\n\n" % piece for piece in pieces), "text/event-stream"


TEXTS = {"anthropic": text_message, "responses": text_response, "openai": text_completion}
"""Dialect → function that makes an answer from a text."""
