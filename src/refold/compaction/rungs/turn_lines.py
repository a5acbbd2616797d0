"""Turn lines: one short line for every finished round, ranges of lines where there are too many. Rounds that
leave the verbatim part become their lines; the lines are a prefix that only grows at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from refold import entries as e
from refold.compaction import transcript
from refold.compaction.details import Line, RoundsDetails
from refold.compaction.plan import Ask, Finished, Proposal, Reason
from refold.compaction.prompts import prompt
from refold.compaction.reading import reading
from refold.compaction.requests import stand_alone
from refold.compaction.rounds import Round, Zone, finished, items_of, left_alone, round_at, touches, verbatim
from refold.compaction.situation import Situation
from refold.compaction.transcript import Source, sources
from refold.compaction.turn_line import accept_line, rule_line, short
from refold.messages import Message, user
from refold.protocols import Request, TokenCounter
from refold.text.frames import quote
from refold.text.truncate import one_line

HEADER = "=== ACCUMULATED MEMORY SUMMARIES ==="
WORKSPACE = "=== CURRENT WORKSPACE CONTEXT ==="
STYLE = transcript.Style(thinking="", text_limit=2_000, result_limit=500, total_limit=20_000)
BACKLOG = 2
"""A conversation that was never followed before: so many of its newest rounds are put to the model, as many
requests as a fold may always make; the others get their lines by rule."""


@dataclass(frozen=True)
class WriteLines:
    """Writes down the line of every finished round that has none: by a model, or by rule."""

    line_tokens: int
    by_model: bool = True
    name: str = "line"

    def propose(self, s: Situation, /) -> Proposal | Reason:
        known, fresh = known_lines(s), list[Round]()
        for index in range(finished(s) - 1, -1, -1):
            if line_of(s, round := round_at(s, index), known) is not None:
                break
            fresh.insert(0, round)
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
    name: str = "line"

    def propose(self, s: Situation, /) -> Proposal | Reason:
        rounds = finished(s)
        first = self.zone.first(s, rounds)
        leaving = self._leaving(s, first)
        trims = tuple(self.zone.trims(s, first, rounds))
        if not leaving and not trims:
            return Reason("nothing_leaves", f"{rounds - first} finished round(s) stay verbatim, no other is")
        shown, known = shown_lines(s), known_lines(s)
        new = [self._line(s, round, known) for round in leaving]
        lines = sorted([*(line for line, _ in shown), *new], key=lambda line: line.start)
        merged = merge(lines, self.summaries_budget, lambda x: block_size(s, x), s.counter)
        edits = (*self._edits(s, merged, {(x.first, x.last): put for x, put in shown}), *trims)
        return self._proposal(s, edits, leaving, merged, is_merge=merged != lines)

    def _line(self, s: Situation, round: Round, known: dict[str, str]) -> Line:
        """The line that was written down for a round, otherwise one by rule."""
        path = s.session.path
        text = line_of(s, round, known) or by_rule(s, round, self.line_tokens)
        return Line(path[round.first].id, path[round.last].id, round.number, round.number, text)

    def _leaving(self, s: Situation, first: int) -> list[Round]:
        """Rounds before the zone that are still verbatim, oldest first."""
        alone, leaving = left_alone(s), list[Round]()
        for index in range(first - 1, -1, -1):
            round = verbatim(s, round_at(s, index))
            if round is not None and not touches(round.first, round.last, alone):
                leaving.append(round)
            elif round is None and not s.session.annotations(e.Undo):
                break
        return leaving[::-1]

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
        state = reading(s.session).state.render(self.workspace_tokens, s.counter, changes=False)
        return user(f"{WORKSPACE}\n{quote(state) or '(no files yet)'}")

    def _proposal(
        self,
        s: Situation,
        edits: tuple[e.Edit, ...],
        leaving: Sequence[Round],
        lines: Sequence[Line],
        *,
        is_merge: bool,
    ) -> Proposal:
        path, files = s.session.path, reading(s.session).state.files()
        changed = {(edit.first, edit.last) for edit in edits}
        details = RoundsDetails(
            lines=[line for line in lines if (line.first, line.last) in changed],
            cache_reset="lines were merged into ranges" if is_merge else "",
        ).stored()
        left = (items_of(s, round) for round in leaving)
        gone = sum(s.projection.size(s.counter, items.start, items.stop) for items in left)
        added = sum(
            s.counter.message(message) for edit in edits if edit.kind == "line" for message in edit.put
        )
        after = s.session.position(lines[-1].last) if lines else None
        first_kept = path[after + 1].id if after is not None and after + 1 < len(path) else None
        return Proposal(
            rung="merge" if is_merge else self.name,
            finish=lambda _: Finished(edits=edits, files=files, details=details),
            stretch=(path[leaving[0].first].id, path[leaving[-1].last].id) if leaving else None,
            fold=tuple(x.id for r in leaving for x in sources(s.session, r.first, r.last + 1)),
            masked=tuple(edit.first for edit in edits if edit.kind == "shrink"),
            first_kept=first_kept,
            files=files,
            tokens_after=s.sizes.tokens - gone + added,
            smaller=False,
        )


def line_text(line: Line) -> str:
    turns = f"{line.start}" if line.start == line.end else f"{line.start}-{line.end}"
    return f"[Turn {turns}] {quote(one_line(line.text, 4_000))}".rstrip()


def line_message(line: Line, *, first: bool) -> Message:
    return user(f"{HEADER}\n{line_text(line)}" if first else line_text(line))


def block_size(s: Situation, lines: Sequence[Line]) -> int:
    """Exact size of the block of lines, as messages."""
    return sum(s.counter.message(line_message(line, first=at == 0)) for at, line in enumerate(lines))


def shown_lines(s: Situation) -> list[tuple[Line, tuple[Message, ...]]]:
    """The lines of the view, oldest first, with the messages that show each."""
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
    return rule_line(transcript.messages_between(s.session, round.first, round.last + 1), limit, s.counter)


def merge(
    lines: Sequence[Line], budget: int, size: Callable[[Sequence[Line]], int], counter: TokenCounter
) -> list[Line]:
    """The lines within the budget: as long as they are larger, neighbours in the oldest half become ranges,
    each half as long as its two parts."""
    merged = list(lines)
    while size(merged) > budget:
        smaller = _pass(merged, max((len(merged) + 1) // 2, 2), counter)
        if smaller == merged:  # the old ones say nothing any more: now the others
            smaller = _pass(merged, len(merged), counter)
        if smaller == merged:
            break
        merged = smaller
    return merged


def _pass(lines: list[Line], half: int, counter: TokenCounter) -> list[Line]:
    old, joined, at = lines[:half], list[Line](), 0
    while at < len(old):
        if at + 1 < len(old) and old[at].end + 1 == old[at + 1].start:
            joined.append(_joined(old[at], old[at + 1], counter))
            at += 2
        else:
            joined.append(old[at])
            at += 1
    if len(joined) == len(old):  # nothing to join: halve what there is
        joined = [_shorter(line, counter.text(line.text) // 2, counter) for line in old]
    return joined + lines[half:]


def _joined(a: Line, b: Line, counter: TokenCounter) -> Line:
    """Both as one range. What was asked goes before what came of it; what does not fit is left out whole, the
    beginning and the end of the range last."""
    room = (counter.text(a.text) + counter.text(b.text)) // 2
    parts = [part for line in (a, b) for part in line.text.split("; ") if part]
    if counter.text("; ".join(parts)) > room:
        parts = [part.split(" → ")[0] for part in parts]
    kept = set[int]()
    for at in (0, *range(len(parts) - 1, 0, -1)) if parts else ():
        if counter.text("; ".join(parts[i] for i in sorted(kept | {at}))) <= room:
            kept.add(at)
    text = "; ".join(parts[i] for i in sorted(kept)) if kept else short("; ".join(parts), room, counter)
    return Line(a.first, b.last, a.start, b.end, text)


def _shorter(line: Line, room: int, counter: TokenCounter) -> Line:
    return msgspec.structs.replace(line, text=short(line.text, room, counter))
