"""Tools that take plain text instead of JSON (`custom`). The log stores their calls like all others; on the
wire they have their own type. The request says which tools are custom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from refold.session.dialects.common import MALFORMED, list_or_empty, object_or_empty
from refold.text.lenient_json import JsonObject


def restore_custom_calls(wire: Sequence[JsonObject], tools: Any) -> list[JsonObject]:
    """Messages or items with calls of custom tools in the provider's format."""
    names = _names(tools)
    calls = {item.get("call_id") for item in wire if _is_custom(item, names)}
    return [_item(item, names, calls) for item in wire]


def _names(tools: Any) -> set[str]:
    custom = [tool for tool in map(object_or_empty, list_or_empty(tools)) if tool.get("type") == "custom"]
    own = (object_or_empty(tool.get("custom") or tool) for tool in custom)
    return {str(tool.get("name")) for tool in own if tool}


def _is_custom(item: JsonObject, names: set[str]) -> bool:
    written_anew = item.get("type") == "function_call" and item.get("name") in names
    return written_anew or item.get("type") == "custom_tool_call"


def _item(item: JsonObject, names: set[str], calls: set[Any]) -> JsonObject:
    if item.get("call_id") in calls and item.get("type") == "function_call_output":
        return {**item, "type": "custom_tool_call_output"}
    if item.get("call_id") in calls and item.get("type") == "function_call":
        told = {"call_id": item["call_id"], "name": item["name"], "input": _text(item["arguments"])}
        return {"type": "custom_tool_call", **told}
    if isinstance(item.get("tool_calls"), list):
        return {**item, "tool_calls": [_call(call, names) for call in item["tool_calls"]]}
    return item


def _call(call: JsonObject, names: set[str]) -> JsonObject:
    function = cast("JsonObject", call.get("function") or {})
    if function.get("name") not in names:
        return call
    custom = {"name": function["name"], "input": _text(function["arguments"])}
    return {"id": call["id"], "type": "custom", "custom": custom}


def _text(arguments: str) -> str:
    """The text input of a call, from its JSON form."""
    value = msgspec.json.decode(arguments, type=JsonObject)
    text = value.get(MALFORMED) if len(value) == 1 else None
    return text if isinstance(text, str) else arguments
