"""Cancelling long work: it looks at a flag about once per entry, and ends where nothing waits for it."""

from __future__ import annotations

from contextvars import ContextVar


class Abandoned(BaseException):
    """The caller of this work has gone. Not an `Exception`: code that guards plug-ins lets it through."""


class Cancellable:
    """Work that may be told to end."""

    unwanted = False


current: ContextVar[Cancellable | None] = ContextVar("current", default=None)
"""The work that this code is a part of."""


def checkpoint() -> None:
    """Called by long work, about once per entry: ends it where it is no longer wanted."""
    work = current.get()
    if work is not None and work.unwanted:
        raise Abandoned
