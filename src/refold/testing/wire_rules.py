"""What the validators of the dialects share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from refold.session.dialects.common import object_or_empty

WireObject: TypeAlias = Mapping[str, Any]


def arguments(given: Any, here: str, found: list[str]) -> None:
    """Servers parse what the API only calls a string."""
    try:
        parsed = json.loads(given)
    except (TypeError, ValueError, RecursionError):
        found.append(f"{here}: expected the JSON text of an object")
        return
    if not isinstance(parsed, dict):
        found.append(f"{here}: expected the JSON text of an object")


def tool_names(tools: Iterable[tuple[int, Any, Any]], pattern: re.Pattern[str]) -> list[str]:
    found: list[str] = []
    seen: set[str] = set()
    for k, name, schema in tools:
        if not pattern.fullmatch(str(name)):
            found.append(f"tools[{k}].name: does not match '{pattern.pattern}'")
        if name in seen:
            found.append(f"tools[{k}].name: tool names must be unique")
        seen.add(str(name))
        if schema is not None and object_or_empty(schema).get("type") != "object":
            # "Invalid schema for function '…': schema must be a JSON Schema of 'type: "object"'"
            found.append(f"tools[{k}]: the schema must be of type 'object'")
    return found


def foreign_parts(content: Any, allowed: Sequence[str], here: str, found: list[str]) -> None:
    """Parts of a kind that has no place here."""
    kinds = [part.get("type") for part in blocks(content, here, found)]
    found.extend(
        f"{here}: a part of type {kind!r} has no place here" for kind in kinds if kind not in allowed
    )


def blocks(content: Any, here: str, found: list[str]) -> list[WireObject]:
    if not isinstance(content, list):
        found.append(f"{here}.content: expected a string or a list")
        return []
    return [object_or_empty(block) for block in cast(list[Any], content)]
