"""Validation of what enters the log: everything is read back as the same value.

Values of exactly the declared types pass. Equivalent values are converted: UTF-8 bytes, numbers as ids,
numerals as counts, enums, lists for tuples. Anything else is a `WrongType`, and a value that JSON cannot hold
an `InvalidValue`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import Enum
from types import NoneType
from typing import Any, TypeVar, cast, get_args

import msgspec
from msgspec import inspect as shape

from refold import format as fmt
from refold.entries import Entry, MessageEntry, Unknown
from refold.errors import FormatError, InvalidValue, PluginGuard, UsageError, WrongType, expect
from refold.messages import AnyPart, Assistant, Call, Opaque, Stop, Text
from refold.protocols import SessionInfo
from refold.session.strict_types import has_strict_types, types_of
from refold.text.lenient_json import MAX_DEPTH, dump_json, invalid, storable

S = TypeVar("S", bound=msgspec.Struct)
N = TypeVar("N", int, float)
_STOPS = frozenset(get_args(Stop))


def validated(value: S) -> S:
    """The value with exactly the types its class declares; raises `WrongType` (a `UsageError`) if that is
    impossible."""
    if not isinstance(cast("object", value), msgspec.Struct):
        raise _wrong("this", value, "pass an entry (refold.entries)")
    if has_strict_types(value):
        if type(value) is Unknown:
            _prove(value)
        return value
    cls = type(value)
    try:
        fixed = msgspec.convert(_fields(value, cls.__name__), cls, strict=False)
    except msgspec.ValidationError as error:
        raise WrongType(f"{cls.__name__} has a wrong value ({error}): pass what it declares") from error
    except UsageError:
        raise
    except Exception as error:  # values are asked what they are, and theirs is whatever code it is
        raise WrongType(f"{cls.__name__} holds a value that cannot be read: {error!r}"[:300]) from error
    if isinstance(fixed, Entry):
        _prove(fixed)
    return fixed


def begun(
    id: str | None, info: SessionInfo | None, clock: Callable[[], float], new_id: Callable[[], str]
) -> tuple[str, SessionInfo]:
    """Id and information of a new session, validated."""
    expect(id, (str, NoneType), "the id of a session must be a string")
    expect(info, (SessionInfo, NoneType), "info must be a SessionInfo")
    with PluginGuard("the clock or new_id of the session"):
        name = id or (info.id if info else None) or new_id()
        expect(name, str, "new_id must be a function that returns a string")
        return name, info or SessionInfo(id=name, created=clock())


def kept(part: AnyPart) -> AnyPart:
    """A part of a model's reply, with text in place of what cannot be stored, so that a paid reply is not
    lost."""
    if isinstance(part, Call) and part.raw is None and invalid(part.arguments):
        return Call(part.id, part.name, raw=dump_json(part.arguments))
    return Opaque(storable(part.raw)) if isinstance(part, Opaque) else part


def _prove(entry: Any) -> None:
    """Checks a converted entry by writing and reading it."""
    try:
        line = fmt.encode(entry)
        again = fmt.decode(line)
        same = type(again) is type(entry) and again.id == entry.id and fmt.encode(again) == line
    except (FormatError, TypeError, ValueError) as error:
        raise WrongType(f"entry {entry.id!r} holds a value that cannot be stored: {error}") from error
    if not same:
        raise WrongType(f"entry {entry.id!r} would be read back as something else: use plain JSON values")
    fmt.check_size(entry.id, len(line))


# ── what is not exact ───────────────────────────────────────────────────────────────────────────


def _fields(value: msgspec.Struct, where: str) -> dict[str, Any]:
    """The fields of a value as JSON has them."""
    cls, config = type(value), value.__struct_config__
    if isinstance(value, MessageEntry) and isinstance(value.message, Assistant):
        value = _with_stop_word(value)
    found: dict[str, Any] = {str(config.tag_field): config.tag} if config.tag else {}
    for name, info in zip(cls.__struct_fields__, types_of(cls), strict=True):
        item, place = getattr(value, name), f"{where}.{name}"
        if isinstance(item, int) and not isinstance(item, bool | Enum) and type(info) is shape.StrType:
            item = str(item)
        elif cls is Assistant and name == "stop" and not _is_known_stop(item):
            item = "other"
        elif Text in (classes := _classes(info)):
            item = [_part(each, place) for each in _listed(item, place)]
        elif isinstance(item, msgspec.Struct) and classes and type(item) not in classes:
            raise _wrong(place, item, f"make it a {' or a '.join(each.__name__ for each in classes)}")
        found[name] = _plain(item, place)
    return found


def _classes(info: shape.Type) -> list[type]:
    """The classes that a field holds, alone or in a tuple."""
    match info:
        case shape.StructType(cls=cls):
            return [cls]
        case shape.VarTupleType(item_type=item):
            return _classes(item)
        case shape.UnionType(types=types):
            return [cls for each in types for cls in _classes(each)]
        case _:
            return []


def _listed(value: Any, where: str) -> Iterable[Any]:
    if isinstance(value, str | bytes | bytearray | memoryview):
        return [cast("Any", value)] if value else []
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise _wrong(where, value, "pass a list")
    return cast("Iterable[Any]", value)


def _part(value: Any, where: str) -> Any:
    """A part of a message; a text is one, too."""
    is_part = isinstance(value, Mapping | msgspec.Struct)
    return cast("Any", value) if is_part else Text(_text(value, where))


def _is_known_stop(word: Any) -> bool:
    return word is None or (isinstance(word, str) and str.__str__(word) in _STOPS)


def _with_stop_word(entry: MessageEntry) -> MessageEntry:
    """Keeps an unknown stop reason, which becomes `other`, in `meta`."""
    word = cast("Assistant", entry.message).stop
    if _is_known_stop(word):
        return entry
    return msgspec.structs.replace(entry, meta={**entry.meta, "stop": _plain(word, "stop")})


def _text(value: Any, where: str) -> str:
    if isinstance(value, str):
        text = str.__str__(value)
        if not text.isascii():
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return text
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            return bytes(cast("bytes", value)).decode()
        except UnicodeDecodeError:
            raise WrongType(f"{where} is bytes that are not UTF-8: decode or describe them") from None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    path: Any = getattr(value, "__fspath__", None)
    if path is not None and not isinstance(value, type):
        return _text(path(), where)
    with suppress(TypeError, ValueError, RecursionError):
        if isinstance(written := msgspec.to_builtins(value), str):
            return written  # ids and times of the standard library
    raise _wrong(where, value, "pass a text")


def _plain(value: Any, where: str, levels: int = MAX_DEPTH) -> Any:
    if value is None or type(value) is bool:
        return value
    if isinstance(value, Enum):
        return _plain(value.value, where, levels)
    if isinstance(value, msgspec.Struct) and not isinstance(value, Unknown):
        return _fields(value, where)
    if isinstance(value, str | bytes | bytearray | memoryview):
        return _text(value, where)
    if isinstance(value, int | float):
        return _storable(float(value) if isinstance(value, float) else int(value), where)
    if not levels:
        raise InvalidValue(f"{where} is nested more than {MAX_DEPTH} levels deep: pass it as a text")
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return {_key(key, where): _plain(item, f"{where}[{key!r}]"[:200], levels - 1) for key, item in pairs}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, where, levels - 1) for item in cast("Iterable[Any]", value)]
    try:
        made = msgspec.to_builtins(value)
    except (TypeError, ValueError):
        made = value
    if type(made) is type(value):
        raise _wrong(where, value, "use plain JSON values")
    return _plain(made, where, levels - 1)


def _storable(number: N, where: str) -> N:
    if why := invalid(number):
        raise InvalidValue(f"{where} is not a value that can be stored ({why}): pass it as a text")
    return number


def _key(key: Any, where: str) -> str:
    if isinstance(key, bool | float) or key is None:
        return dump_json(key)
    return _text(key.value if isinstance(key, Enum) else key, f"a key of {where}")


def _wrong(where: str, value: Any, advice: str) -> UsageError:
    return WrongType(f"{where} is a {type(value).__name__}: {advice}")
