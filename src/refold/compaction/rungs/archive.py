"""Archives: whole old rounds become one record, which is never folded again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from refold import entries as e
from refold.compaction import answer, transcript
from refold.compaction.plan import Ask, Finished, Proposal, Reason, Source
from refold.compaction.prompts import prompt
from refold.compaction.rounds import finished, round_at
from refold.compaction.situation import Situation
from refold.compaction.told import told_as
from refold.messages import Message, System, system, user
from refold.preserve import abridged, trail
from refold.protocols import Request, TokenCounter
from refold.session.items import Item
from refold.text.frames import defuse
from refold.text.truncate import one_line
from refold.tokens.fitting import newest_within

NOTICE = "Summary generation timed out, keeping recent history only."
HEADING = "[Archive of earlier history. It is a record; the task in progress is in the messages that follow.]"
STYLE = transcript.Style(thinking="", result_limit=4_000, system=None)


class Stretch(NamedTuple):
    """What is archived, as path positions (both inside) and as items."""

    first: int
    last: int
    sources: tuple[Source, ...]
    kept: tuple[Message, ...]
    """System messages in it: they are not compacted."""


def stretch_of(s: Situation, keep_rounds: int) -> Stretch | Reason:
    """The finished rounds after the last archive, except the newest ones."""
    rounds = finished(s)
    if rounds <= keep_rounds:
        return Reason("few_rounds", f"{rounds} finished round(s), and at least {keep_rounds} stay")
    first, last = _after_archives(s), round_at(s, rounds - keep_rounds - 1).last
    items = s.items[s.item_at(first) : s.item_at(max(last + 1, first))]
    sources = tuple(_told(s, item) for item in items if not isinstance(item.message, System))
    if not sources:
        return Reason("all_archived", f"everything before the newest {keep_rounds} rounds is archived")
    return Stretch(first, last, sources, tuple(x.message for x in items if isinstance(x.message, System)))


def _told(s: Situation, item: Item) -> Source:
    return msgspec.structs.replace(s.source(item), message=told_as(item, s.session[item.entries[-1]]))


def _after_archives(s: Situation) -> int:
    """The first path position behind every archive (and behind summaries of other designs)."""
    ends = [s.session.position(f.edits[0].last) for f in s.folds if f.details.get("archive") and f.edits]
    ends += [s.session.position(x.entries[-1]) for x in s.items if x.fold and len(x.entries) > 1]
    return max((end + 1 for end in ends if end is not None), default=s.floor)


@dataclass(frozen=True)
class Archive:
    """A record in fixed sections, written by a model, or by code where there is none."""

    keep_rounds: int = 10
    tokens: int = 4_000
    timeout: float = 120.0
    name: str = "archive"

    def propose(self, s: Situation, /) -> Proposal | Reason:
        found = stretch_of(s, self.keep_rounds)
        if isinstance(found, Reason):
            return found
        files = trail.of(source.message for source in found.sources).files()

        def finish(answers: Sequence[str]) -> Finished:
            text = answers[0] if s.has_model else by_rule(found.sources, answers[0], self.tokens, s.counter)
            put = (system(f"{HEADING}\n\n{defuse(text)}"), *found.kept)
            return Finished(
                edits=(_edit(s, found, put, "summary"),), summary=text, files=files, details={"archive": True}
            )

        return _proposal(
            s, found, self.name, finish, ask=self._ask(s, found), tokens=self.tokens, timeout=self.timeout
        )

    def _ask(self, s: Situation, found: Stretch) -> Ask:
        focus = f"\nPay special attention to: {s.instructions}" if s.instructions else ""

        def render(sources: Sequence[Source], previous: str | None) -> Request:  # noqa: ARG001
            text = prompt(
                "layered_archive",
                conversation=transcript.render(sources, STYLE),
                period=period(found.sources),
                focus=focus,
            )
            return Request(
                messages=(user(text),),
                system=prompt("summariser_system"),
                max_tokens=self.tokens,
                timeout=self.timeout,
                purpose="summary",
            )

        target = self.tokens if s.has_model else self.tokens // 2
        return Ask(sources=found.sources, render=render, target_tokens=target, accept=answer.plain)


@dataclass(frozen=True)
class KeepRecent:
    """Where no archive could be written: the old rounds leave the view without one, and the user is told."""

    keep_rounds: int = 10
    name: str = "keep_recent"

    def propose(self, s: Situation, /) -> Proposal | Reason:
        found = stretch_of(s, self.keep_rounds)
        if isinstance(found, Reason):
            return found
        details = {"archive": True, "notice": NOTICE}
        edit = _edit(s, found, found.kept, "trim")
        return _proposal(s, found, self.name, lambda _: Finished(edits=(edit,), details=details))


def _edit(s: Situation, found: Stretch, put: tuple[Message, ...], kind: str) -> e.Edit:
    return e.Edit(s.session.path[found.first].id, s.session.path[found.last].id, put, kind)


def _proposal(
    s: Situation,
    found: Stretch,
    name: str,
    finish: Callable[[Sequence[str]], Finished],
    *,
    ask: Ask | None = None,
    tokens: int = 0,
    timeout: float | None = None,
) -> Proposal:
    path = s.session.path
    gone = s.projection.size(s.counter, s.item_at(found.first), s.item_at(found.last + 1))
    return Proposal(
        rung=name,
        finish=finish,
        asks=(ask,) if ask else (),
        stretch=(path[found.first].id, path[found.last].id),
        fold=tuple(source.id for source in found.sources),
        first_kept=path[found.last + 1].id if found.last + 1 < len(path) else None,
        tokens_after=s.tokens - gone + tokens + sum(s.counter.message(x) for x in found.kept),
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
    groups = abridged.groups(((x.id, x.message) for x in sources), continues=False)
    asked = [group for group in groups if group.user.strip()]
    done = [
        f"- [✓] {one_line(g.user, 120)} - {one_line(g.response, 120) or 'done'}" for g in asked if not g.state
    ]
    open_ends = [f"- interrupted: {one_line(g.user, 120)}" for g in asked if g.state]
    files = trail.of(source.message for source in sources).files()
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
        s.counter_size(index)
        for index, item in enumerate(s.items)
        if item.fold and s.fold_of(item).details.get("archive")
    )
    if size <= s.window // 2:
        return None
    text = f"the archives alone take {size} of {s.window} tokens, and this design never folds them again"
    return Reason("archives_too_large", f"{text}: take a larger window, or fold with another preset")
