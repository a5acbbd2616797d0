"""The preset `pi`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Self

import msgspec
from msgspec.structs import asdict, replace

from refold import entries as e
from refold.compaction.plan import Stage
from refold.compaction.preset import Preset, Settings, about
from refold.compaction.strategies.budget_summary import BudgetSummary
from refold.compaction.triggers import Never, UsageThreshold
from refold.costs import same_model
from refold.errors import SettingError


class Override(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What differs for one model; None: as for the others."""

    window: int | None = None
    enabled: bool | None = None
    reserve_tokens: int | None = None
    keep_recent_tokens: int | None = None


class Pi(Settings, frozen=True, kw_only=True):
    """A session tree, a cut by token budget, one summary that is updated by every fold; if the cut falls
    inside a turn, the first part of the turn is summarised, too."""

    window: Annotated[int, about("context window of the model", "B4", gt=0)] = 200_000
    enabled: Annotated[bool, about("fold automatically", "B5")] = True
    reserve_tokens: Annotated[
        int, about("room for the reply; sets the summary's length", "B5, B13", ge=0)
    ] = 16_384
    keep_recent_tokens: Annotated[int, about("newest part that stays verbatim", "B5, B8", ge=0)] = 20_000
    models: Annotated[dict[str, Override], about("different values for some models, by name", "B5")] = {}

    def check(self) -> None:
        for own in self.models.values():
            self._with(own)
        if self.reserve_tokens >= self.window:
            raise SettingError("reserve_tokens", f"must be less than the window ({self.window})")

    def for_model(self, model: Callable[[], str | None]) -> Self:
        """With what `models` says of this one."""
        asked = model() if self.models else None
        own = next((own for name, own in self.models.items() if asked and same_model(name, asked)), None)
        return self if own is None else self._with(own)

    def _with(self, own: Override) -> Self:
        given = {key: value for key, value in asdict(own).items() if value is not None}
        return replace(self, models={}, **given)

    def fitted(self, budget: int) -> Self:
        """A view of `budget` tokens for every model: a fifth for the summary, half for the tail."""
        most = {"window": budget, "reserve_tokens": max(budget // 4, 1), "keep_recent_tokens": budget // 2}

        def fitting(values: dict[str, Any]) -> dict[str, Any]:
            return {key: min(values[key], most[key]) for key in most if values[key] is not None}

        models = {name: replace(own, **fitting(asdict(own))) for name, own in self.models.items()}
        return replace(self, **{**fitting(asdict(self)), "window": budget, "models": models})

    def build(self) -> Preset:
        trigger = UsageThreshold(self.reserve_tokens) if self.enabled else Never()
        strategy = BudgetSummary(self.keep_recent_tokens, self.reserve_tokens)
        return Preset(
            name="pi",
            settings=self,
            measure="utf16/4",
            window=self.window,
            reserve=self.reserve_tokens,
            accepts=newest_only,
            stages=(Stage(trigger, (strategy,)),),
        )


def newest_only(folds: Sequence[e.Fold]) -> Sequence[e.Fold]:
    """B3: of this design's own summaries only the newest counts, even where an older one reaches further."""
    mine = [fold for fold in folds if fold.preset == "pi" and fold.summary]
    return [fold for fold in folds if fold not in mine[:-1]]
