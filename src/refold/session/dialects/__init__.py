"""The providers' spellings of a conversation: `parse` reads them, `render` writes them.

Each dialect is a module with the same functions. Converting happens once, at the edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from refold.errors import UsageError
from refold.messages import Assistant, Message
from refold.session.dialects import anthropic, openai_chat, openai_responses
from refold.session.dialects.common import MESSAGES, Reply, Wire, as_dict, as_list

__all__ = ["anthropic", "detect", "openai_chat", "openai_responses", "parse", "parse_list", "parse_reply"]

_ANTHROPIC_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"}


def parse(obj: Any) -> list[Message]:
    """The message(s) of one foreign message, whatever dialect it is in."""
    return [obj] if isinstance(obj, MESSAGES) else _module(as_dict(obj)).parse(obj)


def parse_list(objs: Iterable[Any] | Mapping[str, Any]) -> list[Message]:
    """The messages of a list (or of an Anthropic request), whatever dialect it is in."""
    if isinstance(objs, Mapping):
        return anthropic.parse_list(cast(Mapping[str, Any], objs))
    listed = list(objs)
    if any(_module(as_dict(o)) is openai_responses for o in listed if not isinstance(o, MESSAGES)):
        return openai_responses.parse_list(listed)
    return [message for obj in listed for message in parse(obj)]


def parse_reply(raw: Any) -> Reply:
    """What a model answered: `(message, usage, model)` from a chat completion, a Response or an Anthropic
    Message, as SDK object or dict; or from an assistant message alone (ours or any dialect's)."""
    if isinstance(raw, Assistant):
        return raw, None, None
    obj = as_dict(raw)
    if "choices" in obj:
        return openai_chat.parse_reply(obj)
    if obj.get("object") == "response" or isinstance(obj.get("output"), list):
        return openai_responses.parse_reply(obj)
    if obj.get("role") == "assistant" and ("stop_reason" in obj or obj.get("type") == "message"):
        return anthropic.parse_reply(obj)
    if obj.get("role") == "assistant":
        [message] = parse(obj)
        if isinstance(message, Assistant):
            return message, None, None
    raise UsageError("this is no reply of a model: pass a completion, a response or an assistant message")


def detect(obj: Any) -> str:
    """The dialect of one message: `openai`, `responses` or `anthropic`. Plain texts count as `openai`."""
    return {openai_chat: "openai", openai_responses: "responses", anthropic: "anthropic"}[
        _module(as_dict(obj))
    ]


def _module(raw: Wire) -> Any:
    if "role" not in raw or raw.get("type") == "message":
        return anthropic if "stop_reason" in raw else openai_responses
    content = raw.get("content")
    blocks = () if isinstance(content, str) else as_list(content)
    kinds = {as_dict(b).get("type") for b in blocks if not isinstance(b, str)}
    if kinds & _ANTHROPIC_BLOCKS:
        return anthropic
    return openai_responses if kinds & {"input_text", "output_text", "input_image"} else openai_chat
