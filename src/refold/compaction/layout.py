"""A view graded to a goal: which items stay in their place, in which form, and where the record ends
(R19)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from refold import entries as e
from refold.compaction.clips import (
    CHUNK,
    CachedItemStats,
    Chunk,
    Clips,
    Fact,
    Form,
    ItemStats,
    Row,
    bare,
    empty_size,
    least_step,
)
from refold.compaction.grade import SMALL, Curve, Estimate, Looks, estimate, grade
from refold.compaction.path_index import path_index
from refold.compaction.plan_context import PlanContext, last_reply, legal_cut, may_leave, newest_step
from refold.messages import Assistant, Message, Result, System, Thinking, User, user
from refold.session.edits import said_by
from refold.session.history import History
from refold.session.invariants import PAIRS, inside_put, legal, thinking
from refold.session.invariants.batches import Batch, around
from refold.session.invariants.batches import read as read_batch
from refold.session.invariants.empty import blank
from refold.session.invariants.thinking import optional, required, signed
from refold.session.items import Item
from refold.session.wire_size import wire_overhead
from refold.shrink.clip import LEVELS

UNANSWERED, LEAST, FADES = 0.5, 0.25, 0.75
"""Results that nobody has answered yet stay whole up to half of the limit; what is larger fades with every
token that the limit is smaller, down to a quarter of it. (Slower than the limit does, so that a larger one
leaves more for all.)"""
FAR = 0.75
"""Where by estimate more than this share of the items leaves its place, all of them never stay: clips would
have to have half of the tokens that they are made for."""
NEVER = 1 << 60
"""Tokens of a call that stands at no scale."""
TYPED = 0.25
"""Share of the goal up to which one message that the user typed stays whole; more is clipped to that."""


class Quote(NamedTuple):
    """An item that does not stay in its place, and yet is too new to be a line."""

    item: int
    """Its index."""
    level: int
    """Tokens it may have in the record; 0: all of it."""


@dataclass(frozen=True)
class Layout:
    """Items from `first` on stay in their place, except those that `left`; `forms` are those that become
    smaller."""

    first: int
    position: int
    """Where that is on the path."""
    tokens: int
    """Of the items from `first` on."""
    forms: dict[int, Form]
    quotes: tuple[Quote, ...] = ()
    left: frozenset[int] = frozenset()
    """Items of steps whose calls are too large to stand: the record tells of them."""

    def edits(self, items: Sequence[Item]) -> Iterator[e.Edit]:
        for index, form in sorted(self.forms.items()):
            ids = items[index].entries
            yield e.Edit(ids[0], ids[-1], (form.message,), "clip")
        first = 0
        for index in sorted(self.left):
            first = first if index - 1 in self.left else index
            if index + 1 not in self.left:
                yield e.Edit(items[first].entries[0], items[index].entries[-1], (), e.LEFT)

    def clipped(self, items: Sequence[Item]) -> tuple[str, ...]:
        return tuple(items[index].entries[0] for index in sorted(self.forms))


class RecordEstimate(NamedTuple):
    """The record that stands for the path before a position."""

    size: Callable[[int, float], int]
    """Its tokens before a position, in a view of a scale."""
    kind: object = None
    """Records of one kind have the same size."""


def lay_out(
    s: PlanContext,
    goal: int,
    limit: int,
    curve: Curve,
    record: RecordEstimate,
    *,
    in_place: bool = False,
) -> Layout | None:
    """The items of the view within `goal` tokens, together with the record that stands for those before
    them. `in_place`: only where nothing has to leave its place; None where that is far off."""
    first, wanted, step = s.projection.first, s.wanted_cut, newest_step(s)

    def before(index: int, scale: float) -> int:
        at = first + index
        return record.size(s.projection.position_of(at), scale) if at > first else 0

    def laid(reader: _Reader, cut: int | None, last: int) -> Layout | None:
        last -= first
        start, looks = reader.starts.get((curve, record.kind)), reader.looks.setdefault((curve, last), {})
        if start is None:
            start = estimate(reader, goal, before, curve, last, looks)
            reader.starts[curve, record.kind] = start
        if in_place and start.first > FAR * reader.total:
            return None
        grades = grade(reader, goal, before, reader.known_at, reader.size_at, curve, last, start.scale)
        caps = {first + grades.first + n: cap for n, cap in enumerate(grades.caps)}
        left = {first + index for index in grades.left}
        if cut is None:
            # A record has to stand somewhere: what leaves takes at least the first item with it.
            begins = first + max(grades.place, int(bool(left)))
            cut = _cut(s, begins, left, goal // 10, reader.open_from)
        steps = range(first + grades.first, cut)
        whole = next((i for i in steps if legal(s.items, i, PAIRS)), cut)  # no result without its call
        gone = frozenset(index for index in left if index >= cut > first)
        quotes = tuple(Quote(i, caps[i]) for i in (*range(whole, cut), *sorted(gone)))
        caps |= {index: reader.least(index) for index in range(cut, first + grades.first)}
        stays = [index for index in range(cut, len(s.items)) if index not in gone]
        forms = reader.forms(stays, caps)
        tokens = reader.sent(stays, forms)
        return Layout(cut, s.projection.position_of(cut), tokens, forms, quotes, gone)

    if wanted is not None:
        return laid(_Reader(s, goal, limit), wanted, min(step, wanted))
    leaves = may_leave(s)
    if not (leaves and least_step(s) + before(step - first, 0.0) > goal):
        layout = laid(_Reader.of(s, goal, limit), None, step)
        if layout is None:
            return None
        if not (leaves and layout.tokens + before(layout.first - first, 0.0) > limit):
            return layout
    # The newest step alone is too large, or the rules of the wire left no cut that fits: all is quoted.
    return laid(_Reader(s, goal, limit, loose=True), len(s.items), len(s.items))


def _cut(s: PlanContext, begins: int, left: Container[int], slack: int, open_from: int) -> int:
    """Where the part begins that stays in its place (`legal_cut`). Where the reply with the signed thinking
    left that the tool loop going on starts with: the next reply that starts with its own, if there is one."""
    items, cut = s.items, legal_cut(s, begins, slack, open_from)
    stays = [i for i in range(cut, len(items)) if i not in left]
    replies = (i for i in stays if i >= open_from and isinstance(items[i].message, Assistant))
    first = next((i for i in replies if not blank(items[i].message)), None)
    if first is not None and not thinking.legal(items, first):
        return next((i for i in stays if i > first and legal(items, i)), stays[0])
    return stays[0] if stays else cut


_RECORD = Item(user("(the record)"))
"""Stands before what stays in its place, so that no stand-in has to."""


class _Reader:
    """The items of a view from the first that may be folded on, as grading sees them. Reads from the end."""

    def __init__(self, s: PlanContext, goal: int, limit: int, *, loose: bool = False) -> None:
        self.s, self.clips, self.items = s, Clips.of(s.session), s.items
        self.goal, self.limit = goal, limit
        self.loose = loose
        """Nothing has to stay in its place."""
        self.first, self.last_reply = s.projection.first, last_reply(s)
        self.total = len(self.items) - self.first
        self.pieces: list[Row] = []
        """Those that were read, the newest first."""
        self.chunks: list[Chunk] = []
        self.sizes: list[int] = []
        self.starts: dict[tuple[Curve, object], Estimate] = {}
        """Where records of a kind leave the view, by estimate."""
        self.looks: dict[tuple[Curve, int], Looks] = {}
        self._sizes: list[dict[int, int]] = []
        """Of the same pieces at the levels that were looked at."""
        self._facts, self._count = self.clips.facts(s.counter), partial(s.projection.count, counter=s.counter)
        self._extra, self._index = s.sizes.extra.item, path_index(s.session)
        turn = _open_turn(s.session)
        self.open_from = 0 if turn is None else s.projection.item_at(turn)
        """The turn that is going on: its signed thinking may not be touched."""
        self.pins, self.step = set(s.session.pins), newest_step(s)
        rest = range(self.last_reply + 1, len(self.items))
        self.unanswered = sum(s.sizes.item(i) for i in rest if isinstance(self.items[i].message, Result))
        """Tokens of results that nobody has answered yet."""
        self._settled = self.clips.settled(s.counter)
        self._settled_before = 0 if loose else min(self.last_reply, self.step, s.sizes.extra.settled)
        self._made: set[int] = set()
        """How the calls were made whose results were read."""
        self._calls: dict[int, int] = {}
        """Tokens of the calls of each step that was read, by its items."""
        self._held: set[int] = set()
        """Items of steps that may not leave as things stand."""

    @classmethod
    def of(cls, s: PlanContext, goal: int, limit: int) -> _Reader:
        """One for all rungs that ask the same."""
        key = (cls, goal, limit)
        if key not in s.memo:
            s.memo[key] = cls(s, goal, limit)
        return s.memo[key]

    def read(self) -> None:
        """Some more pieces."""
        first = len(self.pieces)
        last = len(self.items) - first
        for index in range(last - 1, max(last - 1 - CHUNK, self.first - 1), -1):
            self.pieces.append(self._piece(index))
        chunk = self.pieces[first:]
        self.sizes += [piece[1] for piece in chunk]
        self.chunks.append(Chunk(first, chunk))

    def piece(self, place: int) -> ItemStats:
        return ItemStats._make(self.pieces[place])

    def known_at(self, places: Sequence[int], level: int) -> list[int | None]:
        """The sizes of items at a level, where no form has to be made to know them."""
        sizes = self._sizes
        return [sizes[place].get(level) for place in places]

    def size_at(self, place: int, now: int, level: int) -> int:
        if not level:
            return now
        sizes = self._sizes[place]
        size = sizes.get(level)
        if size is None:
            index = len(self.items) - 1 - place
            form = self.form(index, level)
            size = now if form is None else form.size
            if level == self.piece(place).cap:
                # A part of the view: where its lines end is no gain for others.
                size = max(size, level + empty_size(self.items[index].message, self.s.counter))
            sizes[level] = size
        return size

    def form(self, index: int, level: int) -> Form | None:
        """What an item becomes at a level; None where that is no smaller than what is shown now."""
        item = self.items[index]
        if level == 0 and not self._drops_thinking(index, item):
            return None
        if item.fold is not None and not self._one_entry(index, item):
            return None
        form = self.clips.known(item.entries[0], level, self.s.counter)
        if form is None:
            call = self._fact(item).call
            original = self._original(item)
            form = self.clips.form(item.entries[0], original, level, self.s.counter, call)
        if extra := self._extra(index):
            form = Form(form.message, form.size + extra)
        return form if form.size < self._count(index) + extra else None

    def least(self, index: int) -> int:
        """The level of an item that only stays because the wire wants it: what the user typed stays too."""
        fact = self._fact(self.items[index])
        if fact.own and not self.loose:
            return LEVELS[0] + fact.own
        return 0 if fact.typed else LEVELS[0]

    def fixed(self, index: int) -> bool:
        """May the item not be touched?"""
        return self._keeps_thinking(index) or self._stays(index, self.items[index])

    def forms(self, stays: Sequence[int], caps: dict[int, int]) -> dict[int, Form]:
        """Those of the items that stay that become smaller; others are forgotten."""
        forms, name, items = dict[int, Form](), self.s.counter.name, self.items
        for index in stays:
            if form := self.form(index, caps.get(index, 0)):
                forms[index] = form
        used = {(items[i].entries[0], caps.get(i, 0), name) for i in forms}
        read = {item.entries[0] for item in items[len(items) - len(self.pieces) :]}
        self.clips.keep(used, {items[index].entries[0] for index in stays}, read)
        return forms

    def sent(self, stays: Sequence[int], forms: dict[int, Form]) -> int:
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

    def _fact(self, item: Item) -> Fact:
        fact = self._facts.get(item.entries[0])
        if fact is None:
            entry, message, call = self.s.session[item.entries[0]], self._original(item), None
            if isinstance(message, Result) and (at := self.s.session.position(entry.id)) is not None:
                call = self._index.call_at(at, message.call_id)
            fact = self._facts[entry.id] = Fact.of(entry, message, call, self.s.counter)
        return fact

    def _superseded(self, made: int) -> bool:
        """Is it the result of a call that was made again later in just the same way? The newest says how
        things are."""
        known = len(self._made)
        self._made.add(made)
        return len(self._made) == known

    def _piece(self, index: int) -> Row:
        """What grading asks of an item; of most, only whether it became stale is new."""
        item = self.items[index]
        known = self._settled.get(item.entries[0])
        if known is not None and known.item is item and index < self._settled_before and not self.pins:
            self._sizes.append(known.sizes)
            stale = known.made and self._superseded(known.made)
            return bare(ItemStats._make(known.piece), stale=True) if stale else known.piece
        piece, fact = self._read(index), self._fact(item)
        # Thinking in a turn that goes on, and what may have a share of the goal, can still change.
        sure = piece.cap is None and not self.pins and (not fact.thinks or index < self.open_from)
        if sure and index < self._settled_before and index not in self._held:
            made = fact.made if type(item.message) is Result else 0
            self._settled[item.entries[0]] = CachedItemStats(
                item, bare(piece, stale=False), self._sizes[-1], made
            )
        return bare(piece, stale=piece.stale)

    def _read(self, index: int) -> ItemStats:
        s, item, sizes = self.s, self.items[index], dict[int, int]()
        message, extra, fact = item.message, self._extra(index), self._fact(item)
        now = shown = whole = self._count(index) + extra
        stale = bool(fact.made) and type(message) is Result and self._superseded(fact.made)
        self._sizes.append(sizes)
        if item.fold is not None or len(item.entries) != 1:
            if not self._one_entry(index, item):
                return ItemStats(now, now, cap=0)
            whole = s.session.cached_count(item.entries[0], self._original(item), s.counter) + extra
        sealed = 0
        if fact.thinks and any(type(part) is Thinking for part in message.parts):
            if (silent := self.form(index, 0)) is not None:
                now = silent.size
            elif self._keeps_thinking(index):
                silent = self.clips.form(item.entries[0], self._original(item), 0, s.counter, None)
                sealed = max(now - extra - silent.size, 1)
        for tokens, size in self.clips.sizes(item.entries[0], s.counter).items():
            sizes[tokens] = size + extra if size + extra < shown else now - sealed
        waits, own = type(message) is Result and index > self.last_reply, 0 if self.loose else fact.own
        said = waits or type(message) is Assistant or (not own and fact.typed)
        if self.loose:
            return ItemStats(whole, now - sealed, said, stale=stale, call=NEVER)
        cap = self._cap(index, item, now, own, waits=waits)
        if cap:
            said = False  # its part is sure; for more it waits until the rest is there
            sizes.pop(cap, None)
        kept = own or self._large(index)
        return ItemStats(whole, now - sealed, said, cap, stale, sealed, kept, self._call(index))

    def _large(self, index: int) -> int:
        """Tokens of the calls of a reply, where they are not small."""
        item, calls = self.items[index], self.items[index].message.calls
        if not calls or self._count(index) <= SMALL:
            return 0
        bare = Assistant(tuple(calls))
        tokens = self.s.session.cached_count(f"{item.entries[0]}/calls", bare, self.s.counter)
        return tokens if tokens > SMALL else 0

    def _call(self, index: int) -> int:
        """Tokens of the calls of an item's step, where they are not small and the step may leave."""
        items, message = self.items, self.items[index].message
        if index not in self._calls and (message.calls or isinstance(message, Result)):
            batch = read_batch(items, index) if message.calls else around(items, index)
            self._calls |= {} if batch is None else self._step(batch)
        return self._calls.get(index, 0)

    def _step(self, batch: Batch) -> dict[int, int]:
        items, first = self.items, batch.heads[0]
        while first > self.first and blank(items[first - 1].message):
            first -= 1  # thinking that waits for its reply
        step = range(first, batch.end)
        calls = sum(self._large(head) for head in batch.heads)
        if any(items[i].entries[0] in self.s.projection.left for i in step):
            calls = NEVER
        if batch.end > self.step or any(self._stays(i, items[i]) for i in step):
            calls = 0
            self._held.update(step)
        return dict.fromkeys(step, calls)

    def _stays(self, index: int, item: Item) -> bool:
        return not self._one_entry(index, item) or self._fixed(index, item)

    def _cap(self, index: int, item: Item, now: int, own: int, *, waits: bool) -> int | None:
        """Where not age decides: what stays whole, or is clipped to a part of the view. (To the token, not
        to a level: what a larger goal shows more of must not cost another item its form.)"""
        if self._fixed(index, item):
            return 0
        if waits:
            room = self._for_unanswered() * now / max(self.unanswered, 1)
        elif own or self._fact(item).typed:
            room = TYPED * self.goal
            if 0 < own <= room:
                return None
        else:
            return None
        return 0 if now <= room else max(int(room), LEVELS[0])

    def _for_unanswered(self) -> float:
        """Tokens for results that nobody has answered."""
        missing = self.unanswered / UNANSWERED - self.limit
        return max(self.unanswered - FADES * missing, LEAST * self.limit)

    def _one_entry(self, index: int, item: Item) -> bool:
        items = self.items
        if item.fold is None or len(item.entries) != 1:
            return len(item.entries) == 1
        return not inside_put(items, index) and not inside_put(items, index + 1)

    def _fixed(self, index: int, item: Item) -> bool:
        message = item.message
        if index >= self.step and isinstance(message, User) and self._fact(item).typed:
            return True
        return type(message) is System or item.entries[0] in self.pins

    def _keeps_thinking(self, index: int) -> bool:
        """Must the provider have its thinking back? That of the newest step it gets, required or not."""
        held = signed if index >= self.step else required
        return index >= self.open_from and any(held(part) for part in self.items[index].message.parts)

    def _drops_thinking(self, index: int, item: Item) -> bool:
        """Of a closed turn a provider reads no thinking any more, of the open one not all is required."""
        message = item.message
        if type(message) is not Assistant or index >= self.step >= self.open_from:
            return False
        thoughts = [part for part in message.content if type(part) is Thinking]
        return bool(thoughts) and (index < self.open_from or all(map(optional, thoughts)))

    def _original(self, item: Item) -> Message:
        """What the entry says, whatever an earlier fold made of it."""
        return said_by(self.s.session[item.entries[0]]) or item.message


def _open_turn(session: History) -> int | None:
    """Where on the path the turn begins that is going on. What a user says beside the results of calls does
    not end it: the model has not gone on yet, and its provider wants the thinking that led to them."""
    reply = session.last_reply
    calling = reply is not None and isinstance(reply.message, Assistant) and bool(reply.message.calls)
    turns = session.turns if not calling else session.turns[: bisect_left(session.turns, session.replies[-1])]
    return turns[-1] if turns else None


def clip_kept(s: PlanContext, first: int, room: int) -> dict[int, Form]:
    """Items from `first` on made to fit into `room`, the longest first: all to the same level."""
    reader = _Reader(s, room, room)
    sizes = {index: s.sizes.item(index) for index in range(first, len(s.items))}
    forms: dict[int, Form] = {}
    for tokens in reversed(LEVELS):
        loose = (index for index in sizes if not reader.fixed(index))
        forms = {index: form for index in loose if (form := reader.form(index, tokens))}
        if sum(forms[i].size if i in forms else size for i, size in sizes.items()) <= room:
            break
    return forms
