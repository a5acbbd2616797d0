"""A preset: a composition of small parts under a name, and the settings that it is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import NoneType
from typing import Annotated, Any, Literal, Self, cast, get_origin

import msgspec
from msgspec.structs import FieldInfo, force_setattr, replace

from refold.compaction.plan import Reason, Stage, Strategy, Trigger, checked_result
from refold.compaction.plan_context import PlanContext
from refold.errors import SettingError, UnknownSetting, expect, needed_value
from refold.session.projection import Accepts, accept_all


class Flaw(msgspec.Struct, frozen=True):
    """One thing that is wrong: which setting, and what would happen."""

    key: str
    text: str


class Setting(msgspec.Struct, frozen=True):
    """One row of `refold presets NAME`."""

    name: str
    default: Any
    meaning: str
    origin: str = ""


def about(
    meaning: str,
    origin: str = "",
    *,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
) -> msgspec.Meta:
    """What stands in the annotation of a setting: what it means, which rule it comes from, its bounds."""
    bounds: dict[str, Any] = {"gt": gt, "ge": ge, "lt": lt, "le": le}
    return msgspec.Meta(description=meaning, extra={"rule": origin}, **bounds)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every preset's settings. A preset is a class of these: its fields, each with a default and what
    it means (`about`), its docstring, which is the design's idea, and `build`."""

    window: Annotated[
        int, about("context window of the model; a larger view is an error, unless `fallback` helps", gt=0)
    ] = 200_000
    summary_seconds: Annotated[float, about("time limit for all requests to the summariser", gt=0)] = 120.0
    fallback: Annotated[
        Literal["none", "digest"],
        about("if the preset's own folds leave more than the window: an error, or lines (no model)"),
    ] = "none"
    summary_model: Annotated[
        str, about("model that writes summaries; empty: the model of the conversation")
    ] = ""
    layers: Annotated[
        bool, about("add the project's CODE_LAW.md after the system prompt and open todos at the end")
    ] = False

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Self:
        """Settings that arrive as data, where numbers may be texts and objects JSON; errors name the key."""
        expect(given, Mapping, "settings must be a dict")
        known = {field.name: field for field in _settings_fields(cls)}
        for key in given:
            if key not in known:
                raise UnknownSetting(key, known)
        read = {key: _read(known[key], x) if isinstance(x, str) else x for key, x in given.items()}
        return cls(**read)

    def __post_init__(self) -> None:
        for field in _settings_fields(type(self)):
            value = getattr(self, field.name)
            if value is not field.default:
                force_setattr(self, field.name, converted(field.name, value, field.type))
        self.check()

    def check(self) -> None:
        """Raise `SettingError` where settings contradict each other."""

    def problems(self) -> Sequence[Flaw] | None:
        """What would go wrong with these settings although they are allowed; None: not checked."""
        return None

    def fitted(self, budget: int) -> Self:
        """The settings scaled so that the view aims at `budget` tokens. Unless a design says how, a budget
        only decides whether the outcome fits."""
        return replace(self, window=budget)

    def for_model(self, model: Callable[[], str | None]) -> Self:  # noqa: ARG002
        """The settings for conversations with this model (None: unknown); asked for where that
        matters."""
        return self

    # ── what a design may do besides folding; most do not ───────────────────────────────────────

    def annotator(self) -> Strategy | None:
        """Proposes annotations about what happened (never edits); asked before the maintenance stages."""
        return None

    def soft_trigger(self) -> Trigger | None:
        """When to begin preparing a fold in the background."""
        return None

    def cache_delay(self, age: float) -> float | None:  # noqa: ARG002
        """Age of the last reply in seconds → seconds until a fold ahead of cache expiry is considered."""
        return None

    def workspace_of(self, s: PlanContext) -> str | None:  # noqa: ARG002
        """A text about the work that stands in front of the history, where no fold shows it already."""
        return None

    def objection(self, s: PlanContext) -> Reason | None:  # noqa: ARG002
        """Why the view is no good although it may be small enough, where a design can tell."""
        return None

    def build(self) -> Preset:
        """The preset."""
        raise NotImplementedError(f"{type(self).__name__} has no build()")


@dataclass(frozen=True, kw_only=True)
class Preset:
    name: str
    settings: Settings
    measure: str
    """Name of the counter that decides when and where."""
    window: int
    stages: Sequence[Stage]
    """Checked in order before every model call; the last one is what an explicit request performs."""
    version: str = "1"
    accepts: Accepts = accept_all
    """Which folds of the log count for this preset's view."""
    limit: int = 0
    """The view must not pass this many tokens; 0: the window."""
    reserve: int = 16_384
    """Tokens of the window that are left free for an answer where the whole of it may be read."""
    calibrated: bool = False
    """The window is the provider's: where its counts are known from usage, they decide what fits."""
    tool_iterations: int | None = None
    """How often a model may call tools in one turn."""

    def __post_init__(self) -> None:
        """Wrong parts are refused when a preset is made, not when a conversation depends on it."""
        for name in ("name", "version", "measure"):
            expect(getattr(self, name), str, f"{name} of a preset is a text")
        for name in ("window", "limit", "reserve"):
            expect(getattr(self, name), int, f"{name} of a preset is a whole number")
            if not 0 <= getattr(self, name) <= _LARGEST:
                raise SettingError(name, "is not a number of tokens")
        expect(self.calibrated, bool, "calibrated of a preset is True or False")
        expect(self.tool_iterations, (int, NoneType), "tool_iterations of a preset is a whole number")
        expect(self.accepts, cast("Any", Callable), "accepts of a preset is a function")
        expect(self.settings, Settings, "settings of a preset is what it was built from")
        expect(self.stages, Sequence, "stages of a preset is a list of Stage(trigger, strategies)")
        for stage in self.stages:
            expect(stage, Stage, "stages of a preset are a list of Stage(trigger, strategies)")

    @property
    def budget(self) -> int:
        return self.limit or self.window

    @cached_property
    def maintains(self) -> bool:
        """Has the design something to do as turns end, whatever the size of the view?"""
        notes = type(self.settings).annotator is not Settings.annotator
        return notes or any(stage.maintenance for stage in self.stages)

    def annotator(self) -> Strategy | None:
        return self._own("annotator", Strategy, "a strategy")

    def soft_trigger(self) -> Trigger | None:
        return self._own("soft_trigger", Trigger, "a trigger")

    def cache_delay(self, age: float) -> float | None:
        delay = self._own("cache_delay", (int, float), "seconds", age)
        return None if delay is None or delay >= _LONGEST else delay

    def workspace_of(self, s: PlanContext) -> str | None:
        return self._own("workspace_of", str, "a text", s)

    def objection(self, s: PlanContext) -> Reason | None:
        return self._own("objection", Reason, "a reason", s)

    def _own(self, name: str, kind: Any, wanted: str, *given: Any) -> Any:
        """What a method of the design's own gives, which is of that kind or None."""
        if getattr(type(self.settings), name) is getattr(Settings, name):
            return None
        wanted, method = f"{wanted}, or None,", getattr(self.settings, name)
        return checked_result(f"the preset {self.name!r}", (NoneType, kind), wanted, lambda: method(*given))

    def for_model(self, model: Callable[[], str | None]) -> Preset:
        """The preset as its settings want it for this model."""
        settings = self._own("for_model", Settings, "settings", model)
        return self if settings in (None, self.settings) else built(settings)

    def resized(self, window: int) -> Preset:
        """The same preset for another window."""
        try:
            return built(replace(self.settings, window=window))
        except SettingError:  # the settings contradict so small a window: they are scaled to it
            return built(self.settings, max(window, 2))


def built(settings: Settings, budget: int | None = None) -> Preset:
    """The preset that settings make, scaled to a budget where there is one."""
    if budget is not None:
        converted("budget", budget, Annotated[int, msgspec.Meta(gt=0)])

    def build() -> Preset:
        return (settings if budget is None else settings.fitted(budget)).build()

    return checked_result(type(settings).__name__, Preset, "a Preset from build()", build)


_settings_fields: Callable[[type[Settings]], tuple[FieldInfo, ...]] = cache(msgspec.structs.fields)


_LONGEST = 1e9
"""More seconds than a timer can be set to."""
_LARGEST = 2**53
"""Beyond that shares of it are no numbers any more."""


def converted(key: str, value: Any, kind: Any, *, strict: bool = True) -> Any:
    """A value of that kind; `SettingError`, which names the key, where it is none."""
    inner = getattr(kind, "__origin__", kind)
    if isinstance(value, dict) and isinstance(inner, type) and issubclass(inner, msgspec.Struct):
        known = inner.__struct_fields__
        if unknown := [key for key in cast("dict[str, Any]", value) if key not in known]:
            raise SettingError(f"{key}.{unknown[0]}", f"is unknown; known: {', '.join(known)}")
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise SettingError(key, "too large for a number of tokens")
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise SettingError(key, f"{needed_value(error, kind)}, not {value!r}") from None
    except (OverflowError, UnicodeError, RecursionError) as error:
        raise SettingError(key, f"this does not fit: {error}") from None


def _read(field: FieldInfo, text: str) -> Any:
    """A setting from its text; one that is an object from JSON."""
    inner = getattr(field.type, "__origin__", field.type)
    inner = get_origin(inner) or inner
    is_object = isinstance(inner, type) and issubclass(inner, (msgspec.Struct, dict))
    if not is_object or not text.lstrip().startswith("{"):
        return converted(field.name, text, field.type, strict=False)
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise SettingError(field.name, f"{text!r} does not fit: {error}") from None


def describe(kind: type[Settings]) -> list[Setting]:
    """The settings of a preset as a table. What one means says the class, or the first of its bases that says
    something."""
    rows: list[Setting] = []
    bases = [_settings_fields(base) for base in kind.__mro__ if issubclass(base, Settings)]
    for field in _settings_fields(kind):
        types = (x.type for fields in bases for x in fields if x.name == field.name)
        said = (x for each in types for x in getattr(each, "__metadata__", ()))
        meta = next((x for x in said if isinstance(x, msgspec.Meta)), msgspec.Meta())
        default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
        rule = (meta.extra or {}).get("rule", "")
        rows.append(Setting(field.name, default, meta.description or "", rule))
    return rows
