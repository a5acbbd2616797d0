"""JSON that fast libraries refuse: lone surrogates, huge integers, repeated keys, great depth, an end that is
missing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from json.encoder import encode_basestring_ascii
from operator import itemgetter
from typing import Any, cast

import msgspec

from refold.errors import FormatError, NotJson

MAX_DIGITS = 1_000_000
MAX_DEPTH = 100_000


class Pairs(dict[str, Any]):
    """A JSON object with repeated keys: a dict of the last values that remembers all of them."""

    def __init__(self, pairs: Iterable[tuple[str, Any]]) -> None:
        self.pairs = tuple(pairs)
        super().__init__(self.pairs)


# ── writing without recursion ───────────────────────────────────────────────────────────────────


class _Raw(str):
    """Text that is JSON already."""

    __slots__ = ()


_CLOSE_LIST, _CLOSE_OBJECT = _Raw("]"), _Raw("}")


def dump_hostile(value: Any, *, sort: bool = False) -> str:
    """JSON of values the fast encoder refuses: lone surrogates, huge integers, any depth, repeated keys.
    Infinities are written as numbers too large for a float, NaN as that word, so they come back."""
    out: list[str] = []
    todo: list[Any] = [value]
    depth = 0
    while todo:
        item = todo.pop()
        if type(item) is _Raw:
            depth -= item is _CLOSE_LIST or item is _CLOSE_OBJECT
            out.append(item)
        elif (text := _scalar(item)) is not None:
            out.append(text)
        else:
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError(f"nested deeper than {MAX_DEPTH}, or inside itself")
            out.append(_open(item, todo, sort))
    return "".join(out)


def _scalar(value: Any) -> str | None:
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return _digits(value)
    if isinstance(value, float):
        if value != value:
            return "NaN"
        return {float("inf"): "1e999", float("-inf"): "-1e999"}.get(value) or float.__repr__(value)
    return None


def _open(value: Any, todo: list[Any], sort: bool) -> str:
    """Put the content of a list or an object on the stack (last first); returns the opening bracket."""
    is_list = isinstance(value, list | tuple | set | frozenset)
    if is_list:
        inside = [("", item) for item in cast("Iterable[Any]", value)]
    else:
        pairs = [(_key(key), item) for key, item in _pairs(value)]
        pairs = sorted(pairs, key=itemgetter(0)) if sort else pairs
        inside = [(f"{encode_basestring_ascii(key)}:", item) for key, item in pairs]
    todo.append(_CLOSE_LIST if is_list else _CLOSE_OBJECT)
    for index in range(len(inside) - 1, -1, -1):
        name, item = inside[index]
        todo += (item, _Raw(f",{name}" if index else name))
    return "[" if is_list else "{"


def _key(key: Any) -> str:
    return key if isinstance(key, str) else (_scalar(key) or str(key))


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, Pairs):
        return value.pairs
    if isinstance(value, Mapping):
        return cast("Mapping[Any, Any]", value).items()
    if isinstance(value, msgspec.Struct):
        return _fields(value)
    plain: Any = msgspec.to_builtins(value)
    if isinstance(plain, dict):
        return cast("dict[Any, Any]", plain).items()
    raise TypeError(f"a {type(value).__name__} cannot be stored as JSON")


def _fields(value: msgspec.Struct) -> Iterable[tuple[str, Any]]:
    config = value.__struct_config__
    if config.tag is not None and config.tag_field is not None:
        yield config.tag_field, config.tag
    for field in _layout(type(value)):
        item: Any = getattr(value, field.name)
        if config.omit_defaults and _is_default(item, field):
            continue
        yield field.encode_name, item


_layout = cache(msgspec.structs.fields)


def _is_default(item: Any, field: msgspec.structs.FieldInfo) -> bool:
    if field.default is not msgspec.NODEFAULT:
        return type(item) is type(field.default) and bool(item == field.default)
    return field.default_factory is not msgspec.NODEFAULT and not item


# ── reading without recursion ───────────────────────────────────────────────────────────────────

_SPACE = re.compile(r"[ \t\n\r]*")


def load_hostile(text: bytes | str) -> Any:
    """Any JSON value: repeated keys become `Pairs`, integers are exact, depth does not matter."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise NotJson(f"not UTF-8 at byte {error.start}") from error
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer)
    except RecursionError:
        return _parse(text)
    except ValueError as error:
        raise NotJson(f"not JSON: {str(error)[:200]}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Pairs(pairs)


def _parse(text: str) -> Any:
    """A JSON parser with a stack of its own: `stack` holds the open lists and objects, `keys` the key that
    waits for its value in each (None: a list)."""
    stack: list[list[Any]] = []
    keys: list[str | None] = []
    at = _skip(text, 0)
    try:
        while True:
            opener = text[at]
            if opener in "[{":
                at = _skip(text, at + 1)
                if text[at] != "]}"[opener == "{"]:
                    stack.append([])
                    key, at = _name(text, at) if opener == "{" else (None, at)
                    keys.append(key)
                    continue
                value: Any = {} if opener == "{" else []
                at += 1
            else:
                value, at = _DECODER.raw_decode(text, at)
            at = _skip(text, at)
            while stack:
                key = keys[-1]
                stack[-1].append(value if key is None else (key, value))
                mark, at = text[at], _skip(text, at + 1)
                if mark == ",":
                    if key is not None:
                        keys[-1], at = _name(text, at)
                    break
                if mark != ("]" if key is None else "}"):
                    raise NotJson(f"not JSON: {mark!r} at character {at}")
                items, _ = stack.pop(), keys.pop()
                value = items if key is None else _object(items)
            else:
                if at != len(text):
                    raise NotJson(f"not JSON: more text after the value, at character {at}")
                return value
    except (IndexError, ValueError) as error:
        raise NotJson(f"not JSON: {str(error)[:200]}") from error


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _name(text: str, at: int) -> tuple[str, int]:
    if text[at] != '"':
        raise NotJson(f"not JSON: a key was expected at character {at}")
    key, at = _DECODER.raw_decode(text, at)
    at = _skip(text, at)
    if text[at] != ":":
        raise NotJson(f"not JSON: a colon was expected at character {at}")
    return key, _skip(text, at + 1)


# ── integers beyond the interpreter's limit of digits ───────────────────────────────────────────

_CHUNK = 4000


def _integer(text: str) -> int:
    if len(text) <= _CHUNK:
        return int(text)
    if len(text) > MAX_DIGITS:
        raise FormatError(f"a number of {len(text)} digits: more than {MAX_DIGITS} are not supported")
    if text[0] == "-":
        return -_integer(text[1:])
    half = len(text) // 2
    return _integer(text[:-half]) * 10**half + _integer(text[-half:])


_DECODER = json.JSONDecoder(parse_int=_integer)
"""Reads what is neither a list nor an object."""


def _digits(value: int) -> str:
    value = int(value)
    if value.bit_length() < 13_000:  # about 3 900 digits
        return int.__repr__(value)
    if value < 0:
        return "-" + _digits(-value)
    # Split at a power of ten near the middle; the lower half keeps its leading zeros.
    half = int(value.bit_length() * 0.30103) // 2
    high, low = divmod(value, 10**half)
    return _digits(high) + _digits(low).rjust(half, "0")


# ── text that breaks off ────────────────────────────────────────────────────────────────────────

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{},:]', re.DOTALL)
_DEEPEST = 200
_CLOSERS = {"{": "}", "[": "]"}


def partial_json(text: str) -> Any:
    """The JSON value at the start of `text`, as far as it goes. `ValueError` where there is none."""
    text = text.lstrip()
    if text[:1] not in _CLOSERS:
        raise ValueError("not a JSON object or list")
    cut, closers = _last_safe(text)
    try:
        return json.loads(text[:cut] + closers)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _last_safe(text: str) -> tuple[int, str]:
    """Where the text may be cut, and what closes it there: before the last comma, or after the last closer
    or opener, whichever comes last."""
    stack: list[str] = []
    cut, closers = 0, ""
    for token in _TOKEN.finditer(text):
        mark = token.group()
        if mark in _CLOSERS:
            stack.append(_CLOSERS[mark])
            if len(stack) > _DEEPEST:
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
