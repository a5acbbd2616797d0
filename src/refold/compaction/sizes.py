"""How large a view is: by bytes, by an exact counter, and as the provider counts it (B7, R12).

The provider's count is learnt from the usage in the log. Every reply with a usage is a pair: our count of
the view it answered, and the provider's. A fold, an undo or a moved leaf changes the view, so only replies
after the newest of them are pairs; each fold writes down what was learnt before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from refold import entries as e
from refold import tokens
from refold.compaction import details
from refold.messages import Assistant, Message, Usage, User
from refold.protocols import TokenCounter
from refold.session.edits import branch_summary_in
from refold.session.history import History, last_model
from refold.session.items import Item
from refold.session.projection import FOLD_MARKS, Projection
from refold.session.wire_size import WireOverhead, wire_overhead
from refold.tokens import Calibration
from refold.tokens.parts import sealed_size

ROUGH = tokens.get("bytes4")
UNKNOWN = Calibration()
RECENT = 100
"""Replies that are learnt from."""
SPREAD = 0.2
"""A line that its own points miss by more than this (median) says nothing."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of one view, each counted when it is first asked for."""

    projection: Projection
    counter: TokenCounter
    measure: TokenCounter
    window: int
    system: str | None = None
    tools: Sequence[Any] = ()
    calibrated: bool = False

    # ── as we count ─────────────────────────────────────────────────────────────────────────────

    @cached_property
    def overhead(self) -> int:
        """Tokens of the system prompt and the tools, exact."""
        return fixed_size(self.counter, self.system, self.tools)

    @cached_property
    def tokens(self) -> int:
        """Exact size of the view as it is sent, system prompt and tools included."""
        return self.overhead + self.projection.size(self.counter) + self.extra.total

    @cached_property
    def extra(self) -> WireOverhead:
        """What is sent beyond the items themselves."""
        return WireOverhead.of(self.projection, self.counter)

    @cached_property
    def rough(self) -> int:
        """Size of the view by bytes / 4: cheap even for a log that was never counted."""
        wire = WireOverhead.of(self.projection, ROUGH).total
        return fixed_size(ROUGH, self.system, self.tools) + self.projection.size(ROUGH) + wire

    def far_beyond(self, limit: int) -> bool:
        """Is it clear without counting all of it that the view is larger? A rough count alone is no proof:
        a hundred blanks are one token."""
        everything = len(self.projection.items)
        return self.rough >= 4 * limit and not self.fits(0, everything, limit - self.overhead)

    @cached_property
    def too_large(self) -> bool:
        """The view is too large for the window: something must go."""
        return self.passes(self.window)

    def passes(self, limit: int, *, as_we_count: bool = False) -> bool:
        """Is the view larger than `limit`, as the provider counts where that is known?"""
        if self.rough <= limit / 4:  # no token has less than a byte
            return False
        if self.far_beyond(limit):
            return True
        return (self.provider if self.calibrated and not as_we_count else self.tokens) > limit

    @cached_property
    def system_messages(self) -> int:
        """Exact size of the system messages at the beginning of the log."""
        return sum(self.item(index) for index in range(self.projection.first))

    @property
    def fixed(self) -> int:
        """Exact size of what no fold touches: system prompt, tools, system messages."""
        return self.overhead + self.system_messages

    def item(self, index: int) -> int:
        """Exact size of one item as it is sent; counts no other."""
        return self.projection.count(index, self.counter) + self.extra.item(index)

    def items(self, first: int, last: int) -> int:
        """Exact size of the items from `first` up to, not including, `last`; counts no other."""
        return sum(self.item(index) for index in range(first, last))

    def after(self, keyed: Sequence[tuple[str, Item]]) -> int:
        """Exact size of a view of these items, as it is sent, system prompt and tools included."""
        total = self.overhead
        for key, item in keyed:
            total += self.projection.session.cached_count(key, item.message, self.counter)
        return total + wire_overhead([item for _, item in keyed], self.counter)

    def kept_from(self, position: int) -> int:
        """Exact size of what the view shows from a path position on."""
        return self.items(self.projection.item_at(position), len(self.projection.items))

    def fits(self, first: int, last: int, room: int) -> bool:
        """Are the items from `first` up to, not including, `last` at most `room` tokens? Counts exactly,
        the newest first, and no further than it must."""
        for index in range(last - 1, first - 1, -1):
            room -= self.item(index)
            if room < 0:
                return False
        return True

    def shown(self, first: int, last: int, measure: TokenCounter | None = None) -> int:
        """Size of what the view shows for a stretch of path positions, both inside."""
        at = self.projection.item_at
        return self.projection.size(measure or self.counter, at(first), at(last + 1))

    # ── anchored on the last usage ──────────────────────────────────────────────────────────────

    def anchored(self, measure: TokenCounter | None = None, *, bare: bool = False) -> int:
        """Last valid usage the provider reported for this view, plus the estimate of what came after it;
        without such a usage, the estimate of all. Usage from before the newest fold describes a view that
        is gone and does not count. `bare`: summaries count without the frame they are shown in."""
        measure = measure or self.measure
        used, first = self._anchor() or (fixed_size(measure, self.system, self.tools), 0)
        total = used + self.projection.size(measure, first)
        return total - self._frames(measure, first) if bare else total

    def is_fresh(self, entry: e.Entry) -> bool:
        """Was it said after the newest fold? Usage from before describes a view that is gone."""
        fold, position = self.projection.newest_fold, self.projection.session.position
        folded = position(fold.id) if fold else None
        return folded is None or (position(entry.id) or 0) > folded

    def _anchor(self) -> tuple[int, int] | None:
        """The newest valid usage, and the index of the first item that it does not cover."""
        items = self.projection.items
        for index in reversed(self.projection.replies):
            entry = self.projection.session[items[index].entries[-1]]
            usage = None if items[index].fold else usage_of(entry)
            if usage is not None:
                if self.calibrated and usage.prompt > self.window:
                    return None  # a good reply to a larger request: it was made for another window
                return (usage.total, index + 1) if self.is_fresh(entry) else None
        return None

    def _frames(self, measure: TokenCounter, first: int) -> int:
        """Size of the frames around the summaries from `first` on."""
        total = 0
        for index in self.projection.framed:
            summary = self._summary(self.projection.items[index]) if index >= first else None
            if summary is not None:
                framed = self.projection.size(measure, index, index + 1)
                total += max(framed - measure.text(summary), 0)
        return total

    def _summary(self, item: Item) -> str | None:
        """The summary that an item frames; None where it frames none. A fold of pi also puts messages that an
        older one had folded: those are no summaries, unless of a branch."""
        source = self.projection.session[item.fold or item.entries[-1]]
        if not isinstance(source, e.Fold):
            return source.summary if isinstance(source, e.BranchSummary) else None
        for fold in (source, self.projection.newest_summary):
            if fold and fold.summary and any(edit.put[:1] == (item.message,) for edit in fold.edits):
                return fold.summary
        return branch_summary_in(item.message)

    # ── as the provider counts ──────────────────────────────────────────────────────────────────

    @cached_property
    def calibration(self) -> Calibration:
        """What the provider counts for what we count; not `known` where nothing was learnt."""
        return _learnt(self) if self.calibrated else UNKNOWN

    @cached_property
    def provider(self) -> int:
        """What the provider will count for this view: its own figure for the part it has seen, ours, scaled,
        for the rest. Never less than what we count ourselves: servers that keep prompts in a cache report
        only what they read anew, and some report nothing that is true."""
        if not self.calibration.known:
            return max(self.anchored(self.counter), self.tokens)
        anchor = self._anchor()
        if anchor is None:
            return self.expected(self.tokens)
        used, first = anchor
        rest = self.projection.size(self.counter, first)
        return max(self.tokens, used + round(self.calibration.scale * rest))

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

    @property
    def calibration_note(self) -> details.CalibrationNote | None:
        """What a fold writes down about the provider's count."""
        fit = self.calibration
        if not fit.known:
            return None
        line = [round(fit.scale, 4), round(fit.fixed), fit.points]
        return details.CalibrationNote(self.counter.name, last_model(self.projection.session) or "", line)


def fixed_size(measure: TokenCounter, system: str | None, tools: Sequence[Any]) -> int:
    """Tokens of a system prompt and tools."""
    return (measure.text(system) if system else 0) + (measure.tools(tools) if tools else 0)


def usage_of(entry: e.Entry) -> Usage | None:
    """The usage reported with a reply that came to a proper end."""
    if not isinstance(entry, e.MessageEntry) or entry.usage is None or not entry.usage.total:
        return None
    failed = isinstance(entry.message, Assistant) and entry.message.stop in ("error", "aborted")
    return None if failed else entry.usage


# ── learning ────────────────────────────────────────────────────────────────────────────────────


def _learnt(sizes: Sizes) -> Calibration:
    """What is known about the provider's count for the session's present model: of the view's items, so that
    system prompt and tools are in the fixed part. Not `known` where there is too little to go by."""
    model = last_model(sizes.projection.session) or ""
    pairs = [*_pairs(sizes, model)]
    if any(theirs > sizes.window for _, theirs in pairs):
        return UNKNOWN  # these requests were made for another window, by another program
    fit = Calibration.fit(pairs)
    if fit.known and fit.spread <= SPREAD:
        return fit
    written = _written(sizes)
    if written is None or (written.counter, written.model) != (sizes.counter.name, model):
        return UNKNOWN
    scale, fixed, points = written.line
    return Calibration(min(3.0, max(0.5, scale)), fixed, int(points))


def _pairs(sizes: Sizes, model: str) -> Iterator[tuple[int, int]]:
    """Our count of the view that a reply of a model answered, and the provider's, of the newest replies since
    the view was changed."""
    projection, session = sizes.projection, sizes.projection.session
    changed, sealed = _last_change(session), _SealedThoughts(sizes.counter)
    for index in reversed(projection.replies[-RECENT:]):
        entry = session[projection.items[index].entries[-1]]
        position = session.position(entry.id) or 0
        if position <= changed:
            return
        usage = None if projection.items[index].fold else usage_of(entry)
        if usage is not None and isinstance(entry, e.MessageEntry) and (entry.model or "") == model:
            turn = bisect_right(session.turns, position)
            begins = projection.item_at(session.turns[turn - 1]) if turn else 0
            # Sealed thoughts of finished turns are no longer read.
            ours = projection.size(sizes.counter, 0, index) - projection.size(sealed, 0, begins)
            yield ours, usage.prompt


class _SealedThoughts:
    """A counter of the sealed thoughts of messages, and of nothing else."""

    def __init__(self, counter: TokenCounter) -> None:
        self.counter, self.name = counter, f"sealed thoughts by {counter.name}"

    def text(self, text: str) -> int:  # noqa: ARG002
        return 0

    def message(self, message: Message) -> int:
        return sealed_size(message, self.counter)

    def tools(self, tools: Sequence[Any]) -> int:  # noqa: ARG002
        return 0


def _written(sizes: Sizes) -> details.CalibrationNote | None:
    """What the newest fold says."""
    fold = sizes.projection.newest_fold
    return details.RefoldDetails.of(fold).calibration if fold else None


def _last_change(session: History) -> int:
    """Position of the newest mark that changed the view; −1 without one."""
    marks = (mark.id for kind in FOLD_MARKS for mark in session.annotations(kind))
    return max((at for at in map(session.position, marks) if at is not None), default=-1)


def size_of(entry: e.Entry, measure: TokenCounter) -> int:
    """Tokens of what an entry says."""
    match entry:
        case e.MessageEntry(message=message):
            return measure.message(message)
        case e.Note(content=content):
            return measure.message(User(content))
        case e.BranchSummary(summary=summary) | e.Fold(summary=summary):
            return measure.text(summary)
        case _:
            return 0
