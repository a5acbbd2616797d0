"""Archives: whole old rounds become one record, which is never folded again. Before that, tool results are
shortened once their round has ended: reason with everything, remember the essence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from refold import entries as e
from refold.compaction import answer, transcript
from refold.compaction.details import LayeredDetails
from refold.compaction.plan import Ask, Finished, Proposal, Reason
from refold.compaction.prompts import focus_line, prompt
from refold.compaction.reading import reading
from refold.compaction.requests import stand_alone
from refold.compaction.rounds import finished, left_alone, round_at, touches
from refold.compaction.situation import Situation
from refold.compaction.transcript import Source, message_of_item, source_of
from refold.messages import Call, Message, Result, System, system
from refold.preserve import abridged, state
from refold.protocols import Request, TokenCounter
from refold.session import Item, redacted
from refold.session.toolnames import Kind
from refold.shrink import Limits, Rule, shrink
from refold.text.frames import quote
from refold.text.truncate import one_line
from refold.tokens.fitting import newest_within

NOTICE = "Summary generation timed out, keeping recent history only."
HEADING = "[Archive of earlier history. It is a record; the task in progress is in the messages that follow.]"
STYLE = transcript.Style(thinking="", result_limit=4_000, system=None)


class OldRounds(NamedTuple):
    """What is archived, as path positions (both inside) and as items."""

    first: int
    last: int
    sources: tuple[Source, ...]
    kept: tuple[Message, ...]
    """System messages in it: they are not compacted."""


def old_rounds(s: Situation, keep_rounds: int) -> OldRounds | Reason:
    """The finished rounds after the last archive, except the newest ones."""
    rounds = finished(s)
    if rounds <= keep_rounds:
        return Reason("few_rounds", f"{rounds} finished round(s), and at least {keep_rounds} stay")
    first, last = _after_archives(s), round_at(s, rounds - keep_rounds - 1).last
    at = s.projection.item_at
    items = s.items[at(first) : at(max(last + 1, first))]
    sources = tuple(_source(s, item) for item in items if not isinstance(item.message, System))
    if not sources:
        return Reason("all_archived", f"everything before the newest {keep_rounds} rounds is archived")
    return OldRounds(first, last, sources, tuple(x.message for x in items if isinstance(x.message, System)))


def _source(s: Situation, item: Item) -> Source:
    return msgspec.structs.replace(source_of(s.session, item), message=message_of_item(s.session, item))


def _after_archives(s: Situation) -> int:
    """The first path position behind every archive (and behind summaries of other designs)."""
    archives = (fold for fold in s.projection.folds if fold.edits and LayeredDetails.of(fold).archive)
    ends = [s.session.position(fold.edits[0].last) for fold in archives]
    ends += [s.session.position(x.entries[-1]) for x in s.items if x.fold and len(x.entries) > 1]
    return max((end + 1 for end in ends if end is not None), default=s.projection.floor)


@dataclass(frozen=True)
class Archive:
    """A record in fixed sections, written by a model, or by code where there is none."""

    keep_rounds: int = 10
    tokens: int = 4_000
    timeout: float = 120.0
    name: str = "archive"

    def propose(self, s: Situation, /) -> Proposal | Reason:
        old = old_rounds(s, self.keep_rounds)
        if isinstance(old, Reason):
            return old
        files = state.of(source.message for source in old.sources).files()

        def finish(answers: Sequence[str]) -> Finished:
            text = answers[0] if s.has_model else by_rule(old.sources, answers[0], self.tokens, s.counter)
            put = (system(f"{HEADING}\n\n{quote(text)}"), *old.kept)
            edit = _edit(s, old, put, "summary")
            return Finished(
                edits=(edit,), summary=text, files=files, details=LayeredDetails(archive=True).stored()
            )

        return _proposal(
            s, old, self.name, finish, ask=self._ask(s, old), tokens=self.tokens, timeout=self.timeout
        )

    def _ask(self, s: Situation, old: OldRounds) -> Ask:
        def render(sources: Sequence[Source], previous: str | None) -> Request:  # noqa: ARG001
            text = prompt(
                "layered_archive",
                conversation=transcript.render(sources, STYLE),
                period=period(old.sources),
                focus=focus_line(s.instructions),
            )
            return stand_alone(text, max_tokens=self.tokens, timeout=self.timeout)

        target = self.tokens if s.has_model else self.tokens // 2
        return Ask(sources=old.sources, render=render, target_tokens=target, accept=answer.plain)


@dataclass(frozen=True)
class KeepRecent:
    """Where no archive could be written: the old rounds leave the view without one, and the user is told."""

    keep_rounds: int = 10
    name: str = "keep_recent"

    def propose(self, s: Situation, /) -> Proposal | Reason:
        old = old_rounds(s, self.keep_rounds)
        if isinstance(old, Reason):
            return old
        details = LayeredDetails(archive=True, notice=NOTICE).stored()
        edit = _edit(s, old, old.kept, "trim")
        return _proposal(s, old, self.name, lambda _: Finished(edits=(edit,), details=details))


def _edit(s: Situation, old: OldRounds, put: tuple[Message, ...], kind: str) -> e.Edit:
    return e.Edit(s.session.path[old.first].id, s.session.path[old.last].id, put, kind)


def _proposal(
    s: Situation,
    old: OldRounds,
    name: str,
    finish: Callable[[Sequence[str]], Finished],
    *,
    ask: Ask | None = None,
    tokens: int = 0,
    timeout: float | None = None,
) -> Proposal:
    path, at = s.session.path, s.projection.item_at
    gone = s.projection.size(s.counter, at(old.first), at(old.last + 1))
    return Proposal(
        rung=name,
        finish=finish,
        asks=(ask,) if ask else (),
        stretch=(path[old.first].id, path[old.last].id),
        fold=tuple(source.id for source in old.sources),
        first_kept=path[old.last + 1].id if old.last + 1 < len(path) else None,
        tokens_after=s.sizes.tokens - gone + tokens + sum(s.counter.message(x) for x in old.kept),
        smaller=False,
        shorter=False,
        timeout=timeout,
        failure_text=NOTICE if ask else None,
    )


def period(sources: Sequence[Source]) -> str:
    """Start and cut-off of what is archived."""
    times = [source.time for source in sources if source.time]
    if not times:
        return "(times unknown)"
    first, last = (
        datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%d %H:%M UTC") for t in (min(times), max(times))
    )
    return f"{first} to {last}"


def by_rule(sources: Sequence[Source], digest: str, budget: int, counter: TokenCounter) -> str:
    """The same sections without a model: facts by code, insights by the digest."""
    groups = abridged.groups(((x.id, redacted.message(x.message)) for x in sources), continues=False)
    asked = [group for group in groups if group.user.strip()]
    done = [
        f"- [✓] {one_line(g.user, 120)} - {one_line(g.response, 120) or 'done'}" for g in asked if not g.state
    ]
    open_ends = [f"- interrupted: {one_line(g.user, 120)}" for g in asked if g.state]
    files = state.of(source.message for source in sources).files()
    paths = [
        f"- {path}: {what}" for what in ("created", "modified", "deleted") for path in getattr(files, what)
    ]
    tools = sorted({call.name for source in sources for call in source.message.calls})
    goal = one_line(asked[0].user, 400) if asked else "(none)"
    sections = (
        ("Period covered", [period(sources)]),
        ("Objectives and status", [f"Original goal: {goal}", *_within(open_ends, budget // 16, counter)]),
        ("Technical context", [f"Tools used: {', '.join(tools)}" if tools else "(none)"]),
        ("Completed milestones", _within(done, budget // 4, counter) or ["(none)"]),
        ("Key insights and decisions", [digest]),
        ("File-system state", _within(paths, budget // 8, counter) or ["(no file was changed)"]),
    )
    return "\n\n".join(f"## {title}\n" + "\n".join(rows) for title, rows in sections)


def _within(rows: Sequence[str], budget: int, counter: TokenCounter) -> list[str]:
    count = newest_within(rows, budget, lambda row: counter.text(row) + 1)
    left = len(rows) - count
    return [*([f"- ({left} earlier left out)"] if left else []), *rows[left:]]


def archives_fit(s: Situation) -> Reason | None:
    """Archives are never folded again; where they alone take half the window, this design is at its end."""
    size = sum(
        s.sizes.item(index)
        for index, item in enumerate(s.items)
        if item.fold and LayeredDetails.of(s.projection.fold_of(item)).archive
    )
    if size <= s.window // 2:
        return None
    text = f"the archives alone take {size} of {s.window} tokens, and this design never folds them again"
    return Reason("archives_too_large", f"{text}: take a larger window, or fold with another preset")


# ── results of finished rounds (E3) ─────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ShrinkRounds:
    """One edit for every result of a finished round that its rule makes shorter."""

    limits: Limits = Limits()
    rules: Mapping[Kind, Rule] = field(default_factory=dict[Kind, Rule])
    """In the place of the rules of some kinds of tools."""
    name: str = "shrink"

    def propose(self, s: Situation, /) -> Proposal | Reason:
        rounds = finished(s)
        end = round_at(s, rounds - 1).last + 1 if rounds else 0
        indexes = _results(s, _seen(s), end)
        if not indexes:
            return Reason("no_results", "no tool result of a finished round is left to shorten")
        shorter = {index: small for index in indexes if (small := self._shorter(s, index)) is not None}
        if not shorter:
            return Reason("nothing_shrinks", "no rule makes a result of the finished rounds shorter")
        ids = {index: s.items[index].entries[0] for index in shorter}
        edits = tuple(e.Edit(ids[index], ids[index], (small,), "shrink") for index, small in shorter.items())
        files = reading(s.session).state.files()
        details = LayeredDetails(shrunk_through=s.session.path[end - 1].id).stored()
        saved = sum(s.sizes.item(index) - s.counter.message(small) for index, small in shorter.items())
        return Proposal(
            rung=self.name,
            finish=lambda _: Finished(edits=edits, files=files, details=details),
            stretch=(edits[0].first, edits[-1].last),
            masked=tuple(ids.values()),
            first_kept=edits[0].first,
            files=files,
            tokens_after=s.sizes.tokens - saved,
        )

    def _shorter(self, s: Situation, index: int) -> Result | None:
        """A result as its rule keeps it; None where that is no shorter."""
        result = s.items[index].message
        assert isinstance(result, Result)
        calls = (call for item in s.items[:index][::-1] for call in item.message.calls)
        call = next((call for call in calls if call.id == result.call_id), None)
        small = shrink(call or Call(result.call_id, result.name or ""), result, self.limits, self.rules)
        return small if small and s.counter.message(small) < s.sizes.item(index) else None


def _results(s: Situation, first: int, end: int) -> list[int]:
    """Indexes of the tool results in a stretch of the path that may be shortened."""
    items, alone, places = s.items, left_alone(s), s.projection
    whole = (
        index
        for index in range(places.item_at(first), places.item_at(end))
        if isinstance(items[index].message, Result) and items[index].fold is None
    )
    return [x for x in whole if not touches(places.position_of(x), places.position_of(x), alone)]


def _seen(s: Situation) -> int:
    """Path position up to which results were looked at before."""
    for fold in reversed(s.projection.folds):
        position = s.session.position(LayeredDetails.of(fold).shrunk_through)
        if position is not None:
            return position + 1
    return s.projection.floor
