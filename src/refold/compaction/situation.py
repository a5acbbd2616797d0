"""Everything a decision may look at: the log, and what was handed over with the question."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from refold import entries as e
from refold import tokens
from refold.compaction import calibration
from refold.compaction.plan import Due, Source
from refold.compaction.told import told_by
from refold.messages import Assistant, Result, System, Usage, compact_json
from refold.protocols import TokenCounter
from refold.session import Projection, Session
from refold.session.items import Item

ROUGH = tokens.get("bytes4")


class Writer(msgspec.Struct, frozen=True):
    """The model that writes summaries."""

    name: str
    window: int | None = None


@dataclass(frozen=True, kw_only=True)
class Situation:
    session: Session
    projection: Projection = field(repr=False)
    counter: TokenCounter
    """Promises that the view fits."""
    measure: TokenCounter
    """Decides when and where, as the design does."""
    window: int
    now: float = 0.0
    system: str | None = None
    tools: Sequence[Any] = ()
    incoming: str | None = None
    """User input that is about to be appended."""
    instructions: str | None = None
    """What the user wants the summary to focus on."""
    first_kept: str | None = None
    """Where the kept part shall begin, whatever the design would choose; a legal cut."""
    due: Due | None = None
    """Why a fold is wanted; None while that is being decided."""
    force: bool = False
    cache_expiring: bool = False
    """The provider's cache of this context is about to expire."""
    writer: Writer | None = None
    """Who writes summaries; None: the embedded digest."""
    calibrated: bool = False
    """Windows are the provider's: where its own counts are known, they decide, not ours."""
    resting: bool = False
    """The summariser failed too often and is left alone for a while."""

    @property
    def has_model(self) -> bool:
        """Summaries are written by a model (otherwise by the embedded digest)."""
        return self.writer is not None

    @property
    def items(self) -> Sequence[Item]:
        return self.projection.items

    @property
    def folds(self) -> Sequence[e.Fold]:
        return self.projection.folds

    @property
    def newest_fold(self) -> e.Fold | None:
        return self.folds[-1] if self.folds else None

    @cached_property
    def overhead(self) -> int:
        """Tokens of the system prompt and the tools, exact."""
        text = self.counter.text(self.system) if self.system else 0
        return text + (self.counter.tools(self.tools) if self.tools else 0)

    @cached_property
    def tokens(self) -> int:
        """Exact size of the view, system prompt and tools included."""
        return self.overhead + self.projection.size(self.counter)

    @cached_property
    def rough(self) -> int:
        """Size of the view by bytes / 4: cheap even for a log that was never counted."""
        return self._overhead_by(ROUGH) + self.projection.size(ROUGH)

    @cached_property
    def hard(self) -> bool:
        """The view is too large for the window: something must go."""
        if not self.window / 4 < self.rough < self.window * 4:
            return self.rough > self.window  # so far off that counting exactly would change nothing
        return (self.filled if self.calibrated else self.tokens) > self.window

    @cached_property
    def calibration(self) -> tokens.Calibration:
        """What the provider counts for what we count; not `known` where nothing was learnt."""
        return calibration.calibration(self) if self.calibrated else tokens.Calibration()

    @cached_property
    def filled(self) -> int:
        """What the provider will count for this view: its own figure for the part it has seen, ours, scaled,
        for the rest. Never less than what we count ourselves: servers that keep prompts in a cache report
        only what they read anew, and some report nothing that is true."""
        if not self.calibration.known:
            return max(self.anchored(self.counter), self.tokens)
        anchor = self._anchor()
        if anchor is None:
            return self.expected(self.tokens)
        used, first = anchor
        return max(self.tokens, used + round(self.calibration.scale * self.estimate(self.counter, first)))

    def expected(self, size: int) -> int:
        """What the provider will count for a view of `size` tokens, system prompt and tools included."""
        known = self.calibration.known
        return max(size, self.calibration.predict(size - self.overhead)) if known else size

    def room(self, limit: int) -> int:
        """The most a view may count so that the provider counts at most `limit`. At least a quarter of it:
        no vocabulary is further from ours."""
        if not self.calibration.known:
            return limit
        return min(limit, max(limit // 4, self.calibration.budget(limit) + self.overhead))

    def measured(self, stretch: tuple[str, str] | None) -> int:
        """Size, by the design's own measure, of what the view shows for a stretch of the path."""
        if stretch is None:
            return 0
        first, last = (self.session.position(id) or 0 for id in stretch)
        return self.projection.size(self.measure, self.item_at(first), self.item_at(last + 1))

    @cached_property
    def fold_position(self) -> int:
        """Position of the newest active fold on the path, −1 if there is none."""
        fold = self.newest_fold
        position = self.session.position(fold.id) if fold else None
        return -1 if position is None else position

    @property
    def newest_summary(self) -> e.Fold | None:
        """The newest active fold that carries a summary text."""
        return next((fold for fold in reversed(self.folds) if fold.summary), None)

    @cached_property
    def floor(self) -> int:
        """First path position that may be folded: a system prompt in the log stays."""
        for position, entry in enumerate(self.session.path):
            if isinstance(entry, e.MessageEntry) and not isinstance(entry.message, System):
                return position
            if isinstance(entry, (e.Note, e.BranchSummary, e.Fold)):
                return position
        return len(self.session.path)

    @cached_property
    def first_item(self) -> int:
        """Index of the first item that may be folded."""
        return self.item_at(self.floor)

    @property
    def wanted_cut(self) -> int | None:
        """Index of the item at which the kept part shall begin, where somebody said so."""
        at = self.session.position(self.first_kept) if self.first_kept else None
        return None if at is None else self.item_at(at)

    def boundary(self, previous: e.Fold | None) -> int:
        """Where the next summary begins to read: what the previous fold kept is read again."""
        if previous is None:
            return self.floor
        kept = self.session.position(previous.first_kept) if previous.first_kept else None
        at = self.session.position(previous.id)
        return kept if kept is not None else (at or 0) + 1

    def fold_of(self, item: Item) -> e.Fold:
        fold = self.session[item.fold or ""]
        assert isinstance(fold, e.Fold)
        return fold

    def hidden_edits(self, after: int) -> tuple[e.Edit, ...]:
        """Hides the reply that failed because the context was too long, where it would stay in view."""
        last = self.last_assistant()
        if self.due is None or self.due.code != "overflow" or last is None:
            return ()
        failed = isinstance(last.message, Assistant) and last.message.stop == "error"
        at = self.session.position(last.id)
        if not failed or at is None or at < after:
            return ()
        return (e.Edit(last.id, last.id, (), "hide"),)

    def last_assistant(self) -> e.MessageEntry | None:
        replies = self.session.replies
        entry = self.session.path[replies[-1]] if replies else None
        return entry if isinstance(entry, e.MessageEntry) else None

    def anchored(
        self, measure: TokenCounter | None = None, *, stale: bool = False, bare: bool = False
    ) -> int:
        """Last valid usage the provider reported for this view, plus the estimate of what came after it;
        without such a usage, the estimate of all. Usage from before the newest fold describes a view that
        is gone and does not count, unless `stale` asks for it. `bare`: summaries count without the frame
        they are shown in."""
        measure = measure or self.measure
        anchor = self._anchor(stale=stale)
        if anchor is not None:
            return anchor[0] + self.estimate(measure, anchor[1], bare=bare)
        return self.estimate(measure, bare=bare) + (0 if stale else self._overhead_by(measure))

    def _anchor(self, *, stale: bool = False) -> tuple[int, int] | None:
        """The newest valid usage, and the index of the first item that it does not cover."""
        for index in reversed(self.projection.replies):
            usage = self.usage_of(self.items[index])
            if usage is not None:
                if not stale and not self.is_fresh(self.session[self.items[index].entries[-1]]):
                    break
                return usage.total, index + 1
        return None

    def estimate(self, measure: TokenCounter, first: int = 0, *, bare: bool = False) -> int:
        """Size of the items from `first` on."""
        total = self.projection.size(measure, first)
        for index in reversed(self.projection.framed):
            if index < first or not bare:
                break
            framed = self.projection.size(measure, index, index + 1)
            total -= max(framed - measure.text(self._bare(self.items[index])), 0)
        return total

    def usage_of(self, item: Item) -> Usage | None:
        """The usage reported with a reply that came to a proper end."""
        entry = self.session[item.entries[-1]]
        if item.fold is not None or not isinstance(entry, e.MessageEntry) or entry.usage is None:
            return None
        failed = isinstance(entry.message, Assistant) and entry.message.stop in ("error", "aborted")
        return None if failed or entry.usage.total == 0 else entry.usage

    def is_fresh(self, entry: e.Entry) -> bool:
        """Was it said after the newest fold? Usage from before describes a view that is gone."""
        return (self.session.position(entry.id) or 0) > self.fold_position

    def _bare(self, item: Item) -> str:
        source = self.session[item.fold or item.entries[-1]]
        if isinstance(source, (e.Fold, e.BranchSummary)) and source.summary:
            return source.summary
        return item.message.text

    def sources(self, first: int, last: int) -> tuple[Source, ...]:
        """What the path says from position `first` up to, not including, `last`."""
        return told(self.session, first, last)

    def fits(self, first: int, last: int, room: int) -> bool:
        """Are the items from `first` up to, not including, `last` at most `room` tokens? Counts exactly, and
        no further than it must."""
        for index in range(first, last):
            room -= self.counter_size(index)
            if room < 0:
                return False
        return True

    def source(self, item: Item) -> Source:
        """What an item of the view says, with its place in the conversation."""
        id = item.entries[-1]
        position = self.session.position(id)
        turn = bisect_right(self.session.turns, position) if position is not None else 0
        return Source(id, item.message, self.session[id].time, turn)

    @cached_property
    def uses_tools(self) -> bool:
        return any(isinstance(item.message, Result) for item in reversed(self.items))

    @property
    def can_recall(self) -> bool:
        """May the model be told to call the recall tool? Yes, unless its tools are known and lack it."""
        return not self.tools or "recall_conversation" in compact_json(list(self.tools))

    def counter_size(self, index: int) -> int:
        """Exact size of one item; counts no other."""
        item = self.items[index]
        return self.session.cached_count(self.projection.key(index), item.message, self.counter)

    @cached_property
    def system_messages(self) -> int:
        """Exact size of the system messages at the beginning of the log."""
        return sum(self.counter_size(index) for index in range(self.first_item))

    def position_of(self, index: int) -> int:
        """Path position at which the item begins; the end of the path for the index behind the last."""
        if index >= len(self.items):
            return len(self.session.path)
        return self.session.position(self.items[index].entries[0]) or 0

    def tokens_of(self, first: int) -> int:
        """Exact tokens of the view from the item on that stands for path position `first`."""
        return sum(self.counter_size(index) for index in range(self.item_at(first), len(self.items)))

    def item_at(self, position: int) -> int:
        """Index of the first item that stands for something at or after a path position."""
        items = self.items
        low, high = 0, len(items)
        while low < high:
            middle = (low + high) // 2
            at = self.session.position(items[middle].entries[-1])
            if at is not None and at < position:
                low = middle + 1
            else:
                high = middle
        return low

    def _overhead_by(self, measure: TokenCounter) -> int:
        text = measure.text(self.system) if self.system else 0
        return text + (measure.tools(self.tools) if self.tools else 0)


@dataclass
class _Told:
    """What the entries of a path say, read once; grows with the path."""

    epoch: int
    starts: list[int]
    """For each position of the path, and the one behind it: how many sources come before."""
    sources: list[Source]


_told: WeakKeyDictionary[Session, _Told] = WeakKeyDictionary()


def told(session: Session, first: int, last: int) -> tuple[Source, ...]:
    """What a session's path says from position `first` up to, not including, `last`. Costs what is new since
    the last call."""
    known = _told.get(session)
    if known is None or known.epoch != session.epoch:
        known = _told[session] = _Told(session.epoch, [0], [])
    done, sources = len(known.starts) - 1, known.sources
    turn, turns = bisect_left(session.turns, done), session.turns
    for position, entry in enumerate(session.path[done:], done):
        if turn < len(turns) and turns[turn] == position:
            turn += 1
        message = told_by(entry)
        if message is not None:
            sources.append(Source(entry.id, message, entry.time, turn))
        known.starts.append(len(sources))
    end = len(known.starts) - 1
    return tuple(sources[known.starts[min(first, end)] : known.starts[min(last, end)]])
