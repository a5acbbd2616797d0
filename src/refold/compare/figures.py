"""Where the tokens of a conversation go, as values."""

from __future__ import annotations

import msgspec


class Tool(msgspec.Struct, frozen=True):
    """All calls of one tool and what they brought into the context."""

    name: str
    calls: int
    errors: int
    call_tokens: int
    result_tokens: int

    @property
    def tokens(self) -> int:
        return self.call_tokens + self.result_tokens


class File(msgspec.Struct, frozen=True):
    """All calls that touched one file. A call on several files is divided among them."""

    path: str
    tokens: int
    reads: int
    changes: int


class Turn(msgspec.Struct, frozen=True):
    """A message of the user and everything up to the next one; turn 0 is what came before the first."""

    turn: int
    entry_id: str
    text: str
    messages: int
    calls: int
    tokens: int
    results: int
    """How many of the tokens are tool results."""
    total: int
    """Size of the path up to the end of the turn."""
    prompt: int | None
    """Size of the turn's last prompt as the provider counted it."""


class Big(msgspec.Struct, frozen=True):
    """A tool result."""

    entry_id: str
    tool: str
    subject: str
    turn: int
    tokens: int


class Repeat(msgspec.Struct, frozen=True):
    """A file that was read again in the same way without having been changed in between."""

    path: str
    times: int
    tokens: int
    """What the repetitions cost, the first reading not counted."""
    entries: tuple[str, ...]


class Spent(msgspec.Struct, frozen=True):
    """Sum of all usage the provider reported on the path."""

    requests: int
    input: int
    output: int
    cache_read: int
    cache_write: int


class Suggestion(msgspec.Struct, frozen=True):
    code: str
    text: str
    tokens: int
    """Upper bound of what following it would save."""


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    tokens: int
    view: int
    """What the model sees, as it is sent."""
    added: int
    """The part of it that nobody said: what stands in for results that never came."""
    counter: str
    messages: int
    by_role: dict[str, int]
    by_part: dict[str, int]
    by_tool: dict[str, int]
    by_file: dict[str, int]
    tools: tuple[Tool, ...]
    files: tuple[File, ...]
    turns: tuple[Turn, ...]
    largest: tuple[Big, ...]
    repeated: tuple[Repeat, ...]
    usage: Spent | None
    suggestions: tuple[Suggestion, ...] = ()
