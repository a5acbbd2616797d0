"""From a context to a plan, or to the reason why there is none; and the fallback of designs that have none of
their own."""

from __future__ import annotations

from dataclasses import replace

from refold.compaction.plan import Plan, Proposal, Reason, Strategy, fired, propose
from refold.compaction.plan_context import Due, PlanContext, left_alone, touches
from refold.compaction.preset import Preset
from refold.compaction.record import FoldBudget
from refold.compaction.strategies.graded import LinesStrategy


def make_plan(preset: Preset, s: PlanContext, *, maintenance_only: bool = False) -> Plan | Reason:
    """The first stage whose trigger fires and that has something to fold. An explicit request goes
    straight to the last stage, whatever its trigger says."""
    if s.force:
        return first_feasible(preset, s, preset.stages[-1].strategies, Due("asked", "you asked for it"))
    reason = Reason("no_stage", "this preset has no such stage")
    for stage in preset.stages:
        if maintenance_only and not stage.maintenance:
            continue
        due = fired(stage.trigger, s)
        outcome = first_feasible(preset, s, stage.strategies, due) if isinstance(due, Due) else due
        if isinstance(outcome, Plan):
            return outcome
        reason = outcome
    return reason


def first_feasible(
    preset: Preset, s: PlanContext, strategies: tuple[Strategy, ...], due: Due
) -> Plan | Reason:
    """The first strategy whose proposal may be followed."""
    s = replace(s, due=due)
    choice = _first(s, strategies)
    if isinstance(choice, Reason):
        s.memo.clear()  # it refers to the context
        return choice
    proposal, remaining = choice
    return Plan(
        base=s.session.tip,
        generation=s.session.generation,
        length=len(s.session),
        leaf=s.session.leaf,
        preset=preset.name,
        version=preset.version,
        reason=due,
        context=s,
        remaining=remaining,
        strategies=strategies,
        window=s.window,
        **vars(proposal),
    )


def replan(plan: Plan, s: PlanContext) -> Plan | Reason:
    """The same plan for a context with another focus, cut or writer."""
    choice = _first(s, plan.strategies)
    if isinstance(choice, Reason):
        return choice
    return replace(plan, context=s, remaining=choice[1], **vars(choice[0]))


def _first(
    s: PlanContext, strategies: tuple[Strategy, ...]
) -> tuple[Proposal, tuple[Strategy, ...]] | Reason:
    """The first proposal that may be followed, and the strategies after it; or the reason of the
    first, which is the design's own way."""
    reason = None
    for number, strategy in enumerate(strategies):
        offer = propose(strategy, s)
        if isinstance(offer, Proposal):
            refusal = refused(s, offer)
            if refusal is None:
                return offer, strategies[number + 1 :]
            offer = refusal
        reason = offer if reason is None else reason
    return Reason("nothing_to_fold", "nothing left to fold") if reason is None else reason


def refused(s: PlanContext, proposal: Proposal) -> Reason | None:
    """Why a proposal is not followed although it could be."""
    if s.first_kept is not None and proposal.first_kept != s.first_kept:
        return Reason("fixed_cut", "this preset does not allow a cut there")
    if s.force:
        return None
    if proposal.asks and s.resting:
        return Reason("breaker", "the summariser failed three times in a row; paused for five minutes")
    if proposal.stretch is not None and touches(*s.span(*proposal.stretch), left_alone(s)):
        return Reason("undone", "this fold was undone by hand; it is not repeated until space runs out")
    return None


def fallback_plan(preset: Preset, s: PlanContext) -> Plan | Reason:
    """What lies before the newest messages as lines, so that the view fits the window with room to grow."""
    if preset.settings.fallback == "none":
        return Reason("no_fallback", "the preset has no fallback, and none was requested")
    shape = FoldBudget(budget=preset.window, goal=preset.window // 2)
    due = Due("fallback", "the preset's own folds leave more than the window")
    return first_feasible(preset, s, (LinesStrategy(shape, name="fallback"),), due)
