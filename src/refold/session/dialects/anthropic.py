"""Anthropic messages: `system` and `messages` made of blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from refold.messages import (
    AnyPart,
    Assistant,
    Image,
    Message,
    Result,
    Stop,
    System,
    Text,
    Thinking,
    Usage,
    User,
)
from refold.session.dialects.common import (
    MESSAGES,
    Reply,
    Wire,
    as_dict,
    as_list,
    opaque,
    parse_arguments,
    parts_of,
    text_field,
)

_STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_use",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}

# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def parse(obj: Any) -> list[Message]:
    """The message(s) of one Anthropic message: each tool result is one of ours, what else the user said
    follows them (the dialect demands that order)."""
    if isinstance(obj, MESSAGES):
        return [obj]
    raw = as_dict(obj)
    role = raw.get("role")
    if role == "assistant":
        stop = raw.get("stop_reason")
        content = parts_of(raw.get("content"), _part)
        return [Assistant(content, _STOPS.get(stop, "other") if isinstance(stop, str) else None)]
    if role in ("system", "developer"):
        return [System(parts_of(raw.get("content"), _part))]
    return _user(raw.get("content"))


def parse_list(objs: Iterable[Any] | Mapping[str, Any]) -> list[Message]:
    """A list of messages, or a whole request with its `system`."""
    if isinstance(objs, Mapping):
        request = cast(Mapping[str, Any], objs)
        system = parts_of(request.get("system"), _part)
        head: list[Message] = [System(system)] if system else []
        return head + parse_list(as_list(request.get("messages")))
    return [message for obj in objs for message in parse(obj)]


def parse_reply(obj: Any) -> Reply:
    """The reply, its usage and its model from a Message."""
    raw = as_dict(obj)
    stop = _STOPS.get(raw.get("stop_reason") or "", "other")
    model = raw.get("model")
    message = Assistant(parts_of(raw.get("content"), _part), stop)
    return message, _usage(raw.get("usage")), f"anthropic:{model}" if model else None


def _user(content: Any) -> list[Message]:
    if isinstance(content, str):
        return [User((Text(content),) if content else ())]
    blocks = [as_dict({"type": "text", "text": b} if isinstance(b, str) else b) for b in as_list(content)]
    results: list[Message] = [_result(b) for b in blocks if b.get("type") == "tool_result"]
    rest = parts_of([b for b in blocks if b.get("type") != "tool_result"], _part)
    return [*results, User(rest)] if rest or not results else results


def _result(raw: Wire) -> Result:
    content = parts_of(raw.get("content"), _part)
    return Result(text_field(raw, "tool_use_id"), content, is_error=bool(raw.get("is_error")))


def _part(raw: Wire) -> AnyPart | None:
    match raw.get("type"):
        case "text":
            return Text(text_field(raw))
        case "thinking":
            return Thinking(text_field(raw, "thinking"), text_field(raw, "signature") or None)
        case "redacted_thinking":
            return Thinking(data=text_field(raw, "data"))
        case "tool_use":
            return parse_arguments(text_field(raw, "id"), text_field(raw, "name"), raw.get("input"))
        case "image":
            return _image(raw)
        case _:
            return opaque(raw)


def _image(raw: Wire) -> AnyPart:
    source = as_dict(raw.get("source") or {})
    if source.get("type") == "base64" and isinstance(source.get("data"), str):
        return Image(text_field(source, "media_type") or "image/png", data=source["data"])
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return Image(url=source["url"])
    return opaque(raw)


def _usage(given: Any) -> Usage | None:
    if not given:
        return None
    raw = as_dict(given)
    return Usage(
        raw.get("input_tokens") or 0,
        raw.get("output_tokens") or 0,
        raw.get("cache_read_input_tokens") or 0,
        raw.get("cache_creation_input_tokens") or 0,
    )
