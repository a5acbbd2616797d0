"""OpenAI's own compaction for models that have none: `/v1/responses/compact`, `compaction_trigger` items, and
`compaction` items in later requests."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from refold.gateway.door import Refusal
from refold.gateway.sealed import Reference, Seal

ITEM, TRIGGER = "compaction", "compaction_trigger"
_PROMPTS = ("system", "developer")

Wire = dict[str, Any]


class Expanded(msgspec.Struct, frozen=True):
    """An input without what only a gateway understands."""

    items: Sequence[Wire]
    trigger: bool
    reference: Reference | None
    """Stands for everything before, but the prompts."""


def is_marked(raw: bytes) -> bool:
    """May this body hold such an item? Text that speaks of one has escaped quotes."""
    return b'"compaction"' in raw or b'"compaction_trigger"' in raw


def expand(wire: Sequence[Wire], seal: Seal, owner: str) -> Expanded:
    """Raises `Refusal` for items that were forged, and triggers in the middle."""
    items, trigger = list(wire), False
    if items and items[-1].get("type") == TRIGGER:
        trigger = True
        items.pop()
    if any(item.get("type") == TRIGGER for item in items):
        text = "a compaction_trigger must be the final input item"
        raise Refusal(400, text, "invalid_request_error", code="invalid_value")
    at = [n for n, item in enumerate(items) if item.get("type") == ITEM]
    if not at:
        return Expanded(items, trigger, None)
    references = [seal.open(items[n].get("encrypted_content"), owner) for n in at]
    prompts = [item for item in items[: at[-1]] if item.get("role") in _PROMPTS]
    return Expanded([*prompts, *items[at[-1] + 1 :]], trigger, references[-1])


class Compacted(msgspec.Struct, frozen=True):
    """A session that was folded because a client asked for it."""

    sealed: str
    model: str
    before: int
    after: int

    @property
    def item(self) -> Wire:
        return {"id": f"cmp_{secrets.token_hex(12)}", "type": ITEM, "encrypted_content": self.sealed}

    @property
    def usage(self) -> Wire:
        return {
            "input_tokens": self.before,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": self.after,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self.before + self.after,
        }

    def said(self, *, whole: bool, stream: bool) -> tuple[bytes, str]:
        """The answer and its content type; `whole`: that of the compact address."""
        if stream and not whole:
            return b"".join(self.stream()), "text/event-stream"
        return msgspec.json.encode(self.whole() if whole else self.response(self.item)), "application/json"

    def whole(self) -> Wire:
        """The answer of the compact address."""
        return {
            "id": f"resp_{secrets.token_hex(12)}",
            "object": "response.compaction",
            "created_at": int(time.time()),
            "output": [self.item],
            "usage": self.usage,
        }

    def response(self, item: Wire | None) -> Wire:
        """A response that holds the item alone; without it: one that has begun."""
        return {
            "id": f"resp_{secrets.token_hex(12)}",
            "object": "response",
            "created_at": int(time.time()),
            "status": "completed" if item else "in_progress",
            "model": self.model,
            "output": [item] if item else [],
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "usage": self.usage if item else None,
        }

    def stream(self) -> Iterator[bytes]:
        """The same as server-sent events."""
        item = self.item
        end = self.response(item)
        begun = {**self.response(None), "id": end["id"]}
        place = {"output_index": 0, "item": item}
        events: list[Wire] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
            {"type": "response.output_item.added", **place},
            {"type": "response.output_item.done", **place},
            {"type": "response.completed", "response": end},
        ]
        for number, event in enumerate(events):
            data = msgspec.json.encode({**event, "sequence_number": number})
            yield b"event: %s\ndata: %s\n\n" % (event["type"].encode(), data)
