"""The designs, by name. Each preset is a module that composes parts of `refold.compaction`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any, Protocol, cast

import msgspec

from refold.compaction.preset import Preset, Setting, Settings, describe
from refold.errors import SettingError, UnknownName

NAMES = ("refold", "augment", "pi", "window", "rounds", "layered")


class PresetModule(Protocol):
    """What a module in this package offers."""

    __doc__: str
    Settings: type[Settings]

    @staticmethod
    def build(settings: Any) -> Preset: ...

    @staticmethod
    def fitted(settings: Any, budget: int) -> Any:
        """The settings scaled so that the view aims at `budget` tokens."""
        ...


def get(name: str = "refold", *, budget: int | None = None, **settings: Any) -> Preset:
    """The preset `name` with these settings; with `budget`, scaled so that its view aims at that size."""
    module = module_of(name)
    chosen = parse(module.Settings, settings)
    if budget is not None:
        chosen = module.fitted(chosen, budget)

    def resize(window: int) -> Preset:
        try:
            return module.build(msgspec.structs.replace(chosen, window=window))
        except SettingError:  # the settings contradict so small a window: they are scaled to it
            return module.build(module.fitted(chosen, max(window, 2)))

    return replace(module.build(chosen), resize=resize)


def settings_of(name: str) -> list[Setting]:
    return describe(module_of(name).Settings)


def module_of(name: str) -> PresetModule:
    if name not in NAMES:
        raise UnknownName("preset", name, NAMES)
    return cast(PresetModule, import_module(f"refold.presets.{name}"))


def parse(kind: type[Settings], given: Mapping[str, Any]) -> Settings:
    """Settings from keyword arguments or from the command line's strings; errors name the key."""
    known = {field.name for field in msgspec.structs.fields(kind)}
    for key in given:
        if key not in known:
            raise SettingError(key, f"no such setting; there are: {', '.join(sorted(known))}")
    converted = {
        field.name: _convert(field.name, given[field.name], field.type)
        for field in msgspec.structs.fields(kind)
        if field.name in given
    }
    return kind(**converted)


def _convert(key: str, value: Any, kind: Any) -> Any:
    try:
        if isinstance(value, str) and value.lstrip().startswith("{") and _is_struct(kind):
            return msgspec.json.decode(value, type=kind)
        return msgspec.convert(value, kind, strict=not isinstance(value, str))
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise SettingError(key, f"{value!r} does not fit: {error}") from None


def _is_struct(kind: Any) -> bool:
    """Settings that are objects may be given as JSON text."""
    inner = getattr(kind, "__origin__", kind)
    return isinstance(inner, type) and issubclass(inner, (msgspec.Struct, dict))
