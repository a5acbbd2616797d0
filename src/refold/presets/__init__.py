"""The designs, by name or as settings. Each is a composition of parts of `refold.compaction`.

    presets.get("refold", window=200_000)       # a preset by its name
    presets.Refold(window=200_000)              # its settings, wherever a preset is wanted
    presets.register("mine", Mine)              # one of your own; a package does it with an entry point

Modules are loaded when their design is first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from refold.compaction.preset import Preset, Setting, Settings, about, built, describe
from refold.errors import UnknownName, UsageError, WrongType, expect

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from refold.presets.augment import Augment
    from refold.presets.layered import Layered
    from refold.presets.pi import Pi
    from refold.presets.refold import Refold
    from refold.presets.rounds import Rounds
    from refold.presets.window import Window

__all__ = [
    "GROUP", "NAMES", "Augment", "Layered", "Pi", "Preset", "Refold", "Rounds", "Setting", "Settings",
    "Window", "about", "class_of", "get", "make", "names", "preset_of", "register", "settings_of",
]  # fmt: skip

NAMES = ("refold", "augment", "pi", "window", "rounds", "layered")
"""The designs that refold brings along; `names()` has those of others too."""
GROUP = "refold.presets"
"""Entry points: `name = "package.module:Settings"`."""
_registered: dict[str, type[Settings]] = {}


def get(
    name: str = "refold", *, budget: int | None = None, window: int | None = None, **settings: Any
) -> Preset:
    """The preset `name` with these settings (`refold presets NAME` lists them; `presets.Refold(…)` and its
    like have them typed, for editors); with `budget`, scaled so that its view aims at that size."""
    return make(name, settings if window is None else {**settings, "window": window}, budget=budget)


def make(name: str, settings: Mapping[str, Any], *, budget: int | None = None) -> Preset:
    """Like `get`, for settings that arrive as data: of a file, of a command line, where numbers are texts."""
    chosen = class_of(name).parse(settings)
    return built(chosen, budget)


def preset_of(design: Preset | Settings | str) -> Preset:
    """The preset for a name, for settings, or unchanged."""
    if isinstance(design, str):
        return get(design)
    if isinstance(design, Settings):
        return built(design)
    if isinstance(design, Preset):
        return design
    raise WrongType(
        "expected a preset (a name, presets.get(…), or settings such as presets.Refold(window=…)), "
        f"got {type(design).__name__}"
    )


def names() -> tuple[str, ...]:
    """Names of all presets: built-in, then registered and installed."""
    return (*NAMES, *sorted({*_registered, *_installed()} - set(NAMES)))


def register(name: str, kind: type[Settings]) -> None:
    """Make a preset known by name in this process: to `get`, `Engine(name)`, command line and comparison.
    `kind` is a class of settings that all have defaults; what it builds must have that name."""
    expect(name, str, "the name of a preset must be a string")
    if name in NAMES or _registered.get(name, kind) is not kind:
        raise UsageError(f"there is a preset called {name!r} already: choose another name")
    _registered[name] = _checked(name, kind)


def class_of(name: str) -> type[Settings]:
    """The class of a preset's settings. Its docstring is the idea of the design."""
    expect(name, str, f"the name of a preset must be a string: {', '.join(NAMES)}")
    if name in NAMES:
        return getattr(import_module(f"refold.presets.{name}"), name.title())
    if name not in _registered:
        point = _installed().get(name)
        if point is None:
            raise UnknownName("preset", name, names())
        try:
            kind = point.load()
        except Exception as error:
            raise UsageError(f"the preset {name!r} ({point.value}) cannot be loaded: {error!r}") from error
        _registered[name] = _checked(name, kind)
    return _registered[name]


def settings_of(name: str) -> list[Setting]:
    return describe(class_of(name))


def _checked(name: str, kind: object) -> type[Settings]:
    if not (isinstance(kind, type) and issubclass(kind, Settings)):
        raise WrongType(f"the preset {name!r} must be a subclass of refold.presets.Settings")
    try:
        made = kind().build()
    except (TypeError, NotImplementedError) as error:
        raise UsageError(f"the preset {name!r} cannot be built from its defaults: {error}") from error
    if made.name != name:
        raise UsageError(f"the preset {name!r} builds one that is called {made.name!r}")
    return kind


def _installed() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


def __getattr__(name: str) -> Any:
    if name.lower() in NAMES and name.istitle():
        return class_of(name.lower())
    raise AttributeError(f"module 'refold.presets' has no attribute {name!r}")
