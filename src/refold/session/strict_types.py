"""Checks that values have exactly the types their classes declare, without copying.

It runs at every append: the classes are read once, into tables.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import isfinite
from types import NoneType
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import inspect as shape

from refold.text.lenient_json import MAX_DEPTH, is_storable_number

TypeCheck: TypeAlias = Callable[[Any], bool]
Kinds: TypeAlias = dict[type, TypeCheck | None]
"""The exact types a value may have, each with a further condition (None: no condition)."""

LONG_TEXT = 1 << 23
"""Length from which the entry of a text is measured."""


def has_strict_types(value: msgspec.Struct) -> bool:
    """True if every value has exactly the declared type and can be written as JSON."""
    return _rule(type(value))(value)


@cache
def _rule(cls: type[msgspec.Struct]) -> TypeCheck:
    """How a value of this class is checked: field by field, by what its type allows."""
    table = [kinds_of(info) for info in types_of(cls)]

    return lambda value: all(map(_fits, msgspec.structs.astuple(value), table))


def _fits(item: Any, kinds: Kinds) -> bool:
    check = kinds.get(item.__class__, _refused)
    return check is None or check(item)


@cache
def types_of(cls: type[msgspec.Struct]) -> tuple[shape.Type, ...]:
    return tuple(field.type for field in cast("shape.StructType", shape.type_info(cls)).fields)


def kinds_of(info: shape.Type) -> Kinds:
    match info:
        case shape.StrType():
            return {str: _is_sound}
        case shape.IntType():
            return {int: is_storable_number}
        case shape.FloatType():
            return {float: isfinite}
        case shape.BoolType():
            return {bool: None}
        case shape.NoneType():
            return {NoneType: None}
        case shape.LiteralType(values=values):
            return {str: frozenset(values).__contains__}
        case shape.UnionType(types=types):
            return {kind: check for each in types for kind, check in kinds_of(each).items()}
        case shape.VarTupleType(item_type=item):
            kinds = kinds_of(item)
            return {tuple: lambda items: all(_fits(each, kinds) for each in items)}
        case shape.StructType(cls=cls):
            return {cls: _rule(cls)}
        case shape.DictType():
            return {dict: _is_plain}
        case _:
            return _PLAIN


def _refused(_: object) -> bool:
    return False


def _is_sound(text: str) -> bool:
    """True if the text has no surrogates: two in a row would be read back as one character."""
    if len(text) > LONG_TEXT:
        return False
    if text.isascii():
        return True
    try:
        text.encode("utf-16-le")  # of all encodings the fastest that refuses them
    except UnicodeEncodeError:
        return False
    return True


_SMALL = 1 << 62


def _is_plain(value: Any, levels: int = MAX_DEPTH) -> bool:
    kind = value.__class__
    if kind is str:
        return (len(value) < LONG_TEXT and value.isascii()) or _is_sound(value)
    if not levels and kind in (dict, list):
        return False
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str or not _is_sound(key) or not _is_plain(item, levels - 1):
                return False
        return True
    if kind is list:
        for item in value:  # millions of small numbers: a call for each would take seconds
            if not (item.__class__ is int and _SMALL > item > -_SMALL) and not _is_plain(item, levels - 1):
                return False
        return True
    if kind is int or kind is float:
        return is_storable_number(value)
    return kind is bool or value is None


_PLAIN: Kinds = dict.fromkeys((str, dict, list, int, float, bool, NoneType), _is_plain)
