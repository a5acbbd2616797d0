"""Tool results made small by rule (E4), by kind of tool, with the names that all agents give it.

    small = shrink(call, result)          # None: nothing is gained, keep the result as it is

The full result stays in the log; what this returns replaces it in the view only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable, iscoroutine, iscoroutinefunction
from typing import Any, cast

import msgspec

from refold.messages import Call, Result, Text, compact_json
from refold.session.toolnames import Kind, kind
from refold.session.toolstatus import decoded
from refold.shrink.rules import RULES, AnyRule, Data, Limits, Rule, printed

__all__ = ["RULES", "AnyRule", "Data", "Limits", "Rule", "Shrinking", "kind_of", "shrink"]

_ENVELOPE = frozenset({"status", "data", "text", "stats", "context", "error"})
_LISTING = frozenset({"ls", "glob", "grep"})
_LARGEST = 20_000_000
_SURVIVES = ("mtime", "total", "truncated", "applied", "fallback", "dry_run", "cancelled", "timed_out")
"""What fields of `stats` and `context` have in their names that are kept."""


def shrink(
    call: Call, result: Result, limits: Limits | None = None, rules: Mapping[Kind, AnyRule] | None = None
) -> Result | None:
    """The result as the rule for this tool keeps it; None where that would not be shorter. `rules` replaces
    the rules of some kinds; where one of them fails, or is not done at once, ours stands in."""
    return Shrinking(call, result, limits or Limits(), (rules or {}).get(kind_of(call))).at_once()


@dataclass(frozen=True)
class Shrinking:
    """One result on its way to be made smaller, by an application's rule (`own`) or by ours."""

    call: Call
    result: Result
    limits: Limits = Limits()
    own: AnyRule | None = None

    @property
    def waits(self) -> bool:
        """Whether the rule has to be awaited."""
        own = self.own
        parts = (own.data, own.plain) if isinstance(own, Rule) else (own,)
        return any(iscoroutinefunction(x) or iscoroutinefunction(type(x).__call__) for x in parts)

    def at_once(self) -> Result | None:
        """The shorter result; None: there is none. A rule that has to be awaited is not asked."""
        if self.own is None or self.waits:
            return self._by_ours()
        ask, put = self._asked(self.own)
        try:
            return self._shorter(put(ask()))
        except Exception:  # whatever an application's own code does wrong
            return self.instead()

    async def awaited(self) -> Result | None:
        """The same for a rule that has to be awaited; raises what it raises."""
        ask, put = self._asked(self.own or RULES[kind_of(self.call)])
        answer = ask()  # of an object with two methods one may be quick
        return self._shorter(put(await answer if isawaitable(answer) else answer))

    def instead(self, error: BaseException | None = None) -> Result | None:
        """What our rule keeps, where another one failed."""
        logging.getLogger(__name__).error(
            "the rule for %s failed, ours stands in", self.call.name or "a tool", exc_info=error or True
        )
        return self._by_ours()

    def _by_ours(self) -> Result | None:
        ask, put = self._asked(RULES[kind_of(self.call)])
        return self._shorter(put(ask()))

    def _asked(self, rule: AnyRule) -> tuple[Callable[[], Any], Callable[[Any], str]]:
        """What the rule is asked, and how its answer becomes the text of a result."""
        call, limits, text = self.call, self.limits, self.result.text
        if not isinstance(rule, Rule):
            return partial(rule, call, text, limits), _text
        value = decoded(text, _LARGEST)
        envelope = _envelope(value)
        if envelope is None:
            if isinstance(value, list) and kind_of(call) in _LISTING:
                text = printed(value, {})
            failed = self.result.is_error and kind_of(call) != "bash"
            # What went wrong is said in full, within the limit for everything else.
            return partial((RULES["other"] if failed else rule).plain, call, text, limits), _text
        data = envelope.get("data")
        if isinstance(data, dict) and data:
            answer = partial(rule.data, call, _beside(envelope) | cast("Data", data), limits)
        elif data:
            answer = partial(rule.plain, call, printed(data, _beside(envelope)), limits)
        else:
            answer = _nothing
        return answer, partial(_enclosed, envelope, limits)

    def _shorter(self, small: str) -> Result | None:
        if len(small) >= len(self.result.text):
            return None
        others = tuple(part for part in self.result.content if not isinstance(part, Text))
        return msgspec.structs.replace(self.result, content=(Text(small), *others))


def _nothing() -> None:
    return None


def _text(answer: Any) -> str:
    if not isinstance(answer, str):
        if iscoroutine(answer):
            answer.close()  # of a function that is not declared `async`
        raise TypeError(f"a rule gave {type(answer).__name__}, no text")
    return answer


def kind_of(call: Call) -> Kind:
    """An editor that does everything is known by its command."""
    found = kind(call.name)
    if found != "editor":
        return found
    commands: dict[Any, Kind] = {
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
    kept |= cast("Data", RULES["other"].data(Call("", ""), others, limits))
    error = envelope.get("error")
    if isinstance(error, dict):
        fields = cast("Data", error)
        kept["error"] = {name: fields[name] for name in ("code", "message") if name in fields}
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
