"""Strict validators of the dialects: what a provider would refuse, one sentence each.

`validate(dialect, wire)` serves every dialect of the table, `validate_view(view)` asks for all of them at
once. What `wire` says is read back, and our own rules find nothing to repair in it. For the providers we know
there are strict rules besides: each is a documented or reported rejection, quoted in the comment beside it.

An empty list means that the request is well formed. `partial=True` allows a batch at the very end whose
results are still to come (a conversation between a call and its result is not sent, but it is not wrong).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

from refold.errors import UsageError
from refold.session import View, dialects
from refold.session.dialects import Dialect
from refold.session.dialects.common import object_or_empty
from refold.session.invariants import repair_by, settled
from refold.testing.anthropic_rules import validate_anthropic
from refold.testing.builders import items
from refold.testing.wire_rules import WireObject, arguments, blocks, foreign_parts, tool_names

__all__ = ["validate", "validate_anthropic", "validate_openai", "validate_responses", "validate_view"]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ROLES = ("system", "developer", "user", "assistant")
_CHAT_PARTS = {"user": ("text", "image_url", "input_audio", "file"), "assistant": ("text", "refusal")}
_INPUT_PARTS = ("input_text", "input_image", "input_file")


def validate(dialect: str, wire: Any, *, partial: bool = False) -> list[str]:
    """Problems of what the dialect of that name rendered."""
    chosen = dialects.get(dialect)
    strict = STRICT.get(chosen.name)
    return _read_back(chosen, wire, partial) + (strict(wire, partial=partial) if strict else [])


def validate_view(view: View, *, partial: bool = False) -> list[str]:
    """Problems of a view in any dialect."""
    return [
        f"{name}: {problem}"
        for name in dialects.DIALECTS
        for problem in validate(name, view.to(name), partial=partial)
    ]


def _read_back(dialect: Dialect, wire: Any, partial: bool) -> list[str]:
    try:
        json.dumps(wire, allow_nan=False, ensure_ascii=False).encode()
        read = items(dialect.parse_list(wire))
    except (TypeError, ValueError, UsageError) as error:
        return [f"cannot be sent or read back: {error}"]
    found = [] if read else ["no messages"]
    if [item.message for item in repair_by(dialect.rules, read)] != [item.message for item in read]:
        found.append("it has to be repaired once more")
    if not partial and not settled(read):
        found.append("the last calls have no results")
    return found


def validate_openai(
    messages: Sequence[WireObject], tools: Sequence[WireObject] | None = None, *, partial: bool = False
) -> list[str]:
    """Problems of a chat completions `messages` list."""
    found = [] if messages else ["messages: [] is too short"]
    waiting: list[str] = []
    at = ""
    for i, message in enumerate(messages):
        here = f"messages[{i}]"
        if message.get("role") == "tool":
            _chat_tool(message, here, waiting, found)
            continue
        if waiting:
            # "An assistant message with 'tool_calls' must be followed by tool messages responding to each
            # 'tool_call_id'. The following tool_call_ids did not have response messages: …"
            found.append(f"{at}: tool_call_ids without response messages: {', '.join(waiting)}")
        waiting = _chat_message(message, here, found)
        at = here
    if waiting and not partial:
        found.append(f"{at}: tool_call_ids without response messages: {', '.join(waiting)}")
    return found + _chat_tools(tools or ())


def _chat_tool(message: WireObject, here: str, waiting: list[str], found: list[str]) -> None:
    id = message.get("tool_call_id")
    if id in waiting:
        waiting.remove(cast(str, id))
    else:
        # "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
        found.append(f"{here}: role 'tool' is no response to a preceding tool call: {id!r}")
    # "Invalid value: 'image_url'. Supported values are: 'text'."
    if not isinstance(content := message.get("content"), str):
        foreign_parts(content, ("text",), here, found)


def _chat_message(message: WireObject, here: str, found: list[str]) -> list[str]:
    role = message.get("role")
    if role not in _ROLES:
        found.append(f"{here}.role: {role!r} is not one of the roles")
        return []
    calls = message.get("tool_calls")
    content = message.get("content")
    if role != "assistant" and calls is not None:
        found.append(f"{here}: only assistant messages have tool_calls")
    if calls is not None and not calls:
        # "Invalid 'messages[1].tool_calls': empty array. Expected an array with minimum length 1"
        found.append(f"{here}.tool_calls: empty array")
    if content is None:
        if role != "assistant" or not calls:
            # "Invalid value for 'content': expected a string, got null."
            found.append(f"{here}.content: expected a string, got null")
    else:
        _content(content, _CHAT_PARTS.get(role, ("text",)), here, found)
    ids = [_chat_call(call, f"{here}.tool_calls[{k}]", found) for k, call in enumerate(calls or ())]
    if len(set(ids)) < len(ids):
        found.append(f"{here}.tool_calls: duplicate ids")
    return ids


def _content(content: Any, allowed: Sequence[str], here: str, found: list[str]) -> None:
    """What a message says: a text, or parts of these kinds."""
    parts = [] if isinstance(content, str) else blocks(content, here, found)
    if not (parts or (isinstance(content, str) and content)):
        found.append(f"{here}.content: empty" if isinstance(content, str) else f"{here}.content: empty array")
    for part in parts:
        kind = part.get("type")
        if kind not in allowed:
            # "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'."
            found.append(f"{here}: a part of type {kind!r} has no place here")
        elif kind == "text" and not (isinstance(part.get("text"), str) and part["text"]):
            found.append(f"{here}: a text part without text")
        elif kind == "image_url" and not object_or_empty(part.get("image_url")).get("url"):
            found.append(f"{here}: an image_url without url")


def _chat_call(call: WireObject, here: str, found: list[str]) -> str:
    if call.get("type") != "function":
        found.append(f"{here}.type: expected 'function'")
    _id(call.get("id"), 40, f"{here}.id", found)
    _function(object_or_empty(call.get("function")), f"{here}.function", found)
    return str(call.get("id"))


def _id(id: Any, most: int, here: str, found: list[str]) -> None:
    if not isinstance(id, str) or not 0 < len(id) <= most:
        # "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40"
        found.append(f"{here}: expected a string of 1 to {most} characters")


def _function(function: WireObject, here: str, found: list[str]) -> None:
    if not _NAME.fullmatch(str(function.get("name"))):
        # "string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        found.append(f"{here}.name: does not match '^[a-zA-Z0-9_-]{{1,64}}$'")
    arguments(function.get("arguments"), f"{here}.arguments", found)


def _chat_tools(tools: Sequence[WireObject]) -> list[str]:
    functions = [
        (k, object_or_empty(t.get("function"))) for k, t in enumerate(tools) if t.get("type") == "function"
    ]
    return tool_names(((k, f.get("name"), f.get("parameters")) for k, f in functions), _NAME)


# ── OpenAI responses ────────────────────────────────────────────────────────────────────────────


def validate_responses(items: Sequence[WireObject], *, partial: bool = False) -> list[str]:
    """Problems of a responses `input` list."""
    found = [] if items else ["input: empty"]
    calls: dict[str, int] = {}
    answered: set[str] = set()
    for i, item in enumerate(items):
        here = f"input[{i}]"
        kind = item.get("type", "message")
        if kind == "function_call":
            _responses_call(item, here, calls, i, found)
        elif kind == "function_call_output":
            _responses_output(item, here, calls, answered, found)
        elif kind == "reasoning":
            _responses_reasoning(item, here, items[i + 1] if i + 1 < len(items) else None, found)
        elif kind == "message":
            _responses_message(item, here, found)
    missing = [id for id in calls if id not in answered]
    if partial:
        said = (i for i, x in enumerate(items) if x.get("role") in ("user", "system", "developer"))
        last = max(said, default=-1)
        missing = [id for id in missing if calls[id] < last]
    if missing:
        # "No tool output found for function call call_…."
        found.append(f"input: no tool output found for function call {', '.join(missing)}")
    return found


def _responses_call(item: WireObject, here: str, calls: dict[str, int], i: int, found: list[str]) -> None:
    id = item.get("call_id")
    _id(id, 64, f"{here}.call_id", found)
    if id in calls:
        found.append(f"{here}.call_id: {id!r} was used before")
    calls[str(id)] = i
    _function(item, here, found)


def _responses_output(
    item: WireObject, here: str, calls: dict[str, int], answered: set[str], found: list[str]
) -> None:
    id = str(item.get("call_id"))
    if id not in calls:
        # "No tool call found for function call output with call_id call_…."
        found.append(f"{here}: no tool call found for function call output with call_id {id}")
    if id in answered:
        found.append(f"{here}: a second output for {id}")
    answered.add(id)
    if not isinstance(output := item.get("output"), str):
        foreign_parts(output, _INPUT_PARTS, here, found)


def _responses_reasoning(item: WireObject, here: str, following: WireObject | None, found: list[str]) -> None:
    if not item.get("id") or not isinstance(item.get("summary"), list):
        found.append(f"{here}: reasoning needs its id and its summary")
    kind = following.get("type", "message") if following else None
    follows = kind in ("function_call", "reasoning") or str(kind).endswith("_call")
    if not follows and not (following and kind == "message" and following.get("role") == "assistant"):
        # "Item 'rs_…' of type 'reasoning' was provided without its required following item."
        found.append(f"{here}: reasoning without its required following item")


def _responses_message(item: WireObject, here: str, found: list[str]) -> None:
    role = item.get("role")
    if role not in _ROLES:
        found.append(f"{here}.role: {role!r} is not one of the roles")
    allowed = ("output_text", "refusal") if role == "assistant" else _INPUT_PARTS
    _content(item.get("content"), allowed, here, found)


STRICT: dict[str, Callable[..., list[str]]] = {
    "openai": validate_openai,
    "responses": validate_responses,
    "anthropic": validate_anthropic,
}
"""Dialect → what its provider refuses."""
