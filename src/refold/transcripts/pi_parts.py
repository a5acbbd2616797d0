"""pi's messages ⇄ ours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from refold import messages as m
from refold.session.dialects.common import stop_of
from refold.text.dates import LATEST, in_utc
from refold.text.lenient_json import JsonObject
from refold.transcripts.builder import build_parts
from refold.transcripts.origins import PI, declared
from refold.transcripts.values import as_count, as_name, as_object, string

_STOPS: dict[str, m.Stop] = {
    "stop": "end",
    "length": "length",
    "toolUse": "tool_use",
    "error": "error",
    "aborted": "aborted",
}
_ORIGINS: tuple[m.Origin, ...] = get_args(m.Origin)
_STOPS_BACK = {ours: theirs for theirs, ours in _STOPS.items()}


def iso(time: float) -> str:
    """A time as JavaScript writes it."""
    return in_utc(round(min(time, LATEST) * 1000) / 1000).isoformat(timespec="milliseconds")[:-6] + "Z"


def is_stamp(value: Any) -> bool:
    """True for a text that `iso` would write itself."""
    return isinstance(value, str) and len(value) == 24 and value[10] + value[19] + value[23] == "T.Z"


def model_name(provider: Any, model: Any) -> str | None:
    return f"{provider}:{model}" if as_name(provider) and as_name(model) else as_name(model)


def split_model(name: str | None) -> tuple[str, str]:
    provider, colon, model = (name or "").partition(":")
    return (provider, model) if colon else ("", provider)


def usage_from(raw: Any) -> m.Usage | None:
    """None for no usage, and for the zeros of a reply that never came."""
    counts = [as_count(as_object(raw).get(key)) for key in ("input", "output", "cacheRead", "cacheWrite")]
    return m.Usage(*counts) if any(counts) else None


def usage_to(usage: m.Usage) -> JsonObject:
    return {
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        "totalTokens": usage.total,
        "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0),
    }


def parts_from(content: Any) -> m.Content:
    return tuple(build_parts(content, _part_from))


def parts_to(parts: Iterable[m.AnyPart]) -> list[JsonObject]:
    return [_part_to(part) for part in parts]


def message_from(raw: JsonObject) -> m.Message | None:
    """Our message; None for a role we do not know."""
    content = raw.get("content")
    match raw.get("role"):
        case "user":
            return m.User(declared(parts_from(content), PI))
        case "assistant":
            stop = raw.get("stopReason")
            return m.Assistant(
                parts_from(content),
                stop=stop_of(stop, _STOPS) if isinstance(stop, str) else None,
                error=string(raw.get("errorMessage")),
            )
        case "toolResult":
            call, tool = str(raw.get("toolCallId", "")), string(raw.get("toolName"))
            return m.Result(call, parts_from(content), tool, raw.get("isError") is True)
        case "bashExecution":
            return _bash_from(raw)
        case _:
            return None


def message_to(message: m.Message, *, usage: m.Usage | None = None, model: str | None = None) -> JsonObject:
    if isinstance(message, m.Assistant):
        return _assistant_to(message, usage, model)
    if isinstance(message, m.Bash):
        return _bash_to(message)
    if isinstance(message, m.Result):
        return {
            "role": "toolResult",
            "toolCallId": message.call_id,
            "toolName": message.name or "",
            "content": parts_to(message.content),
            "isError": message.is_error,
        }
    return {"role": message.role, "content": parts_to(message.content)}


def _assistant_to(message: m.Assistant, usage: m.Usage | None, model: str | None) -> JsonObject:
    provider, name = split_model(model)
    raw: JsonObject = {
        "role": "assistant",
        "content": parts_to(message.content),
        "provider": provider,
        "model": name,
        "stopReason": _STOPS_BACK.get(message.stop or "end", "stop"),
    }
    if usage is not None:
        raw["usage"] = usage_to(usage)
    if message.error is not None:
        raw["errorMessage"] = message.error
    return raw


def _bash_from(raw: JsonObject) -> m.Bash:
    code = raw.get("exitCode")
    return m.Bash(
        str(raw.get("command", "")),
        str(raw.get("output", "")),
        code if isinstance(code, int) else None,
        raw.get("cancelled") is True,
        raw.get("truncated") is True,
        raw.get("excludeFromContext") is True,
    )


def _bash_to(message: m.Bash) -> JsonObject:
    raw: JsonObject = {
        "role": "bashExecution",
        "command": message.command,
        "output": message.output,
        "cancelled": message.cancelled,
        "truncated": message.truncated,
    }
    if message.exit_code is not None:
        raw["exitCode"] = message.exit_code
    if message.hidden:
        raw["excludeFromContext"] = True
    return raw


def _part_from(part: JsonObject) -> m.AnyPart:
    match part:
        case {"type": "text", "text": str(text)}:
            origin = part.get("origin")
            return m.Text(text, origin if origin in _ORIGINS else None)
        case {"type": "thinking", "thinking": str(text)}:
            seal = string(part.get("thinkingSignature"))
            return m.Thinking(text, data=seal) if part.get("redacted") is True else m.Thinking(text, seal)
        case {"type": "toolCall", "name": str(name), "arguments": dict()}:
            return m.Call(str(part.get("id", "")), name, part["arguments"])
        case {"type": "image", "data": str(data)}:
            return m.Image(string(part.get("mimeType")) or "image/png", data)
        case _:
            return m.Opaque(part)


def _part_to(part: m.AnyPart) -> JsonObject:
    match part:
        case m.Text(origin=None):
            return {"type": "text", "text": part.text}
        case m.Text():
            return {"type": "text", "text": part.text, "origin": part.origin}
        case m.Thinking():
            raw: JsonObject = {"type": "thinking", "thinking": part.text}
            if part.data is not None or part.signature is not None:
                raw["thinkingSignature"] = part.data if part.data is not None else part.signature
            if part.data is not None:
                raw["redacted"] = True
            return raw
        case m.Image(data=None):
            return {"type": "text", "text": f"[image: {part.url or 'missing'}]"}
        case m.Image():
            return {"type": "image", "data": part.data, "mimeType": part.media_type}
        case m.Call():
            arguments = part.arguments if part.raw is None else {"input": part.raw}
            return {"type": "toolCall", "id": part.id, "name": part.name, "arguments": arguments}
        case m.Opaque():
            return part.raw
