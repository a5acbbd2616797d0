"""OpenAI chat completions: `messages`, and compatible servers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from refold import messages as m
from refold.protocols import ToolSpec
from refold.session.dialects.common import (
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
    wire_content,
    wire_name,
    without_surrogates,
)
from refold.session.dialects.tools import convert_tool, json_schema
from refold.session.items import Item
from refold.text.lenient_json import JsonObject

name = "openai"
field = "messages"
rules = WireRules(unique_ids=False)

_STOPS: dict[str, m.Stop] = {
    "stop": "end",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "length",
    "content_filter": "refusal",
}

# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def speaks(raw: JsonObject) -> bool:
    """True for a completion, or a message with a field that only this dialect has."""
    if "choices" in raw or raw.get("role") in ("tool", "function"):
        return True
    return not _OWN_KEYS.isdisjoint(raw) or not _OWN_PARTS.isdisjoint(block_types(raw))


_OWN_KEYS = frozenset(("tool_calls", "function_call", "reasoning_content"))
_OWN_PARTS = frozenset(("image_url", "file"))


def parse(obj: Any) -> list[m.Message]:
    """The message of one chat message: a dict or an SDK object."""
    raw = as_dict(obj)
    role = raw.get("role")
    if role == "assistant":
        return [_assistant(raw)]
    if role in ("tool", "function"):
        return [_result(raw)]
    if role in ("system", "developer"):
        return [m.System(content_parts(raw.get("content"), openai_part, "openai/system"))]
    return [m.User(content_parts(raw.get("content"), openai_part, "openai/user"))]


def parse_list(objs: Iterable[Any]) -> list[m.Message]:
    return [given.message for given in parse_given(objs)]


def parse_given(objs: Iterable[Any]) -> list[Given]:
    """The messages of a list, each with its source objects."""
    return [Given(message, [as_dict(obj)]) for obj in objs for message in parse(obj)]


def parse_reply(obj: Any) -> ParsedReply:
    """The reply, its usage and its model from a chat completion (first choice), or from a message alone."""
    raw = as_dict(obj)
    if "choices" not in raw:
        return reply_alone(parse(raw))
    choices = to_list(raw.get("choices"))
    choice = as_dict(choices[0]) if choices else {}
    message = _assistant(object_or_empty(choice.get("message")))
    stop = message.stop or stop_of(choice.get("finish_reason"), _STOPS)
    if stop in ("end", "other") and message.calls:
        stop = "tool_use"  # several compatible servers say "stop" after a call
    usage = openai_usage(raw.get("usage"), "prompt_tokens", "completion_tokens")
    return m.Assistant(message.content, stop), usage, model_of("openai", raw)


def _assistant(raw: JsonObject) -> m.Assistant:
    parts: list[m.AnyPart] = []
    for key in ("reasoning_content", "reasoning"):
        if isinstance(raw.get(key), str) and raw[key]:
            parts.append(m.Thinking(raw[key]))
            break
    parts.extend(content_parts(raw.get("content"), openai_part, "openai/assistant"))
    refused = bool(raw.get("refusal"))
    if refused:
        parts.append(m.Text(text_field(raw, "refusal")))
    parts.extend(
        _call(object_or_empty(call)) for call in to_list(raw.get("tool_calls")) if object_or_empty(call)
    )
    if raw.get("function_call"):
        old = object_or_empty(raw["function_call"])
        name = text_field(old, "name")
        parts.append(parse_arguments(_legacy_id(name), name, old.get("arguments")))
    return m.Assistant(tuple(parts), "refusal" if refused else None)


def _call(raw: JsonObject) -> m.Call:
    id = text_field(raw, "id")
    if raw.get("custom"):
        custom = object_or_empty(raw["custom"])
        return parse_arguments(id, text_field(custom, "name"), custom.get("input"))
    function = object_or_empty(raw.get("function"))
    return parse_arguments(id, text_field(function, "name"), function.get("arguments"))


def _result(raw: JsonObject) -> m.Result:
    name = raw.get("name") if isinstance(raw.get("name"), str) else None
    id = text_field(raw, "tool_call_id") if raw.get("tool_call_id") else _legacy_id(name or "")
    return m.Result(id, content_parts(raw.get("content"), openai_part, "openai/tool"), name)


def _legacy_id(name: str) -> str:
    """Id of a call from before calls had ids: its name, since only one call could be open."""
    return f"function_{name}"


# ── writing ─────────────────────────────────────────────────────────────────────────────────────

_PASSED = {"file": "file", "input_audio": "input_audio"}
"""Unknown parts that are passed through unchanged, and the field each needs."""
_ID_LIMIT = 40


def render(shown: Renderable, *, system: str | None = None) -> list[JsonObject]:
    """Repaired messages as chat messages, in new dicts.

    Thinking is dropped. Pictures in tool results follow their batch in a user message, since tool messages
    hold only text.
    """
    wire: list[JsonObject] = [{"role": "system", "content": without_surrogates(system)}] if system else []
    pictures: list[JsonObject] = []
    waiting = 0  # results the last batch still lacks
    for one in shown:
        message = one.message if isinstance(one, Item | Given) else one
        if isinstance(message, m.Result):
            waiting -= 1
            wire += one.wire if isinstance(one, Given) else [_tool_message(message, pictures)]
            continue
        if pictures:
            wire.append({"role": "user", "content": pictures})
            pictures = []
        if isinstance(message, m.Assistant):
            waiting = len(message.calls)
        if isinstance(one, Given):
            wire += one.wire
        elif isinstance(message, m.Assistant):
            said = _assistant_message(message)
            if len(said) > 1:
                wire.append(said)
        elif not isinstance(message, m.Bash):
            part = _system_part if isinstance(message, m.System) else _wire_part
            wire.append({"role": message.role, "content": wire_content(message.content, part)})
        elif not message.hidden:
            wire.append({"role": "user", "content": without_surrogates(message.text)})
    if pictures and waiting <= 0:
        wire.append({"role": "user", "content": pictures})
    return wire


def render_tools(tools: Sequence[Any]) -> list[JsonObject]:
    return [convert_tool(tool, _wire_tool, lambda raw: "function" in raw) for tool in tools]


def _wire_tool(spec: ToolSpec) -> JsonObject:
    return {"type": "function", "function": json_schema(spec, "parameters")}


def _wire_part(part: m.AnyPart) -> JsonObject | None:
    if isinstance(part, m.Text):
        return {"type": "text", "text": without_surrogates(part.text)} if part.text else None
    if isinstance(part, m.Image):
        url = image_url(part)
        return _text(describe_part(part)) if url is None else {"type": "image_url", "image_url": {"url": url}}
    if isinstance(part, m.Opaque):
        return json_copy(part.raw) if _is_whole(part, "openai/user") else _text(describe_part(part))
    return None


def _system_part(part: m.AnyPart) -> JsonObject | None:
    if isinstance(part, m.Opaque) and part.source == "openai/system":
        return json_copy(part.raw)
    return _wire_part(part)


def _is_whole(part: m.Opaque, source: str) -> bool:
    """True if the dialect has this part and its required field is present."""
    needs = _PASSED.get(opaque_type(part.raw))
    return is_passed(part, source, _PASSED) and (needs is None or isinstance(part.raw.get(needs), dict))


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _shown(part: m.AnyPart, source: str) -> str | JsonObject | None:
    """A part where mainly text is allowed; None if it is not allowed."""
    if type(part) is m.Text:
        return without_surrogates(part.text) or None
    if type(part) is m.Thinking or type(part) is m.Call:
        return None
    if isinstance(part, m.Opaque) and part.source == source:
        return json_copy(part.raw)
    return describe_part(part)


def _content(shown: Sequence[str | JsonObject]) -> str | list[JsonObject]:
    if len(shown) == 1 and isinstance(shown[0], str):
        return shown[0]
    return [_text(each) if isinstance(each, str) else each for each in shown]


def _assistant_message(message: m.Assistant) -> JsonObject:
    shown: list[str | JsonObject] = []
    calls: list[JsonObject] = []
    for part in message.content:
        if type(part) is m.Call:
            function = {"name": wire_name(part.name), "arguments": call_json(part)}
            calls.append({"id": short_id(part.id, _ID_LIMIT), "type": "function", "function": function})
        elif (each := _shown(part, "openai/assistant")) is not None:
            shown.append(each)
    said: JsonObject = {"role": "assistant"}
    if shown:
        said["content"] = _content(shown)
    if calls:
        said.setdefault("content", None)
        said["tool_calls"] = calls
    return said


def _tool_message(message: m.Result, pictures: list[JsonObject]) -> JsonObject:
    id = short_id(message.call_id, _ID_LIMIT)
    shown: list[str | JsonObject] = []
    own: list[JsonObject] = []
    for part in message.content:
        if type(part) is m.Image and (url := image_url(part)):
            own.append({"type": "image_url", "image_url": {"url": url}})
        elif (each := _shown(part, "openai/tool")) is not None:
            shown.append(each)
    if own:
        pictures += [_text(f"Pictures of the tool result {id}:"), *own]
        shown = shown or ["(the pictures follow)"]
    return {"role": "tool", "tool_call_id": id, "content": _content(shown) if shown else ""}
