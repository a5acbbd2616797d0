"""The door of the log: nothing comes in that would not be read back as the same value.

Python checks no types, and a provider, a tool or a framework hands over what it likes. Values of exactly
the declared types pass (a walk, no copy). What means the same in another type is turned into it: UTF-8
bytes, numbers as ids, numerals as counts, enums, lists for tuples. The rest is refused, in a sentence.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from math import isfinite
from types import NoneType
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast
from uuid import UUID

import msgspec
from msgspec import inspect as shape

from refold import format as fmt
from refold.entries import Entry, MessageEntry, Unknown
from refold.errors import FormatError, UsageError, WrongType
from refold.messages import Assistant, Call, Result, Text, User, not_finite
from refold.text.lenient_json import MAX_DIGITS, Pairs, dump_hostile, load_hostile

S = TypeVar("S", bound=msgspec.Struct)
Check: TypeAlias = Callable[[Any], bool]
Kinds: TypeAlias = dict[type, Check | None]
"""The exact types a value may have, each with what else has to hold (None: nothing)."""

LONG = 1 << 23
"""Texts from this length on have their entry measured."""
_BITS = MAX_DIGITS * 3


def admitted(value: S) -> S:
    """The value, of exactly the types its class declares; `WrongType` (a `UsageError`) if it cannot be."""
    if not isinstance(cast("object", value), msgspec.Struct):
        raise _wrong("this", value, "pass an entry (refold.entries)")
    if is_exact(value):
        if type(value) is Unknown:
            _prove(value)
        return value
    cls = type(value)
    fixed = cast("S", _struct(value, cls, cls.__name__))
    if isinstance(fixed, Entry):
        _prove(fixed)
    return fixed


def is_exact(value: msgspec.Struct) -> bool:
    """Whether every value inside has exactly the declared type, and JSON can say it."""
    try:
        return (type(value) is MessageEntry and _is_common(value)) or _rule(type(value))(value)
    except RecursionError:
        return False


def _is_common(entry: MessageEntry) -> bool:
    """Nearly every append, spelt out, because it is many times faster than the tables below: a message of
    texts and calls with nothing unusual about it. They decide on everything else."""
    parent, message = entry.parent, entry.message
    if type(entry.id) is not str or type(entry.time) is not float or entry.usage or entry.model or entry.meta:
        return False
    if not ((parent is None or (type(parent) is str and parent.isascii())) and entry.id.isascii()):
        return False
    kind = type(message)
    if kind is Assistant:
        if message.error is not None or message.stop not in _COMMON_STOPS:
            return False
    elif kind is Result:
        if type(message.call_id) is not str or not message.call_id.isascii() or message.name is not None:
            return False
        if type(message.is_error) is not bool:
            return False
    elif kind is not User:
        return False
    return type(message.content) is tuple and all(map(_is_common_part, message.content))


_COMMON_STOPS = ("end", "tool_use", None)


def _is_common_part(part: Any) -> bool:
    if type(part) is Text:
        text = part.text
        return part.origin is None and type(text) is str and text.isascii() and len(text) < LONG
    if type(part) is Call:
        id, name = part.id, part.name
        if type(id) is not str or type(name) is not str or part.raw is not None:
            return False
        return id.isascii() and name.isascii() and type(part.arguments) is dict and _is_plain(part.arguments)
    return False


def _prove(entry: Any) -> None:
    """By doing it. Only for values that were not exact: the walk knows of the others."""
    try:
        line = fmt.encode(entry)
        again = fmt.decode(line)
        same = type(again) is type(entry) and again.id == entry.id and fmt.encode(again) == line
    except (FormatError, TypeError, ValueError) as error:
        raise WrongType(f"entry {entry.id!r} holds a value that cannot be stored: {error}") from error
    if not same:
        raise WrongType(f"entry {entry.id!r} would be read back as something else: use plain JSON values")
    fmt.check_size(entry.id, len(line))


# ── the walk ────────────────────────────────────────────────────────────────────────────────────


@cache
def _rule(cls: type[msgspec.Struct]) -> Check:
    """How a value of this class is checked. Which types its fields have is one look into a table of those
    that were met before; what is left to check then is its texts, and what holds other values."""
    table = [_kinds(info) for info in _types(cls)]
    met: dict[tuple[type, ...], _Left | None] = {}

    def holds(value: Any) -> bool:
        items = msgspec.structs.astuple(value)
        kinds = tuple(map(type, items))
        if kinds not in met:
            met[kinds] = _left(kinds, table)
        left = met[kinds]
        if left is None:
            return False
        texts = [items[index] for index in left.texts]
        if texts and not (all(map(str.isascii, texts)) and max(map(len, texts)) < LONG):
            return all(map(_is_sound, texts)) and left.holds(items)
        return left.holds(items)

    return holds


class _Left(NamedTuple):
    """What the types alone do not say of a value's fields, by their index."""

    texts: tuple[int, ...]
    others: tuple[tuple[int, Check], ...]

    def holds(self, items: tuple[Any, ...]) -> bool:
        return all(check(items[index]) for index, check in self.others)


def _left(kinds: tuple[type, ...], table: list[Kinds]) -> _Left | None:
    checks = [allowed.get(kind, _refused) for kind, allowed in zip(kinds, table, strict=True)]
    if _refused in checks:
        return None
    return _Left(
        tuple(index for index, check in enumerate(checks) if check is _is_sound),
        tuple((n, check) for n, check in enumerate(checks) if check is not None and check is not _is_sound),
    )


@cache
def _types(cls: type[msgspec.Struct]) -> tuple[shape.Type, ...]:
    return tuple(field.type for field in cast("shape.StructType", shape.type_info(cls)).fields)


def _kinds(info: shape.Type) -> Kinds:
    match info:
        case shape.StrType():
            return {str: _is_sound}
        case shape.IntType():
            return {int: _is_writable}
        case shape.FloatType():
            return {float: isfinite}
        case shape.BoolType():
            return {bool: None}
        case shape.NoneType():
            return {NoneType: None}
        case shape.LiteralType(values=values):
            return {str: frozenset(values).__contains__}
        case shape.UnionType(types=types):
            return {kind: check for each in types for kind, check in _kinds(each).items()}
        case shape.VarTupleType(item_type=item):
            return {tuple: _each(_kinds(item))}
        case shape.StructType(cls=cls):
            return {cls: _rule(cls)}
        case shape.DictType():
            return {dict: _is_plain, Pairs: _is_plain}
        case _:
            return _PLAIN


def _each(kinds: Kinds) -> Check:
    def holds(items: tuple[Any, ...]) -> bool:
        for item in items:
            check = kinds.get(type(item), _refused)
            if check is not None and not check(item):
                return False
        return True

    return holds


def _refused(_: object) -> bool:
    return False


def _is_sound(text: str) -> bool:
    """No surrogates: two of them in a row would be read back as the character they make."""
    if len(text) > LONG:
        return False
    if text.isascii():
        return True
    try:
        text.encode("utf-16-le")  # of all encodings the fastest that refuses them
    except UnicodeEncodeError:
        return False
    return True


def _is_writable(number: int) -> bool:
    return number.bit_length() < _BITS


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is str:
        return (len(value) < LONG and value.isascii()) or _is_sound(value)
    if kind is dict or kind is Pairs:
        for key, item in value.items():
            if type(key) is not str or not _is_sound(key) or not _is_plain(item):
                return False
        return True
    if kind is list:
        return all(map(_is_plain, value))
    if kind is int:
        return _is_writable(value)
    return isfinite(value) if kind is float else kind is bool or value is None


_PLAIN: Kinds = dict.fromkeys((str, dict, Pairs, list, int, float, bool, NoneType), _is_plain)


# ── what is not exact ───────────────────────────────────────────────────────────────────────────


def _struct(value: Any, cls: type[msgspec.Struct], where: str) -> Any:
    if isinstance(value, Mapping):
        try:
            return msgspec.convert(dict(cast("Mapping[Any, Any]", value)), cls)
        except (msgspec.ValidationError, TypeError) as error:
            raise WrongType(f"{where} is a dict that is no {cls.__name__}: {error}") from error
    if type(value) is not cls:
        raise _wrong(where, value, f"make it a {cls.__name__}")
    fields = msgspec.structs.fields(cls)
    new: dict[str, Any] = {}
    if isinstance(value, MessageEntry) and isinstance(value.message, Assistant):
        value = _with_stop_word(value)
    for field, info in zip(fields, _types(cls), strict=True):
        item = getattr(value, field.name)
        if cls is Assistant and field.name == "stop":
            item = item if item is None or _is_known_stop(item) else "other"
        new[field.name] = _coerced(info, item, f"{where}.{field.name}")
    made = cls(**new)
    if isinstance(made, Call) and made.raw is None and not_finite(made.arguments):
        # NaN is not JSON, so these arguments are what `raw` is for; every wire knows how to send it.
        return Call(made.id, made.name, raw=dump_hostile(made.arguments))
    return made


def _is_known_stop(word: Any) -> bool:
    checks = _kinds(_types(Assistant)[1])
    return isinstance(word, str) and cast("Check", checks[str])(str.__str__(word))


def _with_stop_word(entry: MessageEntry) -> MessageEntry:
    """A reason to stop that no list knows becomes `other`; what the provider said is kept in `meta`."""
    word = cast("Assistant", entry.message).stop
    if word is None or _is_known_stop(word):
        return entry
    return msgspec.structs.replace(entry, meta={**entry.meta, "stop": _json(word, "stop")})


def _coerced(info: shape.Type, value: Any, where: str) -> Any:
    if isinstance(value, Enum) and not isinstance(info, shape.AnyType):
        value = value.value
    match info:
        case shape.StrType():
            return _text(value, where)
        case shape.LiteralType(values=values):
            return _word(value, values, where)
        case shape.IntType():
            return _number(value, where)
        case shape.FloatType():
            return _real(value, where)
        case shape.BoolType():
            if value in (0, 1):
                return bool(value)
            raise _wrong(where, value, "pass True or False")
        case shape.UnionType(types=types):
            return _one_of(types, value, where)
        case shape.VarTupleType(item_type=item):
            return _tuple(item, value, where)
        case shape.StructType(cls=cls):
            return _struct(value, cls, where)
        case shape.DictType():
            if isinstance(value, Mapping):
                return _json(value, where)
            raise _wrong(where, value, "pass a dict")
        case shape.NoneType():
            raise _wrong(where, value, "leave it out")
        case _:
            return _json(value, where)


def _text(value: Any, where: str) -> str:
    if isinstance(value, str):
        text = str.__str__(value)
        if not text.isascii():
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return text
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            raise WrongType(
                f"{where} is bytes that are no UTF-8: decode them, or describe what they are"
            ) from None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, os.PathLike):
        return _text(os.fspath(cast("os.PathLike[str]", value)), where)
    raise _wrong(where, value, "pass a text")


def _word(value: Any, values: tuple[Any, ...], where: str) -> str:
    word = _text(value, where)
    if word not in values:
        raise WrongType(f"{where} is {word[:40]!r}: it is one of {', '.join(map(str, values))}")
    return word


def _number(value: Any, where: str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise _wrong(where, value, "pass a whole number") from None
    if isinstance(value, float) and number != value:
        raise WrongType(f"{where} is {value!r}: pass a whole number")
    return number


def _real(value: Any, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise _wrong(where, value, "pass a number") from None
    if not isfinite(number):
        raise WrongType(f"{where} is {number}: pass a finite number")
    return number


def _one_of(types: tuple[shape.Type, ...], value: Any, where: str) -> Any:
    if value is None and any(isinstance(each, shape.NoneType) for each in types):
        return None
    structs = {cast("type", each.cls): each for each in types if isinstance(each, shape.StructType)}
    if type(value) in structs:
        return _coerced(structs[type(value)], value, where)
    if Text in structs and not isinstance(value, Mapping):
        return Text(_text(value, where))
    if structs and isinstance(value, Mapping):
        try:
            return msgspec.convert(
                dict(cast("Mapping[Any, Any]", value)), cast("Any", _union(tuple(structs)))
            )
        except (msgspec.ValidationError, TypeError) as error:
            raise WrongType(f"{where} is a dict that is nothing of ours: {error}") from error
    rest = [each for each in types if not isinstance(each, shape.NoneType | shape.StructType)]
    if rest:
        return _coerced(rest[0], value, where)
    raise _wrong(where, value, f"make it a {' or a '.join(cls.__name__ for cls in structs)}")


@cache
def _union(classes: tuple[Any, ...]) -> Any:
    union = classes[0]
    for cls in classes[1:]:
        union = union | cls
    return union


def _tuple(item: shape.Type, value: Any, where: str) -> tuple[Any, ...]:
    if isinstance(value, str | bytes | bytearray | memoryview):
        value = (value,) if value else ()
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise _wrong(where, value, "pass a list")
    items = cast("Iterable[Any]", value)
    return tuple(_coerced(item, each, f"{where}[{index}]") for index, each in enumerate(items))


def _json(value: Any, where: str) -> Any:
    """A JSON value of plain types. Not-a-number and the infinities stay: the format has words for them."""
    try:
        return _plain(value, where)
    except RecursionError:
        pass
    try:  # deeper than the stack, or inside itself
        return load_hostile(dump_hostile(value))
    except (TypeError, ValueError, FormatError) as error:
        raise WrongType(f"{where} cannot be stored: {error}") from error


def _plain(value: Any, where: str) -> Any:
    if value is None or type(value) in (bool, float):
        return value
    if isinstance(value, Enum):
        return _plain(value.value, where)
    if isinstance(value, str | bytes | bytearray | memoryview):
        return _text(value, where)
    if isinstance(value, int | float):
        return float(value) if isinstance(value, float) else _small(int(value), where)
    if isinstance(value, Mapping):
        pairs = value.pairs if isinstance(value, Pairs) else cast("Mapping[Any, Any]", value).items()
        found = [(_key(key, where), _plain(item, f"{where}[{key!r}]"[:200])) for key, item in pairs]
        return Pairs(found) if isinstance(value, Pairs) else dict(found)
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, where) for item in cast("Iterable[Any]", value)]
    try:
        return _plain_again(msgspec.to_builtins(value), value, where)
    except (TypeError, ValueError):
        raise _wrong(where, value, "use plain JSON values") from None


def _plain_again(made: Any, value: Any, where: str) -> Any:
    if type(made) is type(value):
        raise TypeError
    return _plain(made, where)


def _small(number: int, where: str) -> int:
    if not _is_writable(number):
        raise WrongType(f"{where} is a number of more than {MAX_DIGITS} digits: store it as text")
    return number


def _key(key: Any, where: str) -> str:
    if isinstance(key, bool | float) or key is None:
        return dump_hostile(key)
    return _text(key.value if isinstance(key, Enum) else key, f"a key of {where}")


def _wrong(where: str, value: Any, advice: str) -> UsageError:
    return WrongType(f"{where} is a {type(value).__name__}: {advice}")
