"""Answers that differ from the upstream's: something is added (a compaction item, applied edits), or a call
of the gateway's own tool is removed and answered, and the model's next reply continues the same answer.

A rewriter makes one answer for the client from one or more of the upstream, event by event. The end is held
back until no further answer can follow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from refold.gateway.compaction import block_events
from refold.gateway.ipc import Extras
from refold.gateway.replies import one_line_end, payload_of
from refold.text.lenient_json import JsonObject

_ODD = (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError, msgspec.DecodeError)
"""Exceptions raised by malformed answers."""


class ResponseRewriter(ABC):
    """`calls` and `recalls` count the calls of this round: of the client's tools and of the gateway's."""

    def __init__(self, extras: Extras) -> None:
        self.extras = extras
        self.round = self.calls = self.recalls = 0
        self.ended = False
        """True if this round is complete."""
        self._said_end = self._failed = False
        self._rest = self._odd = b""
        self._places: dict[int, int | None] = {}
        """Index of a block in this round → its index in the client's answer; None if it is not passed on."""
        self._next = 0
        self._held: list[Any] = []
        self._usage: JsonObject = {}

    @property
    def again(self) -> bool:
        """True if the upstream must be asked again; if the client's tools were called too, it goes first."""
        asked = self.recalls > 0 and self.calls == 0
        return self.ended and asked and not self._odd and not self._failed

    def begin(self) -> None:
        self.round += 1
        self.calls = self.recalls = 0
        self.ended = self._said_end = False
        self._rest, self._places, self._held = b"", {}, []

    def stream(self, data: bytes) -> bytes:
        """A piece of the upstream's stream, as far as it can be passed on."""
        data = self._rest + data
        half = data[-1:] if data.endswith(b"\r") else b""  # of a line end, perhaps
        *blocks, rest = one_line_end(data.removesuffix(half)).split(b"\n\n")
        self._rest = rest + half
        return b"".join(self._read(block) for block in blocks)

    def finish(self) -> bytes:
        """Handles the end of the upstream's stream. The last event may lack its blank line. The answer is
        complete if it has a stop reason or an error."""
        block, self._rest = one_line_end(self._rest).strip(b"\n"), b""
        last = self._read(block) if block else b""
        self.ended = self.ended or self._said_end or self._failed
        return last

    def _read(self, block: bytes) -> bytes:
        payload = payload_of(block)
        if not payload:
            return block + b"\n\n"
        try:
            event = "[DONE]" if payload == b"[DONE]" else msgspec.json.decode(payload)
            self._failed = self._failed or _is_error(event)
            return b"".join(self._written(each) for each in self._events(event))
        except _ODD:  # passed on as it is
            return block + b"\n\n"

    def end(self) -> bytes:
        """The part that was held back, after the last round."""
        return b"".join(self._written(each) for each in self._ending())

    def whole(self, data: bytes) -> None:
        """Reads an answer in one piece."""
        self.ended = True
        try:
            self._whole(msgspec.json.decode(data))
        except _ODD:
            self._odd = data

    def result(self) -> bytes:
        """All rounds as one answer; unchanged if they could not be read."""
        return self._odd or msgspec.json.encode(self._result())

    def error(self, text: str) -> bytes:
        """An error event that ends the stream."""
        told = {"type": "api_error", "message": f"refold: {text}"}
        return self._written({"type": "error", "error": told} if self.named else {"error": told})

    named = True
    """True if events have names."""

    def _written(self, event: Any) -> bytes:
        if event == "[DONE]":
            return b"data: [DONE]\n\n"
        name = b"event: %s\n" % event["type"].encode() if self.named else b""
        return name + b"data: " + msgspec.json.encode(event) + b"\n\n"

    def _keep(self, *, ours: bool, call: bool) -> bool:
        """False for a block, call or item of the gateway's own tools."""
        self.recalls += ours
        self.calls += call and not ours
        return not ours

    def _place(self, index: int, *, ours: bool, call: bool) -> int | None:
        """The index of a new block, call or item in the client's answer."""
        self._places[index] = self._next if self._keep(ours=ours, call=call) else None
        self._next += not ours
        return self._places[index]

    @abstractmethod
    def _events(self, event: Any) -> Iterable[Any]: ...

    @abstractmethod
    def _ending(self) -> Iterable[Any]: ...

    @abstractmethod
    def _whole(self, body: JsonObject) -> None: ...

    @abstractmethod
    def _result(self) -> JsonObject: ...


class MessagesRewriter(ResponseRewriter):
    """Anthropic."""

    _first: JsonObject = {}
    _content: tuple[JsonObject, ...] = ()

    def _events(self, event: JsonObject) -> Iterator[JsonObject]:
        kind, index = event.get("type"), cast("int", event.get("index"))
        if kind == "message_start":
            self._see(cast("JsonObject", event.get("message") or {}).get("usage"))
            if not self.round:
                yield event
                if self.extras.item is not None:
                    self._next = 1
                    yield from block_events(self.extras.item)
        elif kind == "content_block_start":
            block = cast("JsonObject", event.get("content_block") or {})
            call = block.get("type") == "tool_use"
            place = self._place(index, ours=call and block.get("name") in self.extras.ours, call=call)
            if place is not None:
                yield {**event, "index": place}
        elif kind in ("content_block_delta", "content_block_stop"):
            if (place := self._places.get(index)) is not None:
                yield {**event, "index": place}
        elif kind in ("message_delta", "message_stop"):
            self._held.append(event)
            self._see(event.get("usage"))
            delta = cast("JsonObject", event.get("delta") or {})
            self._said_end = self._said_end or bool(delta.get("stop_reason"))
            self.ended = self.ended or kind == "message_stop"
        elif not (kind == "ping" and self.round):
            yield event

    def _see(self, usage: Any) -> None:
        if isinstance(usage, dict):
            known: JsonObject = self._usage.setdefault(str(self.round), {})
            known.update(
                {key: value for key, value in cast("JsonObject", usage).items() if value is not None}
            )

    def _ending(self) -> Iterator[JsonObject]:
        for event in self._held:
            if event["type"] != "message_delta":
                yield event
                continue
            delta = cast("JsonObject", event.get("delta") or {})
            if "stop_reason" in delta:
                delta = {**delta, "stop_reason": self._stop(delta["stop_reason"])}
            told: JsonObject = {**event, "delta": delta, **self._managed()}
            if self.round or self.extras.item is not None:
                told["usage"] = self._counted()
            yield told

    def _stop(self, reason: Any) -> Any:
        return "end_turn" if reason == "tool_use" and self.recalls and not self.calls else reason

    def _managed(self) -> JsonObject:
        applied = self.extras.applied
        return {} if applied is None else {"context_management": {"applied_edits": applied}}

    def _counted(self) -> JsonObject:
        rounds = cast("list[JsonObject]", list(self._usage.values()))
        total = rounds[0] if len(rounds) == 1 else summed_usage(rounds)
        if self.extras.item is None:
            return total
        steps = [_iteration("message", usage) for usage in rounds]
        return {**total, "iterations": [_iteration("compaction", self.extras.usage), *steps]}

    def _whole(self, body: JsonObject) -> None:
        self._first = self._first or body
        self._see(body.get("usage"))
        self._held = [body]
        for block in cast("list[JsonObject]", body.get("content") or []):
            call = block.get("type") == "tool_use"
            if self._keep(ours=call and block.get("name") in self.extras.ours, call=call):
                self._content += (block,)

    def _result(self) -> JsonObject:
        [last] = self._held
        own = () if self.extras.item is None else ({**self.extras.item, "type": "compaction"},)
        return {
            **last,
            "id": self._first.get("id"),
            "content": [*own, *self._content],
            "stop_reason": self._stop(last.get("stop_reason")),
            "usage": self._counted(),
            **self._managed(),
        }


class ChatRewriter(ResponseRewriter):
    """OpenAI chat completions."""

    named = False
    _id: Any = None
    _text = ""
    _calls: tuple[JsonObject, ...] = ()

    def _events(self, event: Any) -> Iterator[Any]:
        if event == "[DONE]":
            self.ended = True
            self._held.append(event)
            return
        chunk = cast("JsonObject", event)
        self._id = self._id or chunk.get("id")
        chunk["id"] = self._id
        if chunk.get("usage"):
            self._usage[str(self.round)] = chunk["usage"]
        choices = cast("list[JsonObject]", chunk.get("choices") or [])
        kept = [choice for choice in choices if self._is_left(choice)]
        ends = any(choice.get("finish_reason") for choice in choices)
        self._said_end = self._said_end or ends
        if ends or not (choices or self._failed):
            self._held.append(chunk)
        elif kept or self._failed:
            yield chunk

    def _is_left(self, choice: JsonObject) -> bool:
        """Removes the gateway's calls; false if nothing is left."""
        delta = cast("JsonObject", choice.get("delta") or {})
        pieces = cast("list[JsonObject]", delta.pop("tool_calls", None) or [])
        shown: list[JsonObject] = []
        for piece in pieces:
            index = cast("int", piece.get("index") or 0)
            name = cast("JsonObject", piece.get("function") or {}).get("name")
            if index not in self._places or (name and piece.get("id")):
                self._place(index, ours=name in self.extras.ours, call=True)
            if (place := self._places[index]) is not None:
                shown.append({**piece, "index": place})
        if shown:
            delta["tool_calls"] = shown
        return bool(shown) or not pieces or any(value for key, value in delta.items() if key != "role")

    def _ending(self) -> Iterator[Any]:
        for event in self._held:
            if event == "[DONE]":
                yield event
                continue
            for choice in cast("list[JsonObject]", event.get("choices") or []):
                choice["finish_reason"] = self._stop(choice.get("finish_reason"))
            if event.get("usage") and self.round:
                event["usage"] = summed_usage(list(self._usage.values()))
            yield event

    def _stop(self, reason: Any) -> Any:
        return "stop" if reason == "tool_calls" and self.recalls and not self.calls else reason

    def _whole(self, body: JsonObject) -> None:
        self._id = self._id or body.get("id")
        self._usage[str(self.round)] = body.get("usage") or {}
        self._held = [body]
        message = cast("JsonObject", body["choices"][0]["message"])
        self._text += message.get("content") or ""
        for call in cast("list[JsonObject]", message.get("tool_calls") or []):
            name = cast("JsonObject", call.get("function") or {}).get("name")
            if self._keep(ours=name in self.extras.ours, call=True):
                self._calls += (call,)

    def _result(self) -> JsonObject:
        [last] = self._held
        choice = last["choices"][0]
        message = {**choice["message"], "content": self._text or None}
        message.pop("tool_calls", None)
        if self._calls:
            message["tool_calls"] = list(self._calls)
        stop = self._stop(choice.get("finish_reason"))
        choices = [{**choice, "message": message, "finish_reason": stop}]
        usage = summed_usage(list(self._usage.values()))
        return {**last, "id": self._id, "choices": choices, **({"usage": usage} if usage else {})}


class ResponsesRewriter(ResponseRewriter):
    """OpenAI responses."""

    _items: tuple[JsonObject, ...] = ()
    _number = -1

    def _written(self, event: Any) -> bytes:
        self._number += 1
        return super()._written({**event, "sequence_number": self._number})

    def _events(self, event: JsonObject) -> Iterator[JsonObject]:
        kind, index = str(event.get("type")), event.get("output_index")
        if isinstance(index, int):
            yield from self._item()
            yield from self._in_item(kind, index, event)
        elif kind in ("response.completed", "response.incomplete"):
            self._held, self.ended = [event], True
            self._usage[str(self.round)] = event["response"].get("usage") or {}
        elif kind in ("response.created", "response.in_progress", "response.queued"):
            if not self.round:
                yield event
        else:
            yield event

    def _item(self) -> Iterator[JsonObject]:
        """The item that comes first."""
        if self.extras.item is None or self._items or self._next:
            return
        self._items, self._next = (self.extras.item,), 1
        for what in ("added", "done"):
            yield {"type": f"response.output_item.{what}", "output_index": 0, "item": self.extras.item}

    def _in_item(self, kind: str, index: int, event: JsonObject) -> Iterator[JsonObject]:
        item = cast("JsonObject", event.get("item") or {})
        if index not in self._places:
            call = _is_call(item)
            self._place(index, ours=call and item.get("name") in self.extras.ours, call=call)
        if (place := self._places[index]) is not None:
            if kind == "response.output_item.done":
                self._items += (item,)
            yield {**event, "output_index": place}

    def _ending(self) -> Iterator[JsonObject]:
        yield from self._item()
        for event in self._held:
            yield {**event, "response": self._joined(event["response"])}

    def _joined(self, response: JsonObject) -> JsonObject:
        """The rounds as one response, by the id of the last: `previous_response_id` finds everything."""
        usage = summed_usage(list(self._usage.values())) if self.round else response.get("usage")
        return {**response, "output": list(self._items), "usage": usage}

    def _whole(self, body: JsonObject) -> None:
        self._usage[str(self.round)] = body.get("usage") or {}
        if self.extras.item is not None and not self._items:
            self._items = (self.extras.item,)
        self._held = [body]
        for item in cast("list[JsonObject]", body.get("output") or []):
            call = _is_call(item)
            if self._keep(ours=call and item.get("name") in self.extras.ours, call=call):
                self._items += (item,)

    def _result(self) -> JsonObject:
        return self._joined(self._held[0])


def _is_error(event: Any) -> bool:
    """True if the event reports an error of the upstream."""
    if not isinstance(event, dict):
        return False
    told = cast("JsonObject", event)
    return told.get("type") in ("error", "response.failed") or ("error" in told and "type" not in told)


def _is_call(item: JsonObject) -> bool:
    """True for a call of a tool that the client runs."""
    return str(item.get("type", "")).endswith("_call") and "call_id" in item


def response_rewriter(extras: Extras) -> ResponseRewriter:
    kinds: dict[str, type[ResponseRewriter]] = {
        "anthropic": MessagesRewriter,
        "openai": ChatRewriter,
        "responses": ResponsesRewriter,
    }
    return kinds[extras.dialect](extras)


def summed_usage(usages: Iterable[JsonObject]) -> JsonObject:
    """Counts of several rounds added up; other values are the last ones."""
    total: JsonObject = {}
    for usage in usages:
        for key, value in usage.items():
            known = total.get(key)
            if isinstance(value, dict):
                total[key] = summed_usage(
                    [cast("JsonObject", known) if isinstance(known, dict) else {}, cast("JsonObject", value)]
                )
            elif isinstance(value, int) and not isinstance(value, bool) and isinstance(known, int):
                total[key] = known + value
            else:
                total[key] = known if value is None else value
    return total


def _iteration(kind: str, usage: JsonObject) -> JsonObject:
    keys = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return {"type": kind, **{key: usage.get(key) or 0 for key in keys}}
