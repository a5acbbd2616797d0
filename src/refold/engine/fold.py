"""Performing a plan: ask, check the answer, append one entry. Whatever fails leaves the path as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import msgspec

from refold import entries as e
from refold import worker
from refold.compaction.details import FoldDetails, left, reads_left
from refold.compaction.plan import Failed, Plan, Proposal, Reason, finish, propose
from refold.compaction.plan_context import PlanContext
from refold.compaction.record import with_quoted_texts
from refold.engine.limits import Deadline, run_pending
from refold.engine.planner import at_plan, on_replica
from refold.engine.summarise import Answer, Summariser, ask_all, failed_by, total
from refold.errors import BadAnswer, StalePlan
from refold.session import History, Projection, Session
from refold.session.edits import edit_stretches
from refold.text.redact import redact


async def perform(
    session: Session, plan: Plan, summariser: Summariser, limits: Deadline, *, budget: int | None = None
) -> e.Fold | Failed:
    """Perform the plan's proposal or, where that fails, the first remaining strategy that succeeds. Once the
    limits have passed no model is asked. `budget`: a fold may be moved over messages that came
    meanwhile, if the view then fits it; without one, they make the plan stale."""
    failed = Failed("nothing", "nothing could be folded")
    try:
        for strategy in (None, *plan.remaining):
            proposal: Proposal | Reason = plan
            if strategy is not None:
                proposal = await at_plan(plan, partial(propose, strategy, plan.context))
            if session.base != plan.made_from and not (budget and only_messages_came(session, plan)):
                return stale(plan)
            if isinstance(proposal, Reason) or (proposal.asks and limits.passed):
                continue
            outcome = await make_fold(session, plan, proposal, summariser, limits)
            if isinstance(outcome, e.Fold) and session.base != plan.made_from:
                moved = None
                if budget and only_messages_came(session, plan):
                    moved = await moved_on(session, plan.context, outcome, budget)
                outcome = moved or stale(proposal, outcome.requests)
            if isinstance(outcome, e.Fold):
                return session.append(outcome, after=session.base)
            failed = plan.context.memo[Failed] = outcome
            record_failure(session, plan.preset, failed)
            if session.base != plan.made_from:
                break
        return failed
    except StalePlan:
        return stale(plan)
    finally:
        plan.context.memo.clear()  # a cycle that only the collector would free


def stale(proposal: Proposal, requests: int = 0) -> Failed:
    return Failed(
        "stale", "the conversation continued while the summary was written", proposal.strategy, requests
    )


def only_messages_came(session: Session, plan: Plan) -> bool:
    """Is all that happened since the plan was made that messages came?"""
    return session.generation == plan.generation and plan.holds(session)


async def moved_on(session: Session, s: PlanContext, fold: e.Fold, budget: int) -> e.Fold | None:
    """A fold moved over messages that came after its plan, whose question `s` is; None where the view would
    not fit the budget."""
    fold, base = msgspec.structs.replace(fold, parent=session.leaf), session.base

    def sizes(history: History) -> tuple[int, int, int]:
        now = replace(s, session=history, projection=Projection.of(history, s.projection.accepts))
        after = now.sizes.after(now.projection.after(fold))
        return now.sizes.tokens, after, now.sizes.expected(after)

    before, after, expected = await on_replica(session, sizes)
    if expected > budget or session.base != base:
        return None
    return msgspec.structs.replace(fold, tokens_before=before, tokens_after=after)


async def make_fold(
    session: Session, plan: Plan, proposal: Proposal, summariser: Summariser, limits: Deadline
) -> e.Fold | Failed:
    """The fold that a proposal becomes; appends nothing."""
    spent, answers = limits.quota.spent, list[Answer]()
    try:
        # Of the view the plan was made for, whatever is said meanwhile.
        before = await worker.run_in_worker(lambda: plan.tokens_before)
        words = plan.prompt
        asks = [
            ask.in_words(words) if words is not None and ask.purpose == "summary" else ask
            for ask in proposal.asks
        ]
        if asks:
            answers = await ask_all(summariser, asks, limits, timeout=proposal.timeout)
        if proposal.pending:
            await run_pending(proposal.pending, limits)
        author = summariser.name if proposal.asks else proposal.author
        empty = session.make(e.Fold, edits=(), preset=plan.preset, version=plan.version, author=author)
        return await at_plan(plan, lambda: _make(plan, proposal, answers, empty, before))
    except Exception as error:
        requests = sum(answer.requests for answer in answers) or limits.quota.spent - spent
        if isinstance(error, StalePlan):
            return stale(proposal, requests)
        if isinstance(error, TimeoutError) and not str(error):
            error = TimeoutError(f"{summariser.name} did not answer in time")
        return failed_by(error, proposal.strategy, requests)


def _make(plan: Plan, proposal: Proposal, answers: Sequence[Answer], empty: e.Fold, before: int) -> e.Fold:
    """The fold; `BadAnswer` where it does not make the view smaller."""
    finished = finish(proposal, [redact(answer.text)[0] for answer in answers])
    s, requests = plan.context, sum(answer.requests for answer in answers)
    session = s.session
    if proposal.shorter and proposal.asks and finished.summary and proposal.stretch:
        first, last = s.span(*proposal.stretch)
        if s.measure.text(finished.summary) >= s.sizes.shown(first, last, s.measure) > 0:
            raise BadAnswer("inflated", "the summary is longer than what it replaces")
    fold = msgspec.structs.replace(
        empty,
        edits=finished.edits,
        strategy=proposal.strategy,
        reason=f"{plan.reason.code}: {plan.reason.text}",
        summary=finished.summary,
        first_kept=finished.first_kept or proposal.first_kept,
        tokens_before=before if proposal.measured_before is None else proposal.measured_before,
        files=finished.files,
        requests=requests,
        usage=total([answer.usage for answer in answers]) if requests else None,
        check=finished.check,
        details=finished.details,
    )
    if len(edit_stretches((fold,), session.position)) != len(fold.edits):
        raise BadAnswer("misplaced", "an edit names no stretch of the path")
    if not finished.framed:
        fold = with_quoted_texts(fold, session)
    after = s.projection.after(fold)
    tokens = s.sizes.after(after)
    if proposal.smaller and tokens >= before:
        raise BadAnswer("inflated", "the view would not become smaller")
    if proposal.fits and s.sizes.expected(tokens) > s.sizes.window:
        raise BadAnswer("too_large", "the view would not fit the window")
    # A view that does not fit is folded whatever that frees, if it then has the size that was promised.
    needed = s.sizes.too_large or (plan.reason.code == "full" and tokens <= proposal.tokens_after)
    if proposal.min_gain and tokens > (1 - proposal.min_gain) * before and not needed:
        raise BadAnswer("no_gain", f"less than {proposal.min_gain:.0%} of the view would be freed")
    items = [item for _, item in after]
    noted = FoldDetails(reads_left=list(reads_left(s.items, items))).stored()
    gone = left(session, s.items, items, s.counter)
    details = {**fold.details, **noted}
    return msgspec.structs.replace(fold, tokens_after=tokens, left=gone, details=details)


def record_failure(session: Session, preset: str, failed: Failed) -> None:
    """Write down an attempt that changed nothing."""
    told = msgspec.structs.asdict(failed)
    session.append(session.make(e.Failure, target=session.leaf, preset=preset, **told))
