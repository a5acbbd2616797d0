"""Rounds: a user message and everything up to the next one, as stretches of the path."""

from __future__ import annotations

from typing import NamedTuple

from refold.compaction.ledger import stretches, undone
from refold.compaction.situation import Situation
from refold.entries import Undo
from refold.messages import Assistant
from refold.session.edits import said_by
from refold.session.items import Item

BROKEN = ("error", "aborted")


class Round(NamedTuple):
    """`first` and `last` are path positions, both inside. Numbers count from 1."""

    number: int
    first: int
    last: int


def is_over(s: Situation) -> bool:
    """Has the newest round come to its final answer?"""
    if not s.items:
        return False
    last = s.items[-1]
    message = said_by(s.session[last.entries[-1]]) or last.message
    return isinstance(message, Assistant) and not message.calls and message.stop not in BROKEN


def finished(s: Situation) -> int:
    """How many rounds are finished."""
    return max(len(s.session.turns) - (0 if is_over(s) else 1), 0)


def round_at(s: Situation, index: int) -> Round:
    """The round with this index, from 0. What the model never sees at its end is no part of it; what was
    said before the first user message is a part of the first."""
    turns, path = s.session.turns, s.session.path
    first = turns[index] if index else min(s.floor, turns[0])
    last = (turns[index + 1] if index + 1 < len(turns) else len(path)) - 1
    while last > first and said_by(path[last]) is None:
        last -= 1
    return Round(index + 1, first, last)


def verbatim(s: Situation, round: Round) -> Round | None:
    """What of a round is still shown as it was said: all of it, what an older fold left of it, or nothing."""
    begin, end = s.item_at(round.first), s.item_at(round.last)
    if begin >= len(s.items) or end >= len(s.items):
        return None
    reach = _span(s, s.items[begin])
    if _span(s, s.items[end])[1] > round.last or (reach[1] >= round.last and s.items[begin].fold):
        return None
    if s.items[begin].fold and reach[0] < round.first:
        return Round(round.number, reach[1] + 1, round.last)
    return round


def _span(s: Situation, item: Item) -> tuple[int, int]:
    first, last = s.session.position(item.entries[0]), s.session.position(item.entries[-1])
    return first or 0, last or 0


def left_alone(s: Situation) -> list[tuple[int, int]]:
    """Stretches that were unfolded by hand: not folded again unless they must go."""
    if s.force or s.hard or not s.session.annotations(Undo):
        return []
    return stretches(s.session, undone(s.session.path))


def touches(round: Round, spans: list[tuple[int, int]]) -> bool:
    return any(a <= round.last and round.first <= b for a, b in spans)
