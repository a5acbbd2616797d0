"""A design of one strategy, counted in letters: what the engine does with a proposal, without any real design."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from refold import Engine, Reason, Session, presets
from refold import entries as e
from refold import messages as m
from refold.compaction.plan import Ask, Due, Finished, Proposal, Stage
from refold.engine.summarise import ByModel
from refold.models.retry import NO_RETRY
from refold.models.scripted import Scripted
from refold.protocols import Request
from refold.tokens import get as counter

SIZE = 100
"""Letters of each message; counted in letters, so that every boundary can be hit exactly."""


@dataclass(frozen=True)
class Swap:
    """A strategy that puts a text in the place of some messages; `asks`: after asking a model for it."""

    first: int = 0
    last: int = 3
    letters: int = 10
    asks: bool = False
    name: str = "swap"
    options: tuple[tuple[str, Any], ...] = ()

    def propose(self, s: Any, /) -> Proposal | Reason:
        path = s.session.path
        first, last = path[self.first].id, path[self.last].id

        def finish(answers: Sequence[str]) -> Finished:
            text = answers[0] if answers else "x" * self.letters
            return Finished(edits=(e.Edit(first, last, (m.user(text),)),), framed=True, summary=text)

        def render(_: Sequence[Any], __: str | None) -> Request:
            return Request(messages=(m.user("Summarise."),), purpose="summary")

        asks = (Ask(sources=(), render=render),) if self.asks else ()
        return Proposal(
            strategy=self.name, finish=finish, asks=asks, stretch=(first, last), **dict(self.options)
        )


class Always:
    def due(self, s: Any, /) -> Due | Reason:
        return Due("test", "always")


def swap(**given: Any) -> Swap:
    """Fields of a proposal beside those of the strategy."""
    own = {name: given.pop(name) for name in tuple(given) if name in Swap.__dataclass_fields__}
    return Swap(**own, options=tuple(given.items()))


def engine(*strategies: Swap, window: int = 100_000, model: Scripted | None = None, **options: Any) -> Engine:
    preset = presets.Preset(
        name="probe",
        settings=presets.Settings(),
        measure="chars",
        window=window,
        stages=(Stage(Always(), strategies),),
    )
    by = ByModel(model, counter("chars"), retries=NO_RETRY) if model else None
    return Engine(preset, counter="chars", model=model, summariser=by, **options)


def talk(messages: int = 6, **options: Any) -> Session:
    session = Session(**options)
    for number in range(messages):
        text = f"{number}".ljust(SIZE, "x")
        session.append(m.user(text) if number % 2 == 0 else m.assistant(text))
    return session
