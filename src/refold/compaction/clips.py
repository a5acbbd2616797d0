"""The items of a view as grading reads them: what each has to say, and what it becomes when it is clipped.

Grading asks one question of an item: how many tokens has it at a level? `ItemReader` answers it, from the
newest item on, and reads no further than it is asked. A clipped form is made of the entry itself, never of
an earlier clip, once for each level.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from refold import entries as e
from refold.compaction.path_index import path_index
from refold.compaction.plan_context import PlanContext, last_reply, newest_step
from refold.facts.tools import shown_by
from refold.facts.words import typed as words_typed
from refold.messages import Assistant, Call, Message, Result, System, Thinking, User, arguments_json, user
from refold.session.edits import said_by
from refold.session.history import History
from refold.session.invariants import inside_put
from refold.session.invariants.batches import around, read_batch
from refold.session.invariants.empty import blank
from refold.session.invariants.thinking import required, signed
from refold.session.items import Item
from refold.session.toolnames import ToolKind, kind
from refold.session.wire_size import wire_overhead
from refold.shrink.clip import CLIP_OVERHEAD, LEVELS, WORTH, clip_message
from refold.shrink.excerpt import Texts

SMALL = 64
"""Calls of at most so many tokens stand at every scale."""
UNREAD_WHOLE, UNREAD_LEAST = 0.5, 0.25
"""Shares of the limit up to which results that no reply has read stay whole, and that larger ones have at
least."""
UNREAD_FADES = 0.75
"""Larger ones lose this part of what the limit lacks: a larger limit leaves more for all (R20)."""
SHOWS_AGAIN: tuple[ToolKind, ...] = ("edit", "editor", "write", "create", "patch")
"""What these return shows again what their call put in: no reply has to read it whole."""
TYPED = 0.25
"""Share of the goal up to which one message that the user typed stays whole; more is clipped to that."""
NEVER = 1 << 60
"""Tokens of a step that stands at no scale."""


# ── forms ───────────────────────────────────────────────────────────────────────────────────────


class SizedMessage(msgspec.Struct, frozen=True, gc=False):
    """What an item becomes, and its size."""

    message: Message
    size: int


class Clips:
    """Clipped forms of the entries of one session by one counter, each made once for a plan."""

    def __init__(self, s: PlanContext) -> None:
        self.session, self.counter = s.session, s.counter
        self._forms: dict[tuple[str, int], SizedMessage] = {}
        """By entry and level."""
        self._texts: dict[str, Texts] = {}
        self._banners = path_index(s.session).banners

    def form(self, id: str, message: Message, level: int, call: Call | None) -> SizedMessage:
        """The message of an entry at one level; level 0: whole, without its thinking."""
        form = self._forms.get((id, level))
        if form is None:
            small = message
            if level:
                position = self.session.position(id) or 0
                if id not in self._texts:
                    banner = self._banners.before(position, message.text)
                    self._texts[id] = Texts(self.counter, banner.__contains__)
                small = clip_message(message, level, self._texts[id], key=f"#{position}", kind=shown_by(call))
            elif isinstance(message, Assistant):
                spoken = tuple(part for part in message.content if not isinstance(part, Thinking))
                small = msgspec.structs.replace(message, content=spoken)
            form = self._forms[id, level] = SizedMessage(small, self.counter.message(small))
        return form


def least_step(s: PlanContext) -> int:
    """Tokens of the newest step when everything is clipped that may be: its calls and signed thinking stay,
    and a stub for each result."""
    total, clips = 0, Clips(s)
    for index in range(newest_step(s), len(s.items)):
        size, item = s.sizes.item(index), s.items[index]
        message, held = item.message, any(signed(part) for part in item.message.parts)
        if isinstance(message, Assistant) and message.calls and not held and len(item.entries) == 1:
            form = clips.form(item.entries[0], message, LEVELS[0], None)
            total += min(size, form.size + s.sizes.extra.item(index))
        else:
            total += size if held or isinstance(message, User) else min(size, LEVELS[0] + CLIP_OVERHEAD)
    return total


# ── items ───────────────────────────────────────────────────────────────────────────────────────


class EntryTraits(msgspec.Struct, frozen=True, gc=False):
    """What grading asks of the entry that an item shows."""

    message: Message
    """What it says, whatever an earlier fold made of it."""
    typed: int
    """Tokens that the user typed into it."""
    call: Call | None
    """The one that it is the result of."""
    calls: int
    """Tokens of the calls that it makes, where they are not small."""
    sealed: int
    """Tokens of thinking that the provider must have back as it was."""


class ItemStats(NamedTuple):
    """What grading needs to know of one item of the view."""

    whole: int
    """Tokens of what the entry says."""
    now: int
    """Tokens it has in the view, without thinking that need not stand."""
    said: bool = False
    """The agent's own words and calls: they fade slowest."""
    least: int = LEVELS[0]
    """Tokens it has at any scale where it stands; not fewer than `now`: it stays as it is."""
    writes: bool = False
    """Its own calls are large: mostly what they say is on disk."""
    stale: bool = False
    """A later result of the same call says it anew."""
    sealed: int = 0
    """Tokens of thinking that may not be taken off: the item stays as it is, or is quoted without it."""
    heavy: int = 0
    """Tokens of its step that no clip makes smaller: large calls, and thinking that may not be taken off. 0
    where the step may not leave its place."""
    step: int = -1
    """The item that its step begins with: a step leaves as a whole."""


_RECORD = Item(user("(the record)"))
"""Stands before what stays in its place, so that no stand-in has to."""


class ItemReader:
    """The items of a view from the first that may be folded on, read from the end. An item's place is counted
    from the newest, which has 0."""

    def __init__(
        self,
        s: PlanContext,
        clips: Clips,
        goal: int,
        *,
        limit: int = 0,
        all_leave: bool = False,
    ) -> None:
        self.s, self.clips, self.items, self.goal = s, clips, s.items, goal
        self.all_leave = all_leave
        """Nothing has to stay in its place."""
        self.first, self.last_reply, self.step = s.projection.first, last_reply(s), newest_step(s)
        self.total = len(self.items) - self.first
        turn = _open_turn(s.session)
        self.open_from = 0 if turn is None else s.projection.item_at(turn)
        """The turn that is going on: its signed thinking may not be touched."""
        waiting = range(self.last_reply + 1, len(self.items))
        size = sum(s.sizes.item(i) for i in waiting if isinstance(self.items[i].message, Result))
        lacking = max(size / UNREAD_WHOLE - limit, 0.0)
        unread = max(size - UNREAD_FADES * lacking, UNREAD_LEAST * limit) if limit else 0.0
        self._unread_share = min(unread / max(size, 1), 1.0)
        """What each result has of its tokens, at least, as long as no reply has read it."""
        self._pins = set(s.session.pins)
        self._index = path_index(s.session)
        self._traits: dict[int, EntryTraits] = {}
        self._stats: list[ItemStats] = []
        """Of the items that were read, the newest first."""
        self._made: set[int] = set()
        """How the calls were made whose results were read."""
        self._heavy_steps: dict[int, tuple[int, int]] = {}
        """Tokens that no clip makes smaller, by the items of the steps that were read."""

    def stats(self, place: int) -> ItemStats:
        while len(self._stats) <= place:
            self._stats.append(self._read(len(self.items) - 1 - len(self._stats)))
        return self._stats[place]

    def size(self, place: int, level: int) -> int:
        """Tokens of an item that stands at a level; 0: whole."""
        index, now = len(self.items) - 1 - place, self.stats(place).now
        form = self.form(index, level) if level else None
        if form is None:
            return now
        if index <= self.last_reply:
            return form.size
        # What no reply has read counts as if it had all of its part, wherever its lines end: a larger goal
        # must not cost another item its form (R20).
        return min(form.size + max(level - self.clips.counter.text(form.message.text), 0), now)

    def form(self, index: int, level: int) -> SizedMessage | None:
        """What an item becomes at a level; None where that is no smaller than what is shown now."""
        item = self.items[index]
        if self._keeps_thinking(index) or not self._one_entry(index) or (level and self._stays(index)):
            return None
        if not level and not any(type(part) is Thinking for part in item.message.parts):
            return None
        entry = self._entry(index)
        form = self.clips.form(item.entries[0], entry.message, level, entry.call)
        if form.size > self._count(index) - (WORTH if level else 1):
            return None
        return SizedMessage(form.message, form.size + self.s.sizes.extra.item(index))

    def sent(self, stays: Sequence[int], forms: dict[int, SizedMessage]) -> int:
        """Tokens of the items that stay in their forms, as they are sent."""
        extra = self.s.sizes.extra.item
        size = sum(forms[i].size - extra(i) if i in forms else self._count(i) for i in stays)
        shown = [Item(forms[i].message) if i in forms else self.items[i] for i in stays]
        record = [] if stays and stays[0] == self.first else [_RECORD]
        return size + wire_overhead([*record, *shown], self.s.counter)

    def _read(self, index: int) -> ItemStats:
        s, item = self.s, self.items[index]
        extra, entry = s.sizes.extra.item(index), self._entry(index)
        now = whole = self._count(index) + extra
        if not self._one_entry(index):
            return ItemStats(now, now, least=now)
        if item.fold is not None:
            whole = s.session.cached_count(item.entries[0], entry.message, s.counter) + extra
        silent = self.form(index, 0)
        now = now - entry.sealed if silent is None else silent.size
        waits = isinstance(item.message, Result) and index > self.last_reply
        waits = waits and not (entry.call is not None and kind(entry.call.name) in SHOWS_AGAIN)
        heavy, step = self._heavy(index)
        return ItemStats(
            whole=whole,
            now=now,
            said=type(item.message) is Assistant or (self.all_leave and waits),
            least=self._least(index, now, waits=waits),
            writes=entry.calls > 0,
            stale=self._is_stale(entry.call),
            sealed=entry.sealed,
            heavy=heavy,
            step=step,
        )

    def _is_stale(self, call: Call | None) -> bool:
        """Was the call made again later in just the same way? The newest result tells more."""
        if call is None:
            return False
        made = hash((call.name, arguments_json(call)))
        stale = made in self._made
        self._made.add(made)
        return stale

    def _least(self, index: int, now: int, *, waits: bool) -> int:
        """What an item has at any scale: calls and the words of the user, results that no reply has read. Up
        to a part of the view, to the token, not to a level: what a larger goal shows more of must not cost
        another item its form."""
        if self.all_leave:
            return LEVELS[0]
        if self._stays(index):
            return now
        if waits:
            return max(int(self._unread_share * now), LEVELS[0])
        entry = self._entry(index)
        return LEVELS[0] + entry.calls + min(entry.typed, int(TYPED * self.goal))

    def _heavy(self, index: int) -> tuple[int, int]:
        """`ItemStats.heavy` and `ItemStats.step`."""
        if self.all_leave:
            return NEVER, index
        if index not in self._heavy_steps:
            step = self._step_of(index)
            heavy = sum(self._entry(i).calls + self._entry(i).sealed for i in step)
            if any(self.items[i].entries[0] in self.s.projection.left for i in step):
                heavy = NEVER
            if step.stop > self.step or any(map(self._stays, step)):
                heavy = 0
            self._heavy_steps |= dict.fromkeys(step, (heavy, step.start))
        return self._heavy_steps[index]

    def _step_of(self, index: int) -> range:
        """The items that leave with one: calls, their results, thinking that waits for its reply."""
        items, message = self.items, self.items[index].message
        answers = isinstance(message, Result)
        batch = read_batch(items, index) if message.calls else around(items, index) if answers else None
        if batch is None:
            return range(index, index + 1)
        first = batch.heads[0]
        while first > self.first and blank(items[first - 1].message):
            first -= 1
        return range(first, batch.end)

    def _entry(self, index: int) -> EntryTraits:
        traits = self._traits.get(index)
        if traits is None:
            traits = self._traits[index] = self._traits_of(index)
        return traits

    def _traits_of(self, index: int) -> EntryTraits:
        session, counter, item = self.s.session, self.s.counter, self.items[index]
        entry, call, calls, sealed = session[item.entries[0]], None, 0, 0
        message = said_by(entry) or item.message
        if isinstance(message, Result) and (at := session.position(entry.id)) is not None:
            call = self._index.call_at(at, message.call_id)
        if message.calls and session.cached_count(entry.id, message, counter) > SMALL:
            calls = counter.message(Assistant(tuple(message.calls)))
        if self._keeps_thinking(index) and self._one_entry(index):
            silent = self.clips.form(entry.id, message, 0, None)
            sealed = max(self._count(index) - silent.size, 1)
        words = words_typed(message) if isinstance(entry, e.MessageEntry) else ""
        return EntryTraits(
            message=message,
            typed=counter.text(words) if words else 0,
            call=call,
            calls=calls if calls > SMALL else 0,
            sealed=sealed,
        )

    def _count(self, index: int) -> int:
        return self.s.projection.count(index, self.s.counter)

    def _one_entry(self, index: int) -> bool:
        """Does it show one entry, and no message that a fold put beside others?"""
        items, item = self.items, self.items[index]
        if item.fold is None or len(item.entries) != 1:
            return len(item.entries) == 1
        return not inside_put(items, index) and not inside_put(items, index + 1)

    def _stays(self, index: int) -> bool:
        """Does it stay as it is at every scale?"""
        item = self.items[index]
        if type(item.message) is System or item.entries[0] in self._pins or not self._one_entry(index):
            return True
        return index >= self.step and isinstance(item.message, User) and self._entry(index).typed > 0

    def _keeps_thinking(self, index: int) -> bool:
        """Must the provider have its thinking back? That of the newest step it gets, required or not."""
        held = signed if index >= self.step else required
        return index >= self.open_from and any(held(part) for part in self.items[index].message.parts)


def _open_turn(session: History) -> int | None:
    """Where on the path the turn begins that is going on. What a user says beside the results of calls does
    not end it: the model has not gone on yet, and its provider wants the thinking that led to them."""
    reply = session.last_reply
    calling = reply is not None and isinstance(reply.message, Assistant) and bool(reply.message.calls)
    turns = session.turns if not calling else session.turns[: bisect_left(session.turns, session.replies[-1])]
    return turns[-1] if turns else None
