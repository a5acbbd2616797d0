"""Tool results made small by rule (E4): one file per kind of tool, by name with the aliases of all agents.

    small = shrink(call, result)          # None: nothing is gained, keep the result as it is

The full result stays in the log; what this returns replaces it in the view only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from refold.messages import Call, Result, Text, compact_json
from refold.session.toolnames import Kind, kind
from refold.shrink import bash, edit, glob, grep, ls, other, read, todo, write
from refold.shrink.base import LISTS, TOTALS, Data, Limits, Rule, flags, shortened

__all__ = ["RULES", "Limits", "Rule", "shrink"]

RULES: Mapping[Kind, Rule] = {
    "ls": ls, "glob": glob, "grep": grep, "read": read, "edit": edit, "patch": edit, "write": write,
    "create": write, "bash": bash, "todo": todo, "delete": other, "move": other,
    "editor": other, "other": other,
}  # fmt: skip
_ENVELOPE = frozenset({"status", "data", "text", "stats", "context", "error"})
_LISTING = frozenset({"ls", "glob", "grep"})
_LARGEST = 20_000_000


def shrink(
    call: Call, result: Result, limits: Limits | None = None, rules: Mapping[Kind, Rule] | None = None
) -> Result | None:
    """The result as the rule for this tool keeps it; None where that would not be shorter. `rules` replaces
    the rules of some kinds."""
    limits = limits or Limits()
    text = result.text
    rule = (rules or {}).get(_kind(call)) or RULES[_kind(call)]
    envelope = _envelope(text, lists=_kind(call) in _LISTING)
    enclosed = envelope is not None
    small = _enclosed(call, envelope, rule, limits) if enclosed else _plain(call, result, rule, limits)
    if len(small) >= len(text):
        return None
    others = tuple(part for part in result.content if not isinstance(part, Text))
    return msgspec.structs.replace(result, content=(Text(small), *others))


def _kind(call: Call) -> Kind:
    """An editor that does everything is known by its command."""
    found = kind(call.name)
    if found != "editor":
        return found
    commands: dict[Any, Kind] = {
        "view": "read",
        "create": "write",
        "str_replace": "edit",
        "insert": "edit",
        "undo_edit": "edit",
    }
    return commands.get(call.arguments.get("command"), "other")


def _envelope(text: str, *, lists: bool) -> Data | None:
    """The JSON object of a structured result: `{status, data, text, stats, context, error}`; also Codex's
    `{output, metadata}`, and the bare list of a tool that `lists`."""
    if text.lstrip()[:1] not in ("{", "[") or len(text) > _LARGEST:
        return None
    try:
        value = msgspec.json.decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if isinstance(value, list) and lists:
        return {"data": cast("list[Any]", value)}
    if not isinstance(value, dict):
        return None
    found = cast("Data", value)
    if "status" in found and (found.keys() <= _ENVELOPE or found.keys() & {"data", "error"}):
        return found
    if found.keys() == {"output", "metadata"} and isinstance(found["metadata"], dict):
        return {"data": {"output": found["output"], **cast("Data", found["metadata"])}}
    return None


def _enclosed(call: Call, envelope: Data, rule: Rule, limits: Limits) -> str:
    """Status and the compressed data; of an error its code and message in full. Text, stats, context go."""
    kept: Data = {"status": envelope["status"]} if "status" in envelope else {}
    kept |= {key: shortened(value, limits) for key, value in envelope.items() if key not in _ENVELOPE}
    error = envelope.get("error")
    if isinstance(error, dict):
        fields = cast("Data", error)
        kept["error"] = {name: fields[name] for name in ("code", "message") if name in fields}
    elif error:
        kept["error"] = error
    data = _data(call, envelope, rule, limits)
    survivors = _survivors(envelope)
    if survivors:
        data = {
            **survivors,
            **(cast("Data", data) if isinstance(data, dict) else {"text": data} if data else {}),
        }
    return compact_json({**kept, "data": data} if data else kept)


def _data(call: Call, envelope: Data, rule: Rule, limits: Limits) -> Any:
    """The data as the rule keeps it. A text, or a list of them, is read as the tool would have printed it."""
    data = envelope.get("data")
    if isinstance(data, list):
        rows = cast("list[Any]", data)
        texts = [row for row in rows if isinstance(row, str)]
        if len(texts) == len(rows):
            data = "\n".join(texts)
        elif _kind(call) in _LISTING:
            data = dict.fromkeys(LISTS, rows)
        else:
            return other.data(call, {"data": rows}, limits)
    if isinstance(data, dict):
        found = cast("Data", data)
        return rule.data(call, {**_totals(envelope), **found}, limits) if found else None
    return rule.plain(call, data, limits) if isinstance(data, str) else data


def _totals(envelope: Data) -> Data:
    """What the tool counted, where it says so beside the data."""
    parts = [
        cast("Data", part) for name in ("stats", "context") if isinstance(part := envelope.get(name), dict)
    ]
    return {name: part[name] for part in parts for name in TOTALS if isinstance(part.get(name), int)}


def _survivors(envelope: Data) -> Data:
    """Flags and the modification time, wherever the tool put them."""
    found: Data = {}
    for part in ("stats", "context"):
        fields = envelope.get(part)
        if isinstance(fields, dict):
            inside = cast("Data", fields)
            found |= flags(inside)
            found |= {
                name: inside[name] for name in ("mtime", "file_mtime", "file_mtime_ms") if name in inside
            }
    return found


def _plain(call: Call, result: Result, rule: Rule, limits: Limits) -> str:
    """What went wrong is said in full, within the limit for everything else."""
    if result.is_error and _kind(call) != "bash":
        return other.plain(call, result.text, limits)
    return rule.plain(call, result.text, limits)
