"""OpenAI's two kinds of stream as events of refold.

Chunks are read as dicts, so that additions (reasoning texts) and omissions of compatible servers do no
harm. Whole parts, usage and the stop reason come from the dialects' parsers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from refold.models.stream_chunks import StreamReader, closed, obj, objs, strict, text_value
from refold.protocols import Event, PartDone, TextDelta, ThinkingDelta
from refold.session.dialects import openai_chat, openai_responses
from refold.session.dialects.common import as_dict
from refold.text.lenient_json import JsonObject

_THOUGHTS = ("reasoning_content", "reasoning")
_REASONING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")


class ChatStream(StreamReader):
    """Assembles a chat completion. Without a finish reason, the connection ended, not the reply."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._calls: list[JsonObject] = []
        self._open: dict[int, JsonObject] = {}
        self._finish: str | None = None
        self._usage: Any = None

    @strict
    def read(self, chunk: Any) -> Iterator[Event]:
        raw = as_dict(chunk)
        self._usage = raw.get("usage") or self._usage
        for choice in objs(raw.get("choices")):
            if choice.get("index"):
                continue  # of several answers (`n`) the first is the reply
            yield from self._delta(obj(choice.get("delta") or {}, "a delta"))
            self._finish = choice.get("finish_reason") or self._finish

    @strict
    def end(self) -> Iterator[Event]:
        """The whole parts, once the stream has ended."""
        if self._finish is None:
            return
        message: JsonObject = {key: "".join(pieces) for key, pieces in self._texts.items()}
        if self._calls:
            message["tool_calls"] = self._calls
        choice = {"message": message, "finish_reason": self._finish}
        reply = openai_chat.parse_reply({"choices": [choice], "usage": self._usage})
        yield from (PartDone(part) for part in reply[0].content)
        yield from closed(reply)

    def _delta(self, delta: JsonObject) -> Iterator[Event]:
        for key in _THOUGHTS:
            if said := self._text(delta, key):
                yield ThinkingDelta(said)
                break
        for key in ("content", "refusal"):
            if said := self._text(delta, key):
                yield TextDelta(said)
        for call in objs(delta.get("tool_calls")):
            self._call(call)

    def _text(self, delta: JsonObject, key: str) -> str:
        said = text_value(delta.get(key) or "", key)
        if said:
            self._texts.setdefault(key, []).append(said)
        return said

    def _call(self, piece: JsonObject) -> None:
        """Joins pieces of calls by index. Some servers number every call 0; these are distinguished by id."""
        given, id = piece.get("index"), piece.get("id")
        index = given if isinstance(given, int) else max(0, len(self._calls) - 1)
        known = self._open.get(index)
        if known is None or (id and known["id"] and id != known["id"]):
            known = JsonObject(id="", type="function", function=JsonObject(name="", arguments=""))
            self._open[index] = known
            self._calls.append(known)
        news, function = obj(piece.get("function") or {}, "a function"), known["function"]
        known["id"] = known["id"] or id or ""
        function["name"] = function["name"] or news.get("name") or ""
        function["arguments"] += text_value(news.get("arguments") or "", "arguments")


class ResponsesStream(StreamReader):
    """Reads the events of a response. Only `completed` and `incomplete` end it."""

    @strict
    def read(self, event: Any) -> Iterator[Event]:
        raw = as_dict(event)
        kind = raw.get("type")
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            yield TextDelta(text_value(raw.get("delta"), "a delta"))
        elif kind in _REASONING:
            yield ThinkingDelta(text_value(raw.get("delta"), "a delta"))
        elif kind == "response.output_item.done":
            for message in openai_responses.parse(raw.get("item") or {}):
                yield from (PartDone(part) for part in message.parts)
        elif kind in ("response.completed", "response.incomplete"):
            yield from closed(openai_responses.parse_reply(obj(raw.get("response") or {}, "a response")))
        elif kind == "response.failed":
            raise StreamRefused(as_dict(obj(raw.get("response") or {}, "a response").get("error") or {}))
        elif kind == "error":
            raise StreamRefused(raw)


class StreamRefused(OSError):
    """An error reported inside a stream, with the attributes of the SDK's errors."""

    def __init__(self, body: JsonObject) -> None:
        super().__init__(str(body.get("message") or "the response failed"))
        self.body = body
