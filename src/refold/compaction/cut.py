"""Where a view may be cut, and the newest step, which stays whatever leaves."""

from __future__ import annotations

from refold.compaction.clips import Clips
from refold.compaction.situation import Situation
from refold.messages import Assistant, Result, User
from refold.session.invariants import PAIRS, WIRE, legal
from refold.session.invariants.batches import around
from refold.session.invariants.thinking import signed
from refold.shrink.clip import FRAME, LEVELS


def newest_step(s: Situation) -> int:
    """Index of the newest reply and what answers it, or of the newest message where that is no answer. A
    reply whose calls still wait is the newest, whatever stands behind it."""
    last = len(s.items) - 1
    batch = around(s.items, len(s.items))
    if batch is not None and batch.open(s.items):
        return max(batch.heads[0], s.projection.first)
    if last >= 0 and not isinstance(s.items[last].message, Result):
        return max(last, s.projection.first)
    return max(last_reply(s), s.projection.first)


def may_leave(s: Situation) -> bool:
    """May the newest step go into the record, with its results quoted there? Not what the user has just said,
    nor while results are still missing."""
    items, step = s.items, newest_step(s)
    return (
        not isinstance(items[step].message, User) and legal(items, len(items)) if step < len(items) else False
    )


def least_step(s: Situation) -> int:
    """Tokens of the newest step when everything is clipped that may be: its calls and signed thinking stay,
    and a stub for each result."""
    total, clips = 0, Clips.of(s.session)
    for index in range(newest_step(s), len(s.items)):
        size, item = s.sizes.item(index), s.items[index]
        message, held = item.message, any(signed(part) for part in item.message.parts)
        if isinstance(message, Assistant) and message.calls and not held and len(item.entries) == 1:
            form = clips.form(item.entries[0], message, LEVELS[0], s.counter, None)
            total += min(size, form.size + s.sizes.extra.item(index))
        else:
            total += size if held or isinstance(message, User) else min(size, LEVELS[0] + FRAME)
    return total


def last_reply(s: Situation) -> int:
    """Index of the newest reply; one before the first item that may be folded where there is none."""
    items, first = s.items, s.projection.first
    replies = (i for i in range(len(items) - 1, first - 1, -1) if isinstance(items[i].message, Assistant))
    return next(replies, first - 1)


def legal_cut(s: Situation, index: int, slack: int, open_from: int = 0) -> int:
    """A place near `index` where the wire's rules allow a cut, and that keeps something: the next one behind;
    where there is none, one before that keeps at most `slack` tokens more. Where signed thinking forbids
    both, pairs and batches alone decide: the thinking of that loop is dropped. They also decide before
    `open_from`, in turns that are over: nobody asks for their thinking."""
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
