"""Events of a turn, for front ends: plain values, in the order they happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from refold.entries import Fold
from refold.messages import Assistant, Call, Result
from refold.protocols import Event as Streamed


class RequestStarted(msgspec.Struct, frozen=True):
    """A request is sent. `attempt` counts from 1; from 2 on, what was streamed before is void."""

    request: str
    attempt: int
    failure: str = ""
    """Why the attempt before failed."""


class ReplyStreamed(msgspec.Struct, frozen=True):
    """A piece of the reply."""

    event: Streamed


class ReplyFinished(msgspec.Struct, frozen=True):
    """The reply is complete and in the log."""

    message: Assistant


class ToolStarted(msgspec.Struct, frozen=True):
    call: Call


class ToolOutput(msgspec.Struct, frozen=True):
    """A running command wrote something."""

    call: Call
    text: str


class ToolFinished(msgspec.Struct, frozen=True):
    call: Call
    result: Result


class FoldStarted(msgspec.Struct, frozen=True):
    """The conversation is being folded; a waiting caller may cancel."""

    reason: str
    model: str
    """The model that writes the summary, or `digest`."""


class FoldFinished(msgspec.Struct, frozen=True):
    fold: Fold


class FoldFailed(msgspec.Struct, frozen=True):
    code: str
    text: str


class Notice(msgspec.Struct, frozen=True):
    """A message for the user."""

    text: str


TurnEvent: TypeAlias = (
    RequestStarted
    | ReplyStreamed
    | ReplyFinished
    | ToolStarted
    | ToolOutput
    | ToolFinished
    | FoldStarted
    | FoldFinished
    | FoldFailed
    | Notice
)
Tell: TypeAlias = Callable[[TurnEvent], None]


def silence(_: TurnEvent) -> None:
    """Ignores every event, for front ends that show nothing."""
