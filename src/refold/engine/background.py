"""Background work beside a conversation: a summary prepared before it is needed, and the cache timer.

    async with engine.watch(session):
        …the usual loop…

Nothing here is needed for correctness: without a watch, folds happen when they are due, and somebody waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, Self, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from refold import entries as e
from refold.compaction.plan import Failed, Plan, Reason
from refold.compaction.planning import climb
from refold.compaction.preset import Preset
from refold.compaction.situation import Due, Situation
from refold.engine import hooks as hooked
from refold.engine.fold import make_fold, record_failure
from refold.engine.summarise import Summariser
from refold.errors import RefoldError
from refold.hooks import Hooks
from refold.session import Session

Sleep = Callable[[float], Awaitable[None]]
T = TypeVar("T")


class Host(Protocol):
    """What a watch needs of an engine."""

    watches: WeakKeyDictionary[Session, Watch]
    summariser: Summariser
    hooks: Hooks
    auto: bool
    clock: Callable[[], float]

    def preset_for(self, session: Session) -> Preset: ...
    def situation(self, session: Session, **given: Any) -> Situation: ...
    def plan(self, session: Session, *, force: bool = False, **given: Any) -> Plan | Reason: ...
    async def apply(self, session: Session, plan: Plan) -> e.Fold | Failed: ...


class Prepared(msgspec.Struct, frozen=True):
    """A fold that is ready but not published, and the path it was made for."""

    fold: e.Fold
    epoch: int
    length: int


class Watch:
    """Follows one session. Use `engine.watch(session)`."""

    def __init__(self, engine: Host, session: Session, *, sleep: Sleep = asyncio.sleep) -> None:
        self.engine, self.session = engine, session
        self._sleep = sleep
        self._preparing: asyncio.Task[None] | None = None
        self._timer: asyncio.Task[None] | None = None
        self._sent: dict[str, Any] = {}
        """System prompt and tools of the last call: they take room in the next one too."""
        self.prepared: Prepared | None = None

    async def __aenter__(self) -> Self:
        self.engine.watches[self.session] = self
        return self

    async def __aexit__(self, *_: object) -> None:
        self.engine.watches.pop(self.session, None)
        await self.close()

    async def close(self) -> None:
        """End all background work; nothing is published after this."""
        tasks = [task for task in (self._preparing, self._timer) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._preparing = self._timer = None

    # ── preparing ahead ─────────────────────────────────────────────────────────────────────────

    def consider(self, **given: Any) -> None:
        """Begin to prepare a fold if the soft threshold is passed and none is under way or ready."""
        self._sent = {key: given[key] for key in ("system", "tools") if key in given}
        if self._busy() or self.ready() is not None:
            return
        plan = self._soft_plan(**given)
        if plan is not None:
            self._preparing = asyncio.ensure_future(_quietly(self._prepare, plan))

    def ready(self) -> Prepared | None:
        """What was prepared, if it still holds: later messages may have come, but no fold, undo or move."""
        found = self.prepared
        if found is None:
            return None
        later = self.session.path[found.length :]
        if found.epoch != self.session.epoch or any(isinstance(x, (e.Fold, e.Undo, e.Redo)) for x in later):
            self.prepared = None
            return None
        return found

    def publish(self, budget: int, **given: Any) -> e.Fold | None:
        """Append what was prepared, if it holds and the view then fits; compare-and-swap as any append."""
        found, self.prepared = self.ready(), None
        if found is None:
            return None
        fold = msgspec.structs.replace(found.fold, parent=self.session.leaf)
        s = self.engine.situation(self.session, **given)
        after = s.projection.after(fold)
        tokens = s.sizes.overhead + sum(self.session.cached_count(k, i.message, s.counter) for k, i in after)
        if s.sizes.expected(tokens) > budget:
            return None
        fold = msgspec.structs.replace(fold, tokens_before=s.sizes.tokens, tokens_after=tokens)
        self.session.append(fold)
        return fold

    def _busy(self) -> bool:
        return self._preparing is not None and not self._preparing.done()

    def _soft_plan(self, **given: Any) -> Plan | None:
        preset = self.engine.preset_for(self.session)
        if preset.soft is None or not self.engine.auto:
            return None
        s = self.engine.situation(self.session, **given)
        due = preset.soft.due(s)
        try:
            plan = climb(preset, s, preset.stages[-1], Due("soft", due.text)) if due else None
        except RefoldError:
            return None  # what cannot be folded is said when it must be
        return plan if isinstance(plan, Plan) and plan.proposal.asks else None

    async def _prepare(self, plan: Plan) -> None:
        epoch, length = self.session.epoch, len(self.session.path)
        hooks, session = self.engine.hooks, self.session
        ready = await hooked.steer(hooks, session, plan, self.engine.summariser)
        if isinstance(ready, Failed):  # a hook does not want it
            await hooked.tell(hooks, session, plan, ready)
            return
        outcome = await make_fold(session, ready.plan, ready.plan.proposal, ready.summariser)
        if isinstance(outcome, Failed):
            record_failure(session, plan, outcome)
            await hooked.tell(hooks, session, plan, outcome)
        else:
            self.prepared = Prepared(outcome, epoch, length)

    # ── ahead of cache expiry ───────────────────────────────────────────────────────────────────

    def arm(self) -> None:
        """A reply came: fold before the provider's cache of this context expires, if nobody asks sooner."""
        self.disarm()
        replied = self.session.path[-1].time if self.session.path else self.engine.clock()
        delay = self.engine.preset_for(self.session).cache_delay(self.engine.clock() - replied)
        if delay is not None and delay > 0 and self.engine.auto:
            self._timer = asyncio.ensure_future(_quietly(self._expire, delay))

    def disarm(self) -> None:
        """The next request is under way."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _expire(self, delay: float) -> None:
        await self._sleep(delay)
        plan = self.engine.plan(self.session, cache_expiring=True, **self._sent)
        if isinstance(plan, Plan) and plan.base == self.session.tip:
            await self.engine.apply(self.session, plan)


async def _quietly(work: Callable[[T], Awaitable[None]], about: T) -> None:
    """Background work that cannot be done (somebody else appended first, it does not fit) is left to the next
    `prepare`, which says so to somebody who listens."""
    try:
        await work(about)
    except RefoldError:
        return
