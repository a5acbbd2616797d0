"""Reading pieces of a stream that may be anything."""

from __future__ import annotations

from typing import Any, cast

from refold.session.dialects.common import Wire


class Malformed(Exception):
    """A piece of a stream that is not what the protocol says."""


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
