"""Moving the leaf to another branch (B15, B16), with a summary of what is left behind if that is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

import msgspec

from refold import entries as e
from refold import tokens
from refold.compaction import transcript
from refold.compaction.plan import Ask, Failed
from refold.compaction.requests import focus_line, listing, prompt, stand_alone
from refold.compaction.sizes import size_of
from refold.compaction.transcript import SummarySource, message_of
from refold.engine.hooks import AUTHOR, check_supply
from refold.engine.planner import Planner
from refold.engine.summarise import Answer, ByModel, ask_all, failed_by
from refold.errors import BadAnswer, UsageError
from refold.facts import state
from refold.hooks import AfterBranch, BeforeBranch, Change, Supply
from refold.messages import Message, Result, Usage, User, user
from refold.protocols import Request
from refold.session import Session
from refold.session.edits import BRANCH, active_folds
from refold.session.find import find
from refold.session.history import History
from refold.text.frames import element, quote

MAX_SUMMARY_TOKENS = 4_096
"""Longest branch summary, in tokens."""
MIN_SUMMARY_TOKENS = 256
"""Tokens that a branch summary may have in any window."""


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


async def branch(
    planner: Planner,
    session: Session,
    to: str | None,
    *,
    summarize: bool,
    instructions: str | None,
) -> Branched | Failed:
    """Move the leaf. Whatever fails appends nothing, and the leaf stays where it is."""
    preset, hooks = planner.preset_for(session), planner.hooks
    tip, target = session.tip, None if to is None else session.path_to(find(session, to).id)[-1]
    message = target.message if isinstance(target, e.MessageEntry) else None
    edited = message if isinstance(message, User) else None
    leaf = target and (target.parent if edited else target.id)
    reserve = min(preset.reserve, preset.window // 4)
    plan = prepare_branch(session, session.leaf, target and target.id, max(preset.window - reserve, 1))
    event = BeforeBranch(
        session=session,
        origin=plan.origin,
        target=target and target.id,
        leaf=leaf,
        common_ancestor=plan.common_ancestor,
        entries=tuple(entry.id for entry in plan.entries),
        messages=plan.messages,
        files=plan.files,
        summarize=summarize,
        instructions=instructions,
        model=planner.summariser.name,
    )
    decision = await hooks.decide(event, partial(_check, planner, session))
    supply, change = decision.supply, decision.change
    if decision.cancel:
        return Failed("cancelled", decision.cancel.why, "branch")
    summary, answer = None, Answer("")
    if summarize and plan.sources:
        writer = ByModel(change.model, planner.counter) if change.model else planner.summariser
        limit = max(min(MAX_SUMMARY_TOKENS, reserve), 1)
        ask = branch_ask(plan, focus=change.instructions or instructions, text=change.prompt, limit=limit)
        try:
            if supply is None:
                [answer] = await ask_all(writer, [ask], planner.limits())
                _check_length(planner, session, answer.text)
        except Exception as error:
            return failed_by(error, "branch", 1)
        files = plan.files if supply is None or supply.files is None else supply.files
        text = answer.text if supply is None else supply.summary.strip()
        summary = session.make(
            e.BranchSummary,
            parent=leaf,
            summary=quote(text, BRANCH) + listing(files),
            origin=plan.origin,
            files=files,
            author=writer.name if supply is None else AUTHOR,
            meta={} if supply is None else supply.details,
        )
    if session.tip != tip:
        return Failed("stale", "the conversation continued while the summary was written", "branch")
    if summary is not None:
        session.append(summary)  # a child of the new position: this one entry moves the leaf
    else:
        session.move(leaf)
    supplied = summary is not None and supply is not None
    origin, leaf, requests, usage = plan.origin, session.leaf, answer.requests, answer.usage
    await hooks.tell(
        AfterBranch(
            session=session, origin=origin, leaf=leaf, summary=summary, message=edited, supplied=supplied
        )
    )
    return Branched(origin=origin, leaf=leaf, summary=summary, message=edited, requests=requests, usage=usage)


def _check(planner: Planner, session: Session, answer: Supply | Change) -> None:
    if answer.first_kept is not None:
        raise UsageError("first_kept cannot be given for a branch: it has no cut")
    check_supply(session, answer)
    if isinstance(answer, Supply):
        _check_length(planner, session, answer.summary)


def _check_length(planner: Planner, session: Session, summary: str) -> None:
    """It is shown as long as the branch is: one that fills the window leaves no room to go on."""
    room = max(planner.preset_for(session).window // 4, MIN_SUMMARY_TOKENS)
    if planner.counter.text(summary) > room:
        raise BadAnswer("inflated", f"the summary of the branch exceeds the limit of {room:,} tokens")


# ── what is left behind ──────────────────────────────────────────────────────────────────────────


MEASURE = tokens.get("utf16/4")
NEARLY = 0.9
"""A summary that passes the budget is still taken while less than this share of it is used: it stands for
a lot."""
STYLE = transcript.Style()
FATES = ("read", "modified", "created", "deleted")


@dataclass(frozen=True, kw_only=True)
class BranchPlan:
    """What a branch summary will be made of."""

    origin: str | None
    """The leaf that is left."""
    common_ancestor: str | None
    entries: tuple[e.AnyPathEntry, ...]
    """Everything that is left behind, oldest first."""
    sources: tuple[SummarySource, ...]
    """What of it is read: the newest part that fits the budget, without tool results."""
    tokens: int
    files: e.Files

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(source.message for source in self.sources)


def prepare_branch(
    session: History,
    old_leaf: str | None,
    target: str | None,
    budget: int = 0,
) -> BranchPlan:
    """What moving the leaf from `old_leaf` to `target` leaves behind: the entries after their deepest common
    ancestor, read newest first within `budget` tokens (0: all)."""
    ancestor = session.common_ancestor(old_leaf, target)
    left = list(takewhile(lambda entry: entry.id != ancestor, session.ancestors(old_leaf)))
    folds = {fold.id for fold in active_folds(reversed(left))}
    nested = [entry.files for entry in reversed(left) if isinstance(entry, e.BranchSummary)]
    sources: list[SummarySource] = []
    walked: list[Message] = []
    used = 0
    for entry in left:
        message = _read(entry, folds)
        if message is None:
            continue
        walked.append(message)
        if isinstance(entry, e.MessageEntry) and isinstance(message, Result):
            continue
        size = size_of(entry, MEASURE)
        full = bool(budget) and used + size > budget
        is_summary = isinstance(entry, (e.Fold, e.BranchSummary))
        if not full or (is_summary and used < budget * NEARLY):
            sources.append(SummarySource(entry.id, message, entry.time))
            used += size
        if full:
            break
    return BranchPlan(
        origin=old_leaf,
        common_ancestor=ancestor,
        entries=tuple(reversed(left)),
        sources=tuple(reversed(sources)),
        tokens=used,
        files=every_file(walked[::-1], nested),
    )


def branch_ask(plan: BranchPlan, *, focus: str | None = None, text: str | None = None, limit: int) -> Ask:
    """The question to a summariser. `text` takes the place of our own instructions."""

    def render(sources: Sequence[SummarySource], previous: str | None) -> Request:
        del previous  # one shot: a branch summary is never brought up to date
        conversation = element("conversation", transcript.render(sources, STYLE))
        words = prompt("branch_summary", conversation=conversation, focus=focus_line(focus))
        return stand_alone(words, max_tokens=limit, purpose="branch")

    ask = Ask(sources=plan.sources, render=render, purpose="branch", target_tokens=limit)
    return ask if text is None else ask.in_words(text + focus_line(focus))


def every_file(messages: Sequence[Message], carried: Sequence[e.Files]) -> e.Files:
    """Files as the state of the work has them, for tools of any agent, and those `carried` from before, the
    oldest first: what was changed stays changed though it was only read later."""
    fates: dict[str, str] = {}
    for files in (*carried, state.of(messages).files()):
        for fate in FATES:
            for path in getattr(files, fate):
                if path not in fates or fate not in ("read", fates[path]):
                    fates.pop(path, None)
                    fates[path] = fate
    read, modified, created, deleted = (tuple(p for p in fates if fates[p] == fate) for fate in FATES)
    return e.Files(read, modified, created, deleted)


def _read(entry: e.Entry, folds: set[str]) -> Message | None:
    """What an entry of the branch says to the summariser; a fold says its summary."""
    if not isinstance(entry, e.Fold):
        return message_of(entry)
    if entry.id not in folds or not entry.summary:
        return None
    return user(f"[Summary of what had been said before:]\n\n{entry.summary}")
