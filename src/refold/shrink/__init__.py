"""Tool results made small by rule (E4), by kind of tool, with the names that all agents give it.

    small = Shrinking(call, result).at_once()          # None: nothing is gained, keep the result as it is

The full result stays in the log; what this returns replaces it in the view only.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from inspect import iscoroutine, iscoroutinefunction
from typing import Any, cast

import msgspec

from refold.messages import Call, Result, Text, compact_json
from refold.session.toolnames import ToolKind, kind
from refold.session.toolstatus import decoded_json
from refold.shrink.rules import RULES, Data, Limits, Rule, printed, shortened_fields

__all__ = ["RULES", "Data", "Limits", "Rule", "Shrinking", "kind_of"]

_ENVELOPE = frozenset({"status", "data", "text", "stats", "context", "error"})
_LISTING = frozenset({"ls", "glob", "grep"})
_LARGEST = 20_000_000
_SURVIVES = ("mtime", "total", "truncated", "applied", "fallback", "dry_run", "cancelled", "timed_out")
"""What fields of `stats` and `context` have in their names that are kept."""


@dataclass(frozen=True)
class Shrinking:
    """One result on its way to be made smaller, by an application's rule (`own`) or by ours."""

    call: Call
    result: Result
    limits: Limits = Limits()
    own: Rule | None = None

    @property
    def waits(self) -> bool:
        """Whether the rule has to be awaited."""
        return iscoroutinefunction(self.own) or iscoroutinefunction(type(self.own).__call__)

    def at_once(self) -> Result | None:
        """The shorter result; None: there is none. A rule that has to be awaited is not asked."""
        if self.own is None or self.waits:
            return self._shorter(_kept(self.call, self.result, self.limits))
        try:
            return self._shorter(self.own(self.call, self.result.text, self.limits))
        except Exception:  # whatever an application's own code does wrong
            return self.instead()

    async def awaited(self) -> Result | None:
        """The same for a rule that has to be awaited; raises what it raises."""
        assert self.own is not None
        return self._shorter(await self.own(self.call, self.result.text, self.limits))

    def instead(self, error: BaseException | None = None) -> Result | None:
        """What our rule keeps, where another one failed."""
        logging.getLogger(__name__).error(
            "the rule for %s failed, ours stands in", self.call.name or "a tool", exc_info=error or True
        )
        return self._shorter(_kept(self.call, self.result, self.limits))

    def _shorter(self, small: Any) -> Result | None:
        if not isinstance(small, str):
            if iscoroutine(small):
                small.close()  # of a function that is not declared `async`
            raise TypeError(f"a rule gave {type(small).__name__}, no text")
        if len(small) >= len(self.result.text):
            return None
        others = tuple(part for part in self.result.content if not isinstance(part, Text))
        return msgspec.structs.replace(self.result, content=(Text(small), *others))


def _kept(call: Call, result: Result, limits: Limits) -> str:
    """The text of a result as our rule for this kind of tool keeps it."""
    text, rule = result.text, RULES[kind_of(call)]
    value = decoded_json(text, _LARGEST)
    envelope = _envelope(value)
    if envelope is None:
        if isinstance(value, list) and kind_of(call) in _LISTING:
            text = printed(value, {})
        failed = result.is_error and kind_of(call) != "bash"
        # What went wrong is said in full, within the limit for everything else.
        return (RULES["other"] if failed else rule)(call, text, limits)
    data = envelope.get("data")
    if isinstance(data, dict) and data:
        data = shortened_fields(rule, call, _beside(envelope) | cast("Data", data), limits)
    elif data:
        data = rule(call, printed(data, _beside(envelope)), limits)
    return _enclosed(envelope, limits, data)


def kind_of(call: Call) -> ToolKind:
    """An editor that does everything is known by its command."""
    found = kind(call.name)
    if found != "editor":
        return found
    commands: dict[Any, ToolKind] = {
        "view": "read", "create": "write", "str_replace": "edit", "insert": "edit", "undo_edit": "edit",
    }  # fmt: skip
    return commands.get(call.arguments.get("command"), "other")


def _envelope(value: Any) -> Data | None:
    """A structured result, `{status, data, text, stats, context, error}`, or Codex's `{output, metadata}`."""
    if not isinstance(value, dict):
        return None
    found = cast("Data", value)
    if "status" in found and (found.keys() <= _ENVELOPE or found.keys() & {"data", "error"}):
        return found
    if found.keys() == {"output", "metadata"} and isinstance(found["metadata"], dict):
        return {"data": {"output": found["output"], **cast("Data", found["metadata"])}}
    return None


def _enclosed(envelope: Data, limits: Limits, data: Any) -> str:
    """Status and the compressed data; of an error its code and message in full. Text, stats, context go."""
    kept: Data = {"status": envelope["status"]} if "status" in envelope else {}
    others = {key: value for key, value in envelope.items() if key not in _ENVELOPE}
    kept |= shortened_fields(RULES["other"], Call("", ""), others, limits)
    error = envelope.get("error")
    if isinstance(error, dict):
        said = cast("Data", error)
        kept["error"] = {name: said[name] for name in ("code", "message") if name in said}
    elif error:
        kept["error"] = error
    if beside := _beside(envelope):
        data = beside | (cast("Data", data) if isinstance(data, dict) else {"text": data} if data else {})
    return compact_json({**kept, "data": data} if data else kept)


def _beside(envelope: Data) -> Data:
    """Flags, totals and the time of the last change, wherever the tool put them."""
    parts = [cast("Data", x) for name in ("stats", "context") if isinstance(x := envelope.get(name), dict)]
    return {
        name: value
        for part in parts
        for name, value in part.items()
        if isinstance(value, bool | int | float) and any(word in name for word in _SURVIVES)
    }
