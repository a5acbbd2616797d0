"""Performing a plan: ask, check the answer, append one entry. Whatever fails leaves the path as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from refold import entries as e
from refold.compaction.clips import Clips
from refold.compaction.details import FoldDetails, left, reads_left
from refold.compaction.plan import Failed, Plan, Proposal, Reason, finishing
from refold.engine.limits import Limits, run_errands
from refold.engine.summarise import Answer, Summariser, ask_all, failure_code, total
from refold.errors import StalePlan, sentence
from refold.loop import breathe
from refold.protocols import Steps, complete
from refold.session import Session
from refold.session.sound import objection
from refold.text.redact import redact

T = TypeVar("T")
STALE = "the conversation went on while the summary was written"
CHANGES = (e.Fold, e.Undo, e.Redo)
"""What makes a view another one, wherever it stands on the path."""


async def perform(session: Session, plan: Plan, summariser: Summariser, limits: Limits) -> e.Fold | Failed:
    """Perform the plan's proposal or, where that fails, the first remaining rung that succeeds. Once the
    limits have passed nobody is asked any more."""
    if plan.base != session.tip:
        raise StalePlan
    try:
        return await _perform(session, plan, summariser, limits)
    finally:
        plan.situation.memo.clear()  # it names the situation again: left so, only the collector would free it


async def _perform(session: Session, plan: Plan, summariser: Summariser, limits: Limits) -> e.Fold | Failed:
    failed = Failed("nothing", "no rung could fold anything")

    def mark() -> str | None:
        if session.tip != plan.base:  # what was worked out for the situation no longer holds
            raise StalePlan
        return plan.base

    for offer in plan.offers():
        try:
            proposal = await worked(plan, offer, mark)
            mark()
        except StalePlan:
            return Failed("stale", STALE, plan.rung)
        if isinstance(proposal, Reason) or (proposal.asks and limits.passed):
            continue
        outcome = await make_fold(session, plan, proposal, summariser, limits)
        if isinstance(outcome, e.Fold) and session.tip != plan.base:
            outcome = Failed("stale", STALE, proposal.rung, outcome.requests)
        if isinstance(outcome, e.Fold):
            session.append(outcome)
            return outcome
        failed = outcome
        record_failure(session, plan.preset, failed)
        if session.tip != plan.base:
            break
    return failed


async def make_fold(
    session: Session, plan: Plan, proposal: Proposal, summariser: Summariser, limits: Limits
) -> e.Fold | Failed:
    """The fold that a proposal becomes; appends nothing."""
    s, epoch, length, spent = plan.situation, session.epoch, len(session.path), limits.meter.spent
    await worked(plan, lambda: s.projection.counting(s.counter))
    before = plan.tokens_before  # of the view the plan was made for, whatever is said meanwhile

    def mark() -> int:
        if session.epoch != epoch or any(isinstance(x, CHANGES) for x in session.path[length:]):
            raise StalePlan
        return len(session.entries)

    try:
        answers = await ask_all(summariser, proposal.asks, limits, timeout=proposal.timeout)
        await run_errands(proposal.errands, limits, at_once=s.at_once)
        author = summariser.name if proposal.asks else proposal.author
        made = await worked(plan, lambda: _making(session, plan, proposal, answers, author, before), mark)
    except StalePlan:
        return Failed("stale", STALE, proposal.rung, limits.meter.spent - spent)
    except AssertionError:
        raise  # a broken test or a broken engine, never a bad answer
    except Exception as error:
        told, why = proposal.failure_text, sentence(error)
        text = f"{told} ({why})" if told else why
        return Failed(failure_code(error), text, proposal.rung, limits.meter.spent - spent)
    return made


async def worked(plan: Plan, begin: Callable[[], Steps[T]], mark: Callable[[], object] | None = None) -> T:
    """Work for a plan: in pieces, unless nobody may come in between."""
    s = plan.situation
    return complete(begin()) if s.at_once else await breathe(begin, mark or (lambda: len(s.session.entries)))


def _making(
    session: Session, plan: Plan, proposal: Proposal, answers: Sequence[Answer], author: str, before: int
) -> Steps[e.Fold | Failed]:
    """The fold, if it makes the view smaller."""
    finished = yield from finishing(proposal, [redact(answer.text)[0] for answer in answers])
    yield
    s, requests = plan.situation, sum(answer.requests for answer in answers)
    replaced = s.sizes.stretch(proposal.stretch)
    if (
        proposal.shorter
        and proposal.asks
        and finished.summary
        and s.measure.text(finished.summary) >= replaced > 0
    ):
        return Failed("inflated", "the summary is longer than what it replaces", proposal.rung, requests)
    fold = session.make(
        e.Fold,
        edits=finished.edits,
        preset=plan.preset,
        version=plan.version,
        rung=proposal.rung,
        reason=f"{plan.reason.code}: {plan.reason.text}",
        summary=finished.summary,
        first_kept=proposal.first_kept,
        tokens_before=before if proposal.tokens_before is None else proposal.tokens_before,
        files=finished.files,
        author=author,
        requests=requests,
        usage=total([answer.usage for answer in answers]) if requests else None,
        check=finished.check,
        details=finished.details,
    )
    yield
    if why := objection(fold, session.path, session.position):
        return Failed("unsafe", why, proposal.rung, requests)
    yield
    after = s.projection.after(fold)
    yield
    clips = Clips.of(session).counted(s.counter)
    for key, item in after:
        if (size := clips.get(id(item.message))) is not None:
            session.cached_count(key, item.message, s.counter, size)
    tokens = yield from s.sizes.after(after)
    if proposal.smaller and tokens >= before:
        return Failed("inflated", "the view would not become smaller", proposal.rung, requests)
    if proposal.min_gain and tokens > (1 - proposal.min_gain) * before and not s.sizes.too_large:
        text = f"less than {proposal.min_gain:.0%} of the view would be freed"
        return Failed("no_gain", text, proposal.rung, requests)
    yield
    items = [item for _, item in after]
    noted = FoldDetails(reads_left=list((yield from reads_left(session, s.items, items)))).stored()
    yield
    gone = yield from left(session, s.items, items, s.counter)
    details = {**fold.details, **noted}
    return msgspec.structs.replace(fold, tokens_after=tokens, left=gone, details=details)


def record_failure(session: Session, preset: str, failed: Failed) -> None:
    """Write down an attempt that changed nothing."""
    failure = session.make(
        e.Failure,
        target=session.leaf,
        code=failed.code,
        text=failed.text,
        preset=preset,
        rung=failed.rung,
        requests=failed.requests,
    )
    session.append(failure)
