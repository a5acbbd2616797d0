"""A session tree, a token-budgeted cut, an iterative summary; turns that are cut through are summarised
at their beginning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from refold import entries as e
from refold.compaction.plan import Stage
from refold.compaction.preset import Preset
from refold.compaction.preset import Settings as Base
from refold.compaction.rungs.budget_summary import BudgetSummary
from refold.compaction.triggers import Never, UsageThreshold
from refold.errors import SettingError
from refold.preserve.tools import pi_files


class Settings(Base, frozen=True, kw_only=True):
    enabled: Annotated[bool, Meta(description="fold automatically", extra={"rule": "B5"})] = True
    window: Annotated[int, Meta(gt=0, description="context window of the model", extra={"rule": "B4"})] = (
        200_000
    )
    reserve_tokens: Annotated[
        int,
        Meta(ge=0, description="room for the reply; sets the summary's length", extra={"rule": "B5, B13"}),
    ] = 16_384
    keep_recent_tokens: Annotated[
        int, Meta(ge=0, description="newest part that stays verbatim", extra={"rule": "B5, B8"})
    ] = 20_000

    def check(self) -> None:
        if self.reserve_tokens >= self.window:
            raise SettingError("reserve_tokens", f"must be less than the window ({self.window})")


def fitted(settings: Settings, budget: int) -> Settings:
    """A view of `budget` tokens: a fifth for the summary, half for the tail."""
    return msgspec.structs.replace(
        settings,
        window=budget,
        reserve_tokens=min(settings.reserve_tokens, max(budget // 4, 1)),
        keep_recent_tokens=min(settings.keep_recent_tokens, budget // 2),
    )


def newest_only(folds: Sequence[e.Fold]) -> Sequence[e.Fold]:
    """B3: of this design's own summaries only the newest counts, even where an older one reaches further."""
    mine = [fold for fold in folds if fold.preset == "pi" and fold.summary]
    return [fold for fold in folds if fold not in mine[:-1]]


def build(settings: Settings) -> Preset:
    trigger = UsageThreshold(settings.reserve_tokens) if settings.enabled else Never()
    rung = BudgetSummary(settings.keep_recent_tokens, settings.reserve_tokens, pi_files)
    return Preset(
        name="pi",
        settings=settings,
        measure="utf16/4",
        window=settings.window,
        accepts=newest_only,
        stages=(Stage(trigger, (rung,)),),
    )
