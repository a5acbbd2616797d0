"""The strategies of the default design: grade the view (R19); what lies before the graded part is written by
a model, or stands as lines. They differ only in how that stretch is written."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import msgspec

from refold import entries as e
from refold.compaction import transcript
from refold.compaction.clips import Clips
from refold.compaction.details import RefoldDetails, VerificationReport
from refold.compaction.grade import Curve, Layout, lay_out
from refold.compaction.plan import Ask, Finished, Proposal, Reason
from refold.compaction.plan_context import PlanContext, newest_step
from refold.compaction.record import Composer, FoldBudget, Record
from refold.compaction.requests import choose_form, continued, prompt, stand_alone
from refold.compaction.transcript import SummarySource, for_digest, message_of, source_of, sources
from refold.errors import BadAnswer
from refold.protocols import Request
from refold.text.frames import defuse
from refold.text.truncate import in_short

NOTED = 300
"""Files that a fold lists, and entries whose words it says are not all there: the newest. Lists of all that
there ever were would make the log grow with the square of its length."""


@dataclass(frozen=True)
class Graded:
    """What a strategy has decided: the layout, and who composes the record before it."""

    s: PlanContext
    shape: FoldBudget
    goal: int
    """Tokens for items and record."""
    layout: Layout
    composer: Composer

    @property
    def in_place(self) -> bool:
        """Nothing leaves its place."""
        return self.layout.first <= self.s.projection.first

    def finished(self, record: Record | None) -> Finished:
        s, path, left_out = self.s, self.s.session.path, record.left_out if record else ()
        if len(left_out) > NOTED:
            left_out = sorted(left_out, key=lambda entry: s.session.position(entry) or 0)
        edits = list(self.layout.edits(s.items))
        if record is not None:
            stretch = path[s.projection.floor].id, path[self.layout.position - 1].id
            edits.insert(0, e.Edit(*stretch, (record.message,)))
        return Finished(
            framed=True,
            edits=(*edits, *s.hidden_edits(after=self.layout.position)),
            first_kept=s.id_at(self.layout.position),
            summary=record.summary if record else "",
            files=self.composer.index.state.files(NOTED),
            details=RefoldDetails(
                calibration=s.sizes.calibration_note,
                words_left_out=list(left_out[-NOTED:]),
                words_left_out_before=max(len(left_out) - NOTED, 0),
                sources=record.sources if record else None,
            ).stored(),
        )

    def recorded(self, _: Sequence[str], summary: str = "") -> Finished:
        """With a record made by code, around a summary that was written before."""
        room = self.goal - self.layout.tokens
        record = None if self.in_place else self.composer.record(self.layout, room, summary)
        return self.finished(record)

    def proposal(self, name: str, finish: Callable[[Sequence[str]], Finished]) -> Proposal:
        s, path, position = self.s, self.s.session.path, self.layout.position
        previous, floor_id = s.projection.newest_summary, path[s.projection.floor].id
        turn = _split_turn(s, position)
        whole = position if turn is None else turn
        first = s.boundary(previous)
        left = (s.session[id] for index in sorted(self.layout.left) for id in s.items[index].entries)
        return Proposal(
            strategy=name,
            finish=finish,
            stretch=(floor_id, floor_id if self.in_place else path[position - 1].id),
            fold=() if self.in_place else _told((*path[first:whole], *left)),
            turn_prefix=() if turn is None else _told(path[turn:position]),
            clipped=tuple(s.items[index].entries[0] for index in sorted(self.layout.forms)),
            words_left_out=() if self.in_place else self.composer.own_words(position).incomplete,
            first_kept=s.id_at(position),
            split=turn is not None,
            previous_summary=previous.summary if previous else None,
            files=self.composer.index.state.files(NOTED),
            tokens_after=self.composer.room.goal if s.wanted_cut is None else s.sizes.tokens,
            min_gain=self.shape.min_gain,
        )


def grading(
    s: PlanContext, shape: FoldBudget, *, notes: int | None = None, digest: bool = False
) -> Graded | Reason:
    """The view graded to the goal, once for all strategies that ask. `notes`: tokens of a summary that takes
    the room of lines; `digest`: extracted sentences do."""
    key = (grading, shape, notes, digest)
    if key not in s.memo:
        s.memo[key] = _grade(s, shape, notes, digest=digest)
    return s.memo[key]


def _grade(s: PlanContext, shape: FoldBudget, notes: int | None, *, digest: bool) -> Graded | Reason:
    room = shape.room(s)
    goal, limit = room.goal - s.sizes.fixed, room.budget - s.sizes.fixed
    if s.wanted_cut is None and s.sizes.fits(s.projection.first, len(s.items), goal):
        return EVERYTHING_FITS
    restored = s.restored
    clips, curve = Clips(restored), WHOLE if digest else Curve()
    while True:
        composer = Composer(restored, room)
        size = partial(_with_digest, composer, goal) if digest else partial(composer.size, notes=notes)
        layout = lay_out(restored, clips, goal, limit, curve, size)
        least = composer.size(layout.position, 0.0, notes)
        if layout.tokens + least <= limit or not room.words + room.state:
            break
        room = replace(room, words=room.words // 2, state=room.state // 2)  # the newest step fills the view
    if layout.first <= restored.projection.first and not layout.forms:
        return EVERYTHING_FITS
    return Graded(restored, shape, goal, layout, composer)


EVERYTHING_FITS = Reason("everything_fits", "the conversation already fits")
NOT_ENOUGH = Reason("not_enough", "clipping messages in their place would not free enough")


def _told(entries: Iterable[e.Entry]) -> tuple[str, ...]:
    """Those of the entries that say something."""
    return tuple(x.id for x in entries if isinstance(x, e.MessageEntry) or message_of(x) is not None)


def _split_turn(s: PlanContext, position: int) -> int | None:
    """Start of the turn that a cut goes through; None where it goes through none."""
    turns = s.session.turns
    before = bisect_left(turns, position)
    if not before or position in turns[before : before + 1] or position >= len(s.session.path):
        return None
    return turns[before - 1]


@dataclass(frozen=True)
class Clip:
    """Old and large messages clipped in their place. No model is asked, nothing leaves."""

    shape: FoldBudget
    name: str = "clip"

    def propose(self, s: PlanContext, /) -> Proposal | Reason:
        if not s.uses_tools:
            goal = self.shape.room(s).goal - s.sizes.fixed
            if not s.sizes.fits(s.projection.first, len(s.items), LONG * goal):
                return Reason("dialogue", "the conversation has no tool results to clip")
        view = grading(s, self.shape)
        if isinstance(view, Reason):
            return view
        if not view.in_place:
            return NOT_ENOUGH
        return view.proposal(self.name, view.recorded)


@dataclass(frozen=True)
class LinesStrategy:
    """What lies before the graded part as lines; without tools, as a dialogue. Needs no model, so it ends
    every sequence of strategies."""

    shape: FoldBudget
    name: str = "lines"

    def propose(self, s: PlanContext, /) -> Proposal | Reason:
        if not s.uses_tools:
            return dialogue(s, self.shape)
        view = grading(s, self.shape)
        return view if isinstance(view, Reason) else view.proposal(self.name, view.recorded)


STYLE = transcript.Style(result_limit=2_000, ends=True)
KEPT = transcript.Style(text_limit=1_200, result_limit=600, total_limit=24_000, ends=True)
"""Of the messages that stay: enough to know where the work stands."""
NOTES_PART = 8
"""Notes are asked for in an eighth of the goal, about what lines have: notes of 800 tokens tell 4 points
more than none at 8,000 tokens, notes of 2,600 tokens nothing more (M9). Longer ones are used, too."""
TOO_LONG = 2
"""Notes so many times longer than asked for cost a view more than they tell, and are refused."""
UNSHOWN = 300
"""Characters of a message of the user that there is no room for, where the writer of notes is told of it."""


@dataclass(frozen=True)
class Summary:
    """A structured, iterative summary; checked before it is used. Own words, state, pins and the graded part
    stand beside it, so it is asked only for what code cannot know."""

    shape: FoldBudget
    factor: float = 1.0
    """Of the usual length of the notes."""
    name: str = "summary"

    def propose(self, s: PlanContext, /) -> Proposal | Reason:
        if not s.has_model:
            return Reason("no_model", "no model is configured")
        target = min(self._most, max(int(self.shape.goal * self.factor) // NOTES_PART, 100))
        view = grading(s, self.shape)
        if isinstance(view, Reason):
            return view
        if view.in_place:
            return Reason("in_place", "nothing to summarise: everything stays in place")
        previous = s.projection.newest_summary
        unread = sources(s.session, s.boundary(previous), view.layout.position)
        if not unread:
            if previous is None or not view.layout.left:
                return Reason("nothing_new", "nothing new since the last summary")
            # Only steps from between the messages leave: what was written before them still holds.
            return view.proposal(self.name, partial(view.recorded, summary=previous.summary))
        ask = self._ask(view, unread, previous.summary if previous else None, target)
        # A second attempt is made in the other form: a model that went on working instead of summarising
        # would do so again.
        shape, wanted = self.shape, self.shape.request if self.factor == 1.0 else "stand-alone"
        form = choose_form(s, wanted, ttl=shape.cache_ttl, redact=shape.redact, output=self._most * 2)
        if form == "cached-prefix":
            ask = replace(ask, prefix=lambda: self._continued(s, view, target))
        seen = [source_of(s.session, x) for x in (s.items if ask.prefix else s.items[view.layout.first :])]
        evidence = (*unread, *seen)

        def finish(answers: Sequence[str]) -> Finished:
            known = "\n".join(filter(None, (ask.previous, s.system if ask.prefix else None)))
            from refold.compaction.verify import verify

            checked = verify(answers[0], evidence, known, action=shape.unverified)
            if checked.foreign:
                unknown = f"{checked.wrong} of {checked.claims} names, numbers and quotations"
                raise BadAnswer(
                    "unsupported", f"the summary does not match the conversation: {unknown} are unknown"
                )
            laid = self._around(checked.text, s, view, most=TOO_LONG * target)
            record = laid.composer.record(laid.layout, laid.goal - laid.layout.tokens, checked.text)
            if s.sizes.fixed + laid.layout.tokens + record.tokens > laid.composer.room.budget:
                raise BadAnswer("too_long", "the summary is longer than the space for it")
            report = VerificationReport(not checked.unverified, checked.claims, list(checked.unverified))
            return msgspec.structs.replace(laid.finished(record), check=report.stored())

        return replace(view.proposal(self.name, finish), asks=(ask,))

    @property
    def _most(self) -> int:
        """Tokens of notes that are still worth their room."""
        return max(min(int(self.shape.summary * self.factor), self.shape.goal // 3), 100)

    def _around(self, notes: str, s: PlanContext, view: Graded, *, most: int) -> Graded:
        """The view as it would be without notes where lines leave them the room: nothing is lost for them.
        Otherwise graded anew around the notes."""
        written = s.counter.text(notes)
        if written > most:
            raise BadAnswer("too_long", f"the summary has {written:,} tokens; the limit was {most:,}")
        if written <= view.composer.room_for_notes(view.layout, view.goal - view.layout.tokens):
            return view
        laid = grading(s, self.shape, notes=written)
        return laid if isinstance(laid, Graded) and not laid.in_place else view

    def _continued(self, s: PlanContext, view: Graded, target: int) -> Request:
        kept = s.items[view.layout.first].message.text if view.layout.first < len(s.items) else ""
        begins = defuse(" ".join(kept.split())[:120])
        said = f' The messages from the one that begins "{begins}" on stay as they are.' if begins else ""
        text = prompt("refold_continue", kept=said, notes=_notes(view, target))
        return continued(s, text, max_tokens=self._most * 2)

    def _ask(self, view: Graded, unread: tuple[SummarySource, ...], previous: str | None, target: int) -> Ask:
        s, style = view.s, replace(STYLE, redacts=self.shape.redact)
        newer = replace(KEPT, redacts=self.shape.redact, total_limit=_beside(s))

        @cache  # a history that is read in parts is rendered once a message
        def beside() -> dict[str, str]:
            kept = sources(s.session, view.layout.position, len(s.session.path))
            return {"kept": transcript.render(kept, newer) or "(nothing)", "notes": _notes(view, target)}

        def render(unread: Sequence[SummarySource], previous: str | None) -> Request:
            known = transcript.inert(previous or "", redacts=style.redacts)
            text = prompt(
                "refold_summary",
                conversation=transcript.render(unread, style),
                previous=f"\n<previous-notes>\n{known}\n</previous-notes>\n" if known else "",
                **beside(),
            )
            return stand_alone(text, max_tokens=self._most * 2, system="refold_system")

        return Ask(sources=unread, render=render, previous=previous, target_tokens=target)


def _notes(view: Graded, target: int) -> str:
    """What the notes have to be like, in either form of asking."""
    s = view.s
    asked = f"\nThe user asks to pay special attention to: {s.instructions}" if s.instructions else ""
    left_out, shown = view.composer.own_words(view.layout.position).incomplete, _beside(s) // UNSHOWN // 4
    if left_out and shown:
        texts = {saying.id: saying.text for saying in view.composer.index.sayings}
        said = (transcript.inert(in_short(texts[id], UNSHOWN)) for id in left_out[-shown:])
        rows = ("These words of the user will not be shown in full. Note what still holds of them:", *said)
        asked += "\n" + "\n- ".join(rows)
    return prompt("refold_notes", words=str(int(target * 0.6)), focus=asked)


def _beside(s: PlanContext) -> int:
    """Characters of what the writer of notes reads beside the conversation: an eighth of a small window."""
    window = s.writer.window if s.writer else None
    return KEPT.total_limit if window is None else min(KEPT.total_limit, window // 2)


# ── where no tools were used ────────────────────────────────────────────────────────────────────

TAIL = 0.25
"""Share of the goal for the newest messages, whole: at least."""
DENSE = 0.35
"""Tokens of extracted sentences for a token of what was said: so much room is left for them where the
conversation is not too long for that. M1 at 8,000 tokens: 74.0, 74.7 and 74.6 with 0.25, 0.35 and 0.45."""
DENSE_FACTS = "## Facts (small words left out)"
LONG = 2
"""A conversation without tools of at most so many times the goal is clipped in place, if that is enough."""
WHOLE = Curve(said=8.0, result=0.0)
"""Messages of people who talk stay whole, or leave."""


def dialogue(s: PlanContext, shape: FoldBudget) -> Proposal | Reason:
    """For long conversations without tools: the newest messages whole, what lies before them as
    extracted sentences. People who talk do not work on one thing: what was said once may be asked for at any
    time, and the digest holds more of that per token than messages in their place (M1)."""
    view = grading(s, shape, digest=True)
    if isinstance(view, Reason):
        return view
    return view.proposal("digest", lambda _: view.finished(None if view.in_place else digested(view)))


def _with_digest(composer: Composer, goal: int, position: int, scale: float) -> int:
    """What a layout leaves for a record with extracted sentences."""
    s, least = composer.s, composer.size(position, scale)
    told = s.projection.size(s.counter, s.projection.first, s.projection.item_at(position))
    newest = s.sizes.items(newest_step(s), len(s.items))
    return max(min(least + int(DENSE * told), int((1 - TAIL) * goal), goal - newest), least)


def digested(view: Graded) -> Record:
    """The record of a conversation without tools: extracted sentences instead of lines."""
    from refold.digest import Digest

    s, room = view.s, view.goal - view.layout.tokens
    said = for_digest(sources(s.session, s.projection.floor, view.layout.position))
    told = [msgspec.structs.replace(x, key=f"#{s.session.position(x.id)}") for x in said]
    kept = for_digest(sources(s.session, view.layout.position, len(s.session.path)))
    left, made = view.composer.room_for_notes(view.layout, room), Digest(told, kept=kept)
    while True:
        text = made.text(left, s.counter).replace("## Facts", DENSE_FACTS, 1)
        record = view.composer.record(view.layout, room, text)
        if record.tokens <= room or left <= 0:
            return record
        left -= record.tokens - room
