"""The providers' spellings of a conversation. Converting happens once, at the edge.

A dialect is a module with the members of `Dialect`; `DIALECTS` is the table. A new one is a module and a
row: `view.to(name)`, merging, replies, the wire rules, `refold show --wire`, `refold export --to` and the
validators for tests go by the table.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol, cast

from refold.errors import RefoldError, UnknownName, WrongType, expect
from refold.messages import Assistant, Message
from refold.session.dialects import anthropic, openai_chat, openai_responses
from refold.session.dialects.common import MESSAGES, ParsedReply, Renderable, WireRules, as_dict, to_list
from refold.text.lenient_json import JsonObject


class Dialect(Protocol):
    """How one provider spells a conversation."""

    @property
    def name(self) -> str: ...

    @property
    def field(self) -> str:
        """Where a request holds the list of messages."""
        ...

    @property
    def rules(self) -> WireRules: ...

    def speaks(self, raw: JsonObject) -> bool:
        """Whether this message, reply or request is in this dialect without doubt."""
        ...

    def parse_list(self, objs: Iterable[Any]) -> list[Message]:
        """The messages of what `render` gives: dicts or SDK objects."""
        ...

    def parse_reply(self, obj: Any) -> ParsedReply:
        """What a model answered, from the provider's reply or from an assistant message alone; `UsageError`
        if it is neither."""
        ...

    def render(self, shown: Renderable, *, system: str | None = None) -> Any:
        """Messages that were repaired by the `rules`: a list or, where the dialect keeps something beside it,
        the fields of a request. Fresh values, the caller may change them."""
        ...

    def render_tools(self, tools: Sequence[Any]) -> list[JsonObject]:
        """Tool definitions, given in any dialect's shape."""
        ...


_ROWS: tuple[Dialect, ...] = (openai_chat, openai_responses, anthropic)
DIALECTS = {row.name: row for row in _ROWS}
ALIASES = {"openai-responses": "responses"}
"""Second names: what models and files of a dialect are called."""
DEFAULT_DIALECT = openai_chat
"""The dialect that reads what is in none without doubt."""


def get(name: str) -> Dialect:
    expect(name, str, f"the name of a dialect must be a string: {', '.join(names())}")
    found = DIALECTS.get(ALIASES.get(name, name))
    if found is None:
        raise UnknownName("dialect", name, names())
    return found


def names() -> tuple[str, ...]:
    """All names that `get` knows."""
    return (*DIALECTS, *ALIASES)


def dialect_of(obj: Any) -> Dialect:
    """The dialect of a foreign message, reply or request."""
    return _sure(as_dict(obj)) or DEFAULT_DIALECT


def parse(obj: Any) -> list[Message]:
    """The message(s) of one foreign message, whatever dialect it is in."""
    return parse_list([obj])


def parse_list(objs: Iterable[Any] | Mapping[str, Any]) -> list[Message]:
    """The messages of a list (or of a request), whatever dialect it is in. Ours stay as they are."""
    return parse_list_with_dialects(objs)[0]


def parse_list_with_dialects(objs: Iterable[Any] | Mapping[str, Any]) -> tuple[list[Message], list[Dialect]]:
    """The same, and the dialects that the list may be in: the one that something in it speaks without doubt,
    all where nothing does; none where it is in our own messages, or in several dialects."""
    with _reading("message"):
        if isinstance(objs, Mapping):
            request = dict(cast("Mapping[str, Any]", objs))
            dialect = _sure(request)
            if dialect is not None:
                return dialect.parse_list(request), [dialect]
            fields = (to_list(request[d.field]) for d in DIALECTS.values() if d.field in request)
            objs = next(fields, [request])
        given = [obj if isinstance(obj, MESSAGES) else as_dict(obj) for obj in objs]
        sure = [None if isinstance(obj, MESSAGES) else _sure(obj) for obj in given]
        found: list[Message] = []
        for dialect, run in _runs(given, sure):
            found += run if dialect is None else dialect.parse_list(run)
        spoken = list({dialect.name: dialect for dialect in sure if dialect is not None}.values())
        foreign = not any(isinstance(obj, MESSAGES) for obj in given)
        return found, (spoken or [*DIALECTS.values()]) if foreign and len(spoken) < 2 else []


def parse_reply(raw: Any) -> ParsedReply:
    """What a model answered: `(message, usage, model)` from a provider's reply, as SDK object or dict, or
    from an assistant message alone (ours or any dialect's)."""
    if isinstance(raw, Assistant):
        return raw, None, None
    with _reading("reply"):
        obj = as_dict(raw)
        return dialect_of(obj).parse_reply(obj)


@contextmanager
def _reading(what: str) -> Generator[None]:
    """Reads a foreign object, whose code may raise anything."""
    try:
        yield
    except RefoldError:
        raise
    except Exception as error:
        why = f"{error!r}"[:200]
        raise WrongType(f"this {what} cannot be read ({why}): append what it says as a message") from error


def _sure(raw: JsonObject) -> Dialect | None:
    return next((dialect for dialect in DIALECTS.values() if dialect.speaks(raw)), None)


def _runs(objs: Sequence[Any], sure: Sequence[Dialect | None]) -> Iterator[tuple[Dialect | None, list[Any]]]:
    """Neighbours of one dialect; None: they are ours. What could be of any dialect is read like what stands
    before it, or at the beginning like what comes: some dialects spread one reply over several items."""
    current: Dialect = next((dialect for dialect in sure if dialect is not None), DEFAULT_DIALECT)
    readers: list[Dialect | None] = []
    for obj, dialect in zip(objs, sure, strict=True):
        current = dialect or current
        readers.append(None if isinstance(obj, MESSAGES) else current)
    for reader, run in groupby(zip(readers, objs, strict=True), key=itemgetter(0)):
        yield reader, [obj for _, obj in run]
