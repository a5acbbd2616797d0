"""The preset `window`."""

from __future__ import annotations

from typing import Annotated

from refold.compaction.plan import Stage
from refold.compaction.preset import Preset, Settings, about
from refold.compaction.strategies.window import KEEP, HardTrim, WindowSummary
from refold.compaction.triggers import MessageCount
from refold.errors import SettingError


class Window(Settings, frozen=True, kw_only=True):
    """Counts messages: past a threshold, the oldest become one short summary; if that fails, they are
    trimmed."""

    max_history: Annotated[int, about("hard cap on messages", "C1, C7", gt=0)] = 50
    compact_threshold: Annotated[int, about("messages at which to fold", "C1, C2", gt=0)] = 40
    compact_window: Annotated[int, about("oldest messages to summarise", "C1, C3", gt=0)] = 30
    summary_max_chars: Annotated[int, about("maximum characters of a summary", "C1, C6", gt=0)] = 1_500
    language: Annotated[str, about("`auto`, or a language such as `zh`", "C5")] = "auto"
    temperature: Annotated[float, about("of the summary request", "C5", ge=0)] = 0.3
    summary_timeout: Annotated[float, about("seconds a summary may take", "C7", gt=0)] = 30.0
    max_tool_iterations: Annotated[int, about("maximum number of requests in one turn", "C9", gt=0)] = 10

    def check(self) -> None:
        given, least = self.compact_threshold, self.compact_window + KEEP
        if given < least:
            text = f"must be at least compact_window + {KEEP} = {least}, is {given}"
            raise SettingError("compact_threshold", text)

    def build(self) -> Preset:
        trim = HardTrim(self.max_history)
        summary = WindowSummary(
            self.compact_window, self.summary_max_chars, self.language, self.temperature, self.summary_timeout
        )
        return Preset(
            name="window",
            settings=self,
            measure="messages",
            window=self.window,
            tool_iterations=self.max_tool_iterations,
            stages=(Stage(MessageCount(self.compact_threshold), (summary, trim)),),
        )
