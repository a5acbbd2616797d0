"""Rung 5 of the default design where no tools were used: what lies before the newest part as extracted
sentences.

People who talk do not work on one thing: what was said once may be asked for at any time, and the digest
holds more of that per token than messages in their place (M1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from refold import entries as e
from refold.compaction.clips import Form
from refold.compaction.layout import Layout, clip_kept
from refold.compaction.plan import Finished, Proposal, Reason
from refold.compaction.reading import read, reading
from refold.compaction.record import Composer, Record, check_floor
from refold.compaction.rungs.graded import Graded, Shape
from refold.compaction.situation import Situation, legal_cut, may_leave, newest_step
from refold.compaction.transcript import Source as Told
from refold.compaction.transcript import reading_sources, sources
from refold.digest import Source, digest
from refold.protocols import Steps, complete
from refold.session import redacted

TAIL = 0.025
"""Share of the goal that stays in its place."""
WORDS = 8
"""Own words get at most this part of the record: half of all that is said here is the user's."""
SPARE = 8
"""Tokens by which a record may be smaller than its room."""
PIECE = 16
"""Messages that are read between two breaths."""


@dataclass(frozen=True)
class Dialogue:
    """The deterministic end for conversations without tools."""

    shape: Shape
    name: str = "digest"

    def ahead(self, s: Situation, /) -> Steps[None]:
        yield from s.sizes.counting()
        yield from (yield from read(s.session)).counting(s.counter)
        yield from reading_sources(s.session)

    def propose(self, s: Situation, /) -> Proposal | Reason:
        if s.uses_tools:
            return Reason("tools", "where tools were used, lines tell what was done")
        check_floor(s, self.shape.budget)
        view = self._view(s, self.shape.within(s))
        if view.in_place and not view.layout.forms:
            return Reason("everything_fits", "the view fits as it is")

        def finish(_: Sequence[str]) -> Steps[Finished]:
            return view.finished(None if view.in_place else (yield from self._record(view)))

        return view.proposal(self.name, finish)

    def _view(self, s: Situation, shape: Shape) -> Graded:
        goal = shape.goal - s.sizes.overhead - s.sizes.system_messages
        room = shape.room(s)
        composer = Composer(
            s, reading(s.session), replace(room, words=min(room.words, goal // WORDS), state=0)
        )
        if s.sizes.items(s.projection.first, len(s.items)) <= goal:
            cut = s.projection.first
        else:
            cut = s.wanted_cut or legal_cut(s, _newest(s, int(goal * TAIL)), goal // 10)
        tokens, forms = s.sizes.items(cut, len(s.items)), dict[int, Form]()
        record = composer.size(s.projection.position_of(cut), 0.0)
        least = goal - (complete(record) if cut > s.projection.first else 0)
        if tokens > least:
            forms = clip_kept(s, cut, least)
            tokens = sum(forms[i].size if i in forms else s.sizes.item(i) for i in range(cut, len(s.items)))
        if tokens > least and may_leave(s):
            cut, tokens, forms = len(s.items), 0, {}
        layout = Layout(cut, s.projection.position_of(cut), tokens, forms)
        return Graded(s, shape, goal, layout, composer)

    def _record(self, view: Graded) -> Steps[Record]:
        s, room = view.s, view.goal - view.layout.tokens
        told = yield from _read(sources(s.session, s.projection.floor, view.position))
        kept = yield from _read(sources(s.session, view.position, len(s.session.path)))
        left = room - complete(view.composer.size(view.position, 0.0))
        made = digest(told, budget=max(left, 0), counter=s.counter, kept=kept)
        grows = True  # what the own words do not use is found out by making the record, and used once
        while True:
            yield from made.composing()
            record = yield from view.composer.with_summary(view.layout, made.render(), room)
            over = s.counter.message(record.message) - room
            grows = grows and over < -SPARE
            if (over <= 0 and not grows) or left <= 0:
                return record
            left -= over + SPARE
            made, grows = made.within(max(left, 0)), False


def _newest(s: Situation, tokens: int) -> int:
    """Index of the first of the newest items that have at most so many tokens together."""
    index, last = len(s.items), newest_step(s)
    while index > s.projection.first:
        tokens -= s.sizes.item(index - 1)
        if tokens < 0 and index <= last:
            break
        index -= 1
    return index


def _read(told: Sequence[Told]) -> Steps[list[Source]]:
    read: list[Source] = []
    for source in told:
        read.append(_source(source))
        if len(read) % PIECE == 0:
            yield
    return read


def _source(told: Told) -> Source:
    return Source(
        message=redacted.message(told.message),
        id=told.id,
        key=e.key(told.id),
        turn=told.turn,
        time=told.time or None,
    )
