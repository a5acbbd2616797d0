"""Summarise everything before a token-budgeted cut, iteratively: the newest part of the path stays up to a
budget; a turn that is cut through gets a summary of its beginning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from refold import entries as e
from refold.compaction import transcript
from refold.compaction.plan import Ask, Finished, Proposal, Reason
from refold.compaction.plan_context import PlanContext
from refold.compaction.requests import FRAME_TOKENS, focus_line, framed_path, framing, prompt, stand_alone
from refold.compaction.sizes import size_of
from refold.compaction.transcript import SummarySource, sources_of
from refold.digest import CHECKPOINT, PREFIX, Digest, Source
from refold.facts.tools import pi_files
from refold.messages import Bash, Result, User, content
from refold.protocols import Request, TokenCounter

STYLE = transcript.Style()
SPLIT_HEADING = "\n\n---\n\n**Beginning of the current turn (its later part follows verbatim):**\n\n"


@dataclass(frozen=True)
class BudgetSummary:
    keep_tokens: int
    reserve_tokens: int
    name: str = "summary"

    def propose(self, s: PlanContext, /) -> Proposal | Reason:
        path = s.session.path
        if path and isinstance(path[-1], e.Fold) and path[-1].summary:
            return Reason("just_folded", "nothing was said since the last fold")
        previous, path = s.projection.newest_summary, shown_path(s)
        start, cut = s.boundary(previous), self._cut(s, path, previous)
        folded = (entry.message for entry in path[start : cut.position] if isinstance(entry, e.MessageEntry))
        files = pi_files(folded, previous.files if previous else e.Files())
        history = sources_of(path[start : cut.turn_start if cut.split else cut.position])
        prefix = sources_of(path[cut.turn_start : cut.position]) if cut.split else ()
        if not history and not prefix:
            return Reason("everything_fits", f"everything fits into the {self.keep_tokens} tokens to keep")
        earlier = previous.summary if previous else None
        listed = (s.counter.text(framed_path(name)) + 2 for name in (*files.read, *files.modified))
        lists = 2 * FRAME_TOKENS + sum(listed)
        parts = (("summary", history, earlier, 0.8), ("turn_prefix", prefix, None, 0.5))
        asks = tuple(self._ask(s, lists, *part) for part in parts if part[1])
        first, last = path[s.projection.floor].id, path[cut.position - 1].id
        hidden = s.hidden_edits(after=cut.position)

        def finish(answers: Sequence[str]) -> Finished:
            text = answers[0] if history else earlier or "(nothing before this turn)"
            text += SPLIT_HEADING + answers[-1] if prefix else ""
            framed = framing(text, files)
            edit = e.Edit(first, last, (User(content(framed)),))
            return Finished(edits=(edit, *hidden), framed=True, summary=text, files=files)

        limit = int(0.8 * self.reserve_tokens) + (int(0.5 * self.reserve_tokens) if prefix else 0)
        kept = s.sizes.overhead + s.sizes.kept_from(cut.position)
        return Proposal(
            strategy=self.name,
            finish=finish,
            asks=asks,
            stretch=(first, last),
            fold=tuple(x.id for x in history),
            turn_prefix=tuple(x.id for x in prefix),
            first_kept=s.id_at(cut.position),
            split=cut.split,
            previous_summary=earlier,
            files=files,
            smaller=False,
            tokens_after=kept + limit + lists,
            measured_before=s.sizes.anchored(bare=True),
        )

    def _cut(self, s: PlanContext, path: Sequence[e.AnyPathEntry], previous: e.Fold | None) -> Cut:
        start, wanted = s.boundary(previous), s.wanted_cut

        def size(entry: e.Entry) -> int:
            # Summaries of compactions take no room: the new one replaces all of them.
            if isinstance(entry, e.MessageEntry) and entry is s.session[entry.id]:
                return s.session.cached_count(entry.id, entry.message, s.measure)
            return 0 if isinstance(entry, e.Fold) else size_of(entry, s.measure)

        if wanted is None:
            return cut_by_budget(path, start=start, keep=self.keep_tokens, size=size, previous=previous)
        return cut_at(path, start, s.projection.position_of(wanted))

    def _ask(
        self,
        s: PlanContext,
        lists: int,
        purpose: str,
        sources: tuple[SummarySource, ...],
        previous: str | None,
        share: float,
    ) -> Ask:
        limit = int(share * self.reserve_tokens)

        def render(sources: Sequence[SummarySource], previous: str | None) -> Request:
            name = "pi_turn_prefix" if purpose == "turn_prefix" else "pi_update" if previous else "pi_summary"
            text = prompt(
                name,
                conversation=transcript.render(sources, STYLE),
                previous=transcript.inert(previous or ""),
                focus=focus_line(s.instructions),
            )
            return stand_alone(text, max_tokens=limit, purpose=purpose)

        def by_rule(sources: Sequence[Source], budget: int, counter: TokenCounter) -> str:
            if purpose == "turn_prefix":
                return Digest(sources, template=PREFIX).text(budget, counter)
            # The lists of files come on top; what the previous summary says has a claim of its own.
            room = min(budget + counter.text(previous or ""), max(limit - lists, limit // 2))
            return Digest(sources, previous or "", template=CHECKPOINT).text(room, counter)

        return Ask(
            sources=sources,
            by_rule=by_rule,
            render=render,
            previous=previous,
            purpose=purpose,
            target_tokens=limit,
        )


def shown_path(s: PlanContext) -> Sequence[e.AnyPathEntry]:
    """The path, with what is shown for an entry where folds of this design hide a message or replace it: what
    is not shown is not summarised either."""
    path: list[e.AnyPathEntry] | None = None
    for edit in (edit for fold in s.projection.folds if fold.preset == "pi" for edit in fold.edits):
        at = s.session.position(edit.first) if edit.kind in ("hide", "clip") else None
        if at is not None:
            path = list(s.session.path) if path is None else path
            same: dict[str, Any] = {"id": edit.first, "parent": path[at].parent, "time": path[at].time}
            path[at] = e.MessageEntry(**same, message=edit.put[0]) if edit.put else e.Other(**same)
    return s.session.path if path is None else path


# ── the cut (B8, B10) ───────────────────────────────────────────────────────────────────────────


class Cut(NamedTuple):
    """`position` is the first path entry kept. `turn_start` is where the turn begins that the cut goes
    through, −1 where it goes through none."""

    position: int
    turn_start: int = -1

    @property
    def split(self) -> bool:
        return self.turn_start >= 0


NO_CUT = (None, e.Fold, Result)
"""A kept part begins with none of these; with a tool result, its call would be missing."""
BEGINS_TURN = (User, Bash)


def shown_as(entry: e.Entry) -> type | None:
    """The kind of message that an entry is in a context of this design: a program's note and the summary of a
    branch speak for the user. None where it does not show up."""
    match entry:
        case e.MessageEntry(message=message):
            return type(message)
        case e.Note():
            return User
        case e.BranchSummary(summary=summary) if summary:
            return User
        case e.Fold(summary=summary) if summary:
            return e.Fold
        case _:
            return None


def cut_by_budget(
    path: Sequence[e.AnyPathEntry],
    *,
    start: int,
    keep: int,
    size: Callable[[e.Entry], int],
    previous: e.Fold | None = None,
) -> Cut:
    """Walk back from the end until `keep` is reached; cut at the first legal point from there on, or at
    the last one before. Metadata directly in front of the cut stays with it, also where only the `previous`
    fold is between: its summary stands at the beginning. Costs what is kept."""
    left, reached = keep, start
    for index in range(len(path) - 1, start - 1, -1):
        tokens = size(path[index])
        left -= tokens
        if tokens and left <= 0:
            reached = index
            break
    behind, before = range(reached, len(path)), range(len(path) - 1, start - 1, -1)
    point = next((i for i in chain(behind, before) if shown_as(path[i]) not in NO_CUT), None)
    if point is None:
        return Cut(start)
    position = at = point
    while at > start and (path[at - 1] is previous or shown_as(path[at - 1]) is None):
        at -= 1
        position = position if path[at] is previous else at
    return Cut(position, cut_at(path, start, point).turn_start)


def cut_at(path: Sequence[e.AnyPathEntry], start: int, point: int) -> Cut:
    """The cut directly before `point`."""
    turns = (i for i in range(point - 1, start - 1, -1) if shown_as(path[i]) in BEGINS_TURN)
    return Cut(point, -1 if shown_as(path[point]) in BEGINS_TURN else next(turns, -1))
