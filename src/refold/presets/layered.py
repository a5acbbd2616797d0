"""Reason with everything, remember the essence: tool results are shortened as rounds end, old rounds become
archives that are never folded again."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from refold.compaction.plan import Stage
from refold.compaction.preset import Preset
from refold.compaction.preset import Settings as Base
from refold.compaction.rungs.archive import Archive, KeepRecent, ShrinkRounds, archives_fit
from refold.compaction.triggers import NewInput, RoundEnded
from refold.shrink import Limits


def about(text: str, rule: str, **bounds: Any) -> Meta:
    return Meta(description=text, extra={"rule": rule}, **bounds)


class Settings(Base, frozen=True, kw_only=True):
    window: Annotated[int, about("context window of the model", "E8, E15", gt=0)] = 200_000
    threshold: Annotated[float, about("part of the window at which to archive", "E8, E15", gt=0, le=1)] = 0.8
    min_messages: Annotated[int, about("messages below which nothing is archived", "E8", ge=0)] = 3
    keep_rounds: Annotated[int, about("newest finished rounds that stay", "E7, E15", ge=0)] = 10
    shrink: Annotated[bool, about("shorten tool results once their round has ended", "E3")] = True
    limits: Annotated[Limits, about("what is left of a tool result, as a JSON object", "E4, E15")] = Limits()
    archive_tokens: Annotated[int, about("length of an archive", "E9", gt=0)] = 4_000
    summary_model: Annotated[str, about("who writes archives; empty: the current model", "E10, E15")] = ""
    summary_timeout: Annotated[float, about("seconds an archive may take", "E10", gt=0)] = 120.0


def fitted(settings: Settings, budget: int) -> Settings:
    """Archives take at most an eighth each. How many rounds stay is the design's own choice."""
    tokens = min(settings.archive_tokens, max(budget // 8, 100))
    return msgspec.structs.replace(settings, window=budget, archive_tokens=tokens)


def build(settings: Settings) -> Preset:
    after_rounds = Stage(
        RoundEnded("tool results are shortened once their round has ended"),
        (ShrinkRounds(settings.limits),),
        upkeep=True,
    )
    archive = Stage(
        NewInput(settings.threshold, settings.min_messages),
        (
            Archive(settings.keep_rounds, settings.archive_tokens, settings.summary_timeout),
            KeepRecent(settings.keep_rounds),
        ),
    )
    return Preset(
        name="layered",
        settings=settings,
        measure="len//3",
        window=settings.window,
        stages=(after_rounds, archive) if settings.shrink else (archive,),
        objection=archives_fit,
        summary_model=settings.summary_model,
    )
