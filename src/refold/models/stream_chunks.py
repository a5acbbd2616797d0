"""Reading pieces of a stream that may contain anything; shared by all providers' readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, Protocol, cast

from refold.errors import UsageError
from refold.protocols import Event, Stopped, UsageSeen
from refold.session.dialects.common import ParsedReply
from refold.text.lenient_json import JsonObject


class Malformed(Exception):
    """Raised for a piece of a stream that violates the protocol."""


class StreamReader(Protocol):
    """Puts the pieces of a stream together."""

    def read(self, piece: Any, /) -> list[Event]: ...

    def end(self) -> list[Event]:
        """What is known only once the stream has ended."""
        return []


P = ParamSpec("P")
_CONFUSED = (AttributeError, KeyError, IndexError, TypeError, ValueError, UsageError)


def strict(read: Callable[P, Iterator[Event]]) -> Callable[P, list[Event]]:
    """Decorates a reader of chunks: any exception inside it is the chunk's fault."""

    @wraps(read)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> list[Event]:
        try:
            return list(read(*args, **kwargs))
        except _CONFUSED as error:
            raise Malformed(f"{type(error).__name__}: {error}") from None

    return wrapped


def closed(reply: ParsedReply) -> Iterator[Event]:
    """The end of a reply: usage and stop reason."""
    message, usage, _ = reply
    if usage is not None:
        yield UsageSeen(usage)
    yield Stopped(message.stop or "other")


def text_value(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise Malformed(f"{what} is no text")
    return value


def obj(value: Any, what: str) -> JsonObject:
    if not isinstance(value, dict):
        raise Malformed(f"{what} is no object")
    return cast(JsonObject, value)


def objs(value: Any) -> list[JsonObject]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise Malformed("a list was expected")
    return [obj(one, "an element") for one in cast("list[Any]", value)]
