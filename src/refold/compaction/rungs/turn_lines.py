"""Turn lines: one short line for every finished round, ranges of lines where there are too many. Rounds that
leave the verbatim part become their lines; the lines are a prefix that only grows at its end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from refold import entries as e
from refold.compaction import transcript
from refold.compaction.by_rule import PIECE, accept_line, merging, rule_line
from refold.compaction.details import Line, RoundsDetails
from refold.compaction.plan import Ask, Finished, Proposal, Reason
from refold.compaction.prompts import prompt
from refold.compaction.reading import read, reading
from refold.compaction.requests import stand_alone
from refold.compaction.rounds import Round, Zone, finished, left_alone, round_at, touches, verbatim
from refold.compaction.situation import Situation
from refold.compaction.transcript import Source, sources
from refold.digest.sections import cut_lines
from refold.messages import Message, compact_json, user
from refold.preserve import state_text
from refold.protocols import Request, Steps, TokenCounter, complete
from refold.session import Session
from refold.text.frames import quote
from refold.text.truncate import head, one_line
from refold.tokens.fitting import fit

HEADER = "=== ACCUMULATED MEMORY SUMMARIES ==="
WORKSPACE = "=== CURRENT WORKSPACE CONTEXT ==="
STYLE = transcript.Style(thinking="", text_limit=2_000, result_limit=500, total_limit=20_000)
FRAME = 20
"""Tokens of the workspace's heading and message, at most."""
Puts: TypeAlias = dict[tuple[str, str], tuple[Message, ...]]
"""The messages that show lines, by first and last entry."""
ROUNDS = 4
"""Rounds whose lines are looked up between two breaths."""
BACKLOG = 2
"""A conversation that was never followed before: so many of its newest rounds are put to the model, as many
requests as a fold may always make; the others get their lines by rule."""


@dataclass(frozen=True)
class WriteLines:
    """Writes down the line of every finished round that has none: by a model, or by rule."""

    line_tokens: int
    by_model: bool = True
    name: str = "line"

    def ahead(self, s: Situation, /) -> Steps[None]:
        for number, round in enumerate(self._fresh(s)):
            by_rule(s, round, self.line_tokens)
            if number % ROUNDS == 0:
                yield

    def _fresh(self, s: Situation) -> list[Round]:
        """Finished rounds without a line, oldest first."""
        known, fresh = known_lines(s), list[Round]()
        for index in range(finished(s) - 1, -1, -1):
            if line_of(s, round := round_at(s, index), known) is not None:
                break
            fresh.append(round)
        return fresh[::-1]

    def propose(self, s: Situation, /) -> Proposal | Reason:
        fresh = self._fresh(s)
        if not fresh:
            return Reason("all_written", "every finished round has its line")
        asked = fresh[-BACKLOG:] if self.by_model and s.has_model and not s.resting else []
        # Made before anybody is asked: the path may be another one when the answers come.
        by_rule = tuple(self._line(s, round) for round in fresh)

        def finish(answers: Sequence[str]) -> Finished:
            start = len(by_rule) - len(asked)
            written = tuple(
                msgspec.structs.replace(line, text=text, author="model")
                for line, text in zip(by_rule[start:], answers, strict=False)
            )
            return Finished(
                edits=(), annotations=(*by_rule[:start], *written, *by_rule[start + len(written) :])
            )

        return Proposal(rung=self.name, finish=finish, asks=tuple(self._ask(s, x) for x in asked))

    def _line(self, s: Situation, round: Round) -> e.TurnLine:
        return e.TurnLine(
            id="",
            target=s.session.path[round.last].id,
            turn=round.number,
            text=by_rule(s, round, self.line_tokens),
            author="rule",
        )

    def _ask(self, s: Situation, round: Round) -> Ask:
        def render(sources: Sequence[Source], previous: str | None) -> Request:  # noqa: ARG001
            text = prompt(
                "rounds_line",
                conversation=transcript.render(sources, STYLE),
                words=str(max(self.line_tokens * 3 // 4, 5)),
            )
            return stand_alone(text, max_tokens=200 + self.line_tokens, purpose="line")

        return Ask(
            sources=sources(s.session, round.first, round.last + 1),
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
    render: Callable[[Session], str] | None = None
    """An application's own text for the workspace."""
    name: str = "line"

    def ahead(self, s: Situation, /) -> Steps[None]:
        yield from read(s.session)
        known, lines = known_lines(s), list[tuple[Round, Line]]()
        for number, round in enumerate(self._leaving(s, self.zone.first(s, finished(s)))):
            lines.append((round, self._line(s, round, known)))
            if number % ROUNDS == 0:
                yield
        yield from s.sizes.counting()
        all_lines = [*(line for line, _ in shown_lines(s)), *(line for _, line in lines)]
        all_lines.sort(key=lambda line: line.start)
        merged = yield from LineBook.of(s.session).merging(all_lines, self.summaries_budget, s.counter)
        s.memo[self] = lines, all_lines, merged

    def propose(self, s: Situation, /) -> Proposal | Reason:
        if self not in s.memo:
            complete(self.ahead(s))
        leaving: list[tuple[Round, Line]]
        leaving, lines, merged = s.memo[self]
        rounds, shown = finished(s), shown_lines(s)
        first = self.zone.first(s, rounds)
        trims = tuple(self.zone.trims(s, first, rounds))
        if not leaving and not trims and not self._is_outdated(s, shown):
            stay = f"{rounds - first} finished round(s) stay verbatim, no other is"
            return Reason("nothing_leaves", stay if rounds else "no round is finished yet")
        puts = {(line.first, line.last): put for line, put in shown}
        return self._proposal(s, merged, puts, [round for round, _ in leaving], trims, merged != lines)

    def _line(self, s: Situation, round: Round, known: dict[str, str]) -> Line:
        """The line that was written down for a round, otherwise one by rule."""
        path = s.session.path
        text = line_of(s, round, known) or by_rule(s, round, self.line_tokens)
        return LineBook.of(s.session).line(path[round.first].id, path[round.last].id, round.number, text)

    def _leaving(self, s: Situation, first: int) -> list[Round]:
        """Rounds before the zone that are still verbatim, oldest first."""
        if s.projection.newest_fold is None:  # nothing is shown otherwise than it was said
            return [round_at(s, index) for index in range(first)]
        alone, leaving = left_alone(s), list[Round]()
        for index in range(first - 1, -1, -1):
            round = verbatim(s, round_at(s, index))
            if round is not None and not touches(round.first, round.last, alone):
                leaving.append(round)
            elif round is None and not s.session.annotations(e.Undo):
                break
        return leaving[::-1]

    def _is_outdated(self, s: Situation, shown: Sequence[tuple[Line, tuple[Message, ...]]]) -> bool:
        """Is the workspace another one than the view says?"""
        return bool(shown) and shown[-1][1][1:] != (self._workspace(s),)

    def _edits(self, s: Situation, lines: Sequence[Line], shown: Puts) -> list[e.Edit]:
        """What has to change so that the lines stand as they should: the first one under the header, the
        last one above the workspace."""
        edits, book = list[e.Edit](), LineBook.of(s.session)
        for index, line in enumerate(lines):
            put: tuple[Message, ...] = (book.message(line, first=index == 0),)
            if index == len(lines) - 1:
                put = (*put, self._workspace(s))
            if shown.get((line.first, line.last)) != put:
                edits.append(e.Edit(line.first, line.last, put, "line"))
        return edits

    def _workspace(self, s: Situation) -> Message:
        fitting = fit(self._rendered(s), self.workspace_tokens, s.counter, head)
        return user(f"{WORKSPACE}\n{quote(fitting) or '(no files yet)'}")

    def _rendered(self, s: Situation) -> str:
        if self.render:
            try:
                return str(self.render(s.session))
            except Exception:  # whatever an application's own code does wrong
                logging.getLogger(__name__).exception("the workspace could not be rendered, ours stands in")
        return workspace_text(s, self.workspace_tokens)

    def _proposal(
        self,
        s: Situation,
        lines: Sequence[Line],
        shown: Puts,
        leaving: Sequence[Round],
        trims: tuple[e.Edit, ...],
        is_merge: bool,
    ) -> Proposal:
        path, session, book = s.session.path, s.session, LineBook.of(s.session)

        def finish(_: Sequence[str]) -> Finished:
            edits = self._edits(s, lines, shown)
            changed = {(edit.first, edit.last) for edit in edits}
            details = RoundsDetails(
                lines=[line for line in lines if (line.first, line.last) in changed],
                cache_reset="lines were merged into ranges" if is_merge else "",
            ).stored()
            files = reading(session).state.files()
            return Finished(edits=(*edits, *trims), files=files, details=details)

        gone = sum(shown_size(s, first, last) for first, last in stretches_of(leaving))
        gone += sum(book.size(message, s.counter) for put in shown.values() for message in put)
        after = session.position(lines[-1].last) if lines else None
        return Proposal(
            rung="merge" if is_merge else self.name if leaving or trims else "workspace",
            finish=finish,
            stretch=(path[leaving[0].first].id, path[leaving[-1].last].id) if leaving else None,
            fold=lambda: tuple(x.id for r in leaving for x in sources(session, r.first, r.last + 1)),
            masked=tuple(edit.first for edit in trims),
            first_kept=path[after + 1].id if after is not None and after + 1 < len(path) else None,
            files=lambda: reading(session).state.files(),
            tokens_after=s.sizes.tokens
            - gone
            + book.block_size(lines, s.counter)
            + self.workspace_tokens
            + FRAME,
            smaller=False,
        )


def workspace_text(s: Situation, budget: int) -> str:
    """The state of the work, and the values that the application keeps (`State`), the newest first."""
    values = dict[str, Any]()
    for state in reversed(s.session.annotations(e.State)):
        values.setdefault(state.name, state.value)
    lines = [f"- {name}: {one_line(as_text(value), 200)}" for name, value in values.items()]
    stated = cut_lines("\n".join(lines), budget // 2, s.counter.text)
    room = budget - s.counter.text(stated)
    work = state_text.render(reading(s.session).state, room, s.counter, changes=False)
    return "\n".join(part for part in (work, f"State:\n{stated}" if stated else "") if part)


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else compact_json(value)


def shown_size(s: Situation, first: int, last: int) -> int:
    """Of what the view shows for these positions of the path."""
    at = s.projection.item_at
    return s.projection.size(s.counter, at(first), at(last + 1))


def stretches_of(rounds: Sequence[Round]) -> Iterator[tuple[int, int]]:
    """First and last positions of rounds that follow each other."""
    first = 0
    for at, round in enumerate(rounds, 1):
        if at == len(rounds) or rounds[at].number != round.number + 1:
            yield rounds[first].first, round.last
            first = at


@dataclass
class LineBook:
    """What was worked out for lines once: kept beside the session, as long as the lines are the same."""

    texts: dict[tuple[str, str, int, str], str] = field(default_factory=dict[Any, str])
    lines: dict[tuple[str, str, int, str], Line] = field(default_factory=dict[Any, Line])
    messages: dict[tuple[Line, bool], Message] = field(default_factory=dict[Any, Message])
    sizes: dict[tuple[str, Message], int] = field(default_factory=dict[Any, int])
    last: tuple[list[Line], int, str, list[Line]] | None = None
    """Lines, budget, counter and what merging made of them."""

    @classmethod
    def of(cls, session: Session) -> LineBook:
        return session.followers.of(cls, cls)

    def line(self, first: str, last: str, number: int, text: str) -> Line:
        return self.lines.setdefault((first, last, number, text), Line(first, last, number, number, text))

    def message(self, line: Line, *, first: bool) -> Message:
        if (line, first) not in self.messages:
            self.messages[line, first] = line_message(line, first=first)
        return self.messages[line, first]

    def size(self, message: Message, counter: TokenCounter) -> int:
        key = (counter.name, message)
        if key not in self.sizes:
            self.sizes[key] = counter.message(message)
        return self.sizes[key]

    def block_size(self, lines: Sequence[Line], counter: TokenCounter) -> int:
        """Exact size of the block of lines, as messages."""
        return complete(self.sizing(lines, counter))

    def sizing(self, lines: Sequence[Line], counter: TokenCounter) -> Steps[int]:
        """The same in pieces."""
        total = 0
        for at, line in enumerate(lines):
            total += self.size(self.message(line, first=at == 0), counter)
            if at % PIECE == PIECE - 1:
                yield
        return total

    def merging(self, lines: list[Line], budget: int, counter: TokenCounter) -> Steps[list[Line]]:
        if self.last is None or self.last[:3] != (lines, budget, counter.name):
            fitting = yield from merging(lines, budget, lambda some: self.sizing(some, counter), counter)
            self.last = (lines, budget, counter.name, fitting)
        return self.last[3]


def line_text(line: Line) -> str:
    turns = f"{line.start}" if line.start == line.end else f"{line.start}-{line.end}"
    return f"[Turn {turns}] {quote(one_line(line.text, 4_000))}".rstrip()


def line_message(line: Line, *, first: bool) -> Message:
    return user(f"{HEADER}\n{line_text(line)}" if first else line_text(line))


def shown_lines(s: Situation) -> list[tuple[Line, tuple[Message, ...]]]:
    """The lines of the view, oldest first, with the messages that show each."""
    if s.projection.newest_fold is None:
        return []
    shown: dict[tuple[str, str], tuple[Line, tuple[Message, ...]]] = {}
    noted: dict[str, dict[tuple[str, str], Line]] = {}
    for item in s.items:
        key = (item.entries[0], item.entries[-1])
        if key in shown:
            shown[key] = (shown[key][0], (*shown[key][1], item.message))
        elif item.fold is not None:
            if item.fold not in noted:
                lines = RoundsDetails.of(s.projection.fold_of(item)).lines
                noted[item.fold] = {(line.first, line.last): line for line in lines}
            if key in noted[item.fold]:
                shown[key] = (noted[item.fold][key], (item.message,))
    return list(shown.values())


# ── what a line says ────────────────────────────────────────────────────────────────────────────


def known_lines(s: Situation) -> dict[str, str]:
    """Lines that were written down, by the entry their round ends with: a round that was left half way and
    goes on elsewhere is another one. Release 0.1 named the entry it starts at."""
    return {line.target: line.text for line in s.session.annotations(e.TurnLine) if line.target}


def line_of(s: Situation, round: Round, known: dict[str, str]) -> str | None:
    path = s.session.path
    start = path[s.session.turns[round.number - 1]].id
    return known.get(path[round.last].id) or known.get(start)


def by_rule(s: Situation, round: Round, limit: int) -> str:
    path, texts = s.session.path, LineBook.of(s.session).texts
    key = (path[round.first].id, path[round.last].id, limit, s.counter.name)
    if key not in texts:
        said = transcript.messages_between(s.session, round.first, round.last + 1)
        texts[key] = rule_line(said, limit, s.counter)
    return texts[key]
