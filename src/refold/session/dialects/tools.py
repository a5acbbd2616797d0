"""Tool definitions: parsing any form, and what the forms have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from refold.protocols import ToolSpec
from refold.session.dialects.common import as_dict, json_copy, text_field, without_surrogates
from refold.text.lenient_json import JsonObject


class GivenTool(ToolSpec, frozen=True):
    """A definition with its original form. The same dialect gets the same bytes, because prompt caches
    distinguish equivalent definitions."""

    wire: Mapping[str, Any] = {}


def parse_tool(tool: Any) -> ToolSpec | None:
    """The definition from any form; None for the provider's own tools (web search …)."""
    if isinstance(tool, ToolSpec):
        return tool
    raw = as_dict(tool)
    if isinstance(raw.get("function"), dict):
        raw = as_dict(raw["function"])
    schema = raw.get("parameters", raw.get("input_schema"))
    custom = raw.get("type") in (None, "function", "custom")
    if not raw.get("name") or not (custom or isinstance(schema, dict)):
        return None
    return ToolSpec(
        text_field(raw, "name"), text_field(raw, "description"), json_copy(schema) if schema else {}
    )


def parse_tools(tools: Iterable[Any]) -> tuple[ToolSpec, ...]:
    """All definitions that can be parsed, in order."""
    return tuple(spec for tool in tools if (spec := parse_tool(tool)) is not None)


def given_tools(tools: Iterable[Any]) -> tuple[ToolSpec, ...]:
    """All definitions in their original form, including the provider's own tools."""
    return tuple(tool if isinstance(tool, ToolSpec) else _given(as_dict(tool)) for tool in tools)


def _given(raw: JsonObject) -> GivenTool:
    spec = parse_tool(raw) or ToolSpec(str(raw.get("name") or raw.get("type") or ""))
    return GivenTool(spec.name, spec.description, spec.parameters, raw)


def convert_tool(
    tool: Any, shape: Callable[[ToolSpec], JsonObject], own: Callable[[JsonObject], bool]
) -> JsonObject:
    """A definition of any form in a dialect's form; `own` recognises one that already is."""
    if isinstance(tool, GivenTool):
        raw = dict(tool.wire)
        if own(raw) or parse_tool(raw) is None:
            return json_copy(raw)
    spec = parse_tool(tool)
    return json_copy(as_dict(tool)) if spec is None else shape(spec)


def json_schema(spec: ToolSpec, key: str = "input_schema") -> JsonObject:
    """Name, description and, under `key`, the JSON schema of the parameters."""
    described = {"description": without_surrogates(spec.description)} if spec.description else {}
    schema: JsonObject = json_copy(dict(spec.parameters))
    if schema.get("type") in (None, "object"):  # without parameters: providers want an object, never nothing
        schema = {"type": "object", "properties": {}, **schema}
    return {"name": without_surrogates(spec.name), **described, key: schema}
