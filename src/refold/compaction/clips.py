"""What grading knows of the items of a view: pieces, which are numbers only, and the clipped forms of a
session's entries, each made once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from refold import entries as e
from refold.compaction.plan_context import PlanContext, newest_step
from refold.messages import (
    Assistant,
    Bash,
    Call,
    Message,
    Text,
    Thinking,
    User,
    arguments_json,
    is_typed,
)
from refold.preserve.tools import shown_by
from refold.preserve.words import typed as words_typed
from refold.protocols import Additive, TokenCounter
from refold.session.history import History
from refold.session.invariants.thinking import signed
from refold.session.items import Item
from refold.shrink.clip import FRAME, LEVELS, Texts, clip_message

_NONE: Mapping[int, int] = {}
CHUNK = 256
"""Items whose pieces are kept together."""


class ItemStats(NamedTuple):
    """What grading needs to know of one item of the view."""

    whole: int
    """Tokens of what the entry says."""
    now: int
    """Tokens it has in the view."""
    said: bool = False
    """The agent's own words and calls: they fade slowest."""
    cap: int | None = None
    """The level that it has at any scale at least; 0: it stays as it is. None: its age decides alone."""
    stale: bool = False
    """A later result of the same call says it anew."""
    sealed: int = 0
    """Tokens of thinking that may not be taken off: the item stays as it is, or is quoted without it."""
    kept: int = 0
    """Tokens that stay at every scale where it stands, the user's words among others', or large calls: age
    decides about the rest."""
    call: int = 0
    """Tokens of large calls that it cannot stand without, its own or those that it answers."""


Row: TypeAlias = tuple[int, int, bool, int | None, bool, int, int, int]
"""A piece as a bare tuple: the collector looks at thousands of them once, and never again."""


def bare(piece: ItemStats, *, stale: bool) -> Row:
    whole, now, said, cap, _, sealed, kept, call = piece
    return whole, now, said, cap, stale, sealed, kept, call


class Chunk:
    """Some pieces as walks look at them. A walk asks the same of all pieces of a kind and an age, so these
    stand together: a fold looks at every piece a dozen times."""

    def __init__(self, first: int, pieces: Sequence[Row]) -> None:
        self.first, self.length = first, len(pieces)
        """Places of the pieces, counted from the newest."""
        wholes = [piece[0] for piece in pieces]
        self.largest, self.wholes = max(wholes), wholes
        self.reach = [0, *accumulate(wholes)]
        """What came after each piece since the chunk began."""
        kinds: tuple[list[int], ...] = ([], [], [], [])
        sizes: tuple[list[int], ...] = ([], [], [], [])
        self.odd: list[tuple[int, Row]] = []
        """Those where not age alone decides, by place."""
        for place, piece in enumerate(pieces, first):
            _, now, said, cap, stale, sealed, kept, call = piece
            if cap is None and not sealed and not kept and not call:
                kind = 2 * said + stale
                kinds[kind].append(place)
                sizes[kind].append(now)
            else:
                self.odd.append((place, piece))
        self.plain = [(kind, kinds[kind], [0, *accumulate(sizes[kind])]) for kind in range(4) if kinds[kind]]
        """The others: their kind, places, and running totals of their sizes."""

    def ages(self, most: float) -> Sequence[float]:
        """What came after each piece since the chunk began, one counting as `most` at most."""
        if self.largest <= most:
            return self.reach
        return [0, *accumulate([whole if whole < most else most for whole in self.wholes])]


class Pieces(Protocol):
    """The pieces of a view, read from its end: what no scale reaches is never counted. A piece's place is
    counted from the newest, which has 0."""

    total: int
    chunks: list[Chunk]
    """Those that were read."""
    sizes: list[int]
    """Tokens in the view, without sealed thinking, by place."""

    def read(self) -> None:
        """One more chunk."""
        ...

    def piece(self, place: int) -> ItemStats: ...


# ── forms ───────────────────────────────────────────────────────────────────────────────────────


class Form(msgspec.Struct, frozen=True, gc=False):
    """What an item becomes, and its size."""

    message: Message
    size: int


class Fact(msgspec.Struct, frozen=True, gc=False):
    """What a layout asks of an entry at every fold."""

    typed: bool
    """Is it what the user typed, or partly so?"""
    own: int
    """Tokens that the user typed into a message in which a program or a file says something too."""
    thinks: bool
    call: Call | None
    """The one that it is the result of."""
    made: int
    """How that call was made: calls that were made in the same way have the same number. 0: by none."""

    @classmethod
    def of(cls, entry: e.Entry, message: Message, call: Call | None, counter: TokenCounter) -> Fact:
        """`message` is what the entry says."""
        own, words = 0, words_typed(message) if isinstance(entry, e.MessageEntry) else ""
        if words:
            others = (x.text for x in message.parts if isinstance(x, Text) and not is_typed(message, x))
            own = counter.text(words) if any(text.strip() for text in others) else 0
        thinks = isinstance(message, Assistant) and any(type(x) is Thinking for x in message.content)
        made = 0 if call is None else _made(call)
        return cls(bool(words) and isinstance(message, User), own, thinks, call, made)


def _made(call: Call) -> int:
    """How a call was made, as a number. (Its arguments as JSON are as long as what it writes.)"""
    try:
        return hash((call.name, call.raw, *call.arguments.items(), *map(type, call.arguments.values())))
    except TypeError:  # a list, or an object
        return hash((call.name, arguments_json(call)))


class CachedItemStats(msgspec.Struct, frozen=True, gc=False):
    """A piece of which nothing that comes later changes more than that it is stale."""

    item: Item
    piece: Row
    sizes: dict[int, int]
    """By level."""
    made: int
    """See `Fact`."""


class Clips:
    """Clipped forms of a session's entries, each made once. Kept beside the session (`session.followers`)."""

    def __init__(self, session: History) -> None:
        self.session = session
        self._known: dict[tuple[str, int, str], Form] = {}
        # By counter, then by entry:
        self._texts: dict[str, dict[str, Texts]] = {}
        self._sizes: dict[str, dict[str, dict[int, int]]] = {}
        """Of forms that were looked at, whether or not they are kept, by level."""
        self._facts: dict[str, dict[str, Fact]] = {}
        self._settled: dict[str, dict[str, CachedItemStats]] = {}

    @classmethod
    def of(cls, session: History) -> Clips:
        return session.followers.of(cls, lambda: cls(session))

    def form(self, id: str, message: Message, level: int, counter: TokenCounter, call: Call | None) -> Form:
        """The message of an entry at one level; level 0: whole, without its thinking."""
        key = (id, level, counter.name)
        known = self._known.get(key)
        if known is None:
            if level:
                number, texts = f"#{self.session.position(id)}", self._texts_of(id, message, counter)
                small = clip_message(message, level, texts, key=number, kind=shown_by(call))
            else:
                small = _without_thinking(message)
            known = self._known[key] = Form(small, counter.message(small))
            self._sizes.setdefault(counter.name, {}).setdefault(id, {})[level] = known.size
        return known

    def known(self, id: str, level: int, counter: TokenCounter) -> Form | None:
        """The same, where it was made before."""
        return self._known.get((id, level, counter.name))

    def counted(self, counter: TokenCounter) -> dict[int, int]:
        """Sizes of the forms that are kept, by the identity of their messages."""
        return {id(form.message): form.size for key, form in self._known.items() if key[2] == counter.name}

    def sizes(self, id: str, counter: TokenCounter) -> Mapping[int, int]:
        """The sizes, by level, of the forms of an entry that were made before."""
        return self._sizes.get(counter.name, {}).get(id, _NONE)

    def facts(self, counter: TokenCounter) -> dict[str, Fact]:
        """What is known of entries; whoever asks for another one adds it."""
        return self._facts.setdefault(counter.name, {})

    def settled(self, counter: TokenCounter) -> dict[str, CachedItemStats]:
        """The same of pieces."""
        return self._settled.setdefault(counter.name, {})

    def _texts_of(self, id: str, message: Message, counter: TokenCounter) -> Texts:
        texts = self._texts.setdefault(counter.name, {})
        if id not in texts:
            texts[id] = Texts(counter, self._text_size(id, message, counter))
        return texts[id]

    def _text_size(self, id: str, message: Message, counter: TokenCounter) -> dict[str, int]:
        """Tokens of a message's one text, where its own count tells that."""
        parts = message.parts
        if len(parts) != 1 or type(parts[0]) is not Text or not isinstance(counter, Additive):
            return {}
        if isinstance(message, Bash) or not self.session.counted(id, counter):
            return {}
        return {parts[0].text: self.session.cached_count(id, message, counter) - empty_size(message, counter)}

    def keep(self, used: set[tuple[str, int, str]], shown: set[str], read: set[str]) -> None:
        """Forget what the newest layout does not show: a clip is cheap to make and rarely wanted again. Of
        those that it has `read`, only numbers are kept."""
        for key in self._known.keys() - used:
            del self._known[key]
        numbers = (*self._sizes.values(), *self._facts.values(), *self._settled.values())
        for kept, ids in (*((x, shown) for x in self._texts.values()), *((x, read) for x in numbers)):
            for id in kept.keys() - ids:
                del kept[id]


def empty_size(message: Message, counter: TokenCounter) -> int:
    """Tokens that a message costs without what it says."""
    return counter.message(msgspec.structs.replace(message, content=()))


def _without_thinking(message: Message) -> Message:
    if not isinstance(message, Assistant):
        return message
    content = tuple(part for part in message.content if not isinstance(part, Thinking))
    return msgspec.structs.replace(message, content=content)


def least_step(s: PlanContext) -> int:
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
