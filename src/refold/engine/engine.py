"""The engine: the one door through which sessions are folded, looked at and unfolded."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from refold import entries as e
from refold import presets
from refold.compaction.answer import rests
from refold.compaction.overflow import Sign, in_error
from refold.compaction.plan import Failed, Plan, Reason
from refold.compaction.planning import make_plan
from refold.compaction.preset import Preset
from refold.compaction.situation import Situation
from refold.compaction.triggers import overflowed_twice
from refold.engine import call as calling
from refold.engine import hooks as hooked
from refold.engine import undo as marks
from refold.engine.background import Watch
from refold.engine.branch import Branched, branch
from refold.engine.fold import write_notes
from refold.engine.summarise import ByDigest, ByModel, Summariser, writer_of
from refold.errors import Overflow, OverflowAgain, UsageError
from refold.hooks import Hooks
from refold.messages import Assistant, Call
from refold.protocols import Model, TokenCounter
from refold.session import Projection, Session, View
from refold.session.dialects import parse_reply
from refold.tokens import get as counter_named

if TYPE_CHECKING:
    from refold.recall import Hit


TOOL_ITERATIONS = 50


class Engine:
    """Folds sessions as a preset says. Holds no state of its own beyond caches: many engines, in many
    processes, can serve one session."""

    def __init__(
        self,
        preset: Preset | str = "refold",
        *,
        model: Model | None = None,
        counter: TokenCounter | str = "o200k",
        summariser: Summariser | None = None,
        hooks: Hooks | None = None,
        auto: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.preset = presets.get(preset) if isinstance(preset, str) else preset
        self.counter = counter_named(counter) if isinstance(counter, str) else counter
        self.model = model
        self.summariser = summariser or (ByModel(model, self.counter) if model else ByDigest(self.counter))
        self.hooks = Hooks() if hooks is None else hooks
        self.auto = auto
        self.clock = clock
        self.watches: WeakKeyDictionary[Session, Watch] = WeakKeyDictionary()

    @property
    def measure(self) -> TokenCounter:
        """Decides when and where. Follows `preset`, which may be swapped at any time."""
        return counter_named(self.preset.measure)

    # ── looking ─────────────────────────────────────────────────────────────────────────────────

    def view(self, session: Session, *, system: str | None = None, tools: Sequence[Any] = ()) -> View:
        """What the model sees now. Folds nothing."""
        s = self.situation(session, system=system, tools=tools)
        count = s.projection.size_up_to(len(s.items), self.counter)
        return View(
            s.items,
            counter=self.counter,
            count=lambda: s.sizes.overhead + count(),
            system=system,
            tools=tools,
        )

    def situation(self, session: Session, **given: Any) -> Situation:
        """Everything a decision may look at."""
        projection: Projection | None = session.followers.get(self)
        if projection is None or projection.accepts is not self.preset.accepts:
            projection = session.followers[self] = Projection(session, self.preset.accepts)
        now = self.clock()
        given.setdefault("resting", self.summariser.uses_model and rests(session, now))
        return Situation(
            session=session,
            projection=projection,
            counter=self.counter,
            measure=self.measure,
            window=self.preset_for(session).window,
            now=now,
            writer=writer_of(self.summariser),
            calibrated=self.preset.calibrated,
            **given,
        )

    def plan(self, session: Session, *, force: bool = False, **given: Any) -> Plan | Reason:
        """What a fold would do now, or the reason why there is none. Pure; `force` ignores the trigger.
        `system`, `tools`, `incoming` and `instructions` may be given along."""
        return make_plan(self.preset_for(session), self.situation(session, force=force, **given))

    def preset_for(self, session: Session) -> Preset:
        """The preset, for the window that a provider's refusal taught us where that is smaller."""
        learned = [note.tokens for note in session.annotations(e.LearnedWindow)]
        if not learned or min(learned) >= self.preset.window or self.preset.resize is None:
            return self.preset
        return self.preset.resize(min(learned))

    # ── folding ─────────────────────────────────────────────────────────────────────────────────

    async def prepare(
        self, session: Session, *, system: str | None = None, tools: Sequence[Any] = (), **given: Any
    ) -> View:
        """The view for the next model call; folds first if it must."""
        watch = self.watches.get(session)
        if watch:
            watch.disarm()
        if overflowed_twice(session, self.preset.window):
            raise OverflowAgain
        if self.auto:
            given = {"system": system, "tools": tools, **given}
            await self.upkeep(session, **given)
            await self._fold_if_due(session, watch, given)
            if watch:
                watch.consider(**given)
        return await hooked.context(self.hooks, session, self.view(session, system=system, tools=tools))

    async def _fold_if_due(self, session: Session, watch: Watch | None, given: dict[str, Any]) -> None:
        """What is said while a summary is being written makes it stale, and the view may be too large still.
        The second attempt counts that in; the third asks nobody, so nothing can come in between."""
        for asks_nobody in (False, False, True):
            plan = self.plan(session, **given, **({"resting": True} if asks_nobody else {}))
            if isinstance(plan, Reason):
                return
            if watch and (fold := watch.publish(self.preset_for(session).budget, **given)):
                await hooked.published(self.hooks, session, fold)
                return
            outcome = await self.apply(session, plan)
            if outcome or session.tip == plan.base:
                return

    async def upkeep(self, session: Session, **given: Any) -> None:
        """Only the housekeeping of the design: what it does as turns end, whatever the size of the view."""
        if self.preset.notes is not None:
            await write_notes(self.preset, self.situation(session, **given), self.summariser)
        for stage in self.preset.stages:
            if not stage.upkeep:
                continue
            plan = make_plan(self.preset, self.situation(session, **given), upkeep_only=True)
            if isinstance(plan, Reason) or not await self.apply(session, plan):
                return

    async def apply(self, session: Session, plan: Plan) -> e.Fold | Failed:
        """Perform a plan. A bad answer, an error or a time-out tries the next rung and, at the end, gives
        `Failed`; the path is then as it was. Raises only if the plan is stale."""
        return await hooked.fold(self.hooks, session, plan, self.summariser)

    async def branch(
        self, session: Session, to: str | None, *, summarize: bool = False, instructions: str | None = None
    ) -> Branched | Failed:
        """Move the leaf to an entry (id, label or recall key; None: before the first), with a summary of what
        is left behind if wanted. A user message is handed back for editing: the leaf goes to its parent."""
        return await branch(self, session, to, summarize=summarize, instructions=instructions)

    def observe(self, session: Session, raw: Any) -> Assistant:
        """Append a reply, its usage included. Takes an SDK object, a dict or a message."""
        message, usage, model = parse_reply(raw)
        session.append(message, usage=usage, model=model)
        self.arm(session)
        return message

    def arm(self, session: Session) -> None:
        """A reply came: the cache timer of a watch starts anew."""
        if session in self.watches:
            self.watches[session].arm()

    async def call(self, session: Session, model: Model | None = None, **options: Any) -> Assistant:
        """Prepare, ask a model of refold (the engine's own unless given), append the reply. Where the
        context was too long it is folded and the call tried once more. Options: `system`, `tools`,
        `max_tokens`, `temperature`, `retries`."""
        return await calling.call(self, session, self._chat_model(model), **options)

    async def turn(
        self, session: Session, run_tool: Callable[[Call], Any], model: Model | None = None, **options: Any
    ) -> Assistant:
        """`call` again and again, running the tools the model calls, until it answers; at most as often as
        the preset says (`max_tool_iterations`, 50 where it does not), then once more without tools."""
        options.setdefault("most", self.preset.max_tool_iterations or TOOL_ITERATIONS)
        return await calling.turn(self, session, self._chat_model(model), run_tool, **options)

    def _chat_model(self, model: Model | None) -> Model:
        chosen = model or self.model
        if chosen is None:
            raise UsageError("no model: pass one, or make the engine with Engine(preset, model=…)")
        return chosen

    def failed(self, session: Session, error: BaseException | str, *, model: str | None = None) -> bool:
        """Tell the engine that a model call failed. True: the context was too long; call `prepare` again
        and retry once. The true window is learned where the refusal names it."""
        text = str(error) or type(error).__name__
        found = in_error(text) or (Sign("model", error.window) if isinstance(error, Overflow) else None)
        message = Assistant((), stop="error", error=text)
        tokens = self.situation(session).sizes.anchored(self.counter) if found else 0
        session.append(message, model=model)
        if found:
            learned = found.window or int(0.9 * tokens)
            note = session.make(e.LearnedWindow, target=session.leaf, model=model or "", tokens=learned)
            session.append(note)
        return found is not None

    def watch(self, session: Session, **options: Any) -> Watch:
        """Background preparation and the cache timer: `async with engine.watch(session): …`."""
        return Watch(self, session, **options)

    def recall(self, session: Session, query: str = "", *, limit: int = 5, **conditions: Any) -> list[Hit]:
        """What was said about something, folded or not, on any branch. Conditions: `keys`, `turns`, `since`,
        `until`, `tool`, `file`, `budget`."""
        from refold.recall import recall

        return recall(session, query, limit=limit, **conditions)

    # ── unfolding ───────────────────────────────────────────────────────────────────────────────

    def undo(self, session: Session, fold_id: str | None = None) -> e.Undo:
        """Take a fold back (the newest active one unless named); the view is as if it had not happened."""
        return marks.undo(session, fold_id)

    def redo(self, session: Session, fold_id: str | None = None) -> e.Redo:
        """Bring an undone fold back (the one undone last unless named)."""
        return marks.redo(session, fold_id)

    def pin(self, session: Session, id: str) -> e.Pin:
        """Keep an entry verbatim in every later fold; one that is folded already is shown again."""
        return marks.pin(session, id, self.situation(session).projection)

    def unpin(self, session: Session, id: str) -> e.Unpin:
        """The entry may be folded like any other again."""
        return marks.unpin(session, id)
