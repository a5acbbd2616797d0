"""A preset: a composition of small parts under a name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from refold.compaction.plan import Reason, Rung, Stage, Trigger
from refold.compaction.situation import Situation
from refold.session.projection import Accepts, accept_all


class Setting(msgspec.Struct, frozen=True):
    """One row of `refold presets NAME`."""

    name: str
    default: Any
    meaning: str
    origin: str = ""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every preset's settings. Meaning and origin stand in the annotation of each field."""

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Raise `SettingError` where settings contradict each other."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    name: str
    settings: Any
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
    calibrated: bool = False
    """The window is the provider's: where its counts are known from usage, they decide what fits."""
    max_tool_iterations: int | None = None
    notes: Rung | None = None
    """Proposes annotations about what happened (never edits); asked before the housekeeping stages."""
    objection: Callable[[Situation], Reason | None] = lambda _: None
    """Why the view is no good although it may be small enough, where a design can tell."""
    summary_model: str = ""
    """Name of the model that this design wants for its summaries; empty: the one there is."""
    soft: Trigger | None = None
    """When to begin preparing a fold in the background."""
    cache_delay: Callable[[float], float | None] = lambda _: None
    """Age of the last reply in seconds → seconds until a fold ahead of cache expiry is considered."""
    resize: Callable[[int], Preset] | None = None
    """The same preset for another window."""

    @property
    def budget(self) -> int:
        return self.limit or self.window


def describe(kind: type[Settings]) -> list[Setting]:
    """The settings of a preset as a table."""
    rows: list[Setting] = []
    for field in msgspec.structs.fields(kind):
        meta = next((m for m in getattr(field.type, "__metadata__", ()) if isinstance(m, msgspec.Meta)), None)
        default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
        extra = (meta.extra or {}) if meta else {}
        rows.append(
            Setting(field.name, default, (meta.description or "") if meta else "", extra.get("rule", ""))
        )
    return rows
