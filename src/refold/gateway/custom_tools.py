"""Tools that take plain text instead of JSON (`custom`): in the log their calls are calls as all others, on
the wire they are not. The request says which tools are of that kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from refold.session.dialects.common import MALFORMED, listing

Wire = dict[str, Any]


def restored(wire: Sequence[Wire], tools: Any) -> list[Wire]:
    """Messages or items, with calls of such tools as the provider wants them."""
    names = _names(tools)
    calls = {item.get("call_id") for item in wire if _is_custom(item, names)}
    return [_item(item, names, calls) for item in wire]


def _names(tools: Any) -> set[str]:
    kept = [cast("Wire", tool) for tool in listing(tools) if isinstance(tool, dict)]
    own = [tool.get("custom") or tool for tool in kept if tool.get("type") == "custom"]
    return {str(cast("Wire", tool).get("name")) for tool in own if isinstance(tool, dict)}


def _is_custom(item: Wire, names: set[str]) -> bool:
    written_anew = item.get("type") == "function_call" and item.get("name") in names
    return written_anew or item.get("type") == "custom_tool_call"


def _item(item: Wire, names: set[str], calls: set[Any]) -> Wire:
    if item.get("call_id") in calls and item.get("type") == "function_call_output":
        return {**item, "type": "custom_tool_call_output"}
    if item.get("call_id") in calls and item.get("type") == "function_call":
        told = {"call_id": item["call_id"], "name": item["name"], "input": _text(item["arguments"])}
        return {"type": "custom_tool_call", **told}
    if isinstance(item.get("tool_calls"), list):
        return {**item, "tool_calls": [_call(call, names) for call in item["tool_calls"]]}
    return item


def _call(call: Wire, names: set[str]) -> Wire:
    function = cast("Wire", call.get("function") or {})
    if function.get("name") not in names:
        return call
    custom = {"name": function["name"], "input": _text(function["arguments"])}
    return {"id": call["id"], "type": "custom", "custom": custom}


def _text(arguments: str) -> str:
    """What the tool was called with, from what stands for it in JSON."""
    value = msgspec.json.decode(arguments, type=Wire)
    text = value.get(MALFORMED) if len(value) == 1 else None
    return text if isinstance(text, str) else arguments
