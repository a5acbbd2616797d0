"""Rounds that leave the verbatim part become lines; the lines are a prefix that only grows at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refold import entries as e
from refold.compaction import carried, transcript
from refold.compaction.cuts.zones import Zone
from refold.compaction.lines import Line, accept_line, known_lines, line_for, merge, rule_line
from refold.compaction.plan import Ask, Finished, Proposal, Reason, Source
from refold.compaction.prompts import prompt
from refold.compaction.rounds import Round, finished, left_alone, round_at, touches, verbatim
from refold.compaction.situation import Situation
from refold.messages import Message, user
from refold.protocols import Request
from refold.text.frames import defuse

HEADER = "=== ACCUMULATED MEMORY SUMMARIES ==="
WORKSPACE = "=== CURRENT WORKSPACE CONTEXT ==="
STYLE = transcript.Style(thinking="", text_limit=2_000, result_limit=500, total_limit=20_000)
BACKLOG = 8
"""A conversation that was never followed before: so many of its newest rounds are put to the model."""


@dataclass(frozen=True)
class WriteLines:
    """Writes down the line of every finished round that has none: by a model, or by rule."""

    line_tokens: int
    by_model: bool = True
    name: str = "line"

    def propose(self, s: Situation, /) -> Proposal | Reason:
        known, fresh = known_lines(s), list[Round]()
        for index in range(finished(s) - 1, -1, -1):
            if s.session.path[s.session.turns[index]].id in known:
                break
            fresh.insert(0, round_at(s, index))
        if not fresh:
            return Reason("all_written", "every finished round has its line")
        asked = fresh[-BACKLOG:] if self.by_model and s.has_model and not s.resting else []

        def finish(answers: Sequence[str]) -> Finished:
            told = dict(zip((round.number for round in asked), answers, strict=False))
            return Finished(edits=(), annotations=tuple(self._line(s, x, told.get(x.number)) for x in fresh))

        return Proposal(rung=self.name, finish=finish, asks=tuple(self._ask(s, x) for x in asked))

    def _line(self, s: Situation, round: Round, told: str | None) -> e.TurnLine:
        return e.TurnLine(
            id="",
            target=s.session.path[s.session.turns[round.number - 1]].id,
            turn=round.number,
            text=told or rule_line(s, round, self.line_tokens),
            author="model" if told else "rule",
        )

    def _ask(self, s: Situation, round: Round) -> Ask:
        def render(sources: Sequence[Source], previous: str | None) -> Request:  # noqa: ARG001
            text = prompt(
                "rounds_line",
                conversation=transcript.render(sources, STYLE),
                words=str(max(self.line_tokens * 3 // 4, 5)),
            )
            return Request(
                messages=(user(text),),
                system=prompt("summariser_system"),
                max_tokens=200 + self.line_tokens,
                purpose="line",
            )

        return Ask(
            sources=s.sources(round.first, round.last + 1),
            render=render,
            purpose="line",
            target_tokens=self.line_tokens,
            accept=accept_line(self.line_tokens, s.counter),
        )


@dataclass(frozen=True)
class TurnLines:
    """Folds the rounds that leave the zone into their lines."""

    zone: Zone
    summaries_budget: int
    line_tokens: int
    workspace_tokens: int
    name: str = "line"

    def propose(self, s: Situation, /) -> Proposal | Reason:
        rounds = finished(s)
        first = self.zone.first(s, rounds)
        leaving = self._leaving(s, first)
        trims = tuple(self.zone.trims(s, first, rounds))
        if not leaving and not trims:
            return Reason("nothing_leaves", f"{rounds - first} finished round(s) stay verbatim, no other is")
        shown = shown_lines(s)
        known = known_lines(s)
        path = s.session.path
        new = [
            Line(
                path[x.first].id, path[x.last].id, x.number, x.number, line_for(s, x, known, self.line_tokens)
            )
            for x in leaving
        ]
        lines = sorted([*(line for line, _ in shown), *new], key=lambda line: line.start)
        merged = merge(lines, self.summaries_budget, lambda x: block_size(s, x), s.counter)
        edits = (*self._edits(s, merged, {(x.first, x.last): put for x, put in shown}), *trims)
        return self._proposal(s, edits, leaving, merged, is_merge=merged != lines)

    def _leaving(self, s: Situation, first: int) -> list[Round]:
        """Rounds before the zone that are still verbatim, oldest first."""
        alone, found = left_alone(s), list[Round]()
        for index in range(first - 1, -1, -1):
            round = verbatim(s, round_at(s, index))
            if round is not None and not touches(round, alone):
                found.append(round)
            elif round is None and not s.session.annotations(e.Undo):
                break
        return found[::-1]

    def _edits(
        self, s: Situation, lines: Sequence[Line], shown: dict[tuple[str, str], tuple[Message, ...]]
    ) -> list[e.Edit]:
        """What has to change so that the lines stand as they should: the first one under the header, the
        last one above the workspace."""
        edits: list[e.Edit] = []
        for index, line in enumerate(lines):
            put: tuple[Message, ...] = (line_message(line, first=index == 0),)
            if index == len(lines) - 1:
                put = (*put, self._workspace(s))
            if shown.get((line.first, line.last)) != put:
                edits.append(e.Edit(line.first, line.last, put, "line"))
        return edits

    def _workspace(self, s: Situation) -> Message:
        state = carried.reading(s.session).trail.render(self.workspace_tokens, s.counter, changes=False)
        return user(f"{WORKSPACE}\n{defuse(state) or '(no files yet)'}")

    def _proposal(
        self,
        s: Situation,
        edits: tuple[e.Edit, ...],
        leaving: Sequence[Round],
        lines: Sequence[Line],
        *,
        is_merge: bool,
    ) -> Proposal:
        path, files = s.session.path, carried.reading(s.session).trail.files()
        changed = {(edit.first, edit.last) for edit in edits}
        told = [[x.first, x.last, x.start, x.end, x.text] for x in lines if (x.first, x.last) in changed]
        details = {"lines": told, **({"cache_reset": "lines were merged into ranges"} if is_merge else {})}
        gone = sum(s.projection.size(s.counter, s.item_at(x.first), s.item_at(x.last + 1)) for x in leaving)
        added = sum(
            s.counter.message(message) for edit in edits if edit.kind == "line" for message in edit.put
        )
        after = s.session.position(lines[-1].last) if lines else None
        first_kept = path[after + 1].id if after is not None and after + 1 < len(path) else None
        return Proposal(
            rung="merge" if is_merge else self.name,
            finish=lambda _: Finished(edits=edits, files=files, details=details),
            stretch=(path[leaving[0].first].id, path[leaving[-1].last].id) if leaving else None,
            fold=tuple(x.id for round in leaving for x in s.sources(round.first, round.last + 1)),
            masked=tuple(edit.first for edit in edits if edit.kind == "shrink"),
            first_kept=first_kept,
            files=files,
            tokens_after=s.tokens - gone + added,
            smaller=False,
        )


def line_message(line: Line, *, first: bool) -> Message:
    return user(f"{HEADER}\n{line.shown}" if first else line.shown)


def block_size(s: Situation, lines: Sequence[Line]) -> int:
    """Exact size of the block of lines, as messages."""
    return sum(s.counter.message(line_message(line, first=at == 0)) for at, line in enumerate(lines))


def shown_lines(s: Situation) -> list[tuple[Line, tuple[Message, ...]]]:
    """The lines of the view, oldest first, with the messages that show each."""
    found: dict[tuple[str, str], tuple[Line, tuple[Message, ...]]] = {}
    for item in s.items:
        key = (item.entries[0], item.entries[-1])
        if key in found:
            found[key] = (found[key][0], (*found[key][1], item.message))
        elif item.fold is not None:
            told = s.fold_of(item).details.get("lines", ())
            line = next((Line(*x) for x in told if (x[0], x[1]) == key), None)
            if line is not None:
                found[key] = (line, (item.message,))
    return list(found.values())
