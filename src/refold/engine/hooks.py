"""Hooks around folding: what hooks answer becomes a changed plan, a supplied fold, or none."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from refold import entries as e
from refold import tracing
from refold.compaction.plan import Failed, Finished, Plan, Proposal, Reason
from refold.compaction.plan_context import PlanContext, Writer
from refold.compaction.planning import replan
from refold.compaction.record import pins_text
from refold.compaction.requests import focus_line, framing
from refold.compaction.sizes import fixed_size
from refold.engine.fold import perform, stale
from refold.engine.limits import Deadline
from refold.engine.planner import Planner, at_plan
from refold.engine.summarise import LONGEST, ByModel, Summariser, failed_by
from refold.errors import StalePlan, UsageError
from refold.hooks import AfterCompact, BeforeCompact, Change, CompactFailed, Context, Hooks, Supply
from refold.messages import user
from refold.session import Session, View
from refold.session.edits import said_by
from refold.session.invariants import PAIRS, legal
from refold.session.items import Item
from refold.session.validation import validated
from refold.session.wire_size import wire_overhead

AUTHOR = "hook"
"""Who is named as the author of what a hook supplied."""


async def perform_with_hooks(
    planner: Planner, session: Session, plan: Plan, limits: Deadline, *, budget: int | None = None
) -> e.Fold | Failed:
    """Perform a plan with its hooks. Every `before_compact` is followed by `after_compact` or
    `compact_failed`, whatever happens in between."""
    with tracing.fold(session.id, plan.preset) as span:
        try:
            steered = await steer(planner, session, plan)
            performs = not isinstance(steered, Failed)
            outcome = await perform(session, *steered, limits, budget=budget) if performs else steered
        except StalePlan:
            outcome = stale(plan)
        except BaseException as error:
            await tell_outcome(planner.hooks, session, plan.preset, failed_by(error))
            raise
        await tell_outcome(planner.hooks, session, plan.preset, outcome)
        tracing.folded(span, outcome)
    return outcome


async def steer(planner: Planner, session: Session, plan: Plan) -> tuple[Plan, Summariser] | Failed:
    """What `before_compact` made of a plan, and who performs it. Appends nothing."""
    hooks, summariser = planner.hooks, planner.summariser
    if "before_compact" not in hooks:
        return plan, summariser
    decision = await hooks.decide(_event(session, plan, summariser), partial(_check, session, plan))
    supply, change = decision.supply, decision.change
    if decision.cancel:
        return Failed("cancelled", decision.cancel.why, plan.strategy)
    if supply:
        return plan.at(lambda: _supplied(plan, supply, change)), summariser
    if change == Change():
        return plan, summariser
    changed = await _changed(hooks, plan, change)
    return changed, ByModel(change.model, planner.counter) if change.model else summariser


async def tell_outcome(hooks: Hooks, session: Session, preset: str, outcome: e.Fold | Failed) -> None:
    """What came of it, for `after_compact` or `compact_failed`."""
    if isinstance(outcome, e.Fold):
        await hooks.tell(AfterCompact(session=session, fold=outcome, supplied=outcome.author == AUTHOR))
        return
    code, text, strategy = outcome.code, outcome.text, outcome.strategy
    await hooks.tell(CompactFailed(session=session, code=code, text=text, strategy=strategy, preset=preset))


async def view_for_call(hooks: Hooks, session: Session, view: View) -> View:
    """The view as the `context` hooks want it for one call. Messages they let alone still know their
    entries."""
    items, before, counter = view.items, tuple(view.messages), view.counter
    messages = await hooks.transform(
        Context(session=session, messages=before, system=view.system, tools=tuple(view.tools)), validated
    )
    if messages is before:
        return view
    item_of = {id(item.message): item for item in items}

    def count() -> int:
        said = sum(counter.message(message) for message in messages)
        return fixed_size(counter, view.system, view.tools) + said + wire_overhead(shown, counter)

    shown = [item_of.get(id(message)) or Item(message) for message in messages]
    return View(shown, counter=counter, count=count, system=view.system, tools=view.tools)


# ── what hooks are told ─────────────────────────────────────────────────────────────────────────


def _event(session: Session, plan: Plan, summariser: Summariser) -> BeforeCompact:
    messages = (said_by(session[id]) for id in (*plan.fold, *plan.turn_prefix))
    return BeforeCompact(
        session=session,
        preset=plan.preset,
        strategy=plan.strategy,
        reason=f"{plan.reason.code}: {plan.reason.text}",
        fold=plan.fold,
        turn_prefix=plan.turn_prefix,
        messages=tuple(message for message in messages if message is not None),
        first_kept=plan.first_kept,
        previous=plan.previous_summary,
        files=plan.files,
        tokens_before=plan.tokens_before,
        window=plan.window,
        instructions=plan.context.instructions,
        model=summariser.name,
    )


def _check(session: Session, plan: Plan, answer: Supply | Change) -> None:
    """Refuses an answer that names an impossible cut, or supplies nothing."""
    check_supply(session, answer)
    if (cut := answer.first_kept) is not None:
        plan.at(lambda: _check_cut(plan.context, cut))
    elif isinstance(answer, Supply) and plan.first_kept is None:
        raise UsageError("this fold has no cut: supply first_kept as well")


def check_supply(session: Session, answer: Supply | Change) -> None:
    """Refuses a summary that is empty or none for its length, and what could not be stored."""
    if isinstance(answer, Change):
        return
    if not answer.summary.strip():
        raise UsageError("the supplied summary is empty")
    if len(answer.summary) > LONGEST:
        raise UsageError(f"the supplied summary exceeds the limit of {LONGEST:,} characters")
    files = answer.files or e.Files()
    validated(session.make(e.Fold, edits=(), preset=AUTHOR, files=files, details=answer.details))


def _check_cut(s: PlanContext, first_kept: str) -> None:
    shown = (n for n, item in enumerate(s.items) if item.fold is None and item.entries[0] == first_kept)
    if (index := next(shown, None)) is None:
        raise UsageError(f"{first_kept!r} is not shown unchanged: it cannot be a cut")
    if index <= s.projection.first:
        raise UsageError(f"there is nothing before {first_kept!r} to fold")
    if not legal(s.items, index, PAIRS):
        raise UsageError(f"a cut at {first_kept!r} would separate a tool call from its result")
    kept = s.sizes.items(index, len(s.items))
    if s.sizes.expected(s.sizes.fixed + kept) > s.sizes.window:
        raise UsageError(f"what stays from {first_kept!r} on does not fit the window")


# ── what hooks answered ─────────────────────────────────────────────────────────────────────────


async def _changed(hooks: Hooks, plan: Plan, change: Change) -> Plan:
    s = replace(plan.context, first_kept=change.first_kept)
    if change.instructions:
        s = replace(s, instructions=change.instructions)
    if change.model:
        s = replace(s, writer=Writer(change.model.name, change.model.context_window), resting=False)
    changed = await at_plan(plan, partial(replan, plan, s))
    if isinstance(changed, Reason) and change.first_kept:
        text = f"the cut stays where it was: {changed.text}"
        hooks.trouble("before_compact", "first_kept", UsageError(text))
        changed = await at_plan(plan, partial(replan, plan, replace(s, first_kept=None)))
    chosen = plan if isinstance(changed, Reason) else changed
    if change.prompt is None:
        return chosen
    return replace(chosen, prompt=change.prompt + focus_line(s.instructions))


def _supplied(plan: Plan, supply: Supply, change: Change) -> Plan:
    """A plan that performs what was supplied and, where that is refused (the view would not become smaller,
    or would not fit), what the design does itself."""
    s, path = plan.context, plan.context.session.path
    kept = supply.first_kept or change.first_kept or plan.first_kept
    position = s.session.position(kept or "")
    assert position is not None  # checked when it was answered, or planned
    files = plan.files if supply.files is None else supply.files
    first, last = path[s.projection.floor].id, path[position - 1].id
    pins, text = pins_text(s.session), framing(supply.summary, files)
    put = user(f"{pins}\n\n{text}" if pins else text)
    edits = (e.Edit(first, last, (put,)), *s.hidden_edits(after=position))
    summary = supply.summary.strip()
    proposal = Proposal(
        strategy=plan.strategy,
        finish=lambda _: Finished(
            edits=edits, framed=True, summary=summary, files=files, details=supply.details
        ),
        stretch=(first, last),
        fold=plan.fold,
        turn_prefix=plan.turn_prefix,
        first_kept=kept,
        previous_summary=plan.previous_summary,
        files=files,
        fits=True,
        author=AUTHOR,
    )
    return replace(plan, remaining=plan.strategies, **vars(proposal))
