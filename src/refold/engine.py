"""The engine: the one door through which sessions are folded, looked at and unfolded."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from refold import entries as e
from refold import hooked, presets
from refold.branches import Branched, branch
from refold.compaction import breaker
from refold.compaction.ledger import undone
from refold.compaction.overflow import in_error
from refold.compaction.plan import Failed, Plan, Reason
from refold.compaction.planning import make_plan
from refold.compaction.preset import Preset
from refold.compaction.situation import Situation
from refold.compaction.triggers import overflowed_twice
from refold.errors import FoldError, OverflowAgain, SessionError
from refold.hooks import Hooks
from refold.messages import Assistant, content
from refold.perform import write_notes
from refold.protocols import Model, TokenCounter
from refold.session import Projection, Session, View
from refold.session.dialects import parse_reply
from refold.session.find import find
from refold.session.view import active_folds, said_by
from refold.summarise import ByDigest, ByModel, Summariser
from refold.tokens import get as counter_named
from refold.watch import Watch

if TYPE_CHECKING:
    from refold.recall import Hit


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
        self._projections: WeakKeyDictionary[Session, Projection] = WeakKeyDictionary()

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
            count=lambda: s.overhead + count(),
            system=system,
            tools=tools,
        )

    def situation(self, session: Session, **given: Any) -> Situation:
        """Everything a decision may look at."""
        projection = self._projections.get(session)
        if projection is None or projection.accepts is not self.preset.accepts:
            projection = self._projections[session] = Projection(session, self.preset.accepts)
        now = self.clock()
        return Situation(
            session=session,
            projection=projection,
            counter=self.counter,
            measure=self.measure,
            window=self.preset_for(session).window,
            now=now,
            has_model=self.summariser.uses_model,
            resting=self.summariser.uses_model and breaker.is_open(session, now),
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
            plan = self.plan(session, **given)
            if isinstance(plan, Plan):
                published = watch.publish(self.preset_for(session).budget) if watch else None
                if published is None:
                    await self.apply(session, plan)
                await hooked.published(self.hooks, session, published)
            if watch:
                watch.consider(**given)
        return await hooked.context(self.hooks, session, self.view(session, system=system, tools=tools))

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
        if session in self.watches:
            self.watches[session].arm()
        return message

    def failed(self, session: Session, error: BaseException | str, *, model: str | None = None) -> bool:
        """Tell the engine that a model call failed. True: the context was too long; call `prepare` again
        and retry once. The true window is learned where the refusal names it."""
        text = str(error) or type(error).__name__
        found = in_error(text)
        message = Assistant((), stop="error", error=text)
        tokens = self.situation(session).anchored(self.counter) if found else 0
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
        active = [fold.id for fold in active_folds(session.path)]
        chosen = fold_id or (active[-1] if active else None)
        if chosen is None:
            raise FoldError("there is no fold to undo on this path")
        if chosen not in active:
            _must_be_fold(session, chosen)
            raise FoldError(f"fold {chosen!r} is not active on this path: nothing to undo")
        mark = session.make(e.Undo, fold=chosen)
        session.append(mark)
        return mark

    def redo(self, session: Session, fold_id: str | None = None) -> e.Redo:
        """Bring an undone fold back (the one undone last unless named)."""
        gone = [fold.id for fold in undone(session.path)]
        chosen = fold_id or (gone[-1] if gone else None)
        if chosen is None:
            raise FoldError("there is no undone fold on this path")
        if chosen not in gone:
            _must_be_fold(session, chosen)
            raise FoldError(f"fold {chosen!r} was not undone on this path: nothing to redo")
        mark = session.make(e.Redo, fold=chosen)
        session.append(mark)
        return mark

    def pin(self, session: Session, id: str) -> e.Pin:
        """Keep an entry verbatim in every later fold; one that is folded already is shown again."""
        entry = find(session, id)
        message = said_by(entry)
        if message is None:
            raise SessionError(f"{id!r} is nothing the model sees: only messages and notes can be pinned")
        mark = session.make(e.Pin, target=entry.id)
        new: list[e.AnyEntry] = [mark]
        if not self._is_shown(session, entry.id):
            text = f"[Pinned, from earlier in this conversation (key {e.key(entry.id)}):]\n{message.text}"
            new.append(session.make(e.Note, content=content(text), kind="pinned"))
        session.extend(new)
        return mark

    def unpin(self, session: Session, id: str) -> e.Unpin:
        entry = find(session, id)
        if entry.id not in session.pins:
            raise SessionError(f"{id!r} is not pinned")
        mark = session.make(e.Unpin, target=entry.id)
        session.append(mark)
        return mark

    def _is_shown(self, session: Session, id: str) -> bool:
        items = self.situation(session).items
        return any(item.fold is None and item.entries[0] == id for item in items)


def _must_be_fold(session: Session, id: str) -> None:
    if not isinstance(session[id], e.Fold):
        raise FoldError(f"{id!r} is not a fold")
