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
    """The default: fidelity that falls with age, the user's own words and the state of the work in every
    fold, summaries that are checked, and a deterministic end, so that the view always fits."""

    window: Annotated[int, about("context window of the model", "R12", gt=0)] = 200_000
    output_reserve: Annotated[
        int | None, about("room for the reply; default 16384 or 20 %, the smaller", "R12")
    ] = None
    calibrate: Annotated[
        bool, about("judge what fits by the provider's counts, where its usage is known", "R12")
    ] = True
    auto: Annotated[bool, about("fold without being asked", "R14")] = True
    soft: Annotated[float, about("part of the usable window at which to prepare", "R12", gt=0, le=1)] = 0.75
    target: Annotated[
        float,
        about(
            "part that a fold aims at of what system prompt and tools leave of the usable window",
            "R2",
            gt=0,
            le=1,
        ),
    ] = 0.5
    summary_tokens: Annotated[
        int, about("length of a summary: at most, and an eighth of the view", "strategy 3", gt=0)
    ] = 4_000
    state_tokens: Annotated[
        int, about("room for the state of the work; never over 18 % of the goal", "R10, R25", ge=0)
    ] = 1_500
    lines_share: Annotated[
        float, about("least room for lines, as part of what messages get in their place", "R11", ge=0, le=1)
    ] = 0.13
    words_share: Annotated[
        float,
        about(
            "part of the goal for the user's own words; at least 1000 tokens, at most a quarter",
            "R8",
            ge=0,
            le=0.25,
        ),
    ] = 0.1
    min_gain: Annotated[float, about("part of the view that a fold must free", "R2", ge=0, lt=1)] = 0.1
    cache_ttl: Annotated[
        float, about("seconds a provider keeps its cache; 0: never fold early", "R13", ge=0)
    ] = 300.0
    cache_buffer: Annotated[float, about("seconds before that at which to fold", "R13", ge=0)] = 30.0
    unverified: Annotated[Literal["mark", "remove"], about("what to do with unsupported claims", "R5")] = (
        "mark"
    )
    summary_request: Annotated[
        Wanted,
        about(
            "ask with a transcript (stand-alone) or continue the chat, whose history the "
            "provider has cached (cached-prefix); auto: the latter where the chat's own model writes it",
            "R15",
        ),
    ] = "auto"
    redact: Annotated[bool, about("take secrets out of what a summariser gets", "R17")] = True

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
