"""The default: a ladder of five rungs, summaries that are checked, constraints and trail that always survive,
and a deterministic end, so that the view always fits."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from refold.compaction.plan import Stage
from refold.compaction.preset import Preset
from refold.compaction.preset import Settings as Base
from refold.compaction.record import Budgets
from refold.compaction.requests import Wanted
from refold.compaction.rungs.head import DigestHead, Reduce, Shape, SummariseHead
from refold.compaction.triggers import FillLevel, Never
from refold.errors import SettingError


class Settings(Base, frozen=True, kw_only=True):
    window: Annotated[int, Meta(gt=0, description="context window of the model", extra={"rule": "R12"})] = (
        200_000
    )
    output_reserve: Annotated[
        int | None,
        Meta(description="room for the reply; default 16384 or 20 %, the smaller", extra={"rule": "R12"}),
    ] = None
    calibrate: Annotated[
        bool,
        Meta(
            description="judge what fits by the provider's counts, where its usage is known",
            extra={"rule": "R12"},
        ),
    ] = True
    auto: Annotated[bool, Meta(description="fold without being asked", extra={"rule": "R14"})] = True
    soft: Annotated[
        float,
        Meta(gt=0, le=1, description="part of the usable window at which to prepare", extra={"rule": "R12"}),
    ] = 0.75
    target: Annotated[
        float,
        Meta(gt=0, le=1, description="part of the usable window that a fold aims at", extra={"rule": "R2"}),
    ] = 0.5
    tail_tokens: Annotated[
        int, Meta(ge=0, description="newest part that stays verbatim", extra={"rule": "rung 3"})
    ] = 20_000
    tail_share: Annotated[
        float,
        Meta(
            ge=0, lt=1, description="and at most this part of what a fold aims at", extra={"rule": "rung 3"}
        ),
    ] = 0.4
    summary_tokens: Annotated[
        int, Meta(gt=0, description="length of a summary", extra={"rule": "rung 3"})
    ] = 4_000
    shrink_turns: Annotated[
        int, Meta(ge=0, description="newest turns whose results stay whole", extra={"rule": "rung 1"})
    ] = 3
    protect_tokens: Annotated[
        int, Meta(ge=0, description="newest tool results that are not masked", extra={"rule": "rung 2"})
    ] = 20_000
    min_gain: Annotated[
        float, Meta(ge=0, lt=1, description="part of the view that a fold must free", extra={"rule": "R2"})
    ] = 0.1
    constraint_tokens: Annotated[
        int, Meta(ge=0, description="room for constraints", extra={"rule": "R8"})
    ] = 1_000
    trail_tokens: Annotated[
        int, Meta(ge=0, description="room for the artifact trail", extra={"rule": "R10"})
    ] = 1_500
    history_tokens: Annotated[
        int, Meta(ge=0, description="room for abridged turns", extra={"rule": "R11"})
    ] = 2_000
    cache_ttl: Annotated[
        float,
        Meta(
            ge=0, description="seconds a provider keeps its cache; 0: never fold early", extra={"rule": "R13"}
        ),
    ] = 300.0
    cache_buffer: Annotated[
        float, Meta(ge=0, description="seconds before that at which to fold", extra={"rule": "R13"})
    ] = 30.0
    unverified: Annotated[
        Literal["mark", "remove"],
        Meta(description="what to do with unsupported claims", extra={"rule": "R5"}),
    ] = "mark"
    summary_request: Annotated[
        Wanted,
        Meta(
            description="ask with a transcript (stand-alone) or continue the chat, whose history the "
            "provider has cached (cached-prefix); auto: the latter where the chat's own model writes it",
            extra={"rule": "R15"},
        ),
    ] = "auto"
    redact: Annotated[
        bool, Meta(description="take secrets out of what a summariser gets", extra={"rule": "R17"})
    ] = True

    def check(self) -> None:
        if self.output_reserve is not None and not 0 <= self.output_reserve < self.window:
            raise SettingError("output_reserve", f"must be less than the window ({self.window})")

    @property
    def usable(self) -> int:
        reserve = self.output_reserve
        return self.window - (min(16_384, self.window // 5) if reserve is None else reserve)


def fitted(settings: Settings, budget: int) -> Settings:
    """All of `budget`, in exact tokens, is for the view; a quarter of it stays verbatim."""
    return msgspec.structs.replace(
        settings,
        window=budget,
        output_reserve=0,
        target=1.0,
        tail_share=min(settings.tail_share, 0.25),
        calibrate=False,
    )


def build(settings: Settings) -> Preset:
    goal = int(settings.usable * settings.target)
    shape = Shape(
        budget=settings.usable,
        goal=goal,
        tail=min(settings.tail_tokens, int(goal * settings.tail_share)),
        summary=settings.summary_tokens,
        shrink_turns=settings.shrink_turns,
        protect=settings.protect_tokens,
        min_gain=settings.min_gain,
        budgets=Budgets(settings.constraint_tokens, settings.trail_tokens, settings.history_tokens),
        unverified=settings.unverified,
        redact=settings.redact,
        request=settings.summary_request,
        cache_ttl=settings.cache_ttl,
    )
    ladder = (
        Reduce(shape),
        SummariseHead(shape),
        SummariseHead(shape, 0.5, "summary_half"),
        DigestHead(shape),
    )
    return Preset(
        name="refold",
        settings=settings,
        measure="o200k",
        window=settings.window,
        limit=settings.usable,
        calibrated=settings.calibrate,
        stages=(Stage(FillLevel(settings.usable, goal) if settings.auto else Never(), ladder),),
        cache_delay=lambda age: (
            settings.cache_ttl - settings.cache_buffer - age if settings.cache_ttl else None
        ),
        soft=FillLevel(int(settings.usable * settings.soft)) if settings.auto else None,
    )
