"""Settings that arrive as one JSON object, the way a back end ships them."""

from __future__ import annotations

import warnings
from collections.abc import Container, Mapping
from typing import Any, TypeVar, cast, get_origin

import msgspec

from refold import memory
from refold.compaction.preset import converted
from refold.errors import SettingError

S = TypeVar("S", bound=msgspec.Struct)
FLAGS = ("history_summary_params", "history_summary_min_version", "memories_params")
LISTED = "feature_flags"
"""Where a model listing has its flags."""


class UnknownParameter(UserWarning):
    """A key that no setting has; it is ignored."""


def read(text: str, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Settings of `kind` out of the JSON text: the parameters themselves, a feature-flag object that holds
    them as a string, or a whole model listing with such an object. Unknown keys are ignored with a warning,
    null is the default; anything else that is wrong is a `SettingError` that names the key."""
    given = _object(text, "params")
    if LISTED in given:
        return _from_flags(_listed(given), kind)
    known = {field.name for field in msgspec.structs.fields(kind)} - set(FLAGS)
    are_flags = any(flag in given for flag in FLAGS) and not known & given.keys()
    return _from_flags(given, kind) if are_flags or FLAGS[0] in given else convert(given, kind)


def _listed(listing: Mapping[str, Any]) -> dict[str, Any]:
    """The flags of a model listing that are read here; it has many others."""
    flags = _object(listing[LISTED] or {}, LISTED)
    return {flag: flags[flag] for flag in FLAGS if flag in flags}


def memory_params(text: str) -> memory.MemoryParams:
    """The settings of memory compression out of a JSON text: themselves, or the flags that hold them."""
    given = _object(text, "params")
    flags = {"memories_params": "", **_listed(given)} if LISTED in given else given
    own = _object(flags.get("memories_params", given) or "", "memories_params")
    return memory.MemoryParams(**convert(own, memory.MemoryParams))


def resolved(settings: S, text: str, named: Container[str] | None = None) -> S:
    """The settings with what the JSON text says. A setting that was given by itself wins: those `named`, or,
    where that is not known, those that differ from their default."""
    if not text.strip():
        return settings
    kind = type(settings)
    names = [field.name for field in msgspec.structs.fields(kind) if field.name != "params"]
    default = kind()
    if named is None:
        named = {name for name in names if getattr(settings, name) != getattr(default, name)}
    given = {name: getattr(settings, name) for name in names if name in named}
    return kind(**{**read(text, kind), **given})


def _from_flags(flags: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Without a minimum version in the flags the feature is off."""
    flags = {flag: value for flag, value in flags.items() if value is not None}
    inner = flags.get("history_summary_params", "")
    own = convert(_object(inner, "history_summary_params"), kind)
    others = {"history_summary_min_version": "", **flags}
    others.pop("history_summary_params", None)
    return own | convert(others, kind)


def convert(given: Mapping[str, Any], kind: type[msgspec.Struct], prefix: str = "") -> dict[str, Any]:
    """The known keys with their values, each of its type."""
    fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
    settings: dict[str, Any] = {}
    for key, value in given.items():
        if key not in fields:
            warnings.warn(f"unknown parameter {prefix}{key} is ignored", UnknownParameter, stacklevel=2)
        elif value is not None:
            settings[key] = _value(prefix + key, value, fields[key])
    return settings


def _value(key: str, value: Any, kind: Any) -> Any:
    inner = getattr(kind, "__origin__", kind)
    if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
        return inner(**convert(_object(value, key), inner, f"{key}."))
    if get_origin(inner) is dict:
        value = _object(value, key)
    return converted(key, value, kind)


def _object(value: Any, key: str) -> dict[str, Any]:
    if isinstance(value, str):
        if not value.strip():
            return {}
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise SettingError(key, f"not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise SettingError(key, "must be a JSON object")
    return cast("dict[str, Any]", value)
