"""The preset `layered`."""

from __future__ import annotations

from typing import Annotated, Any, Self

from msgspec.structs import replace

from refold.compaction.plan import Reason, Stage
from refold.compaction.plan_context import PlanContext
from refold.compaction.preset import Preset, Settings, about
from refold.compaction.strategies.layered import Archive, KeepRecent, ShrinkRounds, archives_fit
from refold.compaction.triggers import NewInput, RoundEnded
from refold.errors import SettingError
from refold.session.toolnames import ToolKind
from refold.shrink import Limits


class Layered(Settings, frozen=True, kw_only=True):
    """Tool results are shortened as rounds end; old rounds become archives that are never folded again."""

    window: Annotated[int, about("context window of the model", "E8, E15", gt=0)] = 200_000
    threshold: Annotated[float, about("share of the window at which to archive", "E8, E15", gt=0, le=1)] = 0.8
    min_messages: Annotated[int, about("messages below which nothing is archived", "E8", ge=0)] = 3
    keep_rounds: Annotated[int, about("newest finished rounds that stay", "E7, E15", ge=0)] = 10
    layers: Annotated[bool, about("add the project's CODE_LAW.md and open todos", "E1, E2")] = True
    shrink: Annotated[bool, about("shorten tool results once their round has ended", "E3")] = True
    limits: Annotated[Limits, about("what is left of a tool result, as a JSON object", "E4, E15")] = Limits()
    rules: Annotated[dict[ToolKind, Any], about("your own rules, by kind of tool (Python only)", "E4")] = {}
    archive_tokens: Annotated[int, about("length of an archive", "E9", gt=0)] = 4_000
    archive_prompt: Annotated[
        str, about("asks for an archive, with {{conversation}} and {{period}}; empty: the built-in one", "E9")
    ] = ""
    summary_model: Annotated[str, about("model that writes archives; empty: the current one", "E10, E15")] = (
        ""
    )
    summary_timeout: Annotated[float, about("seconds an archive may take", "E10", gt=0)] = 120.0

    def check(self) -> None:
        for kind, rule in self.rules.items():
            if not callable(rule):
                raise SettingError(
                    f"rules.{kind}", "must be a function of a call, its result's text and limits"
                )

    def fitted(self, budget: int) -> Self:
        """Archives take at most an eighth each. How many rounds stay is the design's own choice."""
        return replace(self, window=budget, archive_tokens=min(self.archive_tokens, max(budget // 8, 100)))

    def objection(self, s: PlanContext) -> Reason | None:
        return archives_fit(s, threshold=self.threshold, keep_rounds=self.keep_rounds)

    def build(self) -> Preset:
        after_rounds = Stage(
            RoundEnded("tool results are shortened once their round has ended"),
            (ShrinkRounds(self.limits, self.rules),),
            maintenance=True,
        )
        archive = Stage(
            NewInput(self.threshold, self.min_messages),
            (
                Archive(
                    keep_rounds=self.keep_rounds,
                    tokens=self.archive_tokens,
                    timeout=self.summary_timeout,
                    prompt=self.archive_prompt,
                ),
                KeepRecent(keep_rounds=self.keep_rounds),
            ),
        )
        return Preset(
            name="layered",
            settings=self,
            measure="len//3",
            window=self.window,
            stages=(after_rounds, archive) if self.shrink else (archive,),
        )
