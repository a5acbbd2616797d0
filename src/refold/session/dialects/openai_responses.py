"""OpenAI responses: `input` items."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from itertools import groupby
from typing import Any

from refold import messages as m
from refold.protocols import ToolSpec
from refold.session.dialects.common import (
    CallLink,
    Given,
    ParsedReply,
    Renderable,
    WireRules,
    as_dict,
    block_types,
    call_json,
    content_parts,
    describe_part,
    image_url,
    is_passed,
    json_copy,
    model_of,
    object_or_empty,
    opaque_type,
    openai_part,
    openai_usage,
    parse_arguments,
    reply_alone,
    short_id,
    stop_of,
    text_field,
    to_list,
    unpaired,
    wire_content,
    wire_name,
    without_surrogates,
)
from refold.session.dialects.tools import convert_tool, json_schema
from refold.session.items import Item
from refold.text.frames import element
from refold.text.lenient_json import JsonObject

name = "responses"
field = "input"
rules = WireRules()

_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_CALLS = ("_call", "mcp_approval_request")
_ANSWERS = ("_call_output", "tool_search_output", "mcp_approval_response")
"""Types of calls that a client answers → types of their answers."""
_IDS = {
    "mcp_approval_request": ("id",),
    "mcp_approval_response": ("approval_request_id",),
    "local_shell_call_output": ("call_id", "id"),
}
"""Fields with their ids, if not `call_id`."""
ITEM = "responses/item"
"""The source of whole items."""
_CUT: dict[str, m.Stop] = {"max_output_tokens": "length", "content_filter": "refusal"}
_BROKEN: dict[str, m.Stop] = {"failed": "error", "cancelled": "aborted"}

# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def speaks(raw: JsonObject) -> bool:
    """True for a response or an item: an object with a type, and a role only if it is a message."""
    if "role" not in raw:
        is_response = raw.get("object") == "response" or isinstance(raw.get("output"), list)
        return is_response or isinstance(raw.get("type"), str)
    if raw.get("type") == "message":  # so are whole replies of Anthropic, which name their model
        return "model" not in raw and "stop_reason" not in raw
    return not _OWN_PARTS.isdisjoint(block_types(raw))


_OWN_PARTS = frozenset(("input_text", "output_text", "input_image"))


def parse(obj: Any) -> list[m.Message]:
    """The message of one input or output item. `parse_list` joins the items of one reply."""
    raw = as_dict(obj)
    kind = opaque_type(raw)
    if kind in _OUTPUTS:
        content = content_parts(raw.get("output"), openai_part, "responses/tool")
        return [m.Result(text_field(raw, "call_id"), content)]
    if kind.endswith(_ANSWERS) and (id := _call_id(raw)):
        return [m.Result(id, (m.Opaque(dict(raw), ITEM),))]
    if kind not in ("", "message") or ("role" not in raw and "content" not in raw):
        return [m.Assistant((_item(raw),))]
    role = raw.get("role")
    if role == "assistant":
        return [m.Assistant(content_parts(raw.get("content"), openai_part, "responses/assistant"))]
    if role in ("system", "developer"):
        return [m.System(content_parts(raw.get("content"), openai_part, "responses/system"))]
    return [m.User(content_parts(raw.get("content"), openai_part, "responses/user"))]


def parse_list(objs: Iterable[Any] | str) -> list[m.Message]:
    """The messages of an `input`: a string or items. Consecutive items of the model (reasoning, text,
    parallel calls) are one reply."""
    if isinstance(objs, str):
        return [m.User((m.Text(objs),))]
    return [given.message for given in parse_given(objs)]


def parse_given(objs: Iterable[Any]) -> list[Given]:
    """The messages of a list, each with its source objects."""
    parsed = [(message, as_dict(obj)) for obj in objs for message in parse(obj)]
    found: list[Given] = []
    for is_reply, run in groupby(parsed, lambda each: isinstance(each[0], m.Assistant)):
        pairs = list(run)
        if is_reply:
            content = tuple(part for message, _ in pairs for part in message.parts)
            found.append(Given(m.Assistant(content), [raw for _, raw in pairs]))
        else:
            found += [Given(message, [raw]) for message, raw in pairs]
    return found


def parse_reply(obj: Any) -> ParsedReply:
    """The reply, its usage and its model from a Response, or from an item alone."""
    raw = as_dict(obj)
    if "role" in raw or isinstance(raw.get("type"), str):
        return reply_alone(parse(raw))
    parts: list[m.AnyPart] = []
    for item in to_list(raw.get("output")):
        parts.extend(p for message in parse(item) for p in message.parts)
    error = object_or_empty(raw.get("error")).get("message")
    message = m.Assistant(tuple(parts), _stop(raw, parts), error if isinstance(error, str) else None)
    usage = openai_usage(raw.get("usage"), "input_tokens", "output_tokens")
    return message, usage, model_of("openai", raw)


def _stop(raw: JsonObject, parts: list[m.AnyPart]) -> m.Stop:
    status = raw.get("status")
    if status == "incomplete":
        return stop_of(object_or_empty(raw.get("incomplete_details")).get("reason"), _CUT)
    if isinstance(status, str) and status in _BROKEN:
        return _BROKEN[status]
    return "tool_use" if any(isinstance(p, m.Call) for p in parts) else "end"


def _item(raw: JsonObject) -> m.AnyPart:
    kind = raw.get("type")
    if kind == "function_call":
        return parse_arguments(text_field(raw, "call_id"), text_field(raw, "name"), raw.get("arguments"))
    if kind == "custom_tool_call":
        return parse_arguments(text_field(raw, "call_id"), text_field(raw, "name"), raw.get("input"))
    if kind == "reasoning":
        said = content_parts(raw.get("summary"), _summary) or content_parts(raw.get("content"), _summary)
        text = "\n\n".join(p.text for p in said if isinstance(p, m.Text))
        return m.Thinking(
            text, None, text_field(raw, "encrypted_content") or None, text_field(raw, "id") or None
        )
    if str(kind).endswith(_CALLS) and (id := _call_id(raw)):
        return m.Call(id, str(kind), dict(raw))
    return m.Opaque(dict(raw), ITEM)


def _call_id(raw: JsonObject) -> str | None:
    """The id that links a call of an unknown type and its answer."""
    keys = _IDS.get(opaque_type(raw), ("call_id",))
    return next((id for key in keys if isinstance(id := raw.get(key), str) and id), None)


def _is_item(call: m.Call) -> bool:
    """True for a call of an unknown type, which holds its source item."""
    return call.arguments.get("type") == call.name and _call_id(call.arguments) == call.id


def _summary(raw: JsonObject) -> m.Text:
    return m.Text(text_field(raw))


# ── writing ─────────────────────────────────────────────────────────────────────────────────────

_PLACES = ("responses/user", "responses/system", "responses/tool")
"""Sources of parts, each allowed where such parts are."""
_PASSED_PARTS = ("input_file", "input_audio")
_PASSED_ITEMS = re.compile(r"(?:web_search|file_search|computer|code_interpreter|image_generation)_call")


def render(shown: Renderable, *, system: str | None = None) -> list[JsonObject]:
    """Repaired messages as input items, in new dicts.

    Encrypted reasoning is sent back with its id if the item it led to follows. Calls have no item ids, so
    none requires reasoning that is gone.
    """
    wire: list[JsonObject] = [_message("system", without_surrogates(system))] if system else []
    everything = list(shown)
    messages = [one.message if isinstance(one, Item | Given) else one for one in everything]
    alone = _alone(messages)
    # The result of an ordinary call is one, whatever else names its id.
    told = alone - {call.id for message in messages for call in message.calls if not _is_item(call)}
    for one in everything:
        message = one.message if isinstance(one, Item | Given) else one
        if isinstance(one, Given) and not any(_is_alone(part, alone) for part in message.parts):
            wire += one.wire
        elif isinstance(message, m.Assistant):
            _put_reply(message, wire, alone)
        elif isinstance(message, m.Result):
            wire.append(_output(message, told))
        elif not isinstance(message, m.Bash):
            wire.append(_message(message.role, wire_content(message.content, _wire_part)))
        elif not message.hidden:
            wire.append(_message("user", without_surrogates(message.text)))
    return wire


def _alone(messages: Sequence[m.Message]) -> set[str]:
    """Ids of calls and answers of unknown types whose counterpart is missing or changed; they are rendered as
    text."""
    calls = {call.id for message in messages for call in message.calls if _is_item(call)}
    results = [message for message in messages if isinstance(message, m.Result)]
    whole = {each.call_id for each in results if _is_answer(each)}
    open_yet = calls - {each.call_id for each in results}
    return unpaired(messages, _link) | (calls ^ whole) - open_yet


def _link(raw: JsonObject) -> CallLink | None:
    id = _call_id(raw)
    return None if id is None else (id, opaque_type(raw).endswith("_output"))


def _is_answer(result: m.Result) -> bool:
    """True for an unchanged item of an unknown type."""
    part = result.content[0] if len(result.content) == 1 else None
    return isinstance(part, m.Opaque) and part.source == ITEM and _call_id(part.raw) == result.call_id


def _is_alone(part: m.AnyPart, alone: Container[str]) -> bool:
    if isinstance(part, m.Call):
        return part.id in alone
    id = _call_id(part.raw) if isinstance(part, m.Opaque) and part.source == ITEM else None
    return id is not None and id in alone


def render_tools(tools: Sequence[Any]) -> list[JsonObject]:
    return [convert_tool(tool, _wire_tool, lambda raw: raw.get("type") == "function") for tool in tools]


def _wire_tool(spec: ToolSpec) -> JsonObject:
    return {"type": "function", **json_schema(spec, "parameters"), "strict": False}


def _message(role: str, content: Any) -> JsonObject:
    return {"type": "message", "role": role, "content": content}


def _wire_part(part: m.AnyPart) -> JsonObject | None:
    if isinstance(part, m.Text):
        return _text(without_surrogates(part.text)) if part.text else None
    if isinstance(part, m.Image):
        url = image_url(part)
        if url is None:
            return _text(describe_part(part))
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    if isinstance(part, m.Opaque):
        passes = part.source in _PLACES or is_passed(part, "responses/user", _PASSED_PARTS)
        return json_copy(part.raw) if passes else _text(describe_part(part))
    return None


def _text(text: str) -> JsonObject:
    return {"type": "input_text", "text": text}


def _put_reply(message: m.Assistant, wire: list[JsonObject], alone: Container[str]) -> None:
    reasoning: list[JsonObject] = []  # waits for the item it led to
    for part in message.content:
        if isinstance(part, m.Thinking):
            if part.id and part.data:
                reasoning.append(_reasoning(part, part.data))
            continue
        item = _reply_item(part, alone)
        if item is not None:
            wire.extend(reasoning)
            reasoning = []
            wire.append(item)


def _reply_item(part: m.AnyPart, alone: Container[str]) -> JsonObject | None:
    if isinstance(part, m.Call):
        if _is_item(part):
            told = _message("assistant", without_surrogates(m.in_full(m.Assistant((part,)))))
            return told if part.id in alone else json_copy(part.arguments)
        return {
            "type": "function_call",
            "call_id": short_id(part.id, 64),
            "name": wire_name(part.name),
            "arguments": call_json(part),
        }
    if isinstance(part, m.Text):
        said = part.text and not part.text.isspace()
        return _message("assistant", without_surrogates(part.text)) if said else None
    if isinstance(part, m.Opaque):
        if part.source == "responses/assistant":
            return _message("assistant", [json_copy(part.raw)])
        known = part.source is None and _PASSED_ITEMS.fullmatch(opaque_type(part.raw)) and part.raw.get("id")
        passes = known or (part.source == ITEM and not _is_alone(part, alone))
        return json_copy(part.raw) if passes else _message("assistant", describe_part(part))
    return _message("assistant", describe_part(part))


def _reasoning(part: m.Thinking, sealed: str) -> JsonObject:
    summary = [{"type": "summary_text", "text": without_surrogates(part.text)}] if part.text else []
    return {"type": "reasoning", "id": part.id, "summary": summary, "encrypted_content": sealed}


def _output(message: m.Result, alone: Container[str]) -> JsonObject:
    if message.call_id in alone:
        told = (part.text if isinstance(part, m.Text) else describe_part(part) for part in message.content)
        return _message(
            "user", without_surrogates(element("tool_result", "\n".join(told), call=message.call_id))
        )
    [part] = message.content if _is_answer(message) else (None,)
    if isinstance(part, m.Opaque):
        return json_copy(part.raw)
    output = wire_content(message.content, _wire_part)
    return {"type": "function_call_output", "call_id": short_id(message.call_id, 64), "output": output}
