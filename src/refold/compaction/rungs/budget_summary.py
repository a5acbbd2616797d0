"""Summarise everything before a token-budgeted cut, iteratively; a turn that is cut through gets a
summary of its beginning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from refold import entries as e
from refold.compaction import answer, transcript
from refold.compaction.cuts.budget import Cut, cut_at, cut_by_budget, size_of
from refold.compaction.plan import Ask, Finished, Proposal, Reason, Source
from refold.compaction.prompts import prompt
from refold.compaction.situation import Situation
from refold.compaction.summary_text import file_lists, framed_summary
from refold.messages import Message, User, content, user
from refold.protocols import Request

FilesOf: TypeAlias = Callable[[Sequence[Message], e.Files], e.Files]
"""Files touched by messages, added to those carried from the previous fold."""

STYLE = transcript.Style()
SPLIT_HEADING = "\n\n---\n\n**Beginning of the current turn (its later part follows verbatim):**\n\n"


@dataclass(frozen=True)
class BudgetSummary:
    keep_tokens: int
    reserve_tokens: int
    files_of: FilesOf
    name: str = "summary"

    def propose(self, s: Situation, /) -> Proposal | Reason:
        path = s.session.path
        if path and isinstance(path[-1], e.Fold):
            return Reason("just_folded", "nothing was said since the last fold")
        previous = s.newest_summary
        start = s.boundary(previous)

        def size(entry: e.Entry) -> int:
            # The summary that the new one will replace takes no room.
            return 0 if entry is previous else size_of(entry, s.measure)

        wanted = s.wanted_cut
        if wanted is None:
            cut = cut_by_budget(path, start=start, keep=self.keep_tokens, size=size)
        else:
            cut = cut_at(path, start, s.position_of(wanted))
        history = s.sources(start, cut.turn_start if cut.split else cut.position)
        prefix = s.sources(cut.turn_start, cut.position) if cut.split else ()
        if not history and not prefix:
            return Reason("everything_fits", f"everything fits into the {self.keep_tokens} tokens to keep")
        return self._proposal(s, cut, previous, history, prefix)

    def _proposal(
        self,
        s: Situation,
        cut: Cut,
        previous: e.Fold | None,
        history: tuple[Source, ...],
        prefix: tuple[Source, ...],
    ) -> Proposal:
        path, carried = s.session.path, previous.summary if previous else None
        files = self.files_of(
            [x.message for x in (*history, *prefix)], previous.files if previous else e.Files()
        )
        asks = self._asks(history, prefix, carried, s.instructions)
        first, last = path[s.floor].id, path[cut.position - 1].id
        hidden = s.hidden_edits(after=cut.position)

        def finish(answers: Sequence[str]) -> Finished:
            earlier = answers[0] if history else carried or "(nothing before this turn)"
            text = earlier + (SPLIT_HEADING + answers[-1] if prefix else "")
            edit = e.Edit(first, last, (User(content(framed_summary(text, files))),))
            return Finished(edits=(edit, *hidden), summary=text, files=files)

        limit = int(0.8 * self.reserve_tokens) + (int(0.5 * self.reserve_tokens) if prefix else 0)
        return Proposal(
            rung=self.name,
            finish=finish,
            asks=asks,
            stretch=(first, last),
            fold=tuple(x.id for x in history),
            turn_prefix=tuple(x.id for x in prefix),
            first_kept=path[cut.position].id if cut.position < len(path) else None,
            split=cut.split,
            previous=carried,
            files=files,
            smaller=False,
            tokens_after=s.overhead + s.tokens_of(cut.position) + limit + s.counter.text(file_lists(files)),
        )

    def _asks(
        self,
        history: tuple[Source, ...],
        prefix: tuple[Source, ...],
        previous: str | None,
        focus: str | None,
    ) -> tuple[Ask, ...]:
        asks: list[Ask] = []
        if history:
            asks.append(self._ask("summary", history, previous, focus, int(0.8 * self.reserve_tokens)))
        if prefix:
            asks.append(self._ask("turn_prefix", prefix, None, focus, int(0.5 * self.reserve_tokens)))
        return tuple(asks)

    def _ask(
        self, purpose: str, sources: tuple[Source, ...], previous: str | None, focus: str | None, limit: int
    ) -> Ask:
        def render(sources: Sequence[Source], previous: str | None) -> Request:
            name = "pi_turn_prefix" if purpose == "turn_prefix" else "pi_update" if previous else "pi_summary"
            text = prompt(
                name,
                conversation=transcript.render(sources, STYLE),
                previous=transcript.inert(previous or ""),
                focus=f"\nPay special attention to: {focus}" if focus else "",
            )
            return Request(
                messages=(user(text),),
                system=prompt("summariser_system"),
                max_tokens=limit,
                purpose=purpose,
            )

        return Ask(
            sources=sources,
            render=render,
            previous=previous,
            purpose=purpose,
            target_tokens=limit,
            accept=answer.plain,
        )
