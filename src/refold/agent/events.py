"""What happens during a turn, as a front end hears of it: plain values, told in the order they happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from refold.entries import Fold
from refold.messages import Assistant, Call, Result
from refold.protocols import Event as Streamed


class Asking(msgspec.Struct, frozen=True):
    """A request goes out. `attempt` counts from 1; from 2 on, what was streamed before is void."""

    request: str
    attempt: int


class Heard(msgspec.Struct, frozen=True):
    """A piece of the reply."""

    event: Streamed


class Answered(msgspec.Struct, frozen=True):
    """The reply is whole and in the log."""

    message: Assistant


class Running(msgspec.Struct, frozen=True):
    call: Call


class Output(msgspec.Struct, frozen=True):
    """A running command wrote something."""

    call: Call
    text: str


class Ran(msgspec.Struct, frozen=True):
    call: Call
    result: Result


class Folding(msgspec.Struct, frozen=True):
    """The conversation is being folded; whoever waits may cancel."""

    reason: str
    model: str
    """Who writes the summary, or `digest`."""


class Folded(msgspec.Struct, frozen=True):
    fold: Fold


class FoldFailed(msgspec.Struct, frozen=True):
    code: str
    text: str


class Said(msgspec.Struct, frozen=True):
    """Something a user should know."""

    text: str


TurnEvent: TypeAlias = (
    Asking | Heard | Answered | Running | Output | Ran | Folding | Folded | FoldFailed | Said
)
Tell: TypeAlias = Callable[[TurnEvent], None]


def silence(_: TurnEvent) -> None:
    """Of a front end that shows nothing."""
