"""Reading pieces of a stream that may be anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, cast

from refold.errors import UsageError
from refold.protocols import Event
from refold.session.dialects.common import Wire


class Malformed(Exception):
    """A piece of a stream that is not what the protocol says."""


P = ParamSpec("P")
_CONFUSED = (AttributeError, KeyError, IndexError, TypeError, ValueError, UsageError)


def strict(read: Callable[P, Iterator[Event]]) -> Callable[P, list[Event]]:
    """For a reader of chunks: whatever it stumbles over, deep inside a chunk of strange shape, is the
    chunk's fault."""

    @wraps(read)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> list[Event]:
        try:
            return list(read(*args, **kwargs))
        except _CONFUSED as error:
            raise Malformed(f"{type(error).__name__}: {error}") from None

    return wrapped


def text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise Malformed(f"{what} is no text")
    return value


def obj(value: Any, what: str) -> Wire:
    if not isinstance(value, dict):
        raise Malformed(f"{what} is no object")
    return cast(Wire, value)


def objs(value: Any) -> list[Wire]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise Malformed("a list was expected")
    return [obj(one, "an element") for one in cast("list[Any]", value)]
