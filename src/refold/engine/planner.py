"""What an engine decides with: the preset for a session, what is known of it, what a fold would do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import NoneType

from refold import entries as e
from refold.compaction.overflow import learned_window
from refold.compaction.plan import Plan, Reason
from refold.compaction.plan_context import PlanContext, PlanRequest
from refold.compaction.planning import look, make_plan
from refold.compaction.preset import Preset
from refold.compaction.requests import last_model, rests
from refold.engine.limits import Deadline
from refold.engine.replica import at_replica, on_replica
from refold.engine.summarise import Summariser, writer_of
from refold.errors import expect
from refold.protocols import TokenCounter
from refold.session import History, Projection, Session
from refold.tokens import get as counter_named
from refold.tokens.parts import part_strings

WANTED = "pass a Session; a list of messages is merged into one"
NEW_ENTRIES, NEW_CHARACTERS = 200, 20_000
"""Of what is new since the last look, at most, where the loop looks itself."""


def _characters(entry: e.Entry) -> int:
    message = entry.message if isinstance(entry, e.MessageEntry) else None
    return sum(len(text) for part in message.parts for text in part_strings(part)) if message else 0


@dataclass
class Planner:
    """Looks at sessions as a preset says, and plans folds. Appends nothing; holds no state beyond caches."""

    preset: Preset
    counter: TokenCounter
    summariser: Summariser
    auto: bool
    clock: Callable[[], float]

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

    def limits(self) -> Deadline:
        """What everything that is asked of a summariser from now on may take together."""
        return Deadline.begin(self.preset.settings.summary_seconds)

    def plan(self, session: Session, question: PlanRequest) -> Plan | Reason:
        expect(session, Session, WANTED)
        return at_replica(session, session.snapshot(), lambda history: self._plan_at(history, question))

    async def planned(self, session: Session, question: PlanRequest) -> Plan | Reason:
        """Looks first, where that is quick; plans in the worker."""
        expect(session, Session, WANTED)
        if not question.force and self._is_quick(session):
            s = self.context(session, question)
            if isinstance(reason := look(self.preset_for(session, question.model), s), Reason):
                return reason
        return await on_replica(session, lambda history: self._plan_at(history, question))

    def _plan_at(self, history: History, question: PlanRequest) -> Plan | Reason:
        return make_plan(self.preset_for(history, question.model), self.context(history, question))

    def _is_quick(self, session: Session) -> bool:
        """Has nearly all of it been looked at before?"""
        news = session.path[self.projection(session).seen :]
        return len(news) <= NEW_ENTRIES and sum(map(_characters, news)) <= NEW_CHARACTERS

    def context(self, session: History, question: PlanRequest = PlanRequest()) -> PlanContext:
        """Everything a decision may look at."""
        expect(session, History, WANTED)
        expect(question.system, (str, NoneType), "the system prompt must be a string")
        expect(question.tools, Iterable, "tools must be a list; use [] for none")
        now = self.clock()
        resting = question.resting or (self.summariser.uses_model and rests(session, now))
        return PlanContext(
            session=session,
            projection=self.projection(session),
            counter=self.counter,
            measure=self.measure,
            window=self.preset_for(session, question.model).window,
            now=now,
            writer=writer_of(self.summariser),
            calibrated=self.preset.settings.by_provider,
            **vars(replace(question, resting=resting)),
        )

    def projection(self, session: History) -> Projection:
        return Projection.of(session, self.preset.accepts)
