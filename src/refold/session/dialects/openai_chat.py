"""OpenAI chat completions: `messages`, and everything that speaks like them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from refold.messages import (
    AnyPart,
    Assistant,
    Call,
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
    parse_image,
    parts_of,
    text_field,
)

_STOPS: dict[str, Stop] = {
    "stop": "end",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "length",
    "content_filter": "refusal",
}

# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def parse(obj: Any) -> list[Message]:
    """The message(s) of one chat message: a dict, an SDK object, or one of ours (returned as it is)."""
    if isinstance(obj, MESSAGES):
        return [obj]
    raw = as_dict(obj)
    role = raw.get("role")
    if role == "assistant":
        return [_assistant(raw)]
    if role in ("tool", "function"):
        return [_result(raw)]
    content = parts_of(raw.get("content"), _part)
    return [System(content) if role in ("system", "developer") else User(content)]


def parse_list(objs: Iterable[Any]) -> list[Message]:
    return [message for obj in objs for message in parse(obj)]


def parse_reply(obj: Any) -> Reply:
    """The reply, its usage and its model from a chat completion (first choice)."""
    raw = as_dict(obj)
    choices = as_list(raw.get("choices"))
    choice = as_dict(choices[0]) if choices else {}
    message = _assistant(as_dict(choice.get("message") or {}))
    stop = message.stop or _STOPS.get(choice.get("finish_reason") or "", "other")
    if stop in ("end", "other") and message.calls:
        stop = "tool_use"  # several compatible servers say "stop" after a call
    model = raw.get("model")
    return Assistant(message.content, stop), _usage(raw.get("usage")), f"openai:{model}" if model else None


def _assistant(raw: Wire) -> Assistant:
    parts: list[AnyPart] = []
    for key in ("reasoning_content", "reasoning"):
        if isinstance(raw.get(key), str) and raw[key]:
            parts.append(Thinking(raw[key]))
            break
    parts.extend(parts_of(raw.get("content"), _part))
    refused = bool(raw.get("refusal"))
    if refused:
        parts.append(Text(text_field(raw, "refusal")))
    parts.extend(_call(as_dict(call)) for call in as_list(raw.get("tool_calls")))
    if raw.get("function_call"):
        old = as_dict(raw["function_call"])
        name = text_field(old, "name")
        parts.append(parse_arguments(_legacy_id(name), name, old.get("arguments")))
    return Assistant(tuple(parts), "refusal" if refused else None)


def _call(raw: Wire) -> Call:
    id = text_field(raw, "id")
    if raw.get("custom"):
        custom = as_dict(raw["custom"])
        return parse_arguments(id, text_field(custom, "name"), custom.get("input"))
    function = as_dict(raw.get("function") or {})
    return parse_arguments(id, text_field(function, "name"), function.get("arguments"))


def _result(raw: Wire) -> Result:
    name = raw.get("name") if isinstance(raw.get("name"), str) else None
    id = text_field(raw, "tool_call_id") if raw.get("tool_call_id") else _legacy_id(name or "")
    return Result(id, parts_of(raw.get("content"), _part), name)


def _legacy_id(name: str) -> str:
    """Calls from before calls had ids: at most one was open at a time, so its name will do."""
    return f"function_{name}"


def _part(raw: Wire) -> AnyPart | None:
    kind = raw.get("type")
    if kind in ("text", "input_text", "output_text"):
        return Text(text_field(raw))
    if kind == "refusal":
        return Text(text_field(raw, "refusal"))
    if kind == "image_url":
        given = raw.get("image_url")
        url = given if isinstance(given, str) else as_dict(given or {}).get("url")
        return parse_image(url) if isinstance(url, str) and url else opaque(raw)
    return opaque(raw)


def _usage(given: Any) -> Usage | None:
    if not given:
        return None
    raw = as_dict(given)
    details = as_dict(raw.get("prompt_tokens_details") or {})
    cached = details.get("cached_tokens") or raw.get("prompt_cache_hit_tokens") or 0
    prompt = raw.get("prompt_tokens") or 0
    return Usage(max(0, prompt - cached), raw.get("completion_tokens") or 0, cached)
