"""From a situation to a plan, or to the reason why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from refold import entries as e
from refold.compaction.ledger import stretches, undone
from refold.compaction.plan import Due, Plan, Proposal, Reason, Rung, Stage
from refold.compaction.preset import Preset
from refold.compaction.situation import Situation


def make_plan(preset: Preset, s: Situation, *, upkeep_only: bool = False) -> Plan | Reason:
    """The first stage whose trigger fires and that has something to fold. An explicit request goes
    straight to the last stage, whatever its trigger says."""
    if s.force:
        return climb(preset, s, preset.stages[-1], Due("asked", "asked for explicitly"))
    reason = Reason("no_stage", "this preset has no such stage")
    for stage in preset.stages:
        if upkeep_only and not stage.upkeep:
            continue
        due = stage.trigger.due(s)
        found = climb(preset, s, stage, due) if isinstance(due, Due) else due
        if isinstance(found, Plan):
            return found
        reason = found
    return reason


def climb(preset: Preset, s: Situation, stage: Stage, due: Due) -> Plan | Reason:
    """The first rung that proposes something that may be done."""
    s = replace(s, due=due)
    found = _first(s, stage.rungs)
    return found if isinstance(found, Reason) else _plan(preset, s, due, stage.rungs, *found)


def replan(plan: Plan, s: Situation) -> Plan | Reason:
    """The same plan for a situation that differs in what somebody wishes: focus, cut, writer."""
    found = _first(s, plan.ladder)
    if isinstance(found, Reason):
        return found
    return replace(plan, situation=s, proposal=found[0], remaining=tuple(found[1]))


def _first(s: Situation, rungs: Sequence[Rung]) -> tuple[Proposal, Sequence[Rung]] | Reason:
    """The first proposal that may be followed, and the rungs after it."""
    reason = Reason("nothing_to_fold", "no rung has anything to fold")
    for number, rung in enumerate(rungs):
        found = rung.propose(s)
        if isinstance(found, Proposal):
            against = refused(s, found)
            if against is None:
                return found, rungs[number + 1 :]
            found = against
        reason = found
    return reason


def refused(s: Situation, proposal: Proposal) -> Reason | None:
    """Why a proposal is not followed although it could be."""
    if s.first_kept is not None and proposal.first_kept != s.first_kept:
        return Reason("fixed_cut", "this design does not let its cut be moved there")
    if s.force:
        return None
    if proposal.asks and s.resting:
        return Reason("breaker", "the summariser failed three times in a row and rests for five minutes")
    if not s.hard and _was_undone(s, proposal):
        return Reason("undone", "this stretch was unfolded by hand; it is left alone until it must go")
    return None


def _was_undone(s: Situation, proposal: Proposal) -> bool:
    if proposal.stretch is None or not s.session.annotations(e.Undo):
        return False
    first, last = (s.session.position(id) or 0 for id in proposal.stretch)
    return any(a <= last and first <= b for a, b in stretches(s.session, undone(s.session.path)))


def _plan(
    preset: Preset,
    s: Situation,
    due: Due,
    ladder: Sequence[Rung],
    proposal: Proposal,
    remaining: Sequence[Rung],
) -> Plan:
    return Plan(
        base=s.session.tip,
        preset=preset.name,
        version=preset.version,
        measure=preset.measure,
        reason=due,
        proposal=proposal,
        situation=s,
        remaining=tuple(remaining),
        ladder=tuple(ladder),
        window=s.window,
    )
