"""OpenAI responses: `input` items."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from refold.messages import (
    AnyPart,
    Assistant,
    Call,
    Message,
    Opaque,
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
    parse_image,
    parts_of,
    text_field,
)

_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_CUT: dict[str, Stop] = {"max_output_tokens": "length", "content_filter": "refusal"}
_BROKEN: dict[str, Stop] = {"failed": "error", "cancelled": "aborted"}

# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def parse(obj: Any) -> list[Message]:
    """The message of one input or output item. `parse_list` puts the items of one reply together."""
    if isinstance(obj, MESSAGES):
        return [obj]
    raw = as_dict(obj)
    kind = raw.get("type")
    if kind in _OUTPUTS:
        return [Result(text_field(raw, "call_id"), parts_of(raw.get("output"), _part))]
    if kind not in (None, "message"):
        return [Assistant((_item(raw),))]
    content = parts_of(raw.get("content"), _part)
    role = raw.get("role")
    if role == "assistant":
        return [Assistant(content)]
    return [System(content) if role in ("system", "developer") else User(content)]


def parse_list(objs: Iterable[Any] | str) -> list[Message]:
    """An `input`: a string or items. Neighbouring items of the model are one message: reasoning, text
    and parallel calls came in one reply."""
    if isinstance(objs, str):
        return [User((Text(objs),))]
    found: list[Message] = []
    growing = False
    for obj in objs:
        ours = isinstance(obj, MESSAGES)
        for message in parse(obj):
            last = found[-1] if growing else None
            if isinstance(message, Assistant) and isinstance(last, Assistant) and not ours:
                found[-1] = Assistant(last.content + message.content)
            else:
                found.append(message)
            growing = not ours
    return found


def parse_reply(obj: Any) -> Reply:
    """The reply, its usage and its model from a Response."""
    raw = as_dict(obj)
    parts: list[AnyPart] = []
    for item in as_list(raw.get("output")):
        parts.extend(p for message in parse(item) for p in message.parts)
    model = raw.get("model")
    error = as_dict(raw.get("error") or {}).get("message")
    message = Assistant(tuple(parts), _stop(raw, parts), error if isinstance(error, str) else None)
    return message, _usage(raw.get("usage")), f"openai:{model}" if model else None


def _stop(raw: Wire, parts: list[AnyPart]) -> Stop:
    status = raw.get("status")
    if status == "incomplete":
        reason = as_dict(raw.get("incomplete_details") or {}).get("reason")
        return _CUT.get(reason or "", "other")
    if status in _BROKEN:
        return _BROKEN[status]
    return "tool_use" if any(isinstance(p, Call) for p in parts) else "end"


def _item(raw: Wire) -> AnyPart:
    kind = raw.get("type")
    if kind == "function_call":
        return parse_arguments(text_field(raw, "call_id"), text_field(raw, "name"), raw.get("arguments"))
    if kind == "custom_tool_call":
        return parse_arguments(text_field(raw, "call_id"), text_field(raw, "name"), raw.get("input"))
    if kind == "reasoning":
        said = parts_of(raw.get("summary"), _summary) or parts_of(raw.get("content"), _summary)
        text = "\n\n".join(p.text for p in said if isinstance(p, Text))
        return Thinking(
            text, None, text_field(raw, "encrypted_content") or None, text_field(raw, "id") or None
        )
    return opaque(raw)


def _summary(raw: Wire) -> Text:
    return Text(text_field(raw))


def _part(raw: Wire) -> AnyPart | None:
    kind = raw.get("type")
    if kind in ("input_text", "output_text", "text"):
        return Text(text_field(raw))
    if kind == "refusal":
        return Text(text_field(raw, "refusal"))
    if kind == "input_image" and isinstance(raw.get("image_url"), str):
        return parse_image(raw["image_url"])
    return Opaque(dict(raw))


def _usage(given: Any) -> Usage | None:
    if not given:
        return None
    raw = as_dict(given)
    cached = as_dict(raw.get("input_tokens_details") or {}).get("cached_tokens") or 0
    return Usage(max(0, (raw.get("input_tokens") or 0) - cached), raw.get("output_tokens") or 0, cached)
