"""OpenAI responses: `input` items."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from refold import messages as m
from refold.protocols import ToolSpec
from refold.session.dialects.common import (
    Reply,
    Shown,
    Wire,
    WireRules,
    as_dict,
    as_list,
    block_types,
    call_json,
    clean,
    content_of,
    describe_part,
    fields,
    fresh,
    image_url,
    kind_of,
    model_of,
    opaque,
    openai_part,
    openai_usage,
    parse_arguments,
    parts_of,
    reply_alone,
    short_id,
    stop_of,
    text_field,
    wire_name,
)
from refold.session.dialects.tools import convert, json_schema
from refold.session.items import Item

name = "responses"
field = "input"
rules = WireRules()

_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_CUT: dict[str, m.Stop] = {"max_output_tokens": "length", "content_filter": "refusal"}
_BROKEN: dict[str, m.Stop] = {"failed": "error", "cancelled": "aborted"}

# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def speaks(raw: Wire) -> bool:
    """A response, or an item: something with a type, but a role only if it is a message."""
    if "role" not in raw:
        return isinstance(raw.get("type"), str) or _is_response(raw)
    if raw.get("type") == "message":  # so are whole replies of Anthropic, which name their model
        return "model" not in raw and "stop_reason" not in raw
    return not _OWN_PARTS.isdisjoint(block_types(raw))


_OWN_PARTS = frozenset(("input_text", "output_text", "input_image"))


def _is_response(raw: Wire) -> bool:
    return raw.get("object") == "response" or isinstance(raw.get("output"), list)


def parse(obj: Any) -> list[m.Message]:
    """The message of one input or output item. `parse_list` puts the items of one reply together."""
    raw = as_dict(obj)
    kind = raw.get("type")
    if kind in _OUTPUTS:
        return [m.Result(text_field(raw, "call_id"), parts_of(raw.get("output"), openai_part))]
    if kind not in (None, "message"):
        return [m.Assistant((_item(raw),))]
    content = parts_of(raw.get("content"), openai_part)
    role = raw.get("role")
    if role == "assistant":
        return [m.Assistant(content)]
    return [m.System(content) if role in ("system", "developer") else m.User(content)]


def parse_list(objs: Iterable[Any] | str) -> list[m.Message]:
    """An `input`: a string or items. Neighbouring items of the model are one message: reasoning, text
    and parallel calls came in one reply."""
    if isinstance(objs, str):
        return [m.User((m.Text(objs),))]
    found: list[m.Message] = []
    for obj in objs:
        [message] = parse(obj)
        last = found[-1] if found else None
        if isinstance(message, m.Assistant) and isinstance(last, m.Assistant):
            found[-1] = m.Assistant(last.content + message.content)
        else:
            found.append(message)
    return found


def parse_reply(obj: Any) -> Reply:
    """The reply, its usage and its model from a Response, or from an item alone."""
    raw = as_dict(obj)
    if "role" in raw or isinstance(raw.get("type"), str):
        return reply_alone(parse(raw))
    parts: list[m.AnyPart] = []
    for item in as_list(raw.get("output")):
        parts.extend(p for message in parse(item) for p in message.parts)
    error = fields(raw.get("error")).get("message")
    message = m.Assistant(tuple(parts), _stop(raw, parts), error if isinstance(error, str) else None)
    return message, _usage(raw.get("usage")), model_of("openai", raw)


def _stop(raw: Wire, parts: list[m.AnyPart]) -> m.Stop:
    status = raw.get("status")
    if status == "incomplete":
        return stop_of(fields(raw.get("incomplete_details")).get("reason"), _CUT)
    if isinstance(status, str) and status in _BROKEN:
        return _BROKEN[status]
    return "tool_use" if any(isinstance(p, m.Call) for p in parts) else "end"


def _item(raw: Wire) -> m.AnyPart:
    kind = raw.get("type")
    if kind == "function_call":
        return parse_arguments(text_field(raw, "call_id"), text_field(raw, "name"), raw.get("arguments"))
    if kind == "custom_tool_call":
        return parse_arguments(text_field(raw, "call_id"), text_field(raw, "name"), raw.get("input"))
    if kind == "reasoning":
        said = parts_of(raw.get("summary"), _summary) or parts_of(raw.get("content"), _summary)
        text = "\n\n".join(p.text for p in said if isinstance(p, m.Text))
        return m.Thinking(
            text, None, text_field(raw, "encrypted_content") or None, text_field(raw, "id") or None
        )
    return opaque(raw)


def _summary(raw: Wire) -> m.Text:
    return m.Text(text_field(raw))


def _usage(given: Any) -> m.Usage | None:
    if not given:
        return None
    raw = fields(given)
    details = fields(raw.get("input_tokens_details"))
    return openai_usage(raw.get("input_tokens"), raw.get("output_tokens"), details)


# ── writing ─────────────────────────────────────────────────────────────────────────────────────

_PASSED_PARTS = ("input_file", "input_audio")
_PASSED_ITEMS = re.compile(r"(?:web_search|file_search|computer|code_interpreter|image_generation)_call")


def render(shown: Shown, *, system: str | None = None) -> list[Wire]:
    """Repaired messages as input items: fresh dicts, the caller may change them.

    Reasoning is sent back where it came sealed (with its id and encrypted content) and the item it led to
    follows; calls carry no item ids, so none of them demands reasoning that is gone.
    """
    wire: list[Wire] = [_message("system", clean(system))] if system else []
    for one in shown:
        message = one.message if isinstance(one, Item) else one
        if isinstance(message, m.Assistant):
            _put_reply(message, wire)
        elif isinstance(message, m.Result):
            wire.append(_output(message))
        elif not isinstance(message, m.Bash):
            wire.append(_message(message.role, content_of(message.content, _wire_part)))
        elif not message.hidden:
            wire.append(_message("user", clean(message.text)))
    return wire


def render_tools(tools: Sequence[Any]) -> list[Wire]:
    """What the provider runs itself goes through as it came."""
    return [convert(tool, _wire_tool, lambda raw: raw.get("type") == "function") for tool in tools]


def _wire_tool(spec: ToolSpec) -> Wire:
    return {"type": "function", **json_schema(spec, "parameters"), "strict": False}


def _message(role: str, content: Any) -> Wire:
    return {"type": "message", "role": role, "content": content}


def _wire_part(part: m.AnyPart) -> Wire | None:
    if isinstance(part, m.Text):
        return _text(clean(part.text)) if part.text else None
    if isinstance(part, m.Image):
        url = image_url(part)
        if url is None:
            return _text(describe_part(part))
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    if isinstance(part, m.Opaque):
        return fresh(part.raw) if kind_of(part.raw) in _PASSED_PARTS else _text(describe_part(part))
    return None


def _text(text: str) -> Wire:
    return {"type": "input_text", "text": text}


def _put_reply(message: m.Assistant, wire: list[Wire]) -> None:
    reasoning: list[Wire] = []  # waits for the item it led to
    for part in message.content:
        if isinstance(part, m.Thinking):
            if part.id and part.data:
                reasoning.append(_reasoning(part, part.data))
            continue
        item = _reply_item(part)
        if item is not None:
            wire.extend(reasoning)
            reasoning = []
            wire.append(item)


def _reply_item(part: m.AnyPart) -> Wire | None:
    if isinstance(part, m.Call):
        return {
            "type": "function_call",
            "call_id": short_id(part.id, 64),
            "name": wire_name(part.name),
            "arguments": call_json(part),
        }
    if isinstance(part, m.Text):
        return _message("assistant", clean(part.text)) if part.text and not part.text.isspace() else None
    if isinstance(part, m.Opaque):
        passes = _PASSED_ITEMS.fullmatch(kind_of(part.raw)) and part.raw.get("id")
        return fresh(part.raw) if passes else _message("assistant", describe_part(part))
    return _message("assistant", describe_part(part))


def _reasoning(part: m.Thinking, sealed: str) -> Wire:
    summary = [{"type": "summary_text", "text": clean(part.text)}] if part.text else []
    return {"type": "reasoning", "id": part.id, "summary": summary, "encrypted_content": sealed}


def _output(message: m.Result) -> Wire:
    output = content_of(message.content, _wire_part)
    return {"type": "function_call_output", "call_id": short_id(message.call_id, 64), "output": output}
