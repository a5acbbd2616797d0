"""Everything a decision may look at: the log, and what goes with the request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from refold import entries as e
from refold.compaction.sizes import Sizes
from refold.messages import Assistant, Result, User, compact_json
from refold.protocols import TokenCounter
from refold.session.edits import edit_stretches, said_by, undone_folds
from refold.session.history import History
from refold.session.invariants import PAIRS, WIRE, legal
from refold.session.invariants.batches import around
from refold.session.items import Item
from refold.session.projection import Projection
from refold.session.toolnames import RECALL_TOOL_NAME

_TOOL = re.compile(r'"name":"([\w.:-]{1,100})"')


class Writer(msgspec.Struct, frozen=True):
    """The model that writes summaries."""

    name: str
    window: int | None = None


class Due(msgspec.Struct, frozen=True):
    """Why a fold is due."""

    code: str
    text: str


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """What goes with the question whether to fold."""

    system: str | None = None
    tools: Sequence[Any] = ()
    incoming: str | None = None
    """User input that is about to be appended."""
    instructions: str | None = None
    """What a summary should pay attention to."""
    cache_expiring: bool = False
    """The provider's cache of this context is about to expire."""
    force: bool = False
    """Fold now, whatever the trigger says."""
    resting: bool = False
    """The summariser is left alone."""
    model: str | None = None
    """Who will be asked; None: the log's newest."""


@dataclass(frozen=True, kw_only=True)
class PlanContext(PlanRequest):
    """A request, and the log it is made of."""

    session: History
    projection: Projection = field(repr=False)
    counter: TokenCounter
    """Promises that the view fits."""
    measure: TokenCounter
    """Decides when and where, as the design does."""
    window: int
    now: float = 0.0
    first_kept: str | None = None
    """Where the kept part shall begin, whatever the design would choose; a legal cut."""
    due: Due | None = None
    """Why a fold is wanted; None while that is being decided."""
    writer: Writer | None = None
    """Who writes summaries; None: the embedded digest."""
    calibrated: bool = False
    """Windows are the provider's: where its own counts are known, they decide, not ours."""
    memo: dict[object, Any] = field(default_factory=dict[object, Any], init=False, repr=False, compare=False)
    """What strategies have worked out, so that the next one need not."""

    @cached_property
    def sizes(self) -> Sizes:
        """How large the view is."""
        return Sizes(
            projection=self.projection,
            counter=self.counter,
            measure=self.measure,
            window=self.window,
            system=self.system,
            tools=self.tools,
            calibrated=self.calibrated,
        )

    @property
    def items(self) -> Sequence[Item]:
        """What the model sees."""
        return self.projection.items

    @property
    def restored(self) -> PlanContext:
        """The same, asked of the view with every step in its place that left it alone: what is quoted of it
        depends on its age, not on when it left."""
        projection = self.projection.restored()
        return self if projection is self.projection else replace(self, projection=projection)

    @property
    def has_model(self) -> bool:
        """Summaries are written by a model (otherwise by the embedded digest)."""
        return self.writer is not None

    @cached_property
    def uses_tools(self) -> bool:
        return any(isinstance(item.message, Result) for item in reversed(self.items))

    @property
    def recall_tool(self) -> str:
        """The tool by which the model can read messages again; empty where it has none."""
        names = _TOOL.findall(compact_json(list(self.tools))) if self.tools else []
        ours = (name for name in names if "refold" in name and name.endswith("recall"))
        return RECALL_TOOL_NAME if RECALL_TOOL_NAME in names else next(ours, "")

    @property
    def wanted_cut(self) -> int | None:
        """Index of the item at which the kept part shall begin, where a hook asked for that."""
        at = self.session.position(self.first_kept) if self.first_kept else None
        return None if at is None else self.projection.item_at(at)

    def span(self, first: str, last: str) -> tuple[int, int]:
        """The path positions of the first and the last entry of a stretch."""
        return self.session.position(first) or 0, self.session.position(last) or 0

    def id_at(self, position: int) -> str | None:
        """The entry at a path position; None behind the last."""
        path = self.session.path
        return path[position].id if position < len(path) else None

    def boundary(self, previous: e.Fold | None) -> int:
        """Path position from which the next summary reads: what the previous fold kept is read again."""
        if previous is None:
            return self.projection.floor
        kept = self.session.position(previous.first_kept) if previous.first_kept else None
        at = self.session.position(previous.id)
        return kept if kept is not None else (at or 0) + 1

    def hidden_edits(self, after: int) -> tuple[e.Edit, ...]:
        """Hides the reply that failed because the context was too long, where it would stay in view."""
        last = self.session.last_reply
        if self.due is None or self.due.code != "overflow" or last is None:
            return ()
        failed = isinstance(last.message, Assistant) and last.message.stop == "error"
        at = self.session.position(last.id)
        if not failed or at is None or at < after:
            return ()
        return (e.Edit(last.id, last.id, (), "hide"),)


def newest_step(s: PlanContext) -> int:
    """Index of the newest reply and what answers it, or of the newest message where that is no answer. A
    reply whose calls still wait is the newest, whatever stands behind it."""
    last = len(s.items) - 1
    batch = around(s.items, len(s.items))
    if batch is not None and batch.open(s.items):
        return max(batch.heads[0], s.projection.first)
    if last >= 0 and not isinstance(s.items[last].message, Result):
        return max(last, s.projection.first)
    return max(last_reply(s), s.projection.first)


def may_leave(s: PlanContext) -> bool:
    """May the newest step go into the record, with its results quoted there? Not what the user has just said,
    nor while results are still missing."""
    items, step = s.items, newest_step(s)
    return step < len(items) and not isinstance(items[step].message, User) and legal(items, len(items))


def last_reply(s: PlanContext) -> int:
    """Index of the newest reply; one before the first item that may be folded where there is none."""
    items, first = s.items, s.projection.first
    replies = (i for i in range(len(items) - 1, first - 1, -1) if isinstance(items[i].message, Assistant))
    return next(replies, first - 1)


def legal_cut(s: PlanContext, index: int, slack: int, open_from: int = 0) -> int:
    """A place near `index` where the wire's rules allow a cut, and that keeps something: the next one behind;
    where there is none, one before that keeps at most `slack` tokens more. Where signed thinking forbids
    both, pairs and batches alone decide: the thinking of that loop is dropped. They also decide before
    `open_from`, in turns that are over: their thinking is not asked for."""
    items, first = s.items, s.projection.first
    if index <= first:
        return first
    later, earlier = range(index, len(items)), range(index - 1, first, -1)
    after = next((at for at in later if legal(items, at, PAIRS if at < open_from else WIRE)), None)
    if after is not None:
        return after
    before = next((at for at in earlier if legal(items, at)), None)
    if before is not None and s.sizes.items(before, index) <= slack:
        return before
    return next((at for at in (*later, *earlier) if legal(items, at, PAIRS)), first)


# ── rounds: a user message and everything up to the next one (D3) ───────────────────────────────

BROKEN = ("error", "aborted")


class Round(NamedTuple):
    """`first` and `last` are path positions, both inside. Numbers count from 1."""

    number: int
    first: int
    last: int


def is_over(s: PlanContext) -> bool:
    """Has the newest round come to its final answer?"""
    if not s.items:
        return False
    last = s.items[-1]
    message = said_by(s.session[last.entries[-1]]) or last.message
    return isinstance(message, Assistant) and not message.calls and message.stop not in BROKEN


def finished(s: PlanContext) -> int:
    """How many rounds are finished."""
    return max(len(s.session.turns) - (0 if is_over(s) else 1), 0)


def round_at(s: PlanContext, index: int) -> Round:
    """The round with this index, from 0. What the model never sees at its end is no part of it; what was
    said before the first user message is a part of the first."""
    turns, path = s.session.turns, s.session.path
    first = turns[index] if index else min(s.projection.floor, turns[0])
    last = (turns[index + 1] if index + 1 < len(turns) else len(path)) - 1
    while last > first and said_by(path[last]) is None:
        last -= 1
    return Round(index + 1, first, last)


def items_of(s: PlanContext, round: Round) -> range:
    """Indexes of the items that show a round."""
    return range(s.projection.item_at(round.first), s.projection.item_at(round.last + 1))


def verbatim(s: PlanContext, round: Round) -> Round | None:
    """What of a round is still shown as it was said: all of it, what an older fold left of it, or nothing."""
    begin, end = s.projection.item_at(round.first), s.projection.item_at(round.last)
    if begin >= len(s.items) or end >= len(s.items):
        return None
    item, after = s.items[begin], s.items[end].entries[-1]
    first, last = s.span(item.entries[0], item.entries[-1])
    if (s.session.position(after) or 0) > round.last or (last >= round.last and item.fold):
        return None
    if item.fold and first < round.first:
        return Round(round.number, last + 1, round.last)
    return round


def left_alone(s: PlanContext) -> list[tuple[int, int]]:
    """Stretches that were unfolded by hand: not folded again unless they must go."""
    if s.force or not s.session.annotations(e.Undo) or s.sizes.too_large:
        return []
    return [(x.first, x.last) for x in edit_stretches(undone_folds(s.session.path), s.session.position)]


def touches(first: int, last: int, spans: list[tuple[int, int]]) -> bool:
    return any(a <= last and first <= b for a, b in spans)
