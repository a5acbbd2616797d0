"""Dialects: how providers write a conversation. Conversion happens once, at the edge.

A dialect is a module with the members of `Dialect`, and a row in `DIALECTS`. `view.to(name)`, merging,
replies, the wire rules, `refold show --wire`, `refold export --to` and the test validators use the table.
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
    """How one provider writes a conversation."""

    @property
    def name(self) -> str: ...

    @property
    def field(self) -> str:
        """The field of a request that has the list of messages."""
        ...

    @property
    def rules(self) -> WireRules: ...

    def speaks(self, raw: JsonObject) -> bool:
        """True if this message, reply or request is certainly in this dialect."""
        ...

    def parse_list(self, objs: Iterable[Any]) -> list[Message]:
        """The messages of a list that `render` could have made: dicts or SDK objects."""
        ...

    def parse_reply(self, obj: Any) -> ParsedReply:
        """A model's answer, from the provider's reply or an assistant message; raises `UsageError` for
        anything else."""
        ...

    def render(self, shown: Renderable, *, system: str | None = None) -> Any:
        """Messages, already repaired by the `rules`, as a list or as the fields of a request. The values are
        new, so the caller may change them."""
        ...

    def render_tools(self, tools: Sequence[Any]) -> list[JsonObject]:
        """Tool definitions of any dialect, in this dialect."""
        ...


_ROWS: tuple[Dialect, ...] = (openai_chat, openai_responses, anthropic)
DIALECTS = {row.name: row for row in _ROWS}
ALIASES = {"openai-responses": "responses"}
"""Alternative names, used by models and files."""
DEFAULT_DIALECT = openai_chat
"""The dialect for objects that are certainly in none."""


def get(name: str) -> Dialect:
    expect(name, str, f"the name of a dialect must be a string: {', '.join(names())}")
    found = DIALECTS.get(ALIASES.get(name, name))
    if found is None:
        raise UnknownName("dialect", name, names())
    return found


def names() -> tuple[str, ...]:
    """All names that `get` accepts."""
    return (*DIALECTS, *ALIASES)


def dialect_of(obj: Any) -> Dialect:
    """The dialect of a foreign message, reply or request."""
    return _sure(as_dict(obj)) or DEFAULT_DIALECT


def parse(obj: Any) -> list[Message]:
    """The message(s) of one object of any dialect."""
    return parse_list([obj])


def parse_list(objs: Iterable[Any] | Mapping[str, Any]) -> list[Message]:
    """The messages of a list or request of any dialect; refold's own messages are unchanged."""
    return parse_list_with_dialects(objs)[0]


def parse_list_with_dialects(objs: Iterable[Any] | Mapping[str, Any]) -> tuple[list[Message], list[Dialect]]:
    """The messages of a list, and the dialects that it may be in: one if something in it is certain, all if
    nothing is, none for refold's own messages or a mixture."""
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
    """A model's answer as `(message, usage, model)`, from a provider's reply (SDK object or dict) or an
    assistant message (refold's or any dialect's)."""
    if isinstance(raw, Assistant):
        return raw, None, None
    with _reading("reply"):
        obj = as_dict(raw)
        return dialect_of(obj).parse_reply(obj)


@contextmanager
def _reading(what: str) -> Generator[None]:
    """Guards the reading of a foreign object, whose code may raise anything."""
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
    """Runs of neighbours in one dialect (None: refold's own). Ambiguous objects belong to the preceding run,
    at the beginning to the next: some dialects spread one reply over several items."""
    current: Dialect = next((dialect for dialect in sure if dialect is not None), DEFAULT_DIALECT)
    readers: list[Dialect | None] = []
    for obj, dialect in zip(objs, sure, strict=True):
        current = dialect or current
        readers.append(None if isinstance(obj, MESSAGES) else current)
    for reader, run in groupby(zip(readers, objs, strict=True), key=itemgetter(0)):
        yield reader, [obj for _, obj in run]
