"""What happens during a turn, as a front end hears of it: plain values, told in the order they happen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from refold.entries import Fold
from refold.messages import Assistant, Call, Result
from refold.protocols import Event as Streamed


@dataclass(frozen=True)
class Asking:
    """A request goes out. `attempt` counts from 1; from 2 on, what was streamed before is void."""

    request: str
    attempt: int


@dataclass(frozen=True)
class Heard:
    """A piece of the reply."""

    event: Streamed


@dataclass(frozen=True)
class Answered:
    """The reply is whole and in the log."""

    message: Assistant


@dataclass(frozen=True)
class Running:
    call: Call


@dataclass(frozen=True)
class Ran:
    call: Call
    result: Result


@dataclass(frozen=True)
class Folding:
    """The conversation is being folded; whoever waits may cancel."""

    reason: str
    model: str
    """Who writes the summary, or `digest`."""


@dataclass(frozen=True)
class Folded:
    fold: Fold


@dataclass(frozen=True)
class FoldFailed:
    code: str
    text: str


@dataclass(frozen=True)
class Said:
    """Something a user should know."""

    text: str


TurnEvent: TypeAlias = Asking | Heard | Answered | Running | Ran | Folding | Folded | FoldFailed | Said
Tell: TypeAlias = Callable[[TurnEvent], None]


def silence(_: TurnEvent) -> None:
    """Of a front end that shows nothing."""
