"""The engine folds sessions, shows views and takes folds back."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast
from weakref import WeakKeyDictionary

from refold import entries as e
from refold import presets, worker
from refold.compaction.overflow import overflowed_twice
from refold.compaction.plan import Failed, Plan, Reason
from refold.compaction.plan_context import PlanContext
from refold.compaction.planning import fallback_plan
from refold.compaction.preset import Preset, Settings
from refold.compaction.record import pin_text
from refold.engine import call as calls
from refold.engine import layers
from refold.engine.call import AppendPoint, CallKeywords, Sleep
from refold.engine.hooks import perform_with_hooks, tell_outcome, view_for_call
from refold.engine.limits import Deadline
from refold.engine.maintenance import Memory, Watch, keep_memory, maintain
from refold.engine.planner import WANTED, Planner, PlanRequest, at_replica, on_replica, view_of
from refold.engine.summarise import ByDigest, ByModel, Summariser, writes_well
from refold.engine.summarise import checked as checked_summariser
from refold.errors import DoesNotFit, FoldError, OverflowAgain, SessionError, StalePlan, UsageError, expect
from refold.hooks import Hooks
from refold.loop import within
from refold.messages import Assistant, Call, Usage, content
from refold.models.reply import checked_model
from refold.protocols import Model, TokenCounter
from refold.session import History, Session, View
from refold.session.dialects import parse_reply
from refold.session.edits import active_folds, said_by, undone_folds
from refold.session.find import find
from refold.tokens import checked_counter
from refold.tokens import get as counter_named

if TYPE_CHECKING:
    from refold.engine.branch import Branched
    from refold.recall import Hit

TOOL_ITERATIONS = 50
NEEDS_SESSION = "pass the Session whose folds these are"


def _warn(old: str, new: str) -> None:
    warnings.warn(f"Engine.{old} is removed in the next release: use {new}", DeprecationWarning, stacklevel=3)


_preparing: ContextVar[frozenset[int]] = ContextVar("preparing", default=frozenset())
"""Ids of the sessions whose turn this code is a part of."""


class Engine:
    """Folds sessions as a preset says. Holds caches only: many engines, in many processes, can serve one."""

    def __init__(
        self,
        preset: Preset | Settings | str = "refold",
        *,
        model: Model | str | None = None,
        counter: TokenCounter | str = "o200k",
        summariser: Summariser | Literal["same", "digest"] | None = None,
        hooks: Hooks | None = None,
        memory: Memory | None = None,
        auto: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        chosen = presets.preset_of(preset)
        ruler = counter_named(counter) if isinstance(counter, str) else checked_counter(counter)
        self.model = None if model is None else self._model_of(model)
        if summariser is None or isinstance(summariser, str):
            writer = chosen.settings.summary_model or self._own_writer(summariser)
            by = ByDigest(ruler) if writer is None else ByModel(self._model_of(writer), ruler)
        else:
            by = checked_summariser(summariser)
        self.hooks = Hooks() if hooks is None else hooks
        expect(self.hooks, Hooks, "hooks must be a refold.Hooks()")
        self.hooks.wait = within
        self.planner = Planner(chosen, ruler, by, self.hooks, auto, clock)
        self._watches: WeakKeyDictionary[Session, Watch] = WeakKeyDictionary()
        self.memory = memory
        """Long-term notes; compressed at the end of a turn where there are too many (A19)."""

    def _own_writer(self, summariser: str | None) -> Model | None:
        """The engine's model where it writes summaries: always (`same`), never (`digest`), or else where they
        are worth their call."""
        if summariser not in (None, "same", "digest"):
            raise UsageError(f'summariser must be "same", "digest" or a Summariser, not {summariser!r}')
        asked = self.model is not None and (summariser == "same" or writes_well(self.model))
        return self.model if asked and summariser != "digest" else None

    @property
    def preset(self) -> Preset:
        """May be swapped at any time."""
        return self.planner.preset

    @preset.setter
    def preset(self, preset: Preset) -> None:
        self.planner.preset = preset

    @property
    def counter(self) -> TokenCounter:
        return self.planner.counter

    @property
    def summariser(self) -> Summariser:
        return self.planner.summariser

    def preset_for(self, session: History, model: str | None = None) -> Preset:
        """The preset, for the window that refusals of this model (the log's newest) taught us where that is
        smaller."""
        return self.planner.preset_for(session, model)

    # ── looking ─────────────────────────────────────────────────────────────────────────────────

    def view(self, session: Session, *, system: str | None = None, tools: Sequence[Any] = ()) -> View:
        """What the model sees now. Folds nothing."""
        return view_of(self.planner.context(session, PlanRequest(system=system, tools=tools)))

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
        request = PlanRequest(
            force=force,
            system=system,
            tools=tools,
            incoming=incoming,
            instructions=instructions,
            cache_expiring=cache_expiring,
        )
        return self.planner.plan(session, request)

    async def planned(self, session: Session, **asked: Any) -> Plan | Reason:
        """`plan` in a thread. Goes with the next release: use `asyncio.to_thread(engine.plan, session)`."""
        _warn("planned", "asyncio.to_thread(engine.plan, session, …)")
        return await self.planner.planned(session, PlanRequest(**asked))

    def objection(self, session: Session) -> Reason | None:
        """Why the view is no good although it may be small enough, where the design can tell."""
        return self.preset.objection(self.planner.context(session))

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

        search = partial(
            recall,
            query=query,
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

    async def recalled(self, session: Session, *query: str, **conditions: Any) -> list[Hit]:
        """`recall` in a thread. Goes with the next release: use `asyncio.to_thread(engine.recall, …)`."""
        _warn("recalled", "asyncio.to_thread(engine.recall, …)")
        return await worker.run_in_worker(lambda: self.recall(session, *query, **conditions))

    # ── folding ─────────────────────────────────────────────────────────────────────────────────

    async def prepare(
        self,
        session: Session,
        *,
        system: str | None = None,
        tools: Sequence[Any] = (),
        incoming: str | None = None,
        instructions: str | None = None,
        cache_expiring: bool = False,
        model: str | None = None,
    ) -> View:
        """The view for the next model call; folds first if it must. The arguments are those of `plan`;
        `model` is who will be asked, where that is not the log's newest."""
        expect(session, Session, WANTED)
        expect(system, (str, NoneType), "the system prompt must be a string")
        planner, watch, changed = self.planner, self._watches.get(session), None
        if planner.preset.settings.layers:
            rules = layers.rules_of(planner.preset, session)
            first = session.derived.of(layers.rules_of, lambda: rules)  # as they were when it began
            system, changed = layers.with_rules(system, first), None if rules == first else rules
        if watch:
            watch.disarm()
        request = PlanRequest(
            system=system,
            tools=tools,
            incoming=incoming,
            instructions=instructions,
            cache_expiring=cache_expiring,
            model=model,
        )
        async with self._turn(session):
            if overflowed_twice(session, planner.preset.window, model):
                raise OverflowAgain
            if watch:
                watch.write_notes()
            s = planner.glance(session, request)
            if s is None:
                await self._fold(session, watch, request)
                s = planner.context(session, request)
            if watch:
                watch.consider(request)
            epoch, view = session.epoch, await self._shown(s, changed)
            if epoch != session.epoch:  # a hook took its time, the leaf moved
                view = await self._shown(planner.context(session, request), changed)
            return view

    @asynccontextmanager
    async def _turn(self, session: Session) -> AsyncGenerator[None]:
        """One after the other for each session, on each event loop. A hook that is called within a turn is
        not kept waiting for its end."""
        held = _preparing.get()
        if id(session) in held:
            yield
            return
        async with session.derived.of(asyncio.get_running_loop(), asyncio.Lock):
            token = _preparing.set(held | {id(session)})
            try:
                yield
            finally:
                _preparing.reset(token)

    async def _shown(self, s: PlanContext, changed: str | None) -> View:
        """The view with what a design and hooks put around it."""
        view, session, preset = view_of(s), cast("Session", s.session), self.planner.preset
        if preset.settings.layers:
            view = layers.with_recap(preset, session, view, changed)
        if (workspace := preset.workspace_of(s)) is not None:
            view = layers.with_workspace(preset, view, workspace)
        return await view_for_call(self.hooks, session, view) if "context" in self.hooks else view

    async def _fold(self, session: Session, watch: Watch | None, request: PlanRequest) -> None:
        """Everything that may have to be done before the next call."""
        planner, limits = self.planner, self.planner.limits()
        if planner.auto and planner.preset.maintains:
            await maintain(planner, session, request, limits=limits, notes=watch is None)
        folds = planner.auto and await self._fold_if_due(session, watch, request, limits)
        await self._make_fit(session, request, limits, folds=folds)

    async def _make_fit(
        self, session: Session, request: PlanRequest, limits: Deadline, *, folds: bool
    ) -> None:
        """Make the view fit the declared window, by the fallback where the design's own folds leave more, or
        raise `DoesNotFit` (R2). `folds`: automatic folding is not switched off."""
        planner, preset = self.planner, self.planner.preset
        attempts = [nullcontext(), worker.at_once()] if folds else []  # the second whatever else goes on
        while (sizes := planner.context(session, request).sizes).passes(preset.window, as_we_count=True):
            if not attempts:
                messages = sizes.tokens - sizes.overhead
                parts = {"system prompt and tools": sizes.overhead, "messages": messages}
                raise DoesNotFit(preset.window, parts, preset.name)
            base = session.base
            with attempts.pop(0):
                plan = await on_replica(session, lambda h: fallback_plan(preset, planner.context(h, request)))
                if isinstance(plan, Plan):
                    await perform_with_hooks(planner, session, plan, limits, budget=preset.window)
            if session.base == base:
                attempts = []

    async def _fold_if_due(
        self, session: Session, watch: Watch | None, request: PlanRequest, limits: Deadline
    ) -> bool:
        """False where the design has automatic folding switched off. A fold is moved over what is said while
        it is made, if the view then fits. Where it does not, or where something else changed the view, the
        second attempt counts that in; the last asks no model and is made at once, so that it ends however
        much goes on."""
        planner, unasked = self.planner, replace(request, resting=True)
        attempts = ((request, nullcontext()), (request, nullcontext()), (unasked, worker.at_once()))
        for asked, attempt in attempts:
            with attempt:
                base = session.base
                plan = await planner.planned(session, asked)
                if isinstance(plan, Reason):
                    if session.base == base:
                        return plan.code != "disabled"
                    continue  # what came meanwhile may need a fold
                budget = planner.preset_for(session, request.model).budget
                outcome = await watch.publish(budget, asked) if watch else None
                if outcome:
                    await tell_outcome(self.hooks, session, plan.preset, outcome)
                else:
                    outcome = await perform_with_hooks(planner, session, plan, limits, budget=budget)
                if session.base == plan.made_from:
                    break
                # Messages may have come while a hook was told.
                grown = isinstance(outcome, e.Fold) and session.base.tip != outcome.id
                if outcome and not (grown and planner.context(session, request).sizes.passes(budget)):
                    break
        return True

    async def apply(self, session: Session, plan: Plan) -> e.Fold | Failed:
        """Perform a plan. A bad answer, an error or a time-out tries the next strategy and, at the end, gives
        `Failed`; the path is then as it was. Raises only if the plan is stale."""
        expect(plan, Plan, "pass the Plan that engine.plan(…) returned")
        if session.base != plan.made_from:
            raise StalePlan
        return await perform_with_hooks(self.planner, session, plan, self.planner.limits())

    async def branch(
        self, session: Session, to: str | None, *, summarize: bool = False, instructions: str | None = None
    ) -> Branched | Failed:
        """Move the leaf to an entry (id, label or recall key; None: before the first), with a summary of what
        is left behind if wanted. A user message is handed back for editing: the leaf goes to its parent."""
        from refold.engine.branch import branch

        return await branch(self.planner, session, to, summarize=summarize, instructions=instructions)

    def watch(self, session: Session, *, sleep: Sleep = asyncio.sleep) -> Watch:
        """Background preparation and the cache timer: `async with engine.watch(session): …`."""
        return Watch(self.planner, session, watches=self._watches, sleep=sleep)

    # ── talking ─────────────────────────────────────────────────────────────────────────────────

    def observe(self, session: Session, raw: Any) -> Assistant:
        """Append a reply, its usage included. Takes an SDK object, a dict or a message."""
        return self._append(AppendPoint.here(session), *parse_reply(raw))

    def _append(
        self, place: AppendPoint, message: Assistant, usage: Usage | None, model: str | None
    ) -> Assistant:
        """A reply came: the cache timer of a watch starts anew."""
        entry = place.append(message, usage=usage, model=model).entry
        if place.session in self._watches:
            self._watches[place.session].arm()
        return cast("Assistant", entry.message)

    async def call(
        self, session: Session, model: Model | str | None = None, **options: Unpack[CallKeywords]
    ) -> Assistant:
        """Prepare, ask a model of refold (the engine's own unless given), append the reply. Where the
        context was too long it is folded and the call tried once more."""
        chosen = self._chat_model(model)
        reply, place = await calls.ask(self.planner, session, chosen, self.prepare, **options)
        return self._append(place, reply.message, reply.usage, reply.model)

    async def turn(
        self,
        session: Session,
        run_tool: Callable[[Call], Any],
        model: Model | str | None = None,
        *,
        most: int | None = None,
        **options: Unpack[CallKeywords],
    ) -> Assistant:
        """`call` again and again, running the tools the model calls, until it answers; at most `most` times
        (what the preset says, 50 where it has none), then once more without tools. `run_tool`
        gives a text or a `Result`, at once or awaited."""
        chosen, without_tools = self._chat_model(model), cast("CallKeywords", {**options, "tools": ()})
        reply = await calls.run_turn(
            session,
            calls.one_by_one(run_tool),
            most=self.preset.tool_iterations or TOOL_ITERATIONS if most is None else most,
            call=lambda offered: self.call(session, chosen, **(options if offered else without_tools)),
        )
        if self.memory is not None:
            await keep_memory(self.memory, self.planner)
        return reply

    def failed(self, session: Session, error: BaseException | str, *, model: str | None = None) -> bool:
        """Tell the engine that a model call failed. True: the context was too long; call `prepare` again
        and retry once. The model's true window is learned where the refusal names it, or where the context
        had at least half of the declared one."""
        return calls.record_refusal(self.planner, session, error, model)

    def _chat_model(self, model: Model | str | None) -> Model:
        chosen = self.model if model is None else self._model_of(model)
        if chosen is None:
            raise UsageError("no model: pass one, or make the engine with Engine(preset, model=…)")
        return chosen

    def _model_of(self, model: Model | str) -> Model:
        return self.find_model(model) if isinstance(model, str) else checked_model(model)

    def find_model(self, name: str) -> Model:
        """The model of a name. This engine knows no provider; that of the package (`refold.Engine`) does."""
        raise UsageError(
            f"no model called {name!r} here: use `from refold import Engine`, or refold.model(…)"
        )

    # ── unfolding ───────────────────────────────────────────────────────────────────────────────

    def undo(self, session: Session, fold_id: str | None = None) -> e.Undo:
        """Take a fold back (the newest active one unless named); the view is as if it had not happened."""
        expect(session, Session, NEEDS_SESSION)
        chosen = _chosen(session, fold_id, active_folds(session.path), "undo")
        return session.append(session.make(e.Undo, fold=chosen))

    def redo(self, session: Session, fold_id: str | None = None) -> e.Redo:
        """Bring an undone fold back (the one undone last unless named)."""
        expect(session, Session, NEEDS_SESSION)
        chosen = _chosen(session, fold_id, undone_folds(session.path), "redo")
        return session.append(session.make(e.Redo, fold=chosen))

    def pin(self, session: Session, id: str) -> e.Pin:
        """Keep an entry verbatim in every later fold of the preset `refold` (the other designs know no pins);
        one that is folded already is shown again, as a note at the end."""
        entry = find(session, id)
        message = said_by(entry)
        if message is None:
            raise SessionError(f"{id!r} is nothing the model sees: only messages and notes can be pinned")
        mark = session.make(e.Pin, target=entry.id)
        entries: list[e.AnyEntry] = [mark]
        shown = self.planner.context(session).items
        if not any(item.fold is None and item.entries[0] == entry.id for item in shown):
            text = f"[Pinned, from earlier in this conversation:]\n{pin_text(entry, message)}"
            entries.append(session.make(e.Note, content=content(text), kind="pinned"))
        session.extend(entries)
        return mark

    def unpin(self, session: Session, id: str) -> e.Unpin:
        """The entry may be folded like any other again."""
        entry = find(session, id)
        if entry.id not in session.pins:
            raise SessionError(f"{id!r} is not pinned")
        return session.append(session.make(e.Unpin, target=entry.id))


def _chosen(session: Session, fold_id: str | None, folds: Sequence[e.Fold], action: str) -> str:
    """The fold that is named, or the last of those that this can be done to."""
    ids = [fold.id for fold in folds]
    if fold_id is None and not ids:
        raise FoldError(f"there is no fold to {action}")
    if fold_id is not None and fold_id not in ids:
        if not isinstance(session[fold_id], e.Fold):
            raise FoldError(f"{fold_id!r} is not a fold")
        why = "it is undone already" if action == "undo" else "it is not undone"
        raise FoldError(f"cannot {action} fold {fold_id!r}: {why}, or on another branch")
    return fold_id or ids[-1]
