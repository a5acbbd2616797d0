"""The token-budgeted cut: keep the newest part of the path up to a budget, split a turn if need be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from refold import entries as e
from refold.messages import Bash, Result, User
from refold.protocols import TokenCounter


class Cut(NamedTuple):
    """`position` is the first path entry kept. `turn_start` is where the turn begins that the cut goes
    through, −1 where it goes through none."""

    position: int
    turn_start: int = -1

    @property
    def split(self) -> bool:
        return self.turn_start >= 0


def in_context(entry: e.Entry) -> bool:
    """Does the entry show up in a context of this design?"""
    return isinstance(entry, (e.MessageEntry, e.Note, e.BranchSummary, e.Fold))


def is_cut_point(entry: e.Entry) -> bool:
    """May a kept part begin here? Never at a tool result: its call would be missing."""
    if isinstance(entry, e.MessageEntry):
        return not isinstance(entry.message, Result)
    return isinstance(entry, (e.Note, e.BranchSummary))


def begins_turn(entry: e.Entry) -> bool:
    """User messages and whatever else speaks for the user begin a turn."""
    if isinstance(entry, e.MessageEntry):
        return isinstance(entry.message, (User, Bash))
    return isinstance(entry, (e.Note, e.BranchSummary))


def size_of(entry: e.Entry, measure: TokenCounter) -> int:
    match entry:
        case e.MessageEntry(message=message):
            return measure.message(message)
        case e.Note(content=content):
            return measure.message(User(content))
        case e.BranchSummary(summary=summary) | e.Fold(summary=summary):
            return measure.text(summary)
        case _:
            return 0


def cut_by_budget(
    path: Sequence[e.AnyPathEntry], *, start: int, keep: int, size: Callable[[e.Entry], int]
) -> Cut:
    """Walk back from the end until `keep` is reached; cut at the first legal point from there on, or at
    the last one before. Metadata directly in front of the cut stays with it. Costs what is kept."""
    reached = _walk_back(path, start, keep, size)
    point = _legal_from(path, start if reached is None else reached)
    if point is None:
        point = _legal_before(path, start, len(path))
    if point is None:
        return Cut(start)
    position = point
    while position > start and not in_context(path[position - 1]):
        position -= 1
    return Cut(position, cut_at(path, start, point).turn_start)


def cut_at(path: Sequence[e.AnyPathEntry], start: int, point: int) -> Cut:
    """The cut directly before `point`."""
    return Cut(point, -1 if begins_turn(path[point]) else _turn_start(path, start, point))


def _walk_back(
    path: Sequence[e.AnyPathEntry], start: int, keep: int, size: Callable[[e.Entry], int]
) -> int | None:
    total = 0
    for index in range(len(path) - 1, start - 1, -1):
        entry = path[index]
        if not in_context(entry) or not (tokens := size(entry)):
            continue
        total += tokens
        if total >= keep:
            return index
    return None


def _legal_from(path: Sequence[e.AnyPathEntry], first: int) -> int | None:
    return next((i for i in range(first, len(path)) if is_cut_point(path[i])), None)


def _legal_before(path: Sequence[e.AnyPathEntry], start: int, end: int) -> int | None:
    return next((i for i in range(end - 1, start - 1, -1) if is_cut_point(path[i])), None)


def _turn_start(path: Sequence[e.AnyPathEntry], start: int, point: int) -> int:
    return next((i for i in range(point - 1, start - 1, -1) if begins_turn(path[i])), -1)
