"""Rungs 3 and 4 of the default design: what lies before the graded part is written by a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from refold.compaction import answer, transcript
from refold.compaction.details import Check
from refold.compaction.plan import Ask, Finished, Proposal, Reason
from refold.compaction.prompts import prompt
from refold.compaction.requests import Form, continued
from refold.compaction.requests import choose as choose_form
from refold.compaction.rungs.graded import Graded, Shape, graded, grading
from refold.compaction.situation import Situation
from refold.compaction.transcript import Source, reading_sources, source_of, sources
from refold.compaction.verify import verify
from refold.errors import BadAnswer
from refold.messages import user
from refold.protocols import Request, Steps
from refold.text.frames import defuse

STYLE = transcript.Style(result_limit=2_000)


@dataclass(frozen=True)
class Summary:
    """A structured, iterative summary; checked before it is used. Own words, state, pins and the graded part
    stand beside it, so it is asked only for what code cannot know."""

    shape: Shape
    factor: float = 1.0
    name: str = "summary"

    @property
    def _target(self) -> int:
        return max(min(int(self.shape.summary * self.factor), self.shape.goal // 5), 100)

    def ahead(self, s: Situation, /) -> Steps[object]:
        if s.has_model:
            yield from grading(s, self.shape, written=self._target, factor=self.factor)
            yield from reading_sources(s.session)

    def propose(self, s: Situation, /) -> Proposal | Reason:
        if not s.has_model:
            return Reason("no_model", "no model is configured")
        target = self._target
        view = graded(s, self.shape, written=target, factor=self.factor)
        if isinstance(view, Reason):
            return view
        if view.in_place:
            return Reason("in_place", "everything stays in its place: there is nothing to summarise")
        previous = s.projection.newest_summary
        unread = sources(s.session, s.boundary(previous), view.position)
        if not unread:
            return Reason("nothing_new", "nothing new since the last summary")
        ask = self._ask(s, unread, previous.summary if previous else None, target)
        if self._form(s, target) == "cached-prefix":
            ask = replace(ask, prefix=lambda: self._continued(s, view, target))
        evidence = (*unread, *(source_of(s.session, x) for x in s.items)) if ask.prefix else unread

        def finish(answers: Sequence[str]) -> Steps[Finished]:
            known = "\n".join(filter(None, (ask.previous, s.system if ask.prefix else None)))
            checked = verify(answers[0], evidence, known, action=self.shape.unverified)
            yield
            room = view.goal - view.layout.tokens
            record = yield from view.composer.with_summary(view.layout, checked.text, room)
            if self._size(view, s.counter.message(record.message)) > view.shape.budget:
                raise BadAnswer("too_long", "the summary is longer than the room there is for it")
            report = Check(not checked.unverified, checked.claims, list(checked.unverified))
            return msgspec.structs.replace(view.finished(record), check=report.stored())

        return replace(view.proposal(self.name, finish), asks=(ask,))

    def _size(self, view: Graded, record: int) -> int:
        sizes = view.s.sizes
        return sizes.overhead + sizes.system_messages + record + view.layout.tokens

    def _form(self, s: Situation, target: int) -> Form:
        # A second attempt is made in the other form: a model that went on working instead of summarising
        # would do so again.
        wanted = self.shape.request if self.factor == 1.0 else "stand-alone"
        return choose_form(s, wanted, ttl=self.shape.cache_ttl, redact=self.shape.redact, output=target * 2)

    def _continued(self, s: Situation, view: Graded, target: int) -> Request:
        kept = s.items[view.layout.first].message.text if view.layout.first < len(s.items) else ""
        begins = defuse(" ".join(kept.split())[:120])
        said = f' The messages from the one that begins "{begins}" on stay as they are.' if begins else ""
        text = prompt("refold_continue", kept=said, notes=_notes(target, s.instructions))
        return continued(s, text, max_tokens=target * 2)

    def _ask(self, s: Situation, unread: tuple[Source, ...], previous: str | None, target: int) -> Ask:
        style = replace(STYLE, redacts=self.shape.redact)

        def render(unread: Sequence[Source], previous: str | None) -> Request:
            known = transcript.inert(previous or "", redacts=style.redacts)
            notes = f"\n<previous-notes>\n{known}\n</previous-notes>\n" if known else ""
            text = prompt(
                "refold_summary",
                conversation=transcript.render(unread, style),
                previous=notes,
                notes=_notes(target, s.instructions),
            )
            return Request(
                messages=(user(text),),
                system=prompt("summariser_system"),
                max_tokens=target * 2,
                purpose="summary",
            )

        return Ask(
            sources=unread, render=render, previous=previous, target_tokens=target, accept=answer.plain
        )


def _notes(target: int, focus: str | None) -> str:
    """What the notes have to be like, in either form of asking."""
    asked = f"\nThe user asks to pay special attention to: {focus}" if focus else ""
    return prompt("refold_notes", words=str(int(target * 0.6)), focus=asked)
