"""Tool results made small by rule (E4): one file per kind of tool, by name with the aliases of all agents.

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
from refold.shrink import bash, edit, glob, grep, ls, other, read, todo, write
from refold.shrink.base import LISTS, TOTALS, AnyRule, Data, Limits, Rule, flags, shortened

__all__ = ["RULES", "AnyRule", "Limits", "Rule", "Shrinking", "kind_of", "shrink"]

RULES: Mapping[Kind, Rule] = {
    "ls": ls, "glob": glob, "grep": grep, "read": read, "edit": edit, "patch": edit, "write": write,
    "create": write, "bash": bash, "todo": todo, "delete": other, "move": other,
    "editor": other, "other": other,
}  # fmt: skip
_ENVELOPE = frozenset({"status", "data", "text", "stats", "context", "error"})
_LISTING = frozenset({"ls", "glob", "grep"})
_LARGEST = 20_000_000


def shrink(
    call: Call, result: Result, limits: Limits | None = None, rules: Mapping[Kind, AnyRule] | None = None
) -> Result | None:
    """The result as the rule for this tool keeps it; None where that would not be shorter. `rules` replaces
    the rules of some kinds; where one of them fails, or is not done at once, ours stands in."""
    return Shrinking(call, result, limits or Limits(), (rules or {}).get(kind_of(call))).at_once()


@dataclass(frozen=True)
class Shrinking:
    """One result on its way to be made smaller, by a rule of one's own (`own`) or by ours."""

    call: Call
    result: Result
    limits: Limits = Limits()
    own: AnyRule | None = None

    @property
    def waits(self) -> bool:
        """Has somebody to wait for the rule?"""
        own = self.own
        parts = (own.data, own.plain) if isinstance(own, Rule) else (own,)
        return any(iscoroutinefunction(x) or iscoroutinefunction(type(x).__call__) for x in parts)

    def at_once(self) -> Result | None:
        """The shorter result; None: there is none. A rule that has to be waited for is not asked."""
        if self.own is None or self.waits:
            return self._by_ours()
        ask, put = self._asked(self.own)
        try:
            return self._shorter(put(ask()))
        except Exception:  # whatever an application's own code does wrong
            return self.instead()

    async def awaited(self) -> Result | None:
        """The same for a rule that has to be waited for; raises what it raises."""
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
        envelope = _envelope(text, lists=kind_of(call) in _LISTING)
        if envelope is None:
            failed = self.result.is_error and kind_of(call) != "bash"
            # What went wrong is said in full, within the limit for everything else.
            return partial((other if failed else rule).plain, call, text, limits), _text
        return _question(call, envelope, rule, limits), partial(_enclosed, envelope, limits)

    def _shorter(self, small: str) -> Result | None:
        if len(small) >= len(self.result.text):
            return None
        others = tuple(part for part in self.result.content if not isinstance(part, Text))
        return msgspec.structs.replace(self.result, content=(Text(small), *others))


def _text(answer: Any) -> str:
    if not isinstance(answer, str):
        if iscoroutine(answer):
            answer.close()  # of a function that is none of `async def`: nobody knew that it has to be awaited
        raise TypeError(f"a rule gave {type(answer).__name__}, no text")
    return answer


def kind_of(call: Call) -> Kind:
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


def _enclosed(envelope: Data, limits: Limits, data: Any) -> str:
    """Status and the compressed data; of an error its code and message in full. Text, stats, context go."""
    kept: Data = {"status": envelope["status"]} if "status" in envelope else {}
    kept |= {key: shortened(value, limits) for key, value in envelope.items() if key not in _ENVELOPE}
    error = envelope.get("error")
    if isinstance(error, dict):
        fields = cast("Data", error)
        kept["error"] = {name: fields[name] for name in ("code", "message") if name in fields}
    elif error:
        kept["error"] = error
    survivors = _survivors(envelope)
    if survivors:
        data = {
            **survivors,
            **(cast("Data", data) if isinstance(data, dict) else {"text": data} if data else {}),
        }
    return compact_json({**kept, "data": data} if data else kept)


def _question(call: Call, envelope: Data, rule: Rule, limits: Limits) -> Callable[[], Any]:
    """The data for the rule. A text, or a list of them, is read as the tool would have printed it."""
    data = envelope.get("data")
    if isinstance(data, list):
        rows = cast("list[Any]", data)
        texts = [row for row in rows if isinstance(row, str)]
        if len(texts) == len(rows):
            data = "\n".join(texts)
        elif kind_of(call) in _LISTING:
            data = dict.fromkeys(LISTS, rows)
        else:
            return partial(other.data, call, {"data": rows}, limits)
    if isinstance(data, dict) and data:
        return partial(rule.data, call, {**_totals(envelope), **cast("Data", data)}, limits)
    if isinstance(data, str):
        return partial(rule.plain, call, data, limits)
    return lambda: cast("Any", data)


def _totals(envelope: Data) -> Data:
    """What the tool counted, where it says so beside the data."""
    parts = _beside(envelope)
    return {name: part[name] for part in parts for name in TOTALS if isinstance(part.get(name), int)}


def _survivors(envelope: Data) -> Data:
    """Flags and the modification time, wherever the tool put them."""
    found: Data = {}
    for part in _beside(envelope):
        found |= flags(part)
        found |= {name: part[name] for name in ("mtime", "file_mtime", "file_mtime_ms") if name in part}
    return found


def _beside(envelope: Data) -> list[Data]:
    return [cast("Data", x) for name in ("stats", "context") if isinstance(x := envelope.get(name), dict)]
