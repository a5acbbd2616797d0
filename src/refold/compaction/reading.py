"""What folds need to know of a session's path, read once per entry (DESIGN 10).

Own words, action lines and the state of the work are computed when an entry is first seen and kept beside the
session (`session.followers`); a fold costs what is new. Nothing here is part of the log: after reopening, the
path is read again, in pieces.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from refold import entries as e
from refold.compaction.transcript import message_of
from refold.messages import Call, Result
from refold.preserve.lines import EntryLines, lines_of
from refold.preserve.state import WorkState
from refold.preserve.words import Saying, demands, typed
from refold.protocols import Steps, TokenCounter, complete
from refold.session import Session

KEY = 5
"""Tokens of an entry's number beside its words or lines, and the line end."""
READ, COUNTED = 8, 64
"""Entries that are read, and texts that are counted, between two breaths."""


class Reading:
    """What the first `length` entries of a path say; grows with it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._begin()

    @classmethod
    def of(cls, session: Session) -> Reading:
        """The reading of a session as far as it has come."""
        return session.followers.of(cls, lambda: cls(session))

    def _begin(self) -> None:
        self.epoch, self.length = self.session.epoch, 0
        self.sayings: list[Saying] = []
        """What the user typed, oldest first."""
        self.lines: list[EntryLines] = []
        """Lines that stand for the entries that have any, oldest first."""
        self.state = WorkState(self.session.info.cwd or "")
        self._calls: dict[str, Call] = {}
        self._turn = 0
        self._sizes: dict[str, tuple[list[int], list[int]]] = {}

    def follow(self) -> Steps[None]:
        """Read what is new on the path."""
        if self.epoch != self.session.epoch:
            self._begin()
        while self.length < len(self.session.path):
            self._take(self.length, self.session.path[self.length])
            self.length += 1
            if self.length % READ == 0:
                yield

    def typed_before(self, position: int) -> Sequence[Saying]:
        """What the user typed before a position of the path."""
        return self.sayings[: bisect_left(self.sayings, position, key=lambda saying: saying.position)]

    def lines_before(self, position: int) -> Sequence[EntryLines]:
        return self.lines[: bisect_left(self.lines, position, key=lambda entry: entry.number)]

    def typed_size(self, position: int, counter: TokenCounter) -> int:
        """Tokens of what the user typed before a position, each with its number."""
        return self._sized(counter)[0][len(self.typed_before(position))]

    def lines_size(self, position: int, counter: TokenCounter) -> int:
        """Tokens of all lines before a position, at most."""
        return self._sized(counter)[1][len(self.lines_before(position))]

    def counting(self, counter: TokenCounter) -> Steps[tuple[list[int], list[int]]]:
        """Running totals over sayings and lines. Costs what is new."""
        typed_sums, line_sums = self._sizes.setdefault(counter.name, ([0], [0]))
        for number, saying in enumerate(self.sayings[len(typed_sums) - 1 :], 1):
            typed_sums.append(typed_sums[-1] + counter.text(saying.text) + KEY)
            if number % COUNTED == 0:
                yield
        for number, entry in enumerate(self.lines[len(line_sums) - 1 :], 1):
            size = sum(counter.text(line.text) + 2 for line in entry.lines)
            line_sums.append(line_sums[-1] + size + KEY)
            if number % COUNTED == 0:
                yield
        return typed_sums, line_sums

    def _sized(self, counter: TokenCounter) -> tuple[list[int], list[int]]:
        return complete(self.counting(counter))

    def _take(self, position: int, entry: e.Entry) -> None:
        turns = self.session.turns
        if self._turn < len(turns) and turns[self._turn] == position:
            self._turn += 1
        message = message_of(entry)
        if message is None:
            return
        self._calls.update((call.id, call) for call in message.calls)
        if lines := lines_of(message, self._calls.get, cwd=self.state.home):
            self.lines.append(EntryLines(position, self._turn, lines))
        self.state.take(message, position, entry.id)
        if isinstance(message, Result):
            self._calls.pop(message.call_id, None)
        if isinstance(entry, e.MessageEntry) and (text := typed(message)):
            self.sayings.append(Saying(position, entry.id, text, demands(text)))


def read(session: Session) -> Steps[Reading]:
    """The reading of a session's whole path; costs what is new since the last call."""
    known = Reading.of(session)
    yield from known.follow()
    return known


def reading(session: Session) -> Reading:
    """The same at once."""
    return complete(read(session))
