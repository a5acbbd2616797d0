"""What folds need to know of a session's path, read once per entry (DESIGN 10).

Own words and the state of the work are computed when an entry is first seen and kept beside the session
(`session.derived`); a fold costs what is new. Action lines are made where a view has room for them: the
newest of those that leave it. Nothing here is part of the log: after reopening, the path is read again.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial

from refold import entries as e
from refold.compaction.transcript import message_of
from refold.facts.lines import EntryLines, findings, lines_of
from refold.facts.state import WorkState
from refold.facts.state_text import Catalogue
from refold.facts.words import Saying, demands, typed
from refold.messages import Call, Message, Result
from refold.session.history import History
from refold.shrink.excerpt import Banners

ANSWERS = 64
"""Entries after a call among which its results are looked for."""
SOURCES = 64
"""Ids that are kept of what one row of a record comes from."""
TELLING = 24
"""Characters from which on what was said at the end of a turn is more than "Done."."""
_CACHED_ENTRIES = 4_096
"""Entries whose lines are kept; they are made again where they are wanted again."""


class PathIndex:
    """What the first `length` entries of a path say; grows with it."""

    def __init__(self, session: History) -> None:
        self.session = session
        self._begin()

    def _begin(self) -> None:
        self.epoch, self.length = self.session.epoch, 0
        self.sayings: list[Saying] = []
        """What the user typed, oldest first."""
        self.state = WorkState(self.session.info.cwd or "")
        self._asked = array("l")
        """For each position, where the call stands that its result answers; −1: nowhere."""
        self._calls: dict[str, int] = {}
        """Where calls stand that wait for their results."""
        self._home, self._housed = self.state.home, 0
        """Where relative paths start: at first, and up to which position."""
        self.banners = Banners()
        self._lines: dict[int, EntryLines] = {}
        self._catalogue = Catalogue(self.state)

    def follow(self) -> None:
        """Read what is new on the path."""
        if self.epoch != self.session.epoch:
            self._begin()
        while self.length < len(self.session.path):
            message = message_of(self.session.path[self.length])
            self._take(self.length, self.session.path[self.length], message)
            self.length += 1

    def lines_before(self, position: int) -> Iterator[EntryLines]:
        """The lines of the entries before a position, newest first, each made when it is looked at."""
        return map(self.lines_at, range(min(position, self.length) - 1, -1, -1))

    def turn_ends(self, position: int) -> Iterator[EntryLines]:
        """What was said at the end of each turn before a position, newest first; nothing of a courtesy."""
        starts = self._turn_starts(position)
        for first, start in zip(starts[-2::-1], starts[:0:-1], strict=True):
            told = (x for x in map(self.lines_at, range(start - 1, first - 1, -1)) if x.lines)
            last = next(told, None)  # what programs noted may stand behind it
            said = last.lines[0] if last and len(last.lines) == 1 else None
            if last and said and not said.call and len(said.text) >= TELLING:
                yield EntryLines(last.number, 0, last.lines)  # listed without a heading for each turn

    def findings(self, position: int) -> list[EntryLines]:
        """What was found in the turn that goes on at a position, newest first."""
        path, start = self.session.path, self._turn_starts(position)[-1]
        return findings((at, message_of(path[at])) for at in range(start, position))

    def _turn_starts(self, position: int) -> list[int]:
        return [0, *self.session.turns[: bisect_right(self.session.turns, position)]]

    @property
    def catalogue(self) -> Catalogue:
        """What the state tells. Costs nothing where no call came."""
        if self._catalogue.version != self.state.version:
            self._catalogue = Catalogue(self.state)
        return self._catalogue

    def lines_at(self, position: int) -> EntryLines:
        """The lines of the entry at a position; none where there is nothing to tell."""
        known = self._lines.get(position)
        if known is None:
            if len(self._lines) >= _CACHED_ENTRIES:
                self._lines.clear()
            turn = bisect_right(self.session.turns, position)
            turn = self.session.turns[turn - 1] if turn else 0
            message, home = message_of(self.session.path[position]), self.state.home
            home = home if position > self._housed else self._home
            lines = lines_of(message, partial(self.call_at, position), cwd=home) if message else ()
            known = self._lines[position] = EntryLines(position, turn, lines)
        return known

    def call_at(self, position: int, id: str) -> Call | None:
        """The call that the result at a position answers."""
        at = self._asked[position]
        message = message_of(self.session.path[at]) if at >= 0 else None
        calls = message.calls if message else ()
        return next((call for call in reversed(calls) if call.id == id), None)

    def step_at(self, position: int) -> list[int]:
        """The positions of a call and of its results, asked for by one of them."""
        asked = self._asked[position] if position < self.length else -1
        call = position if asked < 0 else asked
        after = range(call + 1, min(call + 1 + ANSWERS, self.length))
        return [call, *(at for at in after if self._asked[at] == call)]

    def ids(self, numbers: Sequence[int], *, through: bool = False) -> list[str]:
        """The entries of these numbers, with the results of calls among them; `through`: the first and the
        last of a stretch. At most the newest `SOURCES`."""
        steps = numbers if through else sorted({at for number in numbers for at in self.step_at(number)})
        return [self.session.path[at].id for at in steps[-SOURCES:]]

    def _take(self, position: int, entry: e.Entry, message: Message | None) -> None:
        self._asked.append(self._calls.pop(message.call_id, -1) if isinstance(message, Result) else -1)
        if message is None:
            return
        self._calls.update((call.id, position) for call in message.calls)
        if not self.state.home:
            self._housed = position
        self.state.take(message, position, entry.id)
        if isinstance(message, Result):
            self.banners.take(position, message.text)
        if isinstance(entry, e.MessageEntry) and (text := typed(message)):
            self.sayings.append(Saying(position, entry.id, text, demands(text)))


def path_index(session: History) -> PathIndex:
    """The reading of a session's whole path; costs what is new since the last call."""
    known = session.derived.of(PathIndex, lambda: PathIndex(session))
    known.follow()
    return known
