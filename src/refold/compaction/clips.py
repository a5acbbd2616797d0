"""The items of a view as grading reads them: what is known of each, and its clipped forms, each made once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import NamedTuple

import msgspec

from refold import entries as e
from refold.compaction.path_index import path_index
from refold.compaction.plan_context import PlanContext, last_reply, newest_step
from refold.facts.todos import plan
from refold.facts.tools import actions, shown_by
from refold.facts.words import typed as words_typed
from refold.messages import (
    Assistant,
    Call,
    Message,
    Result,
    System,
    Text,
    Thinking,
    User,
    arguments_json,
    is_typed,
    user,
)
from refold.protocols import TokenCounter
from refold.session.edits import said_by
from refold.session.history import History
from refold.session.invariants import inside_put
from refold.session.invariants.batches import around, read_batch
from refold.session.invariants.empty import blank
from refold.session.invariants.thinking import required, signed
from refold.session.items import Item
from refold.session.toolnames import kind
from refold.session.toolstatus import bare_output
from refold.session.wire_size import wire_overhead
from refold.shrink.clip import CLIP_OVERHEAD, LEVELS, clip_message
from refold.shrink.excerpt import Texts, opening_shapes, without_numbers

SMALL = 64
"""Calls of at most so many tokens stand at every scale."""
UNANSWERED = 0.5
"""Unanswered results stay whole up to this share of the limit."""
FADES = 0.75
"""Larger ones lose this part of what the limit lacks: not all of it, so that a larger limit leaves more for
all."""
_UNANSWERED_MIN = 0.25
"""Share of the limit that unanswered results always have."""
ECHO, ECHO_ROWS = 0.6, 8
"""Share of the lines of a result, and lines at least, that its call put in for it to be an echo."""
NEVER = 1 << 60
"""Tokens of a call that stands at no scale."""
OFTEN = 3
"""Results that begin with a line for it to be a banner of theirs."""
FORMS_KEPT = 10_000
"""Forms that are kept for plans that become no fold."""
TYPED = 0.25
"""Share of the goal up to which one message that the user typed stays whole; more is clipped to that."""


# ── forms ───────────────────────────────────────────────────────────────────────────────────────


class SizedMessage(msgspec.Struct, frozen=True, gc=False):
    """What an item becomes, and its size."""

    message: Message
    size: int


class EntryTraits(msgspec.Struct, frozen=True, gc=False):
    """What a layout asks of an entry at every fold."""

    message: Message
    """What it says, whatever an earlier fold made of it."""
    typed: bool
    """Is it what the user typed, or partly so?"""
    own: int
    """Tokens that the user typed into a message in which a program or a file says something too."""
    call: Call | None
    """The one that it is the result of."""
    calls: int
    """Tokens of the calls that it makes, where they are not small."""


def _echoes(message: Message, call: Call) -> bool:
    """Does the result of an edit show again the lines that its call put in?"""
    if kind(call.name) not in ("edit", "editor", "write", "create", "patch"):
        return False
    put = {row.strip() for action in actions(call) for row in action.new.split("\n")}
    rows = [row.strip() for row in without_numbers(bare_output(message.text), "read").split("\n")]
    rows = [row for row in rows if row]
    return len(rows) >= ECHO_ROWS and sum(row in put for row in rows) >= ECHO * len(rows)


class Clips:
    """Clipped forms of a session's entries by one counter, each made once. Kept beside the session until a
    fold is made of them: they are cheap to make, and those of one fold are rarely wanted for the next."""

    def __init__(self, session: History, counter: TokenCounter) -> None:
        self.session, self.counter = session, counter
        self.forms: dict[tuple[str, int], SizedMessage] = {}
        """By entry and level."""
        self._texts: dict[str, Texts] = {}
        self._openings: dict[str, list[tuple[int, frozenset[str]]]] = {}
        """By the first line of results: where they stand, and what all of them up to there begin with."""
        self._epoch = self._read = 0

    @classmethod
    def of(cls, session: History, counter: TokenCounter) -> Clips:
        known = session.derived.of(cls, dict[str, Clips])
        return known.setdefault(counter.name, cls(session, counter))

    def form(self, id: str, message: Message, level: int, call: Call | None) -> SizedMessage:
        """The message of an entry at one level; level 0: whole, without its thinking."""
        form = self.forms.get((id, level))
        if form is None:
            if len(self.forms) >= FORMS_KEPT:
                self.clear()
            small = message
            if level:
                if id not in self._texts:
                    self._texts[id] = Texts(self.counter, self._banner(id, message))
                number, texts = f"#{self.session.position(id)}", self._texts[id]
                small = clip_message(message, level, texts, key=number, kind=shown_by(call))
            elif isinstance(message, Assistant):
                said = tuple(part for part in message.content if not isinstance(part, Thinking))
                small = msgspec.structs.replace(message, content=said)
            form = self.forms[id, level] = SizedMessage(small, self.counter.message(small))
        return form

    def _banner(self, id: str, message: Message) -> Callable[[str], bool]:
        """Whether all results before this entry that began as it does had such a line, if there were some."""
        path, end = self.session.path, self.session.position(id) or 0
        if self._epoch != self.session.epoch:
            self._epoch, self._read = self.session.epoch, 0
            self._openings.clear()
        for position in range(self._read, end):
            entry = path[position]
            if isinstance(entry, e.MessageEntry) and isinstance(entry.message, Result):
                first, *others = opening_shapes(bare_output(entry.message.text))
                begun, common = self._openings.setdefault(first, []), frozenset((first, *others))
                common &= begun[-1][1] if begun else common
                if len(begun) < OFTEN or common != begun[-1][1]:
                    begun.append((position, common))
        self._read = max(self._read, end)
        first = opening_shapes(bare_output(message.text))[0]
        alike = [common for position, common in self._openings.get(first, ()) if position < end]
        return (alike[-1] if len(alike) >= OFTEN else frozenset[str]()).__contains__

    def clear(self) -> None:
        self.forms.clear()
        self._texts.clear()


def least_step(s: PlanContext) -> int:
    """Tokens of the newest step when everything is clipped that may be: its calls and signed thinking stay,
    and a stub for each result."""
    total, clips = 0, Clips.of(s.session, s.counter)
    for index in range(newest_step(s), len(s.items)):
        size, item = s.sizes.item(index), s.items[index]
        message, held = item.message, any(signed(part) for part in item.message.parts)
        if isinstance(message, Assistant) and message.calls and not held and len(item.entries) == 1:
            form = clips.form(item.entries[0], message, LEVELS[0], None)
            total += min(size, form.size + s.sizes.extra.item(index))
        else:
            total += size if held or isinstance(message, User) else min(size, LEVELS[0] + CLIP_OVERHEAD)
    return total


# ── items ────


class ItemStats(NamedTuple):
    """What grading needs to know of one item of the view."""

    whole: int
    """Tokens of what the entry says."""
    now: int
    """Tokens it has in the view, without thinking that need not or may not stand."""
    said: bool = False
    """The agent's own words and calls: they fade slowest."""
    least: int = LEVELS[0]
    """Tokens it has at any scale where it stands; not fewer than `now`: it stays as it is."""
    stale: bool = False
    """A later result of the same call says it anew."""
    sealed: int = 0
    """Tokens of thinking that may not be taken off: the item stays as it is, or is quoted without it."""
    call: int = 0
    """Tokens of large calls that it cannot stand without, its own or those that it answers."""
    written: int = 0
    """Tokens of its own calls, where they are not small."""
    void: bool = False
    """They failed, or wrote what a later one wrote anew."""


_RECORD = Item(user("(the record)"))
"""Stands before what stays in its place, so that no stand-in has to."""


class ItemReader:
    """The items of a view from the first that may be folded on, read from the end: what no scale reaches is
    never counted. An item's place is counted from the newest, which has 0."""

    def __init__(self, s: PlanContext, goal: int, limit: int, *, loose: bool = False) -> None:
        self.s, self.clips, self.items = s, Clips.of(s.session, s.counter), s.items
        self.goal, self.limit = goal, limit
        self.loose = loose
        """Nothing has to stay in its place."""
        self.first, self.last_reply = s.projection.first, last_reply(s)
        self.total = len(self.items) - self.first
        self.read: list[ItemStats] = []
        """Of the items that were read, the newest first."""
        self._extra, self._index = s.sizes.extra.item, path_index(s.session)
        turn = _open_turn(s.session)
        self.open_from = 0 if turn is None else s.projection.item_at(turn)
        """The turn that is going on: its signed thinking may not be touched."""
        self.pins, self.step, self._left = set(s.session.pins), newest_step(s), s.projection.left
        rest = range(self.last_reply + 1, len(self.items))
        self.unanswered = sum(s.sizes.item(i) for i in rest if isinstance(self.items[i].message, Result))
        """Tokens of unanswered results."""
        self._traits: dict[int, EntryTraits] = {}
        self._made: set[int] = set()
        """How the calls were made whose results were read."""
        self._put: set[str] = set()
        """Files that calls which were read wrote whole, and tools that told a plan."""
        self._calls: dict[int, int] = {}
        """Tokens of the calls of each step that was read, by its items."""

    def stats(self, place: int) -> ItemStats:
        while len(self.read) <= place:
            self.read.append(self._read(len(self.items) - 1 - len(self.read)))
        return self.read[place]

    def size(self, place: int, level: int) -> int:
        """Tokens of an item that stands at a level; 0: whole."""
        form = self.form(len(self.items) - 1 - place, level) if level else None
        return self.stats(place).now if form is None else form.size

    def form(self, index: int, level: int) -> SizedMessage | None:
        """What an item becomes at a level; None where that is no smaller than what is shown now."""
        item = self.items[index]
        if self.fixed(index) if level else not self._drops_thinking(index):
            return None
        if item.fold is not None and not self._one_entry(index):
            return None
        entry = self._entry(index)
        form = self.clips.form(item.entries[0], entry.message, level, entry.call)
        if form.size >= self._count(index):
            return None
        return SizedMessage(form.message, form.size + self._extra(index))

    def fixed(self, index: int) -> bool:
        """May the item not be touched?"""
        return self._keeps_thinking(index) or self._stays(index)

    def sent(self, stays: Sequence[int], forms: dict[int, SizedMessage]) -> int:
        """Tokens of the items that stay in their forms, as they are sent."""
        items, count, extra = self.items, self._count, self._extra
        first = stays[0] if stays else len(items)
        record = [_RECORD] if first > self.first else []
        size = sum([forms[i].size - extra(i) if i in forms else count(i) for i in stays])
        said = all(form.message.parts for form in forms.values())
        if said and not self.s.sizes.extra.any_from(first):
            return size  # nothing is written around them, nor is it around what they become
        kept = [Item(forms[i].message) if i in forms else items[i] for i in stays]
        return size + wire_overhead([*record, *kept], self.s.counter)

    def _entry(self, index: int) -> EntryTraits:
        known = self._traits.get(index)
        if known is not None:
            return known
        session, counter, item = self.s.session, self.s.counter, self.items[index]
        entry, call, calls = session[item.entries[0]], None, 0
        message = said_by(entry) or item.message
        if isinstance(message, Result) and (at := session.position(entry.id)) is not None:
            call = self._index.call_at(at, message.call_id)
        if message.calls and session.cached_count(entry.id, message, counter) > SMALL:
            calls = counter.message(Assistant(tuple(message.calls)))
        words = words_typed(message) if isinstance(entry, e.MessageEntry) else ""
        others = (x.text for x in message.parts if isinstance(x, Text) and not is_typed(message, x))
        traits = self._traits[index] = EntryTraits(
            message=message,
            typed=bool(words) and isinstance(message, User),
            own=counter.text(words) if words and any(text.strip() for text in others) else 0,
            call=call,
            calls=calls if calls > SMALL else 0,
        )
        return traits

    def _count(self, index: int) -> int:
        return self.s.projection.count(index, self.s.counter)

    def _read(self, index: int) -> ItemStats:
        s, item = self.s, self.items[index]
        message, extra, entry = item.message, self._extra(index), self._entry(index)
        now = whole = self._count(index) + extra
        if not self._one_entry(index):
            return ItemStats(now, now, least=now)
        if item.fold is not None:
            whole = s.session.cached_count(item.entries[0], entry.message, s.counter) + extra
        call, stale = entry.call, False
        if call is not None:
            # Where it was made again later in just the same way the newest result tells more.
            made = hash((call.name, arguments_json(call)))
            stale = made in self._made
            self._made.add(made)
        waits = isinstance(message, Result) and index > self.last_reply
        waits = waits and not (call is not None and _echoes(entry.message, call))
        sealed = 0
        if (silent := self.form(index, 0)) is not None:
            now = silent.size
        elif self._keeps_thinking(index):
            silent = self.clips.form(item.entries[0], entry.message, 0, None)
            sealed = max(now - extra - silent.size, 1)
            now -= sealed
        said = type(message) is Assistant or (self.loose and waits)
        least = LEVELS[0] if self.loose else self._least(index, now, waits=waits)
        step, own = self._call(index), entry.calls
        return ItemStats(whole, now, said, least, stale, sealed, step, own, own > 0 and self._void(index))

    def _void(self, index: int) -> bool:
        """Did the calls of a reply come to nothing: did all fail, or a later one write the same file anew?"""
        message = self.items[index].message
        rest = (self.items[at].message for at in range(index + 1, len(self.items)))
        results = [x for x in takewhile(lambda x: isinstance(x, Result), rest) if isinstance(x, Result)]
        failed = bool(results) and all(result.is_error for result in results)
        put = {a.path for call in message.calls for a in actions(call) if a.verb in ("write", "create")}
        put |= {call.name for call in message.calls if plan(call)}
        anew = bool(put) and put <= self._put
        if not failed:
            self._put |= put
        return failed or anew

    def _call(self, index: int) -> int:
        """Tokens of the calls of an item's step, where they are not small and the step may leave."""
        if self.loose:
            return NEVER
        items, message = self.items, self.items[index].message
        if index not in self._calls and (message.calls or isinstance(message, Result)):
            batch = read_batch(items, index) if message.calls else around(items, index)
            if batch is None:
                return 0
            first = batch.heads[0]
            while first > self.first and blank(items[first - 1].message):
                first -= 1  # thinking that waits for its reply
            step = range(first, batch.end)
            calls = sum(self._entry(head).calls for head in batch.heads)
            if any(items[i].entries[0] in self._left for i in step):
                calls = NEVER
            if batch.end > self.step or any(map(self._stays, step)):
                calls = 0
            self._calls |= dict.fromkeys(step, calls)
        return self._calls.get(index, 0)

    def _least(self, index: int, now: int, *, waits: bool) -> int:
        """What an item has at any scale: calls and the words of the user, results that no reply has read. Up
        to a part of the view, to the token, not to a level: what a larger goal shows more of must not cost
        another item its form."""
        entry = self._entry(index)
        if self._stays(index):
            return now
        if waits:
            missing = self.unanswered / UNANSWERED - self.limit
            for_all = max(self.unanswered - FADES * missing, _UNANSWERED_MIN * self.limit)
            least = int(for_all * now / max(self.unanswered, 1))
        elif entry.typed and not entry.own:
            least = int(TYPED * self.goal)
        else:
            least = LEVELS[0] + entry.calls + min(entry.own, int(TYPED * self.goal))
        return max(least, LEVELS[0])

    def _one_entry(self, index: int) -> bool:
        items, item = self.items, self.items[index]
        if item.fold is None or len(item.entries) != 1:
            return len(item.entries) == 1
        return not inside_put(items, index) and not inside_put(items, index + 1)

    def _stays(self, index: int) -> bool:
        """Does it stay as it is at every scale?"""
        item = self.items[index]
        if type(item.message) is System or item.entries[0] in self.pins or not self._one_entry(index):
            return True
        return index >= self.step and isinstance(item.message, User) and self._entry(index).typed

    def _keeps_thinking(self, index: int) -> bool:
        """Must the provider have its thinking back? That of the newest step it gets, required or not."""
        held = signed if index >= self.step else required
        return index >= self.open_from and any(held(part) for part in self.items[index].message.parts)

    def _drops_thinking(self, index: int) -> bool:
        """Of a closed turn a provider reads no thinking any more, of the open one not all is required."""
        message = self.items[index].message
        thinks = type(message) is Assistant and any(type(part) is Thinking for part in message.content)
        return thinks and not self._keeps_thinking(index)


def _open_turn(session: History) -> int | None:
    """Where on the path the turn begins that is going on. What a user says beside the results of calls does
    not end it: the model has not gone on yet, and its provider wants the thinking that led to them."""
    reply = session.last_reply
    calling = reply is not None and isinstance(reply.message, Assistant) and bool(reply.message.calls)
    turns = session.turns if not calling else session.turns[: bisect_left(session.turns, session.replies[-1])]
    return turns[-1] if turns else None
