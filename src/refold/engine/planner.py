"""The half of the engine that looks and decides: what the model sees, what a fold would do, what was said. It
appends nothing."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import wraps
from types import NoneType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from refold import presets
from refold.compaction.overflow import learned_window
from refold.compaction.plan import Plan, Reason
from refold.compaction.planning import caught_up, planning
from refold.compaction.preset import Preset, Settings
from refold.compaction.requests import last_model, rests
from refold.compaction.situation import Question, Situation
from refold.engine.limits import Limits
from refold.engine.summarise import ByDigest, Summariser, writer_of
from refold.engine.summarise import checked as checked_summariser
from refold.errors import expect
from refold.loop import breathe
from refold.protocols import Steps, TokenCounter, complete
from refold.session import Projection, Session, View
from refold.session.projection import Accepts
from refold.tokens import checked
from refold.tokens import get as counter_named

if TYPE_CHECKING:
    from refold.recall import Hit


P = ParamSpec("P")
T = TypeVar("T")
WANTED = "pass a Session; a list of messages is merged into one"


def named_as(other: Callable[P, Any]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """For a method that takes what another one does: its arguments are named there alone, for the editor and
    when it is called. What is misspelt fails at once, not when a coroutine is awaited."""
    signature = inspect.signature(other)

    def named(method: Callable[..., T]) -> Callable[P, T]:
        @wraps(other, assigned=())
        def called(*args: P.args, **kwargs: P.kwargs) -> T:
            signature.bind(*args, **kwargs)
            return method(*args, **kwargs)

        called.__name__, called.__doc__ = method.__name__, method.__doc__
        return called

    return named


class Planner:
    """Looks at sessions as a preset says. Holds no state of its own beyond caches."""

    def __init__(
        self,
        preset: Preset | Settings | str = "refold",
        *,
        counter: TokenCounter | str = "o200k",
        summariser: Summariser | None = None,
        auto: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.preset = presets.preset_of(preset)
        self.counter = counter_named(counter) if isinstance(counter, str) else checked(counter)
        self.summariser = ByDigest(self.counter) if summariser is None else checked_summariser(summariser)
        self.auto = auto
        self.clock = clock

    @property
    def measure(self) -> TokenCounter:
        """Decides when and where. Follows `preset`, which may be swapped at any time."""
        return counter_named(self.preset.measure)

    def preset_for(self, session: Session, model: str | None = None) -> Preset:
        """The preset, for the window that refusals of this model (the log's newest) taught us where that is
        smaller."""
        expect(session, Session, WANTED)
        preset = self.preset.for_model(lambda: model or last_model(session))
        learned = learned_window(session, preset.window, model)
        return preset if learned is None or learned >= preset.window else preset.resized(learned)

    def _limits(self) -> Limits:
        """What everything that is asked of a summariser from now on may take together."""
        return Limits.begin(self.preset.settings.summary_seconds)

    def view(self, session: Session, *, system: str | None = None, tools: Sequence[Any] = ()) -> View:
        """What the model sees now. Folds nothing."""
        s = self._situation(session, Question(system=system, tools=tools))
        count, extra = s.projection.size_up_to(len(s.items), self.counter), s.sizes.extra.total
        return View(
            s.items,
            counter=self.counter,
            count=lambda: s.sizes.overhead + count() + extra,
            system=system,
            tools=tools,
        )

    def plan(
        self,
        session: Session,
        *,
        force: bool = False,
        system: str | None = None,
        tools: Sequence[Any] = (),
        incoming: str | None = None,
        instructions: str | None = None,
        cache_expiring: bool = False,
    ) -> Plan | Reason:
        """What a fold would do now, or the reason why there is none. Pure. `force` ignores the trigger;
        `system` and `tools` go with the next call and take room; `incoming` is user input that is about to be
        appended; `instructions` say what a summary should pay attention to; `cache_expiring`: the provider is
        about to forget this context.

        Synchronous: less than a millisecond where nothing is due; up to a tenth of a second where the default
        lays a view out; about half a second where 10,000 messages were never looked at. `planned` is the same
        for an event loop."""
        question = Question(
            force=force,
            system=system,
            tools=tools,
            incoming=incoming,
            instructions=instructions,
            cache_expiring=cache_expiring,
        )
        return self._plan(session, question)

    @named_as(plan)
    async def planned(self, session: Session, **asked: Any) -> Plan | Reason:
        """`plan` for an event loop: others get their turn while it is worked out."""
        return await self._planned(session, Question(**asked))

    def objection(self, session: Session) -> Reason | None:
        """Why the view is no good although it may be small enough, where the design can tell."""
        return self.preset.objection(self._situation(session))

    def recall(
        self,
        session: Session,
        query: str = "",
        *,
        limit: int = 5,
        keys: Sequence[str] = (),
        turns: Sequence[int] = (),
        since: float | None = None,
        until: float | None = None,
        tool: str | None = None,
        file: str | None = None,
        budget: int | None = None,
    ) -> list[Hit]:
        """What was said about something, folded or not, on any branch. All conditions are to be met: `since`
        and `until` are seconds since 1970, `file` is a path or the end of one; `budget` bounds the tokens of
        all hits together. Synchronous: the first call reads the whole log (some seconds for 10,000 messages),
        later ones what is new. `recalled` is the same for an event loop."""
        from refold.recall import recall

        expect(session, Session, WANTED)
        return recall(
            session,
            query,
            limit=limit,
            keys=keys,
            turns=turns,
            since=since,
            until=until,
            tool=tool,
            file=file,
            budget=budget,
            counter=self.counter,
        )

    @named_as(recall)
    async def recalled(self, session: Session, *query: str, **conditions: Any) -> list[Hit]:
        """`recall` for an event loop: others get their turn while what is new in the log is read."""
        from refold.recall.log import indexing

        expect(session, Session, WANTED)
        await breathe(lambda: indexing(session), lambda: len(session.entries))
        return self.recall(session, *query, **conditions)

    def _plan(self, session: Session, question: Question) -> Plan | Reason:
        return complete(self._planning(session, question))

    async def _planned(self, session: Session, question: Question) -> Plan | Reason:
        expect(session, Session, WANTED)
        if question.at_once:
            return self._plan(session, question)
        return await breathe(lambda: self._planning(session, question), lambda: len(session.entries))

    async def _caught_up(self, session: Session, question: Question) -> bool:
        """Take in what is new; others get their turn meanwhile. Whether they left the session as it was."""
        tip = session.tip
        if not question.at_once:
            await asyncio.sleep(0)  # appending a fold was a piece of its own
            await breathe(lambda: caught_up(self._situation(session, question)), lambda: len(session.entries))
        return session.tip == tip

    def _planning(self, session: Session, question: Question) -> Steps[Plan | Reason]:
        s = self._situation(session, question)
        yield from caught_up(s)
        return (yield from planning(self.preset_for(session, question.model), s))

    def _situation(self, session: Session, question: Question = Question()) -> Situation:
        """Everything a decision may look at."""
        expect(session, Session, WANTED)
        expect(question.system, (str, NoneType), "the system prompt is one text")
        expect(question.tools, Iterable, "tools are a list of definitions")
        now = self.clock()
        resting = question.resting or (self.summariser.uses_model and rests(session, now))
        return Situation(
            session=session,
            projection=self._projection(session),
            counter=self.counter,
            measure=self.measure,
            window=self.preset_for(session, question.model).window,
            now=now,
            writer=writer_of(self.summariser),
            calibrated=self.preset.calibrated,
            **vars(replace(question, resting=resting)),
        )

    def _projection(self, session: Session) -> Projection:
        projections = session.followers.of(self, dict[Accepts, Projection])
        accepts = self.preset.accepts
        if accepts not in projections:
            projections.clear()
            projections[accepts] = Projection(session, accepts)
        return projections[accepts]
