"""Leaving a branch (B15): what happened there since it parted from where the leaf moves, in one summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from refold import entries as e
from refold import tokens
from refold.compaction import transcript
from refold.compaction.plan import Ask
from refold.compaction.requests import focus_line, prompt, stand_alone
from refold.compaction.strategies.budget_summary import size_of
from refold.compaction.transcript import Source, message_of
from refold.messages import Message, Result, user
from refold.preserve import state
from refold.preserve.tools import pi_files
from refold.protocols import Request
from refold.session.edits import active_folds
from refold.session.history import History
from refold.text.frames import element

MEASURE = tokens.get("utf16/4")
NEARLY = 0.9
"""A summary that passes the budget is still taken while less than this share of it is used: it stands for
a lot."""
STYLE = transcript.Style()

FilesOf: TypeAlias = Callable[[Sequence[Message], e.Files], e.Files]
"""Files touched by messages, added to those of earlier summaries."""


@dataclass(frozen=True, kw_only=True)
class BranchPlan:
    """What a branch summary will be made of."""

    origin: str | None
    """The leaf that is left."""
    common_ancestor: str | None
    entries: tuple[e.AnyPathEntry, ...]
    """Everything that is left behind, oldest first."""
    sources: tuple[Source, ...]
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
    *,
    files_of: FilesOf = pi_files,
) -> BranchPlan:
    """What moving the leaf from `old_leaf` to `target` leaves behind: the entries after their deepest common
    ancestor, read newest first within `budget` tokens (0: all)."""
    ancestor = session.common_ancestor(old_leaf, target)
    left: list[e.AnyPathEntry] = []
    for entry in session.ancestors(old_leaf):
        if entry.id == ancestor:
            break
        left.append(entry)
    folds = {fold.id for fold in active_folds(reversed(left))}
    sources: list[Source] = []
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
        if not full or (_is_summary(entry) and used < budget * NEARLY):
            sources.append(Source(entry.id, message, entry.time))
            used += size
        if full:
            break
    return BranchPlan(
        origin=old_leaf,
        common_ancestor=ancestor,
        entries=tuple(reversed(left)),
        sources=tuple(reversed(sources)),
        tokens=used,
        files=files_of(walked[::-1], _carried(left)),
    )


def branch_ask(plan: BranchPlan, *, focus: str | None = None, text: str | None = None, limit: int) -> Ask:
    """The question to a summariser. `text` takes the place of our own instructions."""

    def render(sources: Sequence[Source], previous: str | None) -> Request:
        del previous  # one shot: a branch summary is never brought up to date
        words = prompt(
            "branch_summary" if text is None else "branch_frame",
            conversation=element("conversation", transcript.render(sources, STYLE)),
            prompt=text or "",
            focus=focus_line(focus),
        )
        return stand_alone(words, max_tokens=limit, purpose="branch")

    return Ask(
        sources=plan.sources,
        render=render,
        purpose="branch",
        target_tokens=limit,
    )


def every_file(messages: Sequence[Message], carried: e.Files) -> e.Files:
    """Files as the state of the work has them, for tools of any agent; what was changed stays changed though
    it was only read later."""
    now = state.of(messages).files()
    changed = {*now.modified, *now.created, *now.deleted}
    before = {*carried.modified, *carried.created, *carried.deleted}
    return e.Files(
        read=_union(carried.read, (p for p in now.read if p not in before), changed),
        modified=_union(carried.modified, now.modified, {*now.created, *now.deleted}),
        created=_union(carried.created, now.created, {*now.deleted}),
        deleted=_union(carried.deleted, now.deleted, {*now.modified, *now.created}),
    )


def _union(first: Iterable[str], then: Iterable[str], without: set[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*(path for path in first if path not in without), *then)))


def _read(entry: e.Entry, folds: set[str]) -> Message | None:
    """What an entry of the branch says to the summariser; a fold says its summary."""
    if not isinstance(entry, e.Fold):
        return message_of(entry)
    if entry.id not in folds or not entry.summary:
        return None
    return user(f"[Summary of what had been said before:]\n\n{entry.summary}")


def _is_summary(entry: e.Entry) -> bool:
    return isinstance(entry, (e.Fold, e.BranchSummary))


def _carried(left: Sequence[e.Entry]) -> e.Files:
    """Files of the branch summaries on the branch, whether or not they are read themselves."""
    nested = [entry.files for entry in left if isinstance(entry, e.BranchSummary)]

    def listed(name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for files in nested for path in getattr(files, name)))

    return e.Files(listed("read"), listed("modified"), listed("created"), listed("deleted"))
