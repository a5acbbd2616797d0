"""Merging a list of messages that a framework passes.

Frameworks keep the conversation as a list and pass all of it each time, with something new at its end. Such a
list is what the model was shown (summaries included), now or some folds ago, or the full history. It is
compared with each of these piece by piece, so that it does not matter how a dialect joins or splits messages.

Every part of every message is compared: two lists have nothing in common after their first difference.
Ignored are:

- blank texts and hidden commands, which are not sent, and whitespace around the assistant's text, which SDKs
  strip;
- thinking, a result's tool name and the origin of a text where one side lacks them, because frameworks drop
  them;
- in unknown parts: the order of fields, null fields, and cache marks, which clients move;
- changes that a dialect makes when it renders a message, in a list of that dialect.

Users who share a session must not learn what they did not say: see `refold.session.path_digests`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from refold import entries as e
from refold import messages as m
from refold.errors import WrongType
from refold.session.dialects import DIALECTS, Dialect, parse_list
from refold.session.dialects.common import WireRules
from refold.session.edits import Path, Position, active_folds, outermost, project_items, said_by
from refold.session.history import History
from refold.session.invariants import repair_by, settled
from refold.session.items import Item

OLDER = 16
"""Number of folds that a list may be behind."""
BRANCHES = 16
"""Number of other branches that are searched for a list, newest first."""
THINKING_KIND = "thinking"
_CACHE_MARKS = (
    {"type": "ephemeral"},
    {"type": "ephemeral", "ttl": "5m"},
    {"type": "ephemeral", "ttl": "1h"},
)
Fields: TypeAlias = tuple[str | None, ...]


class MessagePiece(NamedTuple):
    """The unit of comparison: a part of a message, or a whole result."""

    content: Fields
    hint: str | None
    """Name of a result's tool, or origin of a text; a framework may omit it."""
    owner: int
    """Index of its message or item."""
    part: int = 0
    """Index of the part in that message."""
    thoughts: Fields = ()
    """Thinking before it; a framework may omit it."""

    @property
    def is_thought(self) -> bool:
        return self.content[0] == THINKING_KIND

    def agrees(self, other: MessagePiece) -> bool:
        """True if both have the same content, apart from what one of them omits."""
        same = self.content == other.content and _agree(self.hint, other.hint)
        if not same or not self.thoughts or not other.thoughts:
            return same
        pairs = zip_longest(self.thoughts, other.thoughts, fillvalue="")
        return all(_agree(one, another) for one, another in pairs)


def _agree(one: str | None, other: str | None) -> bool:
    return one is None or other is None or one == other


class GivenList(NamedTuple):
    """A list passed by a framework, without the leading prompts."""

    messages: Sequence[m.Message]
    pieces: Sequence[MessagePiece]
    dialects: Sequence[Dialect] = ()
    """Dialects it may be in; empty for refold's own messages or a mixture."""

    @classmethod
    def of(cls, messages: Sequence[m.Message], dialects: Sequence[Dialect]) -> GivenList:
        said = messages[prompts(messages) :]
        return cls(said, _with_thoughts(message_pieces(said)), dialects)


class Merged(msgspec.Struct, frozen=True):
    """Result of merging a list."""

    appended: tuple[e.MessageEntry, ...]
    """New message entries."""
    branched: bool = False
    """True if the list departed from the path, so that the new entries are on a branch."""


class Difference(msgspec.Struct, frozen=True):
    """What a list has beyond a path."""

    messages: Sequence[m.Message] = ()
    """New messages, to be appended."""
    branches: bool = False
    """True if the list departs from the path before its end."""
    target: str | None = None
    """The last common entry."""
    folds: Sequence[e.Fold] = ()
    """Folds after that entry which also cover the common part."""


class ListForm(NamedTuple):
    """A state of the session in one form that a list may have."""

    items: Sequence[Item]
    pieces: Sequence[MessagePiece]
    end: Callable[[int], int]
    """Number of items → number of pieces."""
    is_whole: Callable[[int], bool] = lambda _: True
    """Number of items → whether these pieces contain everything in them."""


Forms: TypeAlias = Callable[[Sequence[Item], GivenList], Iterator[ListForm]]


class ListMatch(NamedTuple):
    """A list compared with one state of the session."""

    path: Path
    position: Position
    form: ListForm
    theirs: Sequence[MessagePiece]
    same: int
    """Number of pieces that both begin with."""

    @property
    def is_ours_whole(self) -> bool:
        """True if the list contains the whole state."""
        return self.same == len(self.form.pieces)

    @property
    def is_sure(self) -> bool:
        """True if the list is that state, a beginning of it, or a continuation."""
        return self.same == len(self.theirs) or (self.same > 0 and self.is_ours_whole)

    @property
    def rank(self) -> tuple[int, bool]:
        return self.same, self.is_ours_whole


def list_difference(history: History, given: GivenList, *, exactly: bool = False) -> Difference:
    """What follows the longest common beginning of the list and the session: on this path, or on another one
    that has more of the list. It is on a branch if the two differ before the end or, with `exactly`, if the
    session has more than the list."""
    path, position = history.path, history.position
    here = _read(path, position, given, _as_said)
    assert here is not None  # the view is always a state
    others = [] if here.same == len(given.pieces) else _others(here, history)
    reading = _read_elsewhere(here, given, _as_said, others)
    if not reading.is_sure:
        # What was said comes first: a part that a dialect could only describe looks like any text.
        sent = _read(path, position, given, _as_sent)
        best = reading if sent is None else _read_elsewhere(sent, given, _as_sent, others)
        if best.rank > reading.rank:
            here, reading = sent, best
    news = _beyond(reading, given, exactly)
    if reading is here or news.branches:
        return news
    return msgspec.structs.replace(news, branches=True, target=reading.path[-1].id)


def _beyond(reading: ListMatch, given: GivenList, exactly: bool) -> Difference:
    path = reading.path
    if reading.same == len(given.pieces) and not (exactly and not reading.is_ours_whole):
        return Difference()  # what we have, or an older state of it
    origins = _origins(path)
    if reading.is_ours_whole:
        return Difference([_known(message, origins) for message in _unseen(given, reading.same)])
    same, target = _departure(reading)
    folds = _folds_within(path, reading.position, target) if target else ()
    return Difference([_known(message, origins) for message in _unseen(given, same)], True, target, folds)


def _departure(reading: ListMatch) -> tuple[int, str | None]:
    """Where a list departs that does not continue from the end: the number of pieces, and the last common
    entry. Both sides are cut where a message begins; empty messages belong to what follows."""
    form, theirs = reading.form, reading.theirs
    same, common = 0, prompts([item.message for item in form.items])
    most = bisect_right(range(1, len(form.items) + 1), reading.same, key=form.end)
    for count in range(most, common, -1):
        end = form.end(count)
        begins = end == len(theirs) or theirs[end - 1].owner != theirs[end].owner
        if begins and form.is_whole(count) and form.end(count - 1) < end:
            same, common = end, count
            break
    before = reversed(form.items[:common])
    return same, next((item.entries[-1] for item in before if item.entries), None)


def _others(here: ListMatch, history: History) -> list[Path]:
    """The newest other paths through the last common entry."""
    goes_on = here.is_ours_whole
    at = here.path[-1].id if goes_on and here.path else None if goes_on else _departure(here)[1]
    below = list(history.children(at))
    for child in below:
        below += history.children(child)
    ends = {id for id in below if here.position(id) is None and not history.children(id)}
    newest = (entry.id for entry in reversed(history.entries) if entry.id in ends)
    return [history.path_to(id) for id in islice(newest, BRANCHES)]


def _read_elsewhere(here: ListMatch, given: GivenList, forms: Forms, others: Sequence[Path]) -> ListMatch:
    """The match on the path that has most of the list."""
    best = here
    for path in others:
        if best.same == len(given.pieces):
            break
        places = {entry.id: place for place, entry in enumerate(path)}
        reading = _read(path, places.get, given, forms, older=0)
        best = reading if reading is not None and reading.same > best.same else best
    return best


def _read(
    path: Path, position: Position, given: GivenList, forms: Forms, older: int = OLDER
) -> ListMatch | None:
    """The match with the most of the list; if several are equal, the one with the newest view."""
    best: ListMatch | None = None
    for items in _states(path, position, older):
        for form in forms(items, given):
            reading = ListMatch(path, position, form, given.pieces, _common(form.pieces, given.pieces))
            if reading.is_sure:
                return reading
            if best is None or reading.rank > best.rank:
                best = reading
    return best


def _states(path: Path, position: Position, older: int) -> Iterator[list[Item]]:
    """States that a list may have grown from, likeliest first: the view, the full history, the views before
    the last folds."""
    folds = active_folds(path)
    yield [item for _, item in project_items(path, outermost(folds, position))]
    said = [entry for entry in path if isinstance(entry, e.MessageEntry)]
    if len(said) < len(path):
        yield [Item(entry.message, (entry.id,)) for entry in said]
    for count in range(len(folds) - 1, max(-1, len(folds) - 1 - older), -1):
        yield [item for _, item in project_items(path, outermost(folds[:count], position))]


# ── the forms of a state ────────────────────────────────────────────────────────────────────────


def _as_said(items: Sequence[Item], _: GivenList) -> Iterator[ListForm]:
    """A state unchanged."""
    known = [item.message for item in items]
    front = prompts(known)
    found = _with_thoughts([piece for piece in message_pieces(known) if piece.owner >= front])
    owners = [piece.owner for piece in found]

    def end(count: int) -> int:
        return bisect_left(owners, count)

    yield ListForm(items, found, end)


def _as_sent(items: Sequence[Item], given: GivenList) -> Iterator[ListForm]:
    """A state as it was sent: rendered in the list's dialect, or for refold's own messages repaired
    (placeholders, notes and ids)."""
    for dialect in given.dialects:
        yield _as_rendered(items, dialect)
    # Whether sides took turns does not matter: the pieces are the same.
    for unique in dict.fromkeys(dialect.rules.unique_ids for dialect in DIALECTS.values()):
        sent = items if given.dialects else repair_by(WireRules(unique), items)
        if any(a is not b for a, b in zip_longest(items, sent)):
            yield from _as_said(sent, given)


def _as_rendered(items: Sequence[Item], dialect: Dialect) -> ListForm:
    """The messages of a state after rendering it in a dialect and parsing it again."""

    def read(count: int) -> list[MessagePiece]:
        wire = dialect.render(repair_by(dialect.rules, items[:count]))
        messages = parse_list(cast("dict[str, Any]", wire)[dialect.field] if isinstance(wire, dict) else wire)
        return _with_thoughts(message_pieces(messages[prompts(messages) :]))

    def end(count: int) -> int:
        return len(read(count))

    def is_whole(count: int) -> bool:
        # What of a result has no place in it comes behind the last one of its batch.
        return settled(items[:count])

    return ListForm(items, read(len(items)), end, is_whole)


# ── what is compared ────────────────────────────────────────────────────────────────────────────


def message_pieces(messages: Sequence[m.Message]) -> list[MessagePiece]:
    found: list[MessagePiece] = []
    for owner, message in enumerate(messages):
        if isinstance(message, m.Bash):
            found += [] if message.hidden else [MessagePiece((message.role, *_fields(message)), None, owner)]
            continue
        parts = [(at, _said(part, message)) for at, part in enumerate(message.content)]
        if isinstance(message, m.Result):
            content = (field for _, said in parts for field in said)
            beside = _fields(message, "content", "name")
            found.append(MessagePiece((message.role, *beside, *content), message.name or None, owner))
            continue
        for at, said in parts:
            part = message.content[at]
            if isinstance(part, m.Thinking) and isinstance(message, m.Assistant):
                found.append(MessagePiece(said, None, owner, at))
            elif said:
                hint = part.origin if isinstance(part, m.Text) else None
                beside = _fields(message, "content", "stop", "error")
                found.append(MessagePiece((message.role, *beside, *said), hint, owner, at))
    return found


def _said(part: m.AnyPart, message: m.Message) -> Fields:
    kind = str(part.__struct_config__.tag)
    if isinstance(part, m.Text):
        text = part.text.strip() if isinstance(message, m.Assistant) else part.text
        return (kind, text, *_fields(part, "text", "origin")) if text and not text.isspace() else ()
    if isinstance(part, m.Call):
        return (kind, *_fields(part, "arguments", "raw"), m.arguments_json(part))
    return (kind, *_fields(part, "source"))


def _fields(struct: msgspec.Struct, *without: str) -> Fields:
    names = (name for name in struct.__struct_fields__ if name not in without)
    return tuple([_plain(getattr(struct, name)) for name in names])


def _plain(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, bool | int):
        return str(value)
    try:
        return m.compact_json(_bare(value))
    except TypeError as error:
        raise WrongType(f"a list holds what is no JSON ({error}): use plain JSON values") from error


def _bare(value: Any) -> Any:
    """A JSON value without insignificant fields."""
    if isinstance(value, dict):
        fields = sorted(cast("dict[str, Any]", value).items(), key=lambda field: str(field[0]))
        return {
            name: _bare(field)
            for name, field in fields
            if field is not None and not (name == "cache_control" and field in _CACHE_MARKS)
        }
    return [*map(_bare, cast("Sequence[Any]", value))] if isinstance(value, list | tuple) else value


def contents(messages: Sequence[m.Message]) -> list[Fields]:
    """The content of messages except thinking, however they are joined or split."""
    return [piece.content for piece in message_pieces(messages) if not piece.is_thought]


def prompts(messages: Sequence[m.Message]) -> int:
    """Number of leading system prompts. They are not compared: the log keeps its own, others belong to the
    call, and some dialects keep them outside of the list."""
    return next((n for n, message in enumerate(messages) if not isinstance(message, m.System)), len(messages))


def _with_thoughts(said: Sequence[MessagePiece]) -> list[MessagePiece]:
    """Attaches thinking to the piece that follows it, or at the end to the last piece."""
    found: list[MessagePiece] = []
    thoughts: list[MessagePiece] = []
    for piece in said:
        if piece.is_thought:
            thoughts.append(piece)
            continue
        own = [thought for thought in thoughts if thought.owner == piece.owner]
        part = own[0].part if own else piece.part
        found.append(piece._replace(part=part, thoughts=_joined(thoughts)))
        thoughts.clear()
    if not found:
        return thoughts
    found[-1] = found[-1]._replace(thoughts=found[-1].thoughts + _joined(thoughts))
    return found


def _joined(thoughts: Sequence[MessagePiece]) -> Fields:
    return tuple([field for thought in thoughts for field in thought.content])


def _common(ours: Sequence[MessagePiece], theirs: Sequence[MessagePiece]) -> int:
    pairs = zip(ours, theirs, strict=False)
    return next(
        (n for n, (one, other) in enumerate(pairs) if not one.agrees(other)), min(len(ours), len(theirs))
    )


def _unseen(given: GivenList, same: int) -> list[m.Message]:
    """The list's messages after the common beginning; of a partly known message, only the new parts."""
    if same >= len(given.pieces):
        return []
    piece = given.pieces[same]
    first = given.messages[piece.owner]
    if same and given.pieces[same - 1].owner == piece.owner:
        first = msgspec.structs.replace(first, content=first.parts[piece.part :])
    if not same and isinstance(first, m.System):
        return [*given.messages]  # an empty message keeps it from standing in front
    return [first, *given.messages[piece.owner + 1 :]]


# ── folds and origins ───────────────────────────────────────────────────────────────────────────


def _folds_within(path: Path, position: Position, target: str) -> list[e.Fold]:
    """Folds made after `target` that lie wholly before it."""
    end = position(target) or 0

    def within(id: str) -> bool:
        at = position(id)
        return at is not None and at <= end

    folds = (fold for fold in active_folds(path) if not within(fold.id))
    return [fold for fold in folds if all(within(edit.last) for edit in fold.edits)]


def _origins(path: Path) -> dict[str, m.Origin]:
    """Origins of texts in the user's role that the user did not type. A framework returns them without an
    origin."""
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
    """Content of entries and of folds, with its origin where a text has none."""
    for entry in path:
        yield said_by(entry), "typed"
        for edit in entry.edits if isinstance(entry, e.Fold) else ():
            for message in edit.put:
                yield message, "summary" if edit.kind == "summary" else "typed"


def _known(message: m.Message, origins: Mapping[str, m.Origin]) -> m.Message:
    """The message with known origins of its texts."""
    if not origins or not isinstance(message, m.User):
        return message
    parts = (
        msgspec.structs.replace(part, origin=origins.get(part.text.strip()))
        if isinstance(part, m.Text) and not part.origin
        else part
        for part in message.content
    )
    return m.User(tuple(parts))
