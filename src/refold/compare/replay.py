"""Replays a conversation with a preset: folds at growing prefixes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count

import msgspec

from refold import entries as e
from refold.batch.results import short_digest
from refold.compaction.plan import Failed, Plan, Reason
from refold.compaction.plan_context import PlanRequest
from refold.compaction.planning import fallback_plan
from refold.engine.maintenance import maintain
from refold.errors import DoesNotFit
from refold.registry.engine import Engine
from refold.session import Session, View
from refold.session.edits import said_by
from refold.session.invariants import legal
from refold.session.items import Item

MORE = 64
"""Maximum number of folds in one pass."""


class Replayed(msgspec.Struct, frozen=True):
    session: Session
    folds: tuple[e.Fold, ...]
    """Folds at the passes, in order, without the preset's maintenance in between."""
    failures: tuple[Failed, ...] = ()
    reason: Reason | None = None
    """Why the preset did no more."""

    @property
    def all_folds(self) -> Sequence[e.Fold]:
        """All folds, including the preset's maintenance."""
        return self.session.annotations(e.Fold)

    @property
    def failed_strategies(self) -> list[str]:
        """`strategy summary failed: …`, once per cause, of strategies that others stood in for."""
        causes = defaultdict[str, dict[str, None]](dict)
        for failed in self.failures:
            if failed.strategy:
                causes[failed.text][failed.strategy] = None
        return [
            f"{'strategy' if len(names) == 1 else 'strategies'} {', '.join(names)} failed: {text}"
            for text, names in causes.items()
        ]

    def verdict(self, engine: Engine, view: View, limit: int) -> tuple[bool, str | None]:
        """Whether the view fits, and why not, or the preset's remark."""
        objection = engine.objection(self.session)
        if view.tokens > limit:
            return False, self._why_not(view, self.reason if objection is None else objection)
        if objection is None:
            return True, None
        return objection.code == "above_threshold", objection.text

    def _why_not(self, view: View, reason: Reason | None) -> str:
        if self.failures and not self.folds:
            return f"nothing was folded: {self.failures[-1].text}"
        told = f": {reason.text}" if reason is not None else ""
        if not self.all_folds:
            return f"does not fit; nothing left to fold{told}"
        size, role = max((view.counter.message(message), message.role) for message in view.messages)
        largest = f"its largest message has {size:,} ({role})"
        return f"does not fit; the view has {view.tokens:,} tokens{told}; {largest}"


def checkpoints(path: Sequence[e.AnyPathEntry], passes: int) -> list[int]:
    """Ends of `passes` growing prefixes, where no call waits for its result; at turns if near."""
    legal_ends = _ends(path)
    if not legal_ends:
        return [len(path)]
    wanted = [len(path) * number // passes for number in range(1, passes)]
    chosen = {min(legal_ends, key=lambda end, at=at: abs(end - at)) for at in wanted}
    return [*sorted(chosen - {len(path)}), len(path)]


async def replay(
    engine: Engine,
    source: Session,
    *,
    passes: int = 1,
    progress: Callable[[float], None] = lambda _: None,
    instructions: str | None = None,
    title: str = "",
) -> Replayed:
    """Feeds the messages of `source` to a new session and folds it at growing prefixes.

    Different replays of one source need different titles, because sizes are cached by id.
    """
    question = PlanRequest(instructions=instructions)
    session = Session(id=source.id, info=source.info, new_id=_ids(source, title))
    session.share_counts(source)
    path = [entry for entry in source.path if said_by(entry) is not None]
    folds: list[e.Fold] = []
    failures: list[Failed] = []
    reason, done = None, 0
    for end in checkpoints(path, passes):
        for entry in path[done:end]:
            session.append(msgspec.structs.replace(entry, parent=session.leaf))
            await maintain(engine.planner, session, question)
        done = end
        passed = await one_pass(engine, session, instructions=instructions)
        folds += passed.folds
        failures += passed.failures
        reason = passed.reason
        progress(end / len(path) if path else 1.0)
    return Replayed(session, tuple(folds), tuple(failures), reason)


async def one_pass(engine: Engine, session: Session, *, instructions: str | None = None) -> Replayed:
    """One explicit fold, then whatever the preset's own trigger requires before the user's next message, and
    the fallback if one is set and that leaves more than the window."""
    done = await _own_folds(engine, session, instructions)
    context = engine.planner.context(session, PlanRequest(instructions=instructions))
    if not context.sizes.passes(engine.preset.window, as_we_count=True):
        return done
    plan = fallback_plan(engine.preset, context)
    fold = await engine.apply(session, plan) if isinstance(plan, Plan) else None
    if isinstance(fold, Failed):
        return msgspec.structs.replace(done, failures=(*done.failures, fold))
    return msgspec.structs.replace(done, folds=(*done.folds, fold)) if fold else done


async def _own_folds(engine: Engine, session: Session, instructions: str | None) -> Replayed:
    folds, known = list[e.Fold](), len(session.annotations(e.Failure))

    def replayed(*failed: Failed, reason: Reason | None = None) -> Replayed:
        """The result, including failures on the way to a fold."""
        noted = session.annotations(e.Failure)[known:]
        told = (Failed(x.code, x.text, x.strategy, x.requests) for x in noted if folds)
        return Replayed(session, tuple(folds), (*told, *failed), reason)

    try:
        plan = engine.plan(session, force=True, instructions=instructions)
        for _ in range(MORE):
            if isinstance(plan, Reason):
                more = engine.plan(session, force=True, instructions=instructions)
                return replayed(reason=more if isinstance(more, Reason) else plan)
            outcome = await engine.apply(session, plan)
            if isinstance(outcome, Failed):
                return replayed(outcome)
            folds.append(outcome)
            plan = engine.plan(session, incoming="", instructions=instructions)
    except DoesNotFit as error:
        return replayed(Failed("does_not_fit", str(error)))
    return replayed()


def _ids(source: Session, title: str) -> Callable[[], str]:
    """Ids for a replay. Views and reasons name them: deterministic ones make replays repeatable."""
    numbers = count()
    return lambda: short_digest(source.id, len(source), title, next(numbers))[:12]


def _ends(path: Sequence[e.AnyPathEntry]) -> list[int]:
    items = [Item(message, (entry.id,)) for entry in path if (message := said_by(entry)) is not None]
    return [end for end in range(1, len(items) + 1) if end == len(items) or legal(items, end)]
