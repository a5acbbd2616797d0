"""Counts messages: past a threshold the oldest window becomes one short summary; a hard trim where that
fails."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from refold.compaction.plan import Stage
from refold.compaction.preset import Preset
from refold.compaction.preset import Settings as Base
from refold.compaction.rungs.window import HardTrim, WindowSummary
from refold.compaction.triggers import MessageCount
from refold.errors import SettingError

KEEP = 10
"""At least this many messages stay as they are."""


class Settings(Base, frozen=True, kw_only=True):
    max_history: Annotated[int, Meta(gt=0, description="hard cap on messages", extra={"rule": "C1, C7"})] = 50
    compact_threshold: Annotated[
        int, Meta(gt=0, description="messages at which to fold", extra={"rule": "C1, C2"})
    ] = 40
    compact_window: Annotated[
        int, Meta(gt=0, description="oldest messages to summarise", extra={"rule": "C1, C3"})
    ] = 30
    summary_max_chars: Annotated[
        int, Meta(gt=0, description="length of a summary", extra={"rule": "C1, C6"})
    ] = 1_500
    language: Annotated[str, Meta(description="`auto`, or a language such as `zh`", extra={"rule": "C5"})] = (
        "auto"
    )
    temperature: Annotated[float, Meta(ge=0, description="of the summary request", extra={"rule": "C5"})] = (
        0.3
    )
    max_tool_iterations: Annotated[
        int, Meta(gt=0, description="bound of the tool loop", extra={"rule": "C9"})
    ] = 10
    window: Annotated[int, Meta(gt=0, description="context window, for the report only")] = 200_000

    def check(self) -> None:
        if self.compact_threshold < self.compact_window + KEEP:
            raise SettingError(
                "compact_threshold",
                f"must be at least compact_window + {KEEP} = {self.compact_window + KEEP}, "
                f"is {self.compact_threshold}",
            )


def fitted(settings: Settings, budget: int) -> Settings:
    """This design counts messages: a budget in tokens only says whether the outcome fits."""
    return msgspec.structs.replace(settings, window=budget)


def build(settings: Settings) -> Preset:
    trim = HardTrim(settings.max_history)
    summary = WindowSummary(
        settings.compact_window, settings.summary_max_chars, settings.language, settings.temperature
    )
    return Preset(
        name="window",
        settings=settings,
        measure="messages",
        window=settings.window,
        stages=(Stage(MessageCount(settings.compact_threshold), (summary, trim)),),
        max_tool_iterations=settings.max_tool_iterations,
    )
