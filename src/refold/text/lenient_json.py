"""JSON: which values can be stored, and reading what the fast library rejects (lone surrogates, numbers and
depth in files of 0.1.0, truncated text).

A value can be stored if every JSON library can read it: finite numbers, integers of at most `MAX_DIGITS`
digits, at most `MAX_DEPTH` levels of lists and objects. Files of 0.1.0 may exceed this: values that are too
long or too deep are read as their JSON text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, TypeAlias, cast

import msgspec

from refold.errors import InvalidValue, NotJson

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object as Python reads it."""
MAX_DIGITS = 4_300
"""Most digits of an integer: Python's default limit for conversion to and from text."""
MAX_DEPTH = 200
"""Most levels of lists and objects in a value."""
LINE_DEPTH = MAX_DEPTH + 20
"""Most levels in a line: an entry adds some around its values."""
_LIMIT = 10**MAX_DIGITS
_SMALL = 1 << 62


def is_storable_number(number: float) -> bool:
    return -_LIMIT < number < _LIMIT if isinstance(number, int) else isfinite(number)


def invalid(value: Any, levels: int = MAX_DEPTH) -> str:
    """Why a JSON value cannot be stored; empty if it can."""
    if isinstance(value, int | float | None):
        if value is None or is_storable_number(value):
            return ""
        if isinstance(value, float):
            return f"{value} is not a JSON number"
        return f"an integer of more than {MAX_DIGITS:,} digits"
    if isinstance(value, Mapping | list | tuple):
        if not levels:
            return f"nested more than {MAX_DEPTH} levels deep"
        given: Any = cast("Any", value)
        for item in given.values() if isinstance(value, Mapping) else given:
            if isinstance(item, str) or (item.__class__ is int and _SMALL > item > -_SMALL):
                continue
            if why := invalid(item, levels - 1):
                return why
    return ""


def storable(value: Any, levels: int = MAX_DEPTH) -> Any:
    """A copy of a JSON value in which anything that cannot be stored is text."""
    if isinstance(value, Mapping) and levels:
        fields = cast("Mapping[str, Any]", value).items()
        return {key: storable(item, levels - 1) for key, item in fields}
    if isinstance(value, list | tuple) and levels:
        return [storable(item, levels - 1) for item in cast("Iterable[Any]", value)]
    return dump_json(value) if invalid(value, levels) else cast("Any", value)


def dump_json(value: Any, *, sort: bool = False) -> str:
    """JSON in ASCII, without spaces; `InvalidValue` if impossible. NaN and infinities, as in files of 0.1.0,
    are written as Python's reader expects them."""
    try:
        return json.dumps(value, separators=(",", ":"), sort_keys=sort, default=msgspec.to_builtins)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidValue(f"not a JSON value: {str(error)[:200]}") from error


def load_json(text: bytes | str) -> Any:
    """The value of a JSON text; `NotJson` if it is not JSON. Integers that are too long and values nested too
    deeply become text."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise NotJson(f"not UTF-8 at byte {error.start}") from error
    try:
        return json.loads(_flattened(text) if may_be_deep(text) else text, parse_int=_integer)
    except ValueError as error:
        raise NotJson(f"not JSON: {str(error)[:200]}") from error


def may_be_deep(text: bytes | str) -> bool:
    """Whether a line has enough brackets to be nested too deeply; most have fewer."""
    if isinstance(text, bytes):
        return text.count(b"[") + text.count(b"{") > LINE_DEPTH
    return text.count("[") + text.count("{") > LINE_DEPTH


def _flattened(text: str) -> str:
    """The JSON text with values nested too deeply turned into JSON strings."""
    pieces: list[str] = []
    start = depth = 0
    for token in _TOKEN.finditer(text):
        mark = token.group()
        if mark in _CLOSERS:
            depth += 1
            if depth == LINE_DEPTH + 1:
                pieces.append(text[start : token.start()])
                start = token.start()
        elif mark in ("}", "]"):
            if depth == LINE_DEPTH + 1:
                pieces.append(json.dumps(text[start : token.end()]))
                start = token.end()
            depth -= 1
    rest = text[start:]
    return "".join((*pieces, json.dumps(rest) if depth > LINE_DEPTH else rest))


def _integer(text: str) -> int | str:
    return int(text) if len(text) <= MAX_DIGITS else text


# ── text that breaks off ────────────────────────────────────────────────────────────────────────

_TOKEN = re.compile(r'"(?>(?:[^"\\]|\\.)*)"?|[\[\]{},:]', re.DOTALL)
_CLOSERS = {"{": "}", "[": "]"}


def partial_json(text: str) -> Any:
    """The JSON value at the start of a truncated `text`. `ValueError` if there is none."""
    text = text.lstrip()
    if text[:1] not in _CLOSERS:
        raise ValueError("not a JSON object or list")
    cut, closers = _last_safe(text)
    try:
        return json.loads(text[:cut] + closers)
    except RecursionError as error:  # of a caller whose stack is nearly full
        raise ValueError("nested too deeply") from error


def _last_safe(text: str) -> tuple[int, str]:
    """Where to cut the text, and what closes it there: before the last comma, or after the last bracket,
    whichever is later."""
    stack: list[str] = []
    cut, closers = 0, ""
    for token in _TOKEN.finditer(text):
        mark = token.group()
        if mark in _CLOSERS:
            stack.append(_CLOSERS[mark])
            if len(stack) > MAX_DEPTH:
                raise ValueError("nested too deeply")
            cut, closers = token.end(), "".join(reversed(stack))
        elif mark in ("}", "]"):
            if not stack or stack.pop() != mark:
                raise ValueError("brackets do not match")
            cut, closers = token.end(), "".join(reversed(stack))
            if not stack:
                break
        elif mark == ",":
            cut, closers = token.start(), "".join(reversed(stack))
    return cut, closers
