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
    reason = Reason("nothing_to_fold", "no rung has anything to fold")
    for number, rung in enumerate(stage.rungs):
        found = rung.propose(s)
        if isinstance(found, Proposal):
            against = refused(s, found)
            if against is None:
                return _plan(preset, s, due, found, stage.rungs[number + 1 :])
            found = against
        reason = found
    return reason


def refused(s: Situation, proposal: Proposal) -> Reason | None:
    """Why a proposal is not followed although it could be."""
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


def _plan(preset: Preset, s: Situation, due: Due, proposal: Proposal, remaining: Sequence[Rung]) -> Plan:
    return Plan(
        base=s.session.tip,
        preset=preset.name,
        version=preset.version,
        measure=preset.measure,
        reason=due,
        proposal=proposal,
        situation=s,
        remaining=tuple(remaining),
        window=s.window,
    )
