"""Turn lines: one short line for every finished round, ranges of lines where there are too many. Rounds that
leave the verbatim part become their lines; the lines are a prefix that only grows at its end."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import takewhile
from typing import Any, TypeAlias

import msgspec

from refold import entries as e
from refold.compaction import transcript
from refold.compaction.details import RoundsDetails, RoundsLine
from refold.compaction.path_index import path_index
from refold.compaction.plan import Ask, Finished, Proposal, Reason
from refold.compaction.plan_context import (
    PlanContext,
    Round,
    finished,
    items_of,
    left_alone,
    round_at,
    touches,
    verbatim,
)
from refold.compaction.requests import ACKNOWLEDGEMENT, prompt, stand_alone
from refold.compaction.transcript import SummarySource, sources
from refold.digest.sections import cut_rows
from refold.digest.turn_line import rule_line, short
from refold.errors import BadAnswer
from refold.facts import abridged, state_text
from refold.messages import Message, Result, Text, compact_json, text, user
from refold.protocols import Request, TokenCounter
from refold.session.edits import said_by
from refold.session.history import History
from refold.text.frames import quote
from refold.text.truncate import head, middle, one_line
from refold.tokens.fitting import fit, newest_within

HEADER = "=== ACCUMULATED MEMORY SUMMARIES ==="
WORKSPACE = "=== CURRENT WORKSPACE CONTEXT ==="
STYLE = transcript.Style(thinking="", text_limit=2_000, result_limit=500, total_limit=20_000)
_BLOCK_OVERHEAD = 30
"""Tokens of the workspace's heading, of a block's message and of what stands behind it, at most."""
Shown: TypeAlias = dict[tuple[str, str], tuple[Message, ...]]
"""The blocks of lines in a view, by the first and the last entry of each, and what shows them."""
BACKLOG = 2
"""A conversation that was never followed before: so many of its newest rounds are put to the model, as many
requests as a fold may always make; the others get their lines by rule."""


@dataclass(frozen=True)
class WriteLines:
    """Writes down the line of every finished round that has none: by a model, or by rule."""

    line_tokens: int
    by_model: bool = True
    name: str = "line"

    def propose(self, s: PlanContext, /) -> Proposal | Reason:
        path, known = s.session.path, known_lines(s)
        newest_first = (round_at(s, index) for index in range(finished(s) - 1, -1, -1))
        fresh = list(takewhile(lambda each: path[each.last].id not in known, newest_first))[::-1]
        if not fresh:
            return Reason("all_written", "every finished round has its line")
        asked = fresh[-BACKLOG:] if self.by_model and s.has_model and not s.resting else []
        # Made before the model is asked: the path may be another one when the answers come.
        texts = ((round, by_rule(s, round, self.line_tokens)) for round in fresh)
        by_code = {
            x: e.TurnLine(id="", target=path[x.last].id, turn=x.number, text=text, author="rule")
            for x, text in texts
        }

        def finish(answers: Sequence[str]) -> Finished:
            said = zip(asked, answers, strict=False)
            by_model = {x: msgspec.structs.replace(by_code[x], text=y, author="model") for x, y in said}
            return Finished(edits=(), annotations=tuple((by_code | by_model).values()))

        return Proposal(strategy=self.name, finish=finish, asks=tuple(self._ask(s, x) for x in asked))

    def _ask(self, s: PlanContext, round: Round) -> Ask:
        def render(sources: Sequence[SummarySource], previous: str | None) -> Request:  # noqa: ARG001
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
    render: Callable[[History], str] | None = None
    """An application's own text for the workspace."""
    name: str = "line"

    def propose(self, s: PlanContext, /) -> Proposal | Reason:
        path = s.session.path
        rounds, (shown, lines) = finished(s), shown_lines(s)
        first, known = self.zone.first(s, rounds), known_lines(s)
        leaving = self._leaving(s, first)
        for round in leaving:
            text = known.get(path[round.last].id) or by_rule(s, round, self.line_tokens)
            lines.append(
                RoundsLine(path[round.first].id, path[round.last].id, round.number, round.number, text)
            )
        lines.sort(key=lambda line: line.start)
        merged = merging(lines, self.summaries_budget, partial(lines_size, counter=s.counter), s.counter)
        trims = tuple(self.zone.trims(s, first, rounds))
        changed = list(self._changed(s, merged, shown))
        edits = [edit for edit, _ in changed]
        if not leaving and not trims and not edits:
            stay = f"{rounds - first} finished round(s) stay verbatim, no other is"
            return Reason("nothing_leaves", stay if rounds else "no round is finished yet")
        files = path_index(s.session).state.files()
        details = RoundsDetails(
            lines=[line for _, block in changed for line in block],
            cache_reset="lines were merged into ranges" if merged != lines else "",
        )
        folded = Finished(edits=(*edits, *trims), framed=True, files=files, details=details.stored())
        ends = [*(s.span(*ids) for ids in shown), *((round.first, round.last) for round in leaving)]
        gone = sum(s.sizes.shown(first, last) for first, last in ends)
        added = lines_size(merged, s.counter) + self.workspace_tokens + _BLOCK_OVERHEAD
        after = s.session.position(merged[-1].last) if merged else None
        return Proposal(
            strategy="merge" if merged != lines else self.name if leaving or trims else "workspace",
            finish=lambda _: folded,
            stretch=(path[leaving[0].first].id, path[leaving[-1].last].id) if leaving else None,
            fold=tuple(x.id for r in leaving for x in sources(s.session, r.first, r.last + 1)),
            masked=tuple(edit.first for edit in trims),
            first_kept=None if after is None else s.id_at(after + 1),
            files=files,
            tokens_after=s.sizes.tokens - gone + added,
            smaller=False,
        )

    def _leaving(self, s: PlanContext, first: int) -> list[Round]:
        """Rounds before the zone that are still verbatim, oldest first."""
        alone, leaving = left_alone(s), list[Round]()
        for index in range(first - 1, -1, -1):
            round = verbatim(s, round_at(s, index))
            if round is not None and not touches(round.first, round.last, alone):
                leaving.append(round)
            elif round is None and not s.session.annotations(e.Undo):
                break
        return leaving[::-1]

    def _changed(
        self, s: PlanContext, lines: Sequence[RoundsLine], shown: Shown
    ) -> Iterator[tuple[e.Edit, list[RoundsLine]]]:
        """What has to change so that the lines stand as they should, each block of them in one message: the
        first one under the header, the last one above the workspace."""
        blocks = list(_blocks(s.session, lines))
        for index, block in enumerate(blocks):
            texts = [line_text(line) for line in block]
            texts[0] = f"{HEADER}\n{texts[0]}" if index == 0 else texts[0]
            texts += [self.workspace(s)] if index == len(blocks) - 1 else []
            put = (user([text(each) for each in texts]), ACKNOWLEDGEMENT)
            ends = block[0].first, block[-1].last
            if shown.get(ends) != put:
                yield e.Edit(*ends, put, "line"), block

    def workspace(self, s: PlanContext) -> str:
        text = None
        if self.render:
            try:
                text = str(self.render(s.session))
            except Exception:  # whatever an application's own code does wrong
                logging.getLogger(__name__).exception("the workspace could not be rendered, ours stands in")
        if text is None:
            text = workspace_text(s, self.workspace_tokens)
        fitting = fit(text, self.workspace_tokens, s.counter, head)
        return f"{WORKSPACE}\n{quote(fitting) or '(no files yet)'}"


def _blocks(session: History, lines: Iterable[RoundsLine]) -> Iterator[list[RoundsLine]]:
    """Lines with nothing in view between them."""
    block, path = list[RoundsLine](), session.path
    for line in lines:
        if block:
            end, start = session.position(block[-1].last) or 0, session.position(line.first) or 0
            if any(said_by(path[at]) is not None for at in range(end + 1, start)):
                yield block
                block = []
        block.append(line)
    if block:
        yield block


def workspace_text(s: PlanContext, budget: int) -> str:
    """The state of the work, and the values that the application keeps (`State`), the newest first."""
    values = dict[str, Any]()
    for state in reversed(s.session.annotations(e.State)):
        if state.target is None:  # notes about an entry are the program's own
            values.setdefault(state.name, state.value)
    texts = {name: x if isinstance(x, str) else compact_json(x) for name, x in values.items()}
    lines = [f"- {name}: {one_line(text, 200)}" for name, text in texts.items()]
    stated = cut_rows(lines, budget // 2, s.counter)
    room = budget - s.counter.text(stated)
    work = state_text.render(path_index(s.session).state, room, s.counter, changes=False)
    return "\n".join(part for part in (work, f"State:\n{stated}" if stated else "") if part)


def lines_size(lines: Sequence[RoundsLine], counter: TokenCounter) -> int:
    """Exact size of the block of lines, as a message."""
    if not lines:
        return 0
    texts = [f"{HEADER}\n{line_text(lines[0])}", *map(line_text, lines[1:])]
    return counter.message(user("")) + sum(map(counter.text, texts))


@lru_cache(4_096)
def line_text(line: RoundsLine) -> str:
    turns = f"{line.start}" if line.start == line.end else f"{line.start}-{line.end}"
    return f"[Turn {turns}] {quote(one_line(line.text, 4_000))}".rstrip()


def shown_lines(s: PlanContext) -> tuple[Shown, list[RoundsLine]]:
    """The blocks of lines in view, of which an older release made one for each line, and the lines, oldest
    first."""
    blocks, lines, noted = Shown(), dict[RoundsLine, None](), dict[str, list[RoundsLine]]()
    for item in s.items if s.projection.newest_fold is not None else ():
        if item.fold is None:
            continue
        if item.fold not in noted:
            noted[item.fold] = RoundsDetails.of(s.projection.fold_of(item)).lines
        ends = item.entries[0], item.entries[-1]
        start, end = s.span(*ends)
        spans = ((line, *s.span(line.first, line.last)) for line in noted[item.fold])
        inside = [line for line, first, last in spans if start <= first and last <= end]
        if inside:
            blocks[ends] = (*blocks.get(ends, ()), item.message)
            lines |= dict.fromkeys(inside)
    return blocks, list(lines)


# ── what a line says ────────────────────────────────────────────────────────────────────────────


def known_lines(s: PlanContext) -> dict[str, str]:
    """Lines that were written down, by the entry their round ends with: a round that was left half way and
    goes on elsewhere is another one."""
    return {line.target: line.text for line in s.session.annotations(e.TurnLine) if line.target}


def by_rule(s: PlanContext, round: Round, limit: int) -> str:
    """A line made by code."""
    said = ((x.id, x.message) for x in sources(s.session, round.first, round.last + 1))
    return rule_line(abridged.groups(said, continues=False), limit, s.counter)


_LABEL = re.compile(r"^[-*\s]*\[Turn[^\]\n]{0,20}\]\s*")


def accept_line(limit: int, counter: TokenCounter) -> Callable[[str], str]:
    """A model's answer as a line: one line, no label, no longer than it may be."""

    def accept(text: str) -> str:
        lines = [line for line in text.split("\n") if line.strip()]
        line = _LABEL.sub("", one_line(lines[0], 1_000)) if lines else ""
        if not line:
            raise BadAnswer("empty", "the model wrote no line")
        return short(line, limit, counter)

    return accept


# ── too many lines ──────────────────────────────────────────────────────────────────────────────


def merging(
    lines: Sequence[RoundsLine],
    budget: int,
    size: Callable[[Sequence[RoundsLine]], int],
    counter: TokenCounter,
) -> list[RoundsLine]:
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


def _pass(lines: list[RoundsLine], half: int, counter: TokenCounter) -> list[RoundsLine]:
    old, joined, at = lines[:half], list[RoundsLine](), 0
    while at < len(old):
        if at + 1 < len(old) and old[at].end + 1 == old[at + 1].start:
            joined.append(_range(old[at], old[at + 1], counter))
            at += 2
        else:
            joined.append(old[at])
            at += 1
    if len(joined) == len(old):  # nothing to join: halve what there is
        halved = (short(line.text, counter.text(line.text) // 2, counter) for line in old)
        joined = [msgspec.structs.replace(line, text=text) for line, text in zip(old, halved, strict=True)]
    return joined + lines[half:]


def _range(a: RoundsLine, b: RoundsLine, counter: TokenCounter) -> RoundsLine:
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
    return RoundsLine(a.first, b.last, a.start, b.end, text)


# ── which finished rounds stay (D2) ─────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Zone:
    """So many of the newest rounds (`count`), or as many whole ones as fit a budget: then tool results of all
    but the newest are cut."""

    count: int | None = None
    budget: int = 0
    result_chars: int = 0

    def first(self, s: PlanContext, rounds: int) -> int:
        """Index of the first of the `rounds` finished rounds that stays."""
        if self.count is not None:
            return max(rounds - self.count, 0)
        kept = newest_within(range(rounds), self.budget, lambda index: self._size(s, index, rounds - 1))
        return rounds - kept

    def trims(self, s: PlanContext, first: int, rounds: int) -> Iterator[e.Edit]:
        """Edits inside the rounds that stay."""
        for index in range(first, rounds - 1) if self.count is None else ():
            for at in items_of(s, round_at(s, index)):
                item = s.items[at]
                if item.fold is None and (smaller := self._cut(item.message)) is not item.message:
                    yield e.Edit(item.entries[0], item.entries[-1], (smaller,), "shrink")

    def _size(self, s: PlanContext, index: int, newest: int) -> int:
        total = 0
        for at in items_of(s, round_at(s, index)):
            message = s.items[at].message
            smaller = message if index == newest else self._cut(message)
            total += s.sizes.item(at) if smaller is message else s.counter.message(smaller)
        return total

    def _cut(self, message: Message) -> Message:
        if not isinstance(message, Result) or len(message.text) <= self.result_chars:
            return message
        return msgspec.structs.replace(message, content=(Text(middle(message.text, self.result_chars)),))
