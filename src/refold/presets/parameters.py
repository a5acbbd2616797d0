"""Settings that arrive as one JSON object, the way a back end ships them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, cast, get_origin

import msgspec

from refold import memory
from refold.compaction.preset import converted
from refold.errors import SettingError

# Feature flags.
SUMMARY_PARAMS = "history_summary_params"
MIN_VERSION = "history_summary_min_version"
MEMORIES = "memories_params"
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
        listed = _object(given[LISTED], LISTED)
        given = {flag: listed.get(flag) for flag in (SUMMARY_PARAMS, MIN_VERSION, MEMORIES)}
    known = {field.name for field in msgspec.structs.fields(kind)} - {MIN_VERSION, MEMORIES}
    if SUMMARY_PARAMS not in given and (known & given.keys() or not {MIN_VERSION, MEMORIES} & given.keys()):
        return convert(given, kind)
    flags = {flag: value for flag, value in given.items() if value is not None}
    own = convert(_object(flags.pop(SUMMARY_PARAMS, None), SUMMARY_PARAMS), kind)
    return own | convert({MIN_VERSION: "", **flags}, kind)  # off without a minimum version


def memory_params(text: str) -> memory.MemoryParams:
    """The settings of memory compression out of a JSON text: themselves, or the flags that hold them."""
    given = _object(text, "params")
    flags = {MEMORIES: None, **_object(given[LISTED], LISTED)} if LISTED in given else given
    own = _object(flags.get(MEMORIES, given), MEMORIES)
    return memory.MemoryParams(**convert(own, memory.MemoryParams))


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
    """An object, as such or as JSON; nothing is an empty one."""
    if value is None:
        return {}
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value) if value.strip() else {}
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise SettingError(key, f"not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise SettingError(key, "must be a JSON object")
    return cast("dict[str, Any]", value)
