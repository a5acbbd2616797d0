"""One line per finished round, accumulated; only the newest rounds stay verbatim, the rest is recalled."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from refold.compaction.plan import Stage
from refold.compaction.preset import Preset
from refold.compaction.preset import Settings as Base
from refold.compaction.rounds import Fitting, Newest, Zone
from refold.compaction.rungs.turn_lines import TurnLines, WriteLines
from refold.compaction.triggers import RoundEnded

WHICH_WHEN = """\
- `recent-only`: 5 to 20 rounds; the last answers matter word for word.
- `summary-only`: long tasks whose rounds have good lines; the least tokens.
- `compressed`: when older tool output may be cut, but whole rounds should stay while there is room.
- 50 rounds and more, whatever the strategy: with the `recall_conversation` tool; lines are merged by then."""


def about(text: str, rule: str, **bounds: Any) -> Meta:
    return Meta(description=text, extra={"rule": rule}, **bounds)


class Settings(Base, frozen=True, kw_only=True):
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
        int, about("`compressed`: what is left of older tool results", "D2", gt=0)
    ] = 200
    summaries_budget: Annotated[int, about("tokens of all lines together", "D7", gt=0)] = 1_200
    line_tokens: Annotated[int, about("length of one line", "D1", ge=4)] = 12
    lines: Annotated[
        Literal["model", "rule"], about("who writes lines: a model where there is one, or code", "D1")
    ] = "model"
    workspace_tokens: Annotated[int, about("room for files and state", "D4", ge=0)] = 150
    window: Annotated[int, about("context window, for the report only", "", gt=0)] = 200_000


def fitted(settings: Settings, budget: int) -> Settings:
    """A quarter of the budget for lines, half for whole rounds where these are chosen by size. Where they are
    chosen by number, whether the outcome fits depends on how long they are."""
    return msgspec.structs.replace(
        settings,
        window=budget,
        summaries_budget=min(settings.summaries_budget, max(budget // 4, 1)),
        compressed_budget=budget // 2,
        workspace_tokens=min(settings.workspace_tokens, budget // 10),
    )


def zone(settings: Settings) -> Zone:
    match settings.history_strategy:
        case "recent-only":
            return Newest(settings.recent_conversation_rounds)
        case "summary-only":
            return Newest(0)
        case "compressed":
            return Fitting(settings.compressed_budget, settings.compressed_result_chars)


def build(settings: Settings) -> Preset:
    fold = TurnLines(
        zone(settings), settings.summaries_budget, settings.line_tokens, settings.workspace_tokens
    )
    return Preset(
        name="rounds",
        settings=settings,
        measure="o200k",
        window=settings.window,
        notes=WriteLines(settings.line_tokens, by_model=settings.lines == "model"),
        stages=(Stage(RoundEnded("rounds leave the verbatim part as they end"), (fold,), upkeep=True),),
    )
