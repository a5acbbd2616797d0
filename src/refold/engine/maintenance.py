"""Work beside a conversation: what a design does as turns end, whatever the size of the view; a summary
prepared before it is needed, and the cache timer.

    async with engine.watch(session):
        …the usual loop…

A watch is not needed for correctness: without one, folds happen when they are due, and the caller waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import msgspec

from refold import entries as e
from refold.compaction.plan import Failed, Plan, Proposal, Reason, finish, fired, propose
from refold.compaction.plan_context import Due
from refold.compaction.planning import first_feasible, make_plan
from refold.compaction.requests import text_of
from refold.engine.call import Sleep
from refold.engine.fold import make_fold, moved_on, only_messages_came, record_failure
from refold.engine.hooks import perform_with_hooks, steer, tell_outcome
from refold.engine.limits import Deadline
from refold.engine.planner import Planner, PlanRequest, on_replica
from refold.engine.summarise import ByModel, ask_all, failed_by
from refold.errors import PluginError, RefoldError
from refold.hooks import log
from refold.models.reply import complete
from refold.protocols import Model, Request
from refold.session import History, Session

if TYPE_CHECKING:
    from refold.memory import MemoryParams

T = TypeVar("T")
MEMORY_TIMEOUT = 120.0
"""Seconds that a model may take to compress long-term notes."""
NOTES_TIMEOUT = 60.0
"""Seconds that writing annotations may hold up a conversation."""
LAST_NOTES = 10.0
"""Seconds that the end of a watch waits for notes being written."""


async def maintain(
    planner: Planner,
    session: Session,
    request: PlanRequest = PlanRequest(),
    *,
    limits: Deadline | None = None,
    notes: bool = True,
) -> None:
    """Write the annotations that the design keeps (`notes`: a watch does not), then perform its maintenance
    stages."""
    limits = limits or planner.limits()
    if notes:
        await write_notes(planner, session, request, limits)
    preset = planner.preset
    for _ in range(sum(stage.maintenance for stage in preset.stages)):
        plan = await on_replica(
            session, lambda h: make_plan(preset, planner.context(h, request), maintenance_only=True)
        )
        if isinstance(plan, Reason):
            return
        if not await perform_with_hooks(planner, session, plan, limits):
            return


class Memory(Protocol):
    """Long-term notes (`refold.stores.memory_file.MemoryFile`)."""

    async def compress(
        self, params: MemoryParams, ask: Callable[[Request], Awaitable[str]] | None = None
    ) -> object: ...


def asker(model: Model) -> Callable[[Request], Awaitable[str]]:
    """Asks a model to compress notes; a `ModelError` or `BadAnswer` where it does not."""

    async def ask(request: Request) -> str:
        return text_of((await complete(model, request, timeout=MEMORY_TIMEOUT)).message)

    return ask


async def keep_memory(memory: Memory, planner: Planner) -> None:
    """At a turn's end: notes are compressed where there are too many (A19), by the model of summaries
    or by rule. Failure leaves them as they are."""
    from refold.memory import MemoryParams

    params = getattr(planner.preset.settings, "memories_params", MemoryParams())
    writer = planner.summariser.model if isinstance(planner.summariser, ByModel) else None
    try:
        await memory.compress(params, asker(writer) if writer else None)
    except (RefoldError, OSError) as error:
        log.warning("long-term notes were not compressed: %s", error)


async def write_notes(planner: Planner, session: Session, request: PlanRequest, limits: Deadline) -> None:
    """Write the annotations that the design keeps. Where the summariser fails, or this is cancelled while it
    is asked, the design's own rule writes them."""
    preset = planner.preset
    writer = preset.annotator()
    if writer is None:
        return
    proposal = await on_replica(session, lambda h: propose(writer, planner.context(h, request)))
    if not isinstance(proposal, Proposal):
        return

    def append(notes: Iterable[e.AnyAnnotation]) -> None:
        # The leaf may have moved meanwhile: a line names the end of its round, and holds there alone.
        session.extend(
            [msgspec.structs.replace(note, id=session.new_id(), time=session.clock()) for note in notes]
        )

    answers: list[str] = []
    try:
        texts = await ask_all(planner.summariser, proposal.asks, limits, timeout=NOTES_TIMEOUT)
        answers = [answer.text for answer in texts]
    except asyncio.CancelledError:
        append(finish(proposal, ()).annotations)
        raise
    except Exception as error:
        record_failure(session, preset.name, failed_by(error, proposal.strategy, limits.quota.spent))
    append((await on_replica(session, lambda _: finish(proposal, answers))).annotations)


# ── in the background ───────────────────────────────────────────────────────────────────────────


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
        self.tasks: dict[str, asyncio.Future[None]] = {}
        """The newest of each kind: `fold`, `timer`, `notes`."""
        self._last_call = PlanRequest()
        """System prompt and tools of the last call: they take room in the next one too."""
        self.prepared: tuple[e.Fold, Plan] | None = None
        """A fold that is ready but not published, and its plan."""

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
        if self._is_busy("notes"):
            await asyncio.wait([self.tasks["notes"]], timeout=LAST_NOTES)
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        self.tasks.clear()

    def _begin(self, kind: str, work: Callable[[], Awaitable[None]]) -> None:
        """Begin background work. What cannot be done (the session moved on, it does not fit) is left to the
        next `prepare`, which raises."""

        async def run() -> None:
            with suppress(RefoldError):
                await work()

        self.tasks[kind] = asyncio.ensure_future(run())

    def _is_busy(self, kind: str) -> bool:
        return kind in self.tasks and not self.tasks[kind].done()

    # ── notes ───────────────────────────────────────────────────────────────────────────────────

    def write_notes(self) -> None:
        """Begin to write what the design notes of finished rounds (D1), unless that is under way."""
        planner = self.planner
        if self._is_busy("notes") or not planner.auto:
            return
        if self._unless_broken(planner.preset.annotator) is not None:
            write = partial(write_notes, planner, self.session, self._last_call, planner.limits())
            self._begin("notes", write)

    # ── preparing ahead ─────────────────────────────────────────────────────────────────────────

    def consider(self, request: PlanRequest) -> None:
        """Begin to prepare a fold if the soft threshold is passed and none is under way or ready."""
        self._last_call = PlanRequest(system=request.system, tools=request.tools)
        if not self.planner.auto or self._is_busy("fold") or self.ready() is not None:
            return
        preset = self.planner.preset_for(self.session, request.model)
        soft = self._unless_broken(preset.soft_trigger)
        if soft is None:
            return
        due = self._unless_broken(lambda: fired(soft, self.planner.context(self.session, request)))
        if isinstance(due, Due):
            self._begin("fold", partial(self._prepare, request, due))

    def ready(self) -> tuple[e.Fold, Plan] | None:
        """What was prepared, if it still holds: later messages may have come, but no fold, undo or move."""
        if self.prepared and not only_messages_came(self.session, self.prepared[1]):
            self.prepared = None
        return self.prepared

    async def publish(self, budget: int, request: PlanRequest = PlanRequest()) -> e.Fold | None:
        """Append what was prepared, if it holds and the view then fits; compare-and-swap as any append."""
        prepared, self.prepared = self.ready(), None
        if prepared is None:
            return None
        fold, plan = prepared
        asked = replace(plan.context, system=request.system, tools=request.tools)
        moved = await moved_on(self.session, asked, fold, budget)
        return self.session.append(moved, after=self.session.base) if moved else None

    async def _prepare(self, request: PlanRequest, due: Due) -> None:
        def planned(history: History) -> Plan | Reason:
            preset = self.planner.preset_for(history, request.model)
            s = self.planner.context(history, request)
            return first_feasible(preset, s, preset.stages[-1].strategies, Due("soft", due.text))

        plan = await on_replica(self.session, planned)
        if not (isinstance(plan, Plan) and plan.asks):
            return
        outcome = await steer(self.planner, self.session, plan)
        if not isinstance(outcome, Failed):
            steered, summariser = outcome
            outcome = await make_fold(self.session, steered, steered, summariser, self.planner.limits())
            if isinstance(outcome, e.Fold):
                self.prepared = (outcome, plan)
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
            self._begin("timer", partial(self._expire, delay))

    def _unless_broken(self, ask: Callable[[], T]) -> T | None:
        """Nothing here is needed: where a part of the preset fails, the conversation goes on without it."""
        try:
            return ask()
        except PluginError as error:
            log.warning("nothing is prepared ahead: %s", error)
            return None

    def disarm(self) -> None:
        """The next request is under way."""
        if "timer" in self.tasks:
            self.tasks.pop("timer").cancel()

    async def _expire(self, delay: float) -> None:
        await self._sleep(delay)
        plan = await self.planner.planned(self.session, replace(self._last_call, cache_expiring=True))
        if isinstance(plan, Plan) and plan.made_from == self.session.base:
            await perform_with_hooks(self.planner, self.session, plan, self.planner.limits())
