"""The difference between a JSON value and what refold would write, kept with an imported entry, so that
exporting restores the source.

A patch is itself JSON: `=` sets keys, `-` drops keys, `/` goes into members (list positions as text).
"""

from __future__ import annotations

from typing import Any, cast

Patch = dict[str, Any]
_MISSING = object()


def json_difference(ours: Any, source: Any) -> Patch:
    """The patch that turns `ours` into `source`; empty if they are equal. Both are objects, or lists of the
    same length. A number and true differ, although Python considers them equal."""
    mine, theirs = _members(ours), _members(source)
    sets: Patch = {}
    inner: Patch = {}
    for key, value in theirs.items():
        other = mine.get(key, _MISSING)
        if other is value or (other == value and type(other) is type(value)):
            continue
        if _nests(other, value):
            inner[key] = json_difference(other, value)
        else:
            sets[key] = value
    drops = [key for key in mine if key not in theirs]
    if not (sets or drops or inner):
        return {}
    return {mark: value for mark, value in (("=", sets), ("-", drops), ("/", inner)) if value}


def apply_difference(ours: Any, patch: Patch) -> Any:
    """A copy of `ours` with the patch applied; members that the patch does not fit are unchanged."""
    if not patch:
        return ours
    made: Any
    if isinstance(ours, list):
        made = list(cast("list[Any]", ours))
        steps = [(int(key), key) for key in (*patch.get("=", ()), *patch.get("/", ())) if key.isdigit()]
        steps = [(at, key) for at, key in steps if at < len(made)]
    else:
        dropped = patch.get("-", ())
        made = {key: value for key, value in cast("Patch", ours).items() if key not in dropped}
        steps = [(key, key) for key in (*patch.get("=", ()), *(k for k in patch.get("/", ()) if k in made))]
    for at, key in steps:
        if key in patch.get("=", ()):
            made[at] = patch["="][key]
        elif isinstance(made[at], dict | list):
            made[at] = apply_difference(made[at], patch["/"][key])
    return made


def _members(value: Any) -> Patch:
    if type(value) is list:
        return {str(at): member for at, member in enumerate(cast("list[Any]", value))}
    return cast("Patch", value)


def _nests(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(cast("list[Any]", a)) == len(cast("list[Any]", b))
    return isinstance(a, dict) and isinstance(b, dict)
