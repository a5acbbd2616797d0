"""Anthropic's messages API, through the official SDK, with cache breakpoints on the stable prefix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Unpack, cast

import msgspec

from refold.errors import ModelError
from refold.models.remote import Remote, RemoteOptions, wire_items
from refold.models.stream_chunks import Malformed, StreamReader, closed, obj, strict, text_value
from refold.protocols import Event, PartDone, Request, TextDelta, ThinkingDelta
from refold.session.dialects import anthropic as dialect
from refold.session.dialects.common import as_dict
from refold.text.lenient_json import JsonObject

DEFAULT_MAX_TOKENS = 16_384
"""Default of `max_tokens`, which the API requires."""


class Anthropic(Remote):
    """A model of Anthropic. `cache`: lifetime of the cached prefix (`None`: no breakpoints)."""

    provider, brand, home = "anthropic", "Anthropic", "api.anthropic.com"
    resource, required = "messages", ("model", "max_tokens", "messages")

    def __init__(
        self,
        model: str,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        cache: Literal["5m", "1h"] | None = "5m",
        **options: Unpack[RemoteOptions],
    ) -> None:
        super().__init__(model, **options)
        self.cache: Literal["5m", "1h"] | None = cache
        self._max_tokens = max_tokens

    def body(self, request: Request) -> JsonObject:
        limit = {"max_tokens": request.max_tokens or self._max_tokens}
        return {**self._common(request), **limit, **self._prompt(request), **self._extra}

    def reader(self) -> StreamReader:
        return MessageStream()

    async def count(self, request: Request) -> int:
        """The provider's token count of the request."""
        failure: ModelError | None = None
        try:
            client = await self.client()
            counted = await client.messages.count_tokens(
                model=self.model, messages=[], extra_body=self._prompt(request)
            )
            return int(counted.input_tokens)
        except self._caught() as error:
            failure = self._translated(error)
        raise failure

    def _prompt(self, request: Request) -> JsonObject:
        rendered = dialect.render(
            wire_items(request, "anthropic"),
            system=request.system,
            tools=request.tools or None,
            cache=self.cache is not None,
            # Five minutes are the default of the interface: left out, the body stays as short as can be.
            ttl="1h" if self.cache == "1h" else None,
        )
        return {key: value for key, value in rendered.items() if value or key == "messages"}


class MessageStream(StreamReader):
    """Assembles the events of a message. Only `message_stop` ends it."""

    def __init__(self) -> None:
        self._blocks: dict[int, JsonObject] = {}
        self._message: JsonObject = {"role": "assistant", "content": []}

    @strict
    def read(self, event: Any) -> Iterator[Event]:
        raw = as_dict(event)
        match raw.get("type"):
            case "message_start":
                self._see(obj(raw.get("message") or {}, "a message"))
            case "content_block_start":
                self._blocks[_index(raw)] = dict(obj(raw.get("content_block"), "a block"))
            case "content_block_delta":
                yield from self._delta(self._block(raw), obj(raw.get("delta"), "a delta"))
            case "content_block_stop":
                yield from self._done(self._block(raw))
            case "message_delta":
                self._see({**obj(raw.get("delta"), "a delta"), "usage": raw.get("usage")})
            case "message_stop":
                yield from closed(dialect.parse_reply(self._message))
            case _:
                pass  # pings, and kinds that are not invented yet

    def _see(self, news: JsonObject) -> None:
        if isinstance(news.get("stop_reason"), str):
            self._message["stop_reason"] = news["stop_reason"]
        usage = news.get("usage")
        if isinstance(usage, dict):
            counted = {key: value for key, value in cast(JsonObject, usage).items() if value is not None}
            self._message["usage"] = {**self._message.get("usage", {}), **counted}

    def _block(self, raw: JsonObject) -> JsonObject:
        block = self._blocks.get(_index(raw))
        if block is None:
            raise Malformed("a delta belongs to no block")
        return block

    def _delta(self, block: JsonObject, delta: JsonObject) -> Iterator[Event]:
        kind = str(delta.get("type"))
        if key := _GROWING.get(kind):
            piece = text_value(delta.get(key), kind)
            block[key] = f"{block.get(key) or ''}{piece}"
            if key in _SHOWN:
                yield _SHOWN[key](piece)
        elif kind == "citations_delta":
            block.setdefault("citations", []).append(delta.get("citation"))

    def _done(self, block: JsonObject) -> Iterator[Event]:
        # Arguments are read as text, strictly: the start event's empty object only counts if none came.
        arguments = block.pop("partial_json", "")
        if arguments:
            block["input"] = arguments if block.get("type") == "tool_use" else _value(arguments)
        for message in dialect.parse({"role": "assistant", "content": [block]}):
            yield from (PartDone(part) for part in message.parts)


_GROWING = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
"""Type of delta → the field of a block it extends."""
_SHOWN = {"text": TextDelta, "thinking": ThinkingDelta}


def _value(arguments: str) -> Any:
    """Arguments of the provider's own tools; text if they are malformed."""
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments


def _index(raw: JsonObject) -> int:
    index = raw.get("index")
    if not isinstance(index, int):
        raise Malformed("an event names no block")
    return index
