"""The rungs that fold the head of a conversation: by a model's summary, or by the embedded digest."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from refold import entries as e
from refold.compaction import answer, carried, transcript
from refold.compaction.carried import FRAME, check_floor, floor
from refold.compaction.details import Check, RefoldDetails
from refold.compaction.plan import Ask, Finished, Proposal, Reason
from refold.compaction.prompts import prompt
from refold.compaction.record import Budgets, Composer, Record
from refold.compaction.reduce import Reduction, mask_results, old_results, shrink_results, squeeze
from refold.compaction.requests import Form, Wanted, continued
from refold.compaction.requests import choose as choose_form
from refold.compaction.situation import Situation
from refold.compaction.sizes import ROUGH
from refold.compaction.transcript import Source, source_of, sources
from refold.compaction.verify import Verified, verify
from refold.errors import BadAnswer
from refold.messages import user
from refold.protocols import Request
from refold.session.invariants import PAIRS, legal
from refold.shrink import Limits
from refold.text.frames import defuse
from refold.text.redact import redact

STYLE = transcript.Style(result_limit=2_000)
DIALOGUE = 0.1
"""Share of the usual tail that a conversation without tools keeps: there the digest holds more per token. It
also gets the room of the abridged turns, which repeat what such a conversation says anyway, and half of that
of the constraints: among people that talk, most that sounds like one is none."""


@dataclass(frozen=True)
class Shape:
    """How large the parts of a folded view may be, in exact tokens."""

    budget: int
    """The view never passes this."""
    goal: int
    """What a fold aims at."""
    tail: int
    """Newest part that stays verbatim."""
    summary: int = 4_000
    turn_slack: float = 0.2
    """How much the tail may grow to begin at the start of a turn."""
    shrink_turns: int = 3
    protect: int = 20_000
    min_gain: float = 0.1
    limits: Limits = Limits()
    budgets: Budgets = Budgets()
    unverified: str = "mark"
    redact: bool = True
    request: Wanted = "auto"
    """How a summary is asked for."""
    cache_ttl: float = 300.0
    """Seconds that a provider keeps what it was sent."""

    def within(self, s: Situation) -> Shape:
        """The same in what the provider counts, where that is known to be more than we do; not where nothing
        could fit then: that is for the provider to say."""
        goal, budget = s.sizes.room(self.goal), s.sizes.room(self.budget)
        if goal == self.goal or sum(floor(s).values()) + FRAME > goal:
            return self
        share = goal / self.goal
        tail, protect = int(self.tail * share), int(self.protect * share)
        return replace(self, goal=goal, budget=budget, tail=tail, protect=protect)


@dataclass(frozen=True)
class Head:
    """What goes (everything before item `cut`) and what the rest becomes."""

    cut: int
    position: int
    reduction: Reduction

    @property
    def tail_size(self) -> int:
        return self.reduction.total(self.cut)


@dataclass(frozen=True)
class Reduce:
    """Rungs 1 and 2: shrink old tool results by rule; where that is not enough, mask them."""

    shape: Shape
    name: str = "shrink"

    def propose(self, s: Situation, /) -> Proposal | Reason:
        check_floor(s, self.shape.budget)
        return replace(self, shape=self.shape.within(s))._propose(s)

    def _propose(self, s: Situation) -> Proposal | Reason:
        old = old_results(s, self.shape.shrink_turns)
        if not old:
            return Reason("no_old_results", "there are no old tool results to shrink")
        if not self._worth_trying(s, old):
            return Reason("not_enough", "shrinking old tool results would not free enough")
        reduction = Reduction(s)
        shrink_results(reduction, old, self.shape.limits)
        name = "shrink"
        if s.sizes.overhead + reduction.total() > self.shape.goal:
            masked = Reduction(s, dict(reduction.changed))
            mask_results(masked, old, self.shape.protect)
            if reduction.total() - masked.total() >= self.shape.min_gain * s.sizes.tokens:
                reduction, name = masked, "mask"
        after = s.sizes.overhead + reduction.total()
        if after > self.shape.goal or after > (1 - self.shape.min_gain) * s.sizes.tokens:
            return Reason("not_enough", "shrinking and masking old tool results would not free enough")
        edits = tuple(reduction.edits())
        return Proposal(
            rung=name,
            finish=lambda _: Finished(
                edits=edits,
                files=carried.reading(s.session).trail.files(),
                details=RefoldDetails(calibration=s.sizes.calibration_note).stored(),
            ),
            masked=tuple(dict.fromkeys((*reduction.ids("shrink"), *reduction.ids("mask")))),
            stretch=(edits[0].first, edits[-1].last),
            files=lambda: carried.reading(s.session).trail.files(),
            tokens_after=after,
        )

    def _worth_trying(self, s: Situation, old: Sequence[int]) -> bool:
        """A cheap bound: even with all of these gone, could the goal be reached?"""
        sums = s.projection.sums(ROUGH)
        freed = sum(sums[i + 1] - sums[i] for i in old)
        return (s.sizes.rough - freed) * 0.8 <= self.shape.goal


def choose(s: Situation, shape: Shape, tail: int) -> Head | Reason:
    """The cut: newest items up to `tail` tokens, at a legal place, at the start of a turn where that costs
    little. A tail that is still too large is squeezed, the oldest of it first."""
    reduction = Reduction(s)
    slack = int(tail * shape.turn_slack)
    cut = s.wanted_cut or _to_turn_start(s, _legal_cut(s, _walk_back(s, tail), slack), slack)
    first, at = s.projection.first, s.projection.item_at
    if s.sizes.fits(first, cut, FRAME):
        cut = first  # its record would be larger than the head itself
    request = carried.current_request(s.session)
    keep = {at(request[0])} if request else set[int]()
    keep |= {at(p) for id in s.session.pins if (p := s.session.position(id)) is not None}
    room = shape.goal - s.sizes.overhead - FRAME - _front(s, cut)
    if reduction.total(cut) > room:
        mask_results(reduction, [i for i in old_results(s, 0) if i >= cut], room // 2)
        squeeze(reduction, cut, room, frozenset(keep))
    if cut <= first and not reduction.changed:
        return Reason("everything_fits", "everything fits into the part that stays verbatim")
    return Head(cut, s.projection.position_of(cut), reduction)


def _front(s: Situation, cut: int) -> int:
    """Tokens the record needs at least: pins, and the current request if it is folded."""
    parts = floor(s)
    request = carried.current_request(s.session)
    folded = request is not None and s.projection.item_at(request[0]) < cut
    return parts.get("pins", 0) + (parts.get("newest user message", 0) if folded else 0)


def _walk_back(s: Situation, tail: int) -> int:
    total, index, first = 0, len(s.items), s.projection.first
    while index > first:
        total += s.sizes.item(index - 1)
        if total > tail:
            break
        index -= 1
    return index


def _legal_cut(s: Situation, index: int, slack: int) -> int:
    """A cut near `index` that keeps something. First choice is one that keeps thinking with its tool loop;
    where that would keep far too much, pairs and batches alone decide (the loop's thinking is dropped)."""
    items, first = s.items, s.projection.first
    later, earlier = range(index, len(items)), range(min(index, len(items)) - 1, first, -1)
    after = next((at for at in later if legal(items, at)), None)
    if after is not None:
        return after
    before = next((at for at in earlier if legal(items, at)), None)
    if before is not None and s.sizes.items(before, earlier.start + 1) <= slack:
        return before
    whole = next((at for at in (*later, *earlier) if legal(items, at, PAIRS)), None)
    return first if whole is None else whole


def _to_turn_start(s: Situation, cut: int, slack: int) -> int:
    turns, first = s.session.turns, s.projection.first
    before = bisect_right(turns, s.projection.position_of(cut))
    start = s.projection.item_at(turns[before - 1]) if before else first
    if not first < start < cut:
        return cut
    return start if s.sizes.fits(start, cut, slack) and legal(s.items, start) else cut


@dataclass(frozen=True)
class DigestHead:
    """Rung 5: the deterministic end of every ladder."""

    shape: Shape
    name: str = "digest"

    def propose(self, s: Situation, /) -> Proposal | Reason:
        check_floor(s, self.shape.budget)
        return replace(self, shape=self.shape.within(s))._propose(s)

    def _propose(self, s: Situation) -> Proposal | Reason:
        tail = self.shape.tail if s.uses_tools else int(self.shape.tail * DIALOGUE)
        head = choose(s, self.shape, tail)
        if isinstance(head, Reason):
            return head

        def finish(_: Sequence[str]) -> Finished:
            return finished(s, head, self._composer(s, head).with_digest(), {})

        return replace(proposal(s, self.shape, head, self.name, finish), author="digest")

    def _composer(self, s: Situation, head: Head) -> Composer:
        room, budgets = record_room(s, self.shape, head), self.shape.budgets
        if not s.uses_tools:
            budgets = replace(budgets, history=0, constraints=min(budgets.constraints, max(room, 0) // 8))
        return Composer(s, head.position, room, budgets)


@dataclass(frozen=True)
class SummariseHead:
    """Rungs 3 and 4: a model's structured, iterative summary; checked before it is used."""

    shape: Shape
    factor: float = 1.0
    name: str = "summary"

    def propose(self, s: Situation, /) -> Proposal | Reason:
        check_floor(s, self.shape.budget)
        return replace(self, shape=self.shape.within(s))._propose(s)

    def _propose(self, s: Situation) -> Proposal | Reason:
        if not s.has_model:
            return Reason("no_model", "no model is configured")
        head = choose(s, self.shape, int(self.shape.tail * self.factor))
        if isinstance(head, Reason):
            return head
        previous = s.projection.newest_summary
        unread = sources(s.session, s.boundary(previous), head.position)
        if not unread:
            return Reason("nothing_new", "nothing new since the last summary")
        room = record_room(s, self.shape, head)
        target = min(int(self.shape.summary * self.factor), max(room // 2, 200))
        ask = self._ask(s, unread, previous.summary if previous else None, target)
        if self._form(s, target) == "cached-prefix":
            ask = replace(ask, prefix=lambda: self._continued(s, head, target))
        evidence = (*unread, *(source_of(s.session, x) for x in s.items)) if ask.prefix else unread

        def finish(answers: Sequence[str]) -> Finished:
            known = "\n".join(filter(None, (ask.previous, s.system if ask.prefix else None)))
            checked = verify(answers[0], evidence, known, action=self.shape.unverified)
            record = Composer(s, head.position, room, self.shape.budgets).with_summary(checked.text)
            if s.counter.message(record.message) > room:
                raise BadAnswer("too_long", "the summary is longer than the room there is for it")
            return finished(s, head, record, report(checked))

        return replace(proposal(s, self.shape, head, self.name, finish), asks=(ask,))

    def _form(self, s: Situation, target: int) -> Form:
        # A second attempt is made in the other form: a model that went on working instead of summarising
        # would do so again.
        wanted = self.shape.request if self.factor == 1.0 else "stand-alone"
        ttl, redact = self.shape.cache_ttl, self.shape.redact
        return choose_form(s, wanted, ttl=ttl, redact=redact, output=target * 2)

    def _continued(self, s: Situation, head: Head, target: int) -> Request:
        kept = s.items[head.cut].message.text if head.cut < len(s.items) else ""
        begins = defuse(" ".join(kept.split())[:120])
        said = f' The messages from the one that begins "{begins}" on stay as they are.' if begins else ""
        text = prompt("refold_continue", kept=said, notes=_notes(target, s.instructions))
        return continued(s, text, max_tokens=target * 2)

    def _ask(self, s: Situation, sources: tuple[Source, ...], previous: str | None, target: int) -> Ask:
        def render(sources: Sequence[Source], previous: str | None) -> Request:
            text = prompt(
                "refold_summary",
                conversation=self._clean(transcript.render(sources, STYLE)),
                previous=f"\n<previous-notes>\n{transcript.inert(previous)}\n</previous-notes>\n"
                if previous
                else "",
                notes=_notes(target, s.instructions),
            )
            return Request(
                messages=(user(text),),
                system=prompt("summariser_system"),
                max_tokens=target * 2,
                purpose="summary",
            )

        return Ask(
            sources=sources, render=render, previous=previous, target_tokens=target, accept=answer.plain
        )

    def _clean(self, text: str) -> str:
        return redact(text)[0] if self.shape.redact else text


def _notes(target: int, focus: str | None) -> str:
    """What the notes have to be like, in either form of asking."""
    asked = f"\nThe user asks to pay special attention to: {focus}" if focus else ""
    return prompt("refold_notes", words=str(int(target * 0.6)), focus=asked)


def record_room(s: Situation, shape: Shape, head: Head) -> int:
    return shape.goal - s.sizes.overhead - head.tail_size - s.sizes.system_messages


def finished(s: Situation, head: Head, record: Record, check: dict[str, Any]) -> Finished:
    path, first = s.session.path, s.projection.first
    edits = list(head.reduction.edits(head.cut))
    if head.cut > first:
        edits.insert(0, e.Edit(path[s.projection.floor].id, path[head.position - 1].id, (record.message,)))
    left_out = [[c.entry_id, c.text] for c in record.fell_out]
    return Finished(
        edits=(*edits, *s.hidden_edits(after=head.position)),
        summary=record.summary if head.cut > first else "",
        files=carried.reading(s.session).trail.files(),
        check=check,
        details=RefoldDetails(calibration=s.sizes.calibration_note, constraints_left_out=left_out).stored(),
    )


def report(checked: Verified) -> dict[str, Any]:
    return Check(not checked.unverified, checked.claims, list(checked.unverified)).stored()


def proposal(
    s: Situation, shape: Shape, head: Head, name: str, finish: Callable[[Sequence[str]], Finished]
) -> Proposal:
    path, previous = s.session.path, s.projection.newest_summary
    last = path[head.position - 1].id if head.position else path[0].id
    turn = _split_turn(s, head.position)
    whole = head.position if turn is None else turn
    return Proposal(
        rung=name,
        finish=finish,
        stretch=(path[s.projection.floor].id, last),
        fold=tuple(x.id for x in sources(s.session, s.boundary(previous), whole)),
        turn_prefix=() if turn is None else tuple(x.id for x in sources(s.session, turn, head.position)),
        masked=head.reduction.ids("mask", head.cut),
        first_kept=path[head.position].id if head.position < len(path) else None,
        split=turn is not None,
        previous=previous.summary if previous else None,
        files=lambda: carried.reading(s.session).trail.files(),
        tokens_after=shape.goal,
        min_gain=shape.min_gain,
    )


def _split_turn(s: Situation, position: int) -> int | None:
    """Start of the turn that a cut goes through; None where it goes through none."""
    turns = s.session.turns
    before = bisect_left(turns, position)
    if not before or position in turns[before : before + 1] or position >= len(s.session.path):
        return None
    return turns[before - 1]
