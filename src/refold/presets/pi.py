"""The preset `pi`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from msgspec.structs import replace

from refold import entries as e
from refold.compaction.plan import Stage
from refold.compaction.preset import Preset, Settings, about
from refold.compaction.rungs.budget_summary import BudgetSummary
from refold.compaction.triggers import Never, UsageThreshold
from refold.errors import SettingError
from refold.preserve.tools import pi_files


class Pi(Settings, frozen=True, kw_only=True):
    """A session tree, a token-budgeted cut, an iterative summary; turns that are cut through are summarised
    at their beginning."""

    window: Annotated[int, about("context window of the model", "B4", gt=0)] = 200_000
    enabled: Annotated[bool, about("fold automatically", "B5")] = True
    reserve_tokens: Annotated[
        int, about("room for the reply; sets the summary's length", "B5, B13", ge=0)
    ] = 16_384
    keep_recent_tokens: Annotated[int, about("newest part that stays verbatim", "B5, B8", ge=0)] = 20_000

    def check(self) -> None:
        if self.reserve_tokens >= self.window:
            raise SettingError("reserve_tokens", f"must be less than the window ({self.window})")

    def fitted(self, budget: int) -> Self:
        """A view of `budget` tokens: a fifth for the summary, half for the tail."""
        return replace(
            self,
            window=budget,
            reserve_tokens=min(self.reserve_tokens, max(budget // 4, 1)),
            keep_recent_tokens=min(self.keep_recent_tokens, budget // 2),
        )

    def build(self) -> Preset:
        trigger = UsageThreshold(self.reserve_tokens) if self.enabled else Never()
        rung = BudgetSummary(self.keep_recent_tokens, self.reserve_tokens, pi_files)
        return Preset(
            name="pi",
            settings=self,
            measure="utf16/4",
            window=self.window,
            reserve=self.reserve_tokens,
            accepts=newest_only,
            stages=(Stage(trigger, (rung,)),),
        )


def newest_only(folds: Sequence[e.Fold]) -> Sequence[e.Fold]:
    """B3: of this design's own summaries only the newest counts, even where an older one reaches further."""
    mine = [fold for fold in folds if fold.preset == "pi" and fold.summary]
    return [fold for fold in folds if fold not in mine[:-1]]
