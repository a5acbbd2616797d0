"""Moving the leaf to another branch (B15, B16), with a summary of what is left behind if that is wanted."""

from __future__ import annotations

from typing import Protocol

import msgspec

from refold import entries as e
from refold.compaction.branch import BranchPlan, branch_ask, every_file, prepare_branch
from refold.compaction.plan import Failed
from refold.compaction.preset import Preset
from refold.compaction.rungs.budget_summary import render_files
from refold.engine.hooks import AUTHOR
from refold.engine.summarise import Answer, ByModel, Summariser, ask_all, failure_code
from refold.errors import UsageError
from refold.hooks import AfterBranch, BeforeBranch, Change, Decision, Hooks, Supply
from refold.messages import Usage, User
from refold.protocols import TokenCounter
from refold.session import Session
from refold.session.edits import BRANCH
from refold.session.find import find
from refold.text.frames import defuse

RESERVE = 16_384
"""Tokens left free for the answer where the design does not say how many."""
LENGTH = 4_096
"""How long a branch summary may be, in tokens."""


class Branched(msgspec.Struct, frozen=True, kw_only=True):
    """The leaf was moved."""

    origin: str | None
    """The leaf that was left."""
    leaf: str | None
    """Where it is now: the target, its parent where that is a user message, or the summary below it."""
    summary: e.BranchSummary | None = None
    message: User | None = None
    """The user message that was navigated to, handed back for editing."""
    requests: int = 0
    usage: Usage = Usage()

    @property
    def text(self) -> str | None:
        """The user's words, for editing."""
        return None if self.message is None else self.message.text


class Host(Protocol):
    """What branching needs of an engine."""

    hooks: Hooks
    summariser: Summariser
    counter: TokenCounter

    def preset_for(self, session: Session) -> Preset: ...


async def branch(
    engine: Host, session: Session, to: str | None, *, summarize: bool, instructions: str | None
) -> Branched | Failed:
    """Move the leaf. Whatever fails appends nothing, and the leaf stays where it is."""
    origin, tip = session.leaf, session.tip
    target = None if to is None else session.path_to(find(session, to).id)[-1]
    message = target.message if isinstance(target, e.MessageEntry) else None
    edited = message if isinstance(message, User) else None
    leaf = None if target is None else target.parent if edited else target.id
    plan = prepare_branch(
        session, origin, target.id if target else None, _budget(engine, session), files_of=every_file
    )
    event = _event(engine, session, plan, target, leaf, summarize=summarize, instructions=instructions)
    decision = await engine.hooks.decide(event, _check) if engine.hooks else Decision()
    if decision.cancel:
        return Failed("cancelled", decision.cancel.why, "branch")
    made: tuple[e.BranchSummary | None, Answer] | Failed = (None, Answer(""))
    if summarize and plan.sources:
        made = await _summary(engine, session, plan, decision, leaf, instructions)
    if isinstance(made, Failed):
        return made
    if session.tip != tip:
        return Failed("stale", "the conversation went on while the summary was written", "branch")
    summary, answer = made
    if summary is not None:
        session.append(summary)  # a child of the new position: this one entry moves the leaf
    else:
        session.move(leaf)
    await engine.hooks.tell(
        AfterBranch(
            session=session,
            origin=origin,
            leaf=session.leaf,
            summary=summary,
            message=edited,
            supplied=summary is not None and summary.author == AUTHOR,
        )
    )
    return Branched(
        origin=origin,
        leaf=session.leaf,
        summary=summary,
        message=edited,
        requests=answer.requests,
        usage=answer.usage,
    )


async def _summary(
    engine: Host,
    session: Session,
    plan: BranchPlan,
    decision: Decision,
    leaf: str | None,
    instructions: str | None,
) -> tuple[e.BranchSummary, Answer] | Failed:
    """The summary as an entry that is not appended yet."""
    supply, change = decision.supply, decision.change
    writer = ByModel(change.model, engine.counter) if change.model else engine.summariser
    files = plan.files if supply is None or supply.files is None else supply.files
    if supply is None:
        focus = change.instructions or instructions
        ask = branch_ask(plan, focus=focus, text=change.prompt, limit=_length(engine, session))
        try:
            [answer] = await ask_all(writer, [ask])
        except AssertionError:
            raise  # a broken test or a broken engine, never a bad answer
        except Exception as error:
            return Failed(failure_code(error), str(error) or type(error).__name__, "branch", 1)
    else:
        answer = Answer(supply.summary.strip())
    entry = session.make(
        e.BranchSummary,
        parent=leaf,
        summary=defuse(answer.text, BRANCH) + render_files(files),
        origin=plan.origin,
        files=files,
        author=writer.name if supply is None else AUTHOR,
        meta={} if supply is None else supply.details,
    )
    return entry, answer


def _event(
    engine: Host,
    session: Session,
    plan: BranchPlan,
    target: e.AnyPathEntry | None,
    leaf: str | None,
    *,
    summarize: bool,
    instructions: str | None,
) -> BeforeBranch:
    return BeforeBranch(
        session=session,
        origin=plan.origin,
        target=target.id if target else None,
        leaf=leaf,
        common_ancestor=plan.common_ancestor,
        entries=tuple(entry.id for entry in plan.entries),
        messages=plan.messages,
        files=plan.files,
        summarize=summarize,
        instructions=instructions,
        model=engine.summariser.name,
    )


def _check(answer: Supply | Change) -> None:
    if answer.first_kept is not None:
        raise UsageError("a branch has no cut: first_kept means nothing here")
    if isinstance(answer, Supply) and not answer.summary.strip():
        raise UsageError("the supplied summary is empty")


def _reserve(preset: Preset) -> int:
    given = getattr(preset.settings, "reserve_tokens", RESERVE)
    return min(given, preset.window // 4)


def _budget(engine: Host, session: Session) -> int:
    """Tokens that are read for a summary: the window without what is kept free for the answer."""
    preset = engine.preset_for(session)
    return max(preset.window - _reserve(preset), 1)


def _length(engine: Host, session: Session) -> int:
    return max(min(LENGTH, _reserve(engine.preset_for(session))), 1)
