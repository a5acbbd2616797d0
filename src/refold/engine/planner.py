"""The half of the engine that looks and decides: what the model sees, what a fold would do, what was said. It
appends nothing."""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import wraps
from types import NoneType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from refold import entries as e
from refold import presets, worker
from refold.compaction.overflow import learned_window
from refold.compaction.plan import Plan, Reason
from refold.compaction.planning import look, make_plan
from refold.compaction.preset import Preset, Settings
from refold.compaction.requests import last_model, rests
from refold.compaction.situation import Question, Situation
from refold.engine.limits import Limits
from refold.engine.replica import at_replica, on_replica
from refold.engine.summarise import ByDigest, Summariser, writer_of
from refold.engine.summarise import checked as checked_summariser
from refold.errors import expect
from refold.protocols import TokenCounter
from refold.session import History, Projection, Session, View
from refold.tokens import checked
from refold.tokens import get as counter_named
from refold.tokens.parts import part_strings

if TYPE_CHECKING:
    from refold.recall import Hit


P = ParamSpec("P")
T = TypeVar("T")
WANTED = "pass a Session; a list of messages is merged into one"
NEW_ENTRIES, NEW_CHARACTERS = 200, 20_000
"""Of what is new since the last look, at most, where the loop looks itself."""


def _characters(entry: e.Entry) -> int:
    message = entry.message if isinstance(entry, e.MessageEntry) else None
    return sum(len(text) for part in message.parts for text in part_strings(part)) if message else 0


def _warn(old: str, new: str) -> None:
    warnings.warn(f"Engine.{old} goes with the next release: use {new}", DeprecationWarning, stacklevel=3)


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

    def preset_for(self, session: History, model: str | None = None) -> Preset:
        """The preset, for the window that refusals of this model (the log's newest) taught us where that is
        smaller."""
        expect(session, History, WANTED)
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
        lays a view out; about half a second where 10,000 messages were never looked at. On an event loop:
        `await asyncio.to_thread(engine.plan, session)`, or `prepare`, which has a thread of its own."""
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
        """`plan` in a thread. Goes with the next release: use `asyncio.to_thread(engine.plan, session)`."""
        _warn("planned", "asyncio.to_thread(engine.plan, session, …)")
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
        later ones what is new."""
        from refold.recall import recall

        expect(session, Session, WANTED)

        def search(history: History) -> list[Hit]:
            return recall(
                history,
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

        return at_replica(session, session.snapshot(), search)

    @named_as(recall)
    async def recalled(self, session: Session, *query: str, **conditions: Any) -> list[Hit]:
        """`recall` in a thread. Goes with the next release: use `asyncio.to_thread(engine.recall, …)`."""
        _warn("recalled", "asyncio.to_thread(engine.recall, session, …)")
        return await worker.run(lambda: self.recall(session, *query, **conditions))

    def _plan(self, session: Session, question: Question) -> Plan | Reason:
        expect(session, Session, WANTED)
        return at_replica(session, session.snapshot(), lambda history: self._plan_at(history, question))

    async def _planned(self, session: Session, question: Question) -> Plan | Reason:
        """Looks first, where that is quick; plans in the worker."""
        expect(session, Session, WANTED)
        if not question.force and self._is_quick(session):
            s = self._situation(session, question)
            if isinstance(reason := look(self.preset_for(session, question.model), s), Reason):
                return reason
        return await on_replica(session, lambda history: self._plan_at(history, question))

    def _plan_at(self, history: History, question: Question) -> Plan | Reason:
        return make_plan(self.preset_for(history, question.model), self._situation(history, question))

    def _is_quick(self, session: Session) -> bool:
        """Has nearly all of it been looked at before?"""
        news = session.path[self._projection(session).seen :]
        return len(news) <= NEW_ENTRIES and sum(map(_characters, news)) <= NEW_CHARACTERS

    def _situation(self, session: History, question: Question = Question()) -> Situation:
        """Everything a decision may look at."""
        expect(session, History, WANTED)
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
            calibrated=self.preset.settings.by_provider,
            **vars(replace(question, resting=resting)),
        )

    def _projection(self, session: History) -> Projection:
        return Projection.of(session, self.preset.accepts)
