"""Taking over a list of messages that some framework hands back.

Frameworks keep the conversation as a list and give us all of it every time, and something new at its end.
What they kept is what we showed the model (summaries included), now or some folds ago, or everything that
was said. The list is compared with each of these piece by piece, so that it does not matter how a dialect
joined or split messages on the way.

Every part of every message is compared, whatever kind it is: two lists that differ anywhere share nothing
behind the difference. These are no differences, because they say nothing:

- blank texts and hidden commands, which are not sent, and the space around what the assistant said, which
  SDKs take away;
- thinking, a result's tool name and the origin of a text where only one side has them: frameworks drop them;
- in a part that we do not model: the order of its fields, fields that are null, and marks for caches, which
  clients move about;
- what a dialect makes of a message when it renders it, in a list of that dialect alone.

`verbatim` takes none of this but blanks, nulls and marks: for lists of people who must not learn what they
did not say themselves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, takewhile, zip_longest
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from refold import entries as e
from refold import messages as m
from refold.session.dialects import DIALECTS, Dialect, parse_list
from refold.session.dialects.common import WireRules
from refold.session.edits import Path, Position, active_folds, outermost, project, said_by
from refold.session.invariants import repair_by, settled
from refold.session.items import Item

OLDER = 16
"""How many folds back a list may be."""
BRANCHES = 16
"""How many other branches a list is looked for on, the newest first."""
THOUGHT = ("thinking",)
"""The content of a piece that is a thought: everything it says may be left out."""
_CACHE_MARKS = (
    {"type": "ephemeral"},
    {"type": "ephemeral", "ttl": "5m"},
    {"type": "ephemeral", "ttl": "1h"},
)
_APART: dict[type[msgspec.Struct], tuple[str, ...]] = {
    m.User: ("content",),
    m.System: ("content",),
    m.Assistant: ("content", "stop", "error"),
    m.Result: ("content", "name"),
    m.Text: ("text", "origin"),
    m.Call: ("arguments", "raw"),
}
"""Fields that are compared otherwise, or not at all. All others are, also those that a kind gets one day."""
_KINDS: tuple[type[msgspec.Struct], ...] = (*_APART, m.Bash, m.Thinking, m.Image, m.Opaque)
_COMPARED = {
    kind: tuple(name for name in kind.__struct_fields__ if name not in _APART.get(kind, ()))
    for kind in _KINDS
}


class Tree(NamedTuple):
    """What the path is one of several ways through."""

    log: Sequence[e.Entry]
    children: Callable[[str | None], Sequence[str]]
    path_to: Callable[[str], Path]

    def branches(self, id: str | None, position: Position) -> Iterator[Path]:
        """The paths through an entry that end elsewhere than this one, the newest first."""
        below = list(self.children(id))
        for child in below:
            below += self.children(child)
        ends = {id for id in below if position(id) is None and not self.children(id)}
        return (self.path_to(entry.id) for entry in reversed(self.log) if entry.id in ends)


class Piece(NamedTuple):
    """The smallest thing that is compared: a part of a message, or a result with all that is in it."""

    content: tuple[str | None, ...]
    hints: tuple[str | None, ...]
    """What a framework may leave out."""
    owner: int
    """Index of the message or item it belongs to."""
    part: int = 0
    """Index of the part in that message."""

    @property
    def is_thought(self) -> bool:
        return self.content == THOUGHT

    def says(self, other: Piece, *, verbatim: bool) -> bool:
        """Do both say the same? `verbatim`: what one of them leaves out counts, too."""
        if self.content != other.content:
            return False
        if verbatim or self.hints == other.hints:
            return self.hints == other.hints
        return all(a is None or b is None or a == b for a, b in zip(self.hints, other.hints, strict=True))


class Given(NamedTuple):
    """A list that was handed over, without the prompts in front."""

    messages: Sequence[m.Message]
    pieces: Sequence[Piece]
    dialects: Sequence[Dialect] = ()
    """Those it may be in; none where it is in our own messages, or mixed."""
    verbatim: bool = False
    """Only what was said is recognised, and all of it has to be in the list."""

    @classmethod
    def of(cls, messages: Sequence[m.Message], dialects: Sequence[Dialect], *, verbatim: bool) -> Given:
        said = messages[prompts(messages) :]
        return cls(said, pieces(said), dialects, verbatim)


class Merged(msgspec.Struct, frozen=True):
    """What became of a list."""

    appended: tuple[e.MessageEntry, ...]
    """Message entries that are new."""
    branched: bool = False
    """The list departed from the path, so the new entries are on a branch."""


class Difference(msgspec.Struct, frozen=True):
    """What a list holds beyond a path."""

    messages: Sequence[m.Message] = ()
    """What is new, to be appended."""
    branches: bool = False
    """The list departs from the path before its end."""
    target: str | None = None
    """Where it departs: the last entry they have in common."""
    folds: Sequence[e.Fold] = ()
    """Folds behind that entry which hold for what is common, too."""


class Form(NamedTuple):
    """A state of the session in one of the shapes in which a list may hold it."""

    items: Sequence[Item]
    pieces: Sequence[Piece]
    end: Callable[[int], int]
    """How many pieces the first so many items are."""
    is_whole: Callable[[int], bool] = lambda _: True
    """Do these pieces say all that the first so many items do?"""


Forms: TypeAlias = Callable[[Sequence[Item], Given], Iterator[Form]]


class Reading(NamedTuple):
    """A list beside one state of the session that it may have grown from."""

    path: Path
    position: Position
    form: Form
    theirs: Sequence[Piece]
    met: Sequence[int]
    """How many pieces of theirs go with the first 0, 1, 2 … of ours, as far as they say the same."""
    known: int
    """How many pieces of theirs we have."""

    @property
    def is_ours_whole(self) -> bool:
        """The list holds all of that state."""
        return len(self.met) > len(self.form.pieces)

    @property
    def is_sure(self) -> bool:
        """The list is that state, a part of it, or goes on from it."""
        return self.known == len(self.theirs) or (self.known > 0 and self.is_ours_whole)

    @property
    def rank(self) -> tuple[int, bool]:
        """How well it explains the list."""
        return self.known, self.is_ours_whole


def difference(
    path: Path, position: Position, given: Given, tree: Tree, *, exactly: bool = False
) -> Difference:
    """What comes behind the longest common beginning of the list and what we know: of this path or, where
    more of the list is there, of another one; on a branch if the two differ before the end, or (`exactly`)
    if we hold more than the list does."""
    here = _read(path, position, given, _as_said)
    assert here is not None  # the view is always a state
    others = [] if here.known == len(given.pieces) else _others(here, tree)
    reading = _read_elsewhere(here, given, _as_said, others)
    if not (reading.is_sure or given.verbatim):
        # What was said comes first: a part that a dialect could only describe looks like any text.
        sent = _read(path, position, given, _as_sent)
        best = reading if sent is None else _read_elsewhere(sent, given, _as_sent, others)
        if best.rank > reading.rank:
            here, reading = sent, best
    news = _beyond(reading, given, exactly)
    if reading is here or news.branches:
        return news
    return msgspec.structs.replace(news, branches=True, target=reading.path[-1].id)


def _beyond(reading: Reading, given: Given, exactly: bool) -> Difference:
    path, messages, theirs = reading.path, given.messages, given.pieces
    if reading.known == len(theirs) and not (exactly and not reading.is_ours_whole):
        return Difference()  # what we have, or an older state of it
    # In a list that was never ours nothing can come back that was.
    origins = {} if given.verbatim else _origins(path)
    if reading.is_ours_whole:
        rest = _unseen(messages, theirs, reading.known)
        return Difference([_known(message, origins) for message in rest])
    known, target = _departure(reading)
    news = [_known(message, origins) for message in _unseen(messages, theirs, known)]
    if given.verbatim:
        return Difference(news, True, _with_folds(path, reading.position, target))
    return Difference(news, True, target, _folds_within(path, reading.position, target) if target else ())


def _departure(reading: Reading) -> tuple[int, str | None]:
    """Where a list departs that does not go on from the end: so many pieces of theirs are known, and the last
    common entry. Both sides are cut where a message begins; empty ones belong to what follows."""
    form, theirs = reading.form, reading.theirs
    known, common = 0, prompts([item.message for item in form.items])
    for count in range(_items_within(form, len(reading.met) - 1), common, -1):
        end = form.end(count)
        at = reading.met[end]
        begins = at == len(theirs) or theirs[at - 1].owner != theirs[at].owner
        if begins and form.is_whole(count) and form.end(count - 1) < end:
            known, common = at, count
            break
    before = reversed(form.items[:common])
    return known, next((item.entries[-1] for item in before if item.entries), None)


def _items_within(form: Form, pieces: int) -> int:
    """How many items so many pieces are, at most."""
    low, high = 0, len(form.items)
    while low < high:
        middle = (low + high + 1) // 2
        if form.end(middle) > pieces:
            high = middle - 1
        else:
            low = middle
    return low


def _others(here: Reading, tree: Tree) -> list[Path]:
    """The newest other paths through the last entry that the list and this one have in common."""
    goes_on = here.is_ours_whole
    at = here.path[-1].id if goes_on and here.path else None if goes_on else _departure(here)[1]
    return list(islice(tree.branches(at, here.position), BRANCHES))


def _read_elsewhere(here: Reading, given: Given, forms: Forms, others: Sequence[Path]) -> Reading:
    """The reading on that of the paths on which most of the list is known."""
    best = here
    for path in others:
        if best.known == len(given.pieces):
            break
        places = {entry.id: place for place, entry in enumerate(path)}
        reading = _read(path, places.get, given, forms, older=0)
        best = reading if reading is not None and reading.known > best.known else best
    return best


def _read(path: Path, position: Position, given: Given, forms: Forms, older: int = OLDER) -> Reading | None:
    """The reading under which most of the list is known; the newest view where that decides nothing."""
    best: Reading | None = None
    for items in (said_on(path),) if given.verbatim else _states(path, position, older):
        for form in forms(items, given):
            met, known = _aligned(form.pieces, given.pieces, verbatim=given.verbatim)
            reading = Reading(path, position, form, given.pieces, met, known)
            if reading.is_sure:
                return reading
            if best is None or reading.rank > best.rank:
                best = reading
    return best


def _states(path: Path, position: Position, older: int) -> Iterator[list[Item]]:
    """What a list may have grown from, likeliest first: the view, all that was said, the view as it was
    before the last folds."""
    folds = active_folds(path)
    yield [item for _, item in project(path, outermost(folds, position))]
    said = [entry for entry in path if isinstance(entry, e.MessageEntry)]
    if len(said) < len(path):
        yield [Item(entry.message, (entry.id,)) for entry in said]
    for count in range(len(folds) - 1, max(-1, len(folds) - 1 - older), -1):
        yield [item for _, item in project(path, outermost(folds[:count], position))]


def said_on(path: Path) -> list[Item]:
    """Everything that a path says, but the notes of programs, which no list has."""
    said = ((entry.id, said_by(entry)) for entry in path if not isinstance(entry, e.Note))
    return [Item(message, (id,)) for id, message in said if message is not None]


# ── the forms of a state ────────────────────────────────────────────────────────────────────────


def _as_said(items: Sequence[Item], _: Given) -> Iterator[Form]:
    """A state as it is."""
    known = [item.message for item in items]
    front = prompts(known)
    found = [piece for piece in pieces(known) if piece.owner >= front]
    owners = [piece.owner for piece in found]

    def end(count: int) -> int:
        return bisect_left(owners, count)

    yield Form(items, found, end)


def _as_sent(items: Sequence[Item], given: Given) -> Iterator[Form]:
    """A state as it was sent: for a list in a dialect as that renders it, for a list in our own messages as
    it was repaired (stand-ins, notes and ids)."""
    for dialect in given.dialects:
        yield _as_rendered(items, dialect)
    # Whether sides took turns does not matter: the pieces are the same.
    for unique in dict.fromkeys(dialect.rules.unique_ids for dialect in DIALECTS.values()):
        sent = items if given.dialects else repair_by(WireRules(unique), items)
        if any(a is not b for a, b in zip_longest(items, sent)):
            yield from _as_said(sent, given)


def _as_rendered(items: Sequence[Item], dialect: Dialect) -> Form:
    """What comes back of a state that was sent in a dialect."""

    def read(count: int) -> list[Piece]:
        wire = dialect.render(repair_by(dialect.rules, items[:count]))
        messages = parse_list(cast("dict[str, Any]", wire)[dialect.field] if isinstance(wire, dict) else wire)
        return pieces(messages[prompts(messages) :])

    def end(count: int) -> int:
        return len(read(count))

    def is_whole(count: int) -> bool:
        # What of a result has no place in it comes behind the last one of its batch.
        return settled(items[:count])

    return Form(items, read(len(items)), end, is_whole)


# ── what is compared ────────────────────────────────────────────────────────────────────────────


def pieces(messages: Sequence[m.Message]) -> list[Piece]:
    found: list[Piece] = []
    for owner, message in enumerate(messages):
        beside = (message.role, *_fields(message))
        if isinstance(message, m.Result):
            inside = (said for part in message.content if (said := _said(part, message)) is not None)
            content = (field for said in inside for field in said)
            found.append(Piece((*beside, *content), (message.name,), owner))
            continue
        if isinstance(message, m.Bash):
            found += [] if message.hidden else [Piece(beside, (), owner)]
            continue
        for at, part in enumerate(message.content):
            if isinstance(part, m.Thinking) and isinstance(message, m.Assistant):
                found.append(Piece(THOUGHT, _fields(part), owner, at))
            elif (said := _said(part, message)) is not None:
                hints = (part.origin,) if isinstance(part, m.Text) else ()
                found.append(Piece((*beside, *said), hints, owner, at))
    return found


def _said(part: m.AnyPart, message: m.Message) -> tuple[str | None, ...] | None:
    """Everything that a part says; None: nothing."""
    if isinstance(part, m.Text):
        text = part.text.strip() if isinstance(message, m.Assistant) else part.text
        return None if not text or text.isspace() else ("text", text, *_fields(part))
    if isinstance(part, m.Call):
        return ("call", *_fields(part), m.arguments_json(part))
    return (str(part.__struct_config__.tag), *_fields(part))


def _fields(struct: msgspec.Struct) -> tuple[str | None, ...]:
    return tuple([_plain(getattr(struct, name)) for name in _COMPARED[type(struct)]])


def _plain(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, bool | int):
        return str(value)
    try:
        return m.compact_json(_bare(value))
    except RecursionError:
        return m.compact_json(value)


def _bare(value: Any) -> Any:
    """A JSON value without what means nothing."""
    if isinstance(value, dict):
        fields = sorted(cast("dict[str, Any]", value).items(), key=lambda field: str(field[0]))
        return {
            name: _bare(field)
            for name, field in fields
            if field is not None and not (name == "cache_control" and field in _CACHE_MARKS)
        }
    return [*map(_bare, cast("Sequence[Any]", value))] if isinstance(value, list | tuple) else value


def contents(messages: Sequence[m.Message], *, verbatim: bool = False) -> list[tuple[Any, ...]]:
    """What messages say, however they are joined or split; `verbatim`: thinking included."""
    return [
        (*piece.content, *(piece.hints if verbatim else ()))
        for piece in pieces(messages)
        if verbatim or not piece.is_thought
    ]


def prompts(messages: Sequence[m.Message]) -> int:
    """How many system prompts stand in front. They are not compared: those of the log stay, any others belong
    to the call, and some dialects keep them outside of the list."""
    return next((n for n, message in enumerate(messages) if not isinstance(message, m.System)), len(messages))


def _aligned(ours: Sequence[Piece], theirs: Sequence[Piece], *, verbatim: bool) -> tuple[list[int], int]:
    """How many pieces of theirs go with the first 0, 1, 2 … of ours, as far as both say the same; and how
    many of theirs we have. A thought that only one side has is passed over."""
    met, at = [0], 0
    while len(met) <= len(ours):
        mine, other = ours[len(met) - 1], theirs[at] if at < len(theirs) else None
        if other is not None and (mine[:2] == other[:2] or mine.says(other, verbatim=verbatim)):
            at += 1
            met.append(at)
        elif verbatim or (mine.is_thought and other is not None and other.is_thought):
            return met, at
        elif mine.is_thought:
            met.append(at)
        elif other is not None and other.is_thought:
            at += 1
        else:
            return met, at
    # Thoughts of a message that we have otherwise, or that nothing follows.
    for end in range(at, len(theirs)):
        if verbatim or not theirs[end].is_thought:
            return met, at
        if end and theirs[end].owner == theirs[end - 1].owner:
            at = end + 1
    return met, len(theirs)


def _unseen(messages: Sequence[m.Message], theirs: Sequence[Piece], known: int) -> list[m.Message]:
    """Their messages after the common beginning; of a message that we have in part, only the new parts."""
    if known >= len(theirs):
        return []
    piece = theirs[known]
    first = messages[piece.owner]
    if known and theirs[known - 1].owner == piece.owner:
        first = msgspec.structs.replace(first, content=first.parts[piece.part :])
    if not known and isinstance(first, m.System):
        return [*messages]  # an empty message keeps it from standing in front
    return [first, *messages[piece.owner + 1 :]]


# ── folds and origins ───────────────────────────────────────────────────────────────────────────


def _folds_within(path: Path, position: Position, target: str) -> list[e.Fold]:
    """Folds that were made behind `target` and lie wholly before it."""
    end = position(target) or 0

    def within(id: str) -> bool:
        at = position(id)
        return at is not None and at <= end

    folds = (fold for fold in active_folds(path) if not within(fold.id))
    return [fold for fold in folds if all(within(edit.last) for edit in fold.edits)]


def _with_folds(path: Path, position: Position, target: str | None) -> str | None:
    """The last of the entries directly behind `target` that say nothing: folds of what is common, made before
    anything else was said. A later fold may tell of that, whatever it replaces."""
    at = None if target is None else position(target)
    silent = takewhile(lambda entry: said_by(entry) is None, path[0 if at is None else at + 1 :])
    return next((entry.id for entry in reversed([*silent])), target)


def _origins(path: Path) -> dict[str, m.Origin]:
    """Texts of the path in the user's role that the user did not type. A framework hands them back without
    saying so."""
    found: dict[str, m.Origin] = {}
    typed: set[str] = set()
    for message, otherwise in _shown_on(path):
        for part in message.content if isinstance(message, m.User) else ():
            if not isinstance(part, m.Text):
                continue
            origin = part.origin or otherwise
            if origin == "typed":
                typed.add(part.text.strip())
            else:
                found[part.text.strip()] = origin
    return {text: origin for text, origin in found.items() if text not in typed}


def _shown_on(path: Path) -> Iterator[tuple[m.Message | None, m.Origin]]:
    """What entries say by themselves and what folds put, with the origin where a text names none."""
    for entry in path:
        yield said_by(entry), "typed"
        for edit in entry.edits if isinstance(entry, e.Fold) else ():
            for message in edit.put:
                yield message, "summary" if edit.kind == "summary" else "typed"


def _known(message: m.Message, origins: Mapping[str, m.Origin]) -> m.Message:
    """The message with the origins we know of its texts."""
    if not origins or not isinstance(message, m.User):
        return message
    parts = (
        msgspec.structs.replace(part, origin=origins.get(part.text.strip()))
        if isinstance(part, m.Text) and not part.origin
        else part
        for part in message.content
    )
    return m.User(tuple(parts))
