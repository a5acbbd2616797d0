"""The preset `rounds`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from msgspec.structs import replace

from refold.compaction.plan import Stage
from refold.compaction.plan_context import PlanContext
from refold.compaction.preset import Preset, Settings, about
from refold.compaction.strategies.turn_lines import TurnLines, WriteLines, Zone, shown_lines
from refold.compaction.triggers import RoundEnded
from refold.errors import SettingError


class Rounds(Settings, frozen=True, kw_only=True):
    """One line per finished round; only the newest rounds stay verbatim, and recall finds the rest."""

    history_strategy: Annotated[
        Literal["recent-only", "summary-only", "compressed"], about("what stays beside the lines", "D2, D9")
    ] = "recent-only"
    recent_conversation_rounds: Annotated[
        int, about("`recent-only`: finished rounds that stay verbatim", "D2", ge=0)
    ] = 3
    compression_strategy: Annotated[Literal["sliding-window"], about("`compressed`: how", "D2")] = (
        "sliding-window"
    )
    compressed_budget: Annotated[int, about("`compressed`: tokens of whole rounds", "D2", ge=0)] = 2_000
    compressed_result_chars: Annotated[
        int, about("`compressed`: characters left of older tool results", "D2", gt=0)
    ] = 200
    summaries_budget: Annotated[int, about("tokens of all lines together", "D7", gt=0)] = 1_200
    line_tokens: Annotated[int, about("length of one line", "D1", ge=4)] = 50
    lines: Annotated[
        Literal["model", "rule"], about("what writes lines: a model if there is one, or code", "D1")
    ] = "model"
    workspace_tokens: Annotated[int, about("room for files and state", "D4", ge=0)] = 150
    workspace: Annotated[Any, about("function of the session that returns this text (Python only)", "D4")] = (
        None
    )

    def check(self) -> None:
        if self.workspace is not None and not callable(self.workspace):
            raise SettingError("workspace", "must be a function of the session that returns a text")

    def fitted(self, budget: int) -> Self:
        """A quarter of the budget for lines, half for whole rounds where these are chosen by size. Where they
        are chosen by number, whether the outcome fits depends on how long they are."""
        return replace(
            self,
            window=budget,
            summaries_budget=min(self.summaries_budget, max(budget // 4, 1)),
            compressed_budget=budget // 2,
            workspace_tokens=min(self.workspace_tokens, budget // 10),
        )

    @property
    def zone(self) -> Zone:
        if self.history_strategy == "compressed":
            return Zone(budget=self.compressed_budget, result_chars=self.compressed_result_chars)
        return Zone(self.recent_conversation_rounds if self.history_strategy == "recent-only" else 0)

    def annotator(self) -> WriteLines:
        return WriteLines(self.line_tokens, by_model=self.lines == "model")

    def workspace_of(self, s: PlanContext) -> str | None:
        return None if shown_lines(s)[1] else self._fold().workspace(s)

    def _fold(self) -> TurnLines:
        return TurnLines(
            self.zone, self.summaries_budget, self.line_tokens, self.workspace_tokens, self.workspace
        )

    def build(self) -> Preset:
        ended = RoundEnded("rounds leave the verbatim part as they end")
        return Preset(
            name="rounds",
            settings=self,
            measure="o200k",
            window=self.window,
            stages=(Stage(ended, (self._fold(),), maintenance=True),),
        )
