"""The preset `refold`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from msgspec.structs import replace

from refold.compaction.plan import Stage
from refold.compaction.preset import Preset, Settings, about
from refold.compaction.record import FoldBudget
from refold.compaction.requests import Wanted
from refold.compaction.strategies.graded import Clip, LinesStrategy, Summary
from refold.compaction.triggers import FillLevel, Never
from refold.errors import SettingError


class Refold(Settings, frozen=True, kw_only=True):
    """The default: older messages are clipped harder, your own words and the state of the work stay,
    summaries are checked, and the last strategy needs no model and always fits."""

    window: Annotated[int, about("context window of the model", "R12", gt=0)] = 200_000
    output_reserve: Annotated[
        int | None, about("room for the reply; default: 16384 or 20 % of the window, the smaller", "R12")
    ] = None
    calibrate: Annotated[
        bool, about("judge what fits by the provider's own counts, if it reports them", "R12")
    ] = True
    auto: Annotated[bool, about("fold without being asked", "R14")] = True
    soft: Annotated[
        float, about("share of the usable window at which to start preparing", "R12", gt=0, le=1)
    ] = 0.75
    target: Annotated[
        float,
        about(
            "size a fold aims at, as a share of the usable window without system prompt and tools",
            "R2",
            gt=0,
            le=1,
        ),
    ] = 0.5
    summary_tokens: Annotated[
        int,
        about(
            "maximum length of a summary; asked for is an eighth of the goal, if that is less",
            "strategy 3",
            gt=0,
        ),
    ] = 4_000
    state_tokens: Annotated[
        int, about("maximum room for the state of the work; never over 18 % of the goal", "R10, R25", ge=0)
    ] = 1_500
    lines_share: Annotated[
        float, about("minimum room for lines, as a share of the room for messages", "R11", ge=0, le=1)
    ] = 0.13
    words_share: Annotated[
        float,
        about(
            "share of the goal for your own words; at least 1000 tokens, at most a quarter",
            "R8",
            ge=0,
            le=0.25,
        ),
    ] = 0.1
    min_gain: Annotated[float, about("share of the view that a fold must free", "R2", ge=0, lt=1)] = 0.1
    cache_ttl: Annotated[
        float, about("seconds a provider keeps its cache; 0: never fold early", "R13", ge=0)
    ] = 300.0
    cache_buffer: Annotated[float, about("how many seconds before that to fold", "R13", ge=0)] = 30.0
    unverified: Annotated[Literal["mark", "remove"], about("what to do with unsupported claims", "R5")] = (
        "mark"
    )
    summary_request: Annotated[
        Wanted,
        about(
            "ask with a transcript (stand-alone), or continue the chat, which the provider has cached "
            "(cached-prefix); auto: continue if the chat's own model writes the summary",
            "R15",
        ),
    ] = "auto"
    redact: Annotated[bool, about("remove secrets from what a summariser gets", "R17")] = True

    def check(self) -> None:
        if self.output_reserve is not None and not 0 <= self.output_reserve < self.window:
            raise SettingError("output_reserve", f"must be less than the window ({self.window})")

    @property
    def usable(self) -> int:
        reserve = self.output_reserve
        return self.window - (min(16_384, self.window // 5) if reserve is None else reserve)

    def soft_trigger(self) -> FillLevel | None:
        return FillLevel(int(self.usable * self.soft)) if self.auto else None

    def cache_delay(self, age: float) -> float | None:
        return self.cache_ttl - self.cache_buffer - age if self.cache_ttl else None

    def fitted(self, budget: int) -> Self:
        """All of `budget`, in exact tokens, is for the view."""
        return replace(self, window=budget, output_reserve=0, target=1.0, calibrate=False)

    def build(self) -> Preset:
        goal = int(self.usable * self.target)
        shape = FoldBudget(
            budget=self.usable,
            goal=goal,
            words=self.words_share,
            state=self.state_tokens,
            lines=self.lines_share,
            summary=self.summary_tokens,
            min_gain=self.min_gain,
            unverified=self.unverified,
            redact=self.redact,
            request=self.summary_request,
            cache_ttl=self.cache_ttl,
        )
        strategies = (
            Clip(shape),
            Summary(shape),
            Summary(shape, 0.5, "summary_half"),
            LinesStrategy(shape),
        )
        return Preset(
            name="refold",
            settings=self,
            measure="o200k",
            window=self.window,
            limit=self.usable,
            calibrated=self.calibrate,
            stages=(Stage(FillLevel(self.usable, goal) if self.auto else Never(), strategies),),
        )
