"""Background work beside a conversation: a summary prepared before it is needed, the cache timer, and notes
that a design writes as rounds end.

    async with engine.watch(session):
        …the usual loop…

Nothing here is needed for correctness: without a watch, folds happen when they are due, and the caller waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Self, TypeVar

from refold import entries as e
from refold.compaction.plan import Failed, Plan, Reason, fired
from refold.compaction.plan_context import Due
from refold.compaction.planning import first_feasible
from refold.engine.call import Sleep
from refold.engine.fold import make_fold, moved_on, record_failure
from refold.engine.hooks import perform_with_hooks, steer, tell_outcome
from refold.engine.maintenance import write_notes
from refold.engine.planner import Planner, PlanRequest
from refold.engine.replica import on_replica
from refold.errors import PluginError, RefoldError
from refold.hooks import log
from refold.session import History, Session

T = TypeVar("T")
LAST_NOTES = 10.0
"""Seconds that the end of a watch waits for notes being written."""


class PreparedFold(NamedTuple):
    """A fold that is ready but not published, and its plan."""

    fold: e.Fold
    plan: Plan


class Watch:
    """Follows one session. Use `engine.watch(session)`."""

    def __init__(
        self,
        planner: Planner,
        session: Session,
        *,
        watches: MutableMapping[Session, Watch],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.planner, self.session = planner, session
        self._watches = watches
        """Where the engine looks for the watch of a session, while it is open."""
        self._sleep = sleep
        self._preparing: asyncio.Task[None] | None = None
        self._timer: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._last_call = PlanRequest()
        """System prompt and tools of the last call: they take room in the next one too."""
        self.prepared: PreparedFold | None = None

    async def __aenter__(self) -> Self:
        self.enter()
        return self

    def enter(self) -> None:
        self._watches[self.session] = self

    async def __aexit__(self, *_: object) -> None:
        self._watches.pop(self.session, None)
        await self.close()

    async def close(self) -> None:
        """End all background work; nothing is published after this. Notes of the last round are waited for a
        little, then the design's rule writes them."""
        if self._writing and not self._writing.done():
            await asyncio.wait([self._writing], timeout=LAST_NOTES)
        every = (self._preparing, self._timer, self._writing)
        tasks = [task for task in every if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._preparing = self._timer = self._writing = None

    # ── notes ───────────────────────────────────────────────────────────────────────────────────

    def write_notes(self) -> None:
        """Begin to write what the design notes of finished rounds (D1), unless that is under way."""
        idle = self._writing is None or self._writing.done()
        if idle and self.planner.auto and self._unless_broken(self.planner.preset.annotator) is not None:
            write = partial(write_notes, self.planner, self.session, self._last_call)
            self._writing = asyncio.ensure_future(_quietly(write, self.planner.limits()))

    # ── preparing ahead ─────────────────────────────────────────────────────────────────────────

    def consider(self, request: PlanRequest) -> None:
        """Begin to prepare a fold if the soft threshold is passed and none is under way or ready."""
        self._last_call = PlanRequest(system=request.system, tools=request.tools)
        if self._busy() or self.ready() is not None:
            return
        preset = self.planner.preset_for(self.session)
        soft = self._unless_broken(preset.soft_trigger)
        if soft is None or not self.planner.auto:
            return
        due = self._unless_broken(lambda: fired(soft, self.planner.context(self.session, request)))
        if isinstance(due, Due):
            self._preparing = asyncio.ensure_future(_quietly(self._prepare, (request, due)))

    def ready(self) -> PreparedFold | None:
        """What was prepared, if it still holds: later messages may have come, but no fold, undo or move."""
        prepared = self.prepared
        if prepared is None:
            return None
        plan = prepared.plan
        if self.session.generation != plan.generation or not plan.holds(self.session):
            self.prepared = None
        return self.prepared

    async def publish(self, budget: int, request: PlanRequest = PlanRequest()) -> e.Fold | None:
        """Append what was prepared, if it holds and the view then fits; compare-and-swap as any append."""
        prepared, self.prepared = self.ready(), None
        if prepared is None:
            return None
        asked = replace(prepared.plan.context, system=request.system, tools=request.tools)
        fold = await moved_on(self.session, asked, prepared.fold, budget)
        return self.session.append(fold, after=self.session.base) if fold else None

    def _busy(self) -> bool:
        return self._preparing is not None and not self._preparing.done()

    async def _prepare(self, asked: tuple[PlanRequest, Due]) -> None:
        request, due = asked

        def planned(history: History) -> Plan | Reason:
            preset, s = self.planner.preset_for(history), self.planner.context(history, request)
            return first_feasible(preset, s, preset.stages[-1], Due("soft", due.text))

        plan = await on_replica(self.session, planned)
        if not (isinstance(plan, Plan) and plan.asks):
            return
        outcome = await steer(self.planner, self.session, plan)
        if not isinstance(outcome, Failed):
            steered, summariser = outcome
            outcome = await make_fold(self.session, steered, steered, summariser, self.planner.limits())
            if isinstance(outcome, e.Fold):
                self.prepared = PreparedFold(outcome, plan)
                return
            record_failure(self.session, plan.preset, outcome)
        await tell_outcome(self.planner.hooks, self.session, plan.preset, outcome)

    # ── ahead of cache expiry ───────────────────────────────────────────────────────────────────

    def arm(self) -> None:
        """A reply came: a round may have ended, and a fold is due before the provider's cache of this context
        expires, unless there is a request sooner."""
        self.disarm()
        self.write_notes()
        now = self.planner.clock()
        replied = self.session.path[-1].time if self.session.path else now
        delay = self._unless_broken(lambda: self.planner.preset_for(self.session).cache_delay(now - replied))
        if delay is not None and delay > 0 and self.planner.auto:
            self._timer = asyncio.ensure_future(_quietly(self._expire, delay))

    def _unless_broken(self, ask: Callable[[], T]) -> T | None:
        """Nothing here is needed: where a part of the preset fails, the conversation goes on without it."""
        try:
            return ask()
        except PluginError as error:
            log.warning("nothing is prepared ahead: %s", error)
            return None

    def disarm(self) -> None:
        """The next request is under way."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _expire(self, delay: float) -> None:
        await self._sleep(delay)
        plan = await self.planner.planned(self.session, replace(self._last_call, cache_expiring=True))
        if isinstance(plan, Plan) and plan.made_from == self.session.base:
            await perform_with_hooks(self.planner, self.session, plan, self.planner.limits())


async def _quietly(work: Callable[[T], Awaitable[None]], about: T) -> None:
    """Background work; what cannot be done (the session moved on, it does not fit) is left to the next
    `prepare`, which raises."""
    try:
        await work(about)
    except RefoldError:
        return
