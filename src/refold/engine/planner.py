"""What an engine decides with: the preset for a session, what is known of it, what a fold would do; and the
history of a session that is read for this in another thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from types import NoneType
from typing import TypeVar

from refold import entries as e
from refold import worker
from refold.compaction.overflow import learned_window
from refold.compaction.plan import Plan, Reason, fired
from refold.compaction.plan_context import Due, PlanContext, PlanRequest, Writer
from refold.compaction.planning import make_plan
from refold.compaction.preset import Preset
from refold.compaction.requests import rests
from refold.compaction.sizes import ROUGH
from refold.engine.limits import Deadline
from refold.engine.summarise import ByModel, Summariser
from refold.errors import expect
from refold.hooks import Hooks
from refold.protocols import TokenCounter
from refold.session import History, Projection, Session, Snapshot, View
from refold.session.history import last_model
from refold.session.replica import Replica
from refold.tokens import get as counter_named

T = TypeVar("T")
WANTED = "pass a Session; a list of messages is merged into one"
NEW_ENTRIES, NEW_TOKENS = 200, 10_000
"""Of what is new since the last look, at most, by a rough count, where the loop looks itself: counted
exactly, that takes about a millisecond, less than handing it over."""


@dataclass
class Planner:
    """Looks at sessions as a preset says, and plans folds. Appends nothing; holds no state beyond caches. It
    also says who performs a plan: the summariser, and the hooks around it."""

    preset: Preset
    counter: TokenCounter
    summariser: Summariser
    hooks: Hooks
    auto: bool
    clock: Callable[[], float]

    def preset_for(self, session: History, model: str | None = None) -> Preset:
        """The preset, for the window that refusals of this model (the log's newest) taught us where that is
        smaller."""
        expect(session, History, WANTED)
        preset = self.preset.for_model(lambda: model or last_model(session))
        learned = learned_window(session, preset.window, model)
        return preset if learned is None or learned >= preset.window else preset.resized(learned)

    def limits(self) -> Deadline:
        """What everything that is asked of a summariser from now on may take together."""
        return Deadline(asyncio.get_running_loop().time() + self.preset.settings.summary_seconds)

    def plan(self, session: Session, request: PlanRequest) -> Plan | Reason:
        expect(session, Session, WANTED)
        return at_replica(session, session.snapshot(), partial(self._plan_at, request))

    def glance(self, session: Session, request: PlanRequest) -> PlanContext | None:
        """What a quick look shows, where that is that nothing is to be done; otherwise None."""
        s = self.context(session, request)
        news = session.path[s.projection.seen :]
        if self.preset.maintains or len(news) > NEW_ENTRIES:
            return None
        said = (x for x in news if isinstance(x, e.MessageEntry))
        if sum(session.cached_count(x.id, x.message, ROUGH) for x in said) > NEW_TOKENS:
            return None
        stages = self.preset_for(session, request.model).stages if self.auto else ()
        if any(isinstance(fired(stage.trigger, s), Due) for stage in stages):
            return None
        return None if s.sizes.passes(self.preset.window, as_we_count=True) else s

    async def planned(self, session: Session, request: PlanRequest) -> Plan | Reason:
        """The same in the worker."""
        expect(session, Session, WANTED)
        return await on_replica(session, partial(self._plan_at, request))

    def _plan_at(self, request: PlanRequest, history: History) -> Plan | Reason:
        return make_plan(self.preset_for(history, request.model), self.context(history, request))

    def context(self, session: History, request: PlanRequest = PlanRequest()) -> PlanContext:
        """Everything a decision may look at."""
        window = self.preset_for(session, request.model).window
        expect(request.system, (str, NoneType), "the system prompt must be a string")
        expect(request.tools, Iterable, "tools must be a list; use [] for none")
        now, summariser, writer = self.clock(), self.summariser, None
        if summariser.uses_model:
            read = summariser.model.context_window if isinstance(summariser, ByModel) else None
            writer = Writer(summariser.name, read)
        resting = request.resting or (writer is not None and rests(session, now))
        return PlanContext(
            session=session,
            projection=Projection.of(session, self.preset.accepts),
            counter=self.counter,
            measure=counter_named(self.preset.measure),
            window=window,
            now=now,
            writer=writer,
            calibrated=self.preset.calibrated,
            **vars(replace(request, resting=resting)),
        )


def view_of(s: PlanContext) -> View:
    """What the model sees, of a context."""
    items, extra = s.projection.items, s.sizes.extra.total
    count = s.projection.size_up_to(len(items), s.counter)
    return View(
        items,
        counter=s.counter,
        count=lambda: s.sizes.overhead + count() + extra,
        system=s.system,
        tools=s.tools,
    )


# ── in another thread ───────────────────────────────────────────────────────────────────────────


def at_replica(session: Session, snapshot: Snapshot, work: Callable[[History], T]) -> T:
    """The result of work that reads what a session held at a snapshot. Nothing changes that meanwhile."""
    replica = session.derived.of(Replica, lambda: Replica(snapshot, threading.RLock()))
    with replica.lock:
        replica.follow(snapshot)
        return work(replica)


async def on_replica(session: Session, work: Callable[[History], T]) -> T:
    """The same in the worker, for what the session holds now."""
    snapshot = session.snapshot()
    return await worker.run_in_worker(lambda: at_replica(session, snapshot, work))


async def at_plan(plan: Plan, work: Callable[[], T]) -> T:
    """The same for work that reads the history of a plan."""
    return await worker.run_in_worker(lambda: plan.at(work))
