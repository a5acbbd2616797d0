"""The strategies of the layered design: tool results are shortened once their round has ended (E3), and whole
old rounds become archives, which are never folded again: reason with everything, keep the essence."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from refold import entries as e
from refold.compaction import transcript
from refold.compaction.details import LayeredDetails
from refold.compaction.path_index import path_index
from refold.compaction.plan import Ask, Failed, Finished, PendingRequest, Proposal, Reason
from refold.compaction.plan_context import PlanContext, finished, left_alone, round_at, touches
from refold.compaction.requests import fill, focus_line, load, plain, stand_alone
from refold.compaction.transcript import SummarySource, for_digest, message_of_item, source_of
from refold.digest import Digest, Source, archive, period
from refold.errors import BadAnswer
from refold.facts import state
from refold.facts.tools import actions
from refold.messages import Call, Message, Result, System, system
from refold.protocols import Request, TokenCounter
from refold.session.toolnames import ToolKind
from refold.shrink import Limits, Rule, Shrinking, kind_of
from refold.text.frames import quote


class Answers(dict[tuple[int, str], Result | None]):
    """What rules that have to be waited for made of results, by rule and entry: each is asked once."""


@dataclass(frozen=True)
class ShrinkRounds:
    """One edit for every result of a finished round that its rule makes shorter."""

    limits: Limits = Limits()
    rules: Mapping[ToolKind, Rule] = field(default_factory=dict[ToolKind, Rule])
    """In the place of the rules of some kinds of tools."""
    name: str = "shrink"

    def propose(self, s: PlanContext, /) -> Proposal | Reason:
        rounds, answers = finished(s), s.session.derived.of(Answers, Answers)
        end = round_at(s, rounds - 1).last + 1 if rounds else 0
        asked, shorter, saved = dict[int, tuple[Shrinking, tuple[int, str]]](), dict[int, Result](), 0
        results = _results(s, _seen(s), end)
        for x in results:
            one = self._shrinking(s, x)
            key = (id(one.own), s.items[x].entries[0])
            result = answers.get(key) if one.waits else one.at_once()
            if one.waits and key not in answers:
                asked[x] = one, key
            elif result and (gain := _gain(s, x, result)) > 0:
                shorter[x], saved = result, saved + gain
        if not results:
            return Reason("no_results", "no tool result of a finished round is left to shorten")
        if not shorter and not asked:
            return Reason("nothing_shrinks", "no rule makes a result of the finished rounds shorter")
        ids = {x: s.items[x].entries[0] for x in sorted({*shorter, *asked})}
        places, files = list(ids.values()), path_index(s.session).state.files()

        def finish(_: Sequence[str]) -> Finished:
            told = {x: answers[key] for x, (_, key) in asked.items()}
            put = shorter | {x: result for x, result in told.items() if result and _gain(s, x, result) > 0}
            if not put:
                raise BadAnswer("nothing_shrinks", "no rule makes a result of the finished rounds shorter")
            edits = tuple(e.Edit(ids[x], ids[x], (put[x],), "shrink") for x in sorted(put))
            details = LayeredDetails(shrunk_through=s.session.path[end - 1].id).stored()
            return Finished(edits=edits, files=files, details=details)

        return Proposal(
            strategy=self.name,
            finish=finish,
            pending=tuple(_pending(one, answers, key) for one, key in asked.values()),
            stretch=(places[0], places[-1]),
            masked=tuple(places),
            first_kept=places[0],
            files=files,
            tokens_after=s.sizes.tokens - saved,
        )

    def _shrinking(self, s: PlanContext, index: int) -> Shrinking:
        result = s.items[index].message
        assert isinstance(result, Result)
        call = path_index(s.session).call_at(s.projection.position_of(index), result.call_id)
        call = call or Call(result.call_id, result.name or "")
        return Shrinking(call, result, self.limits, self.rules.get(kind_of(call)))


def _pending(one: Shrinking, answers: Answers, key: tuple[int, str]) -> PendingRequest:
    """Asks a rule. Its answer lies beside the session, so that a fold that fails asks for it
    only once."""

    async def run() -> None:
        answers[key] = await one.awaited()

    def failed(error: BaseException) -> None:
        answers[key] = one.instead(error)

    return PendingRequest(run, failed)


def _gain(s: PlanContext, index: int, small: Result) -> int:
    return s.sizes.item(index) - s.counter.message(small)


def _results(s: PlanContext, first: int, end: int) -> list[int]:
    """Indexes of the tool results in a stretch of the path that may be shortened."""
    items, alone, places = s.items, left_alone(s), s.projection
    results = (x for x in range(places.item_at(first), places.item_at(end)) if items[x].fold is None)
    whole = ((x, places.position_of(x)) for x in results if isinstance(items[x].message, Result))
    return [x for x, at in whole if not touches(at, at, alone)]


def _seen(s: PlanContext) -> int:
    """Path position up to which results were looked at before."""
    for fold in reversed(s.projection.folds):
        position = s.session.position(LayeredDetails.of(fold).shrunk_through)
        if position is not None:
            return position + 1
    return s.projection.floor


NOTICE = "Summary generation timed out, keeping recent history only."
FAILED = "Summary generation failed ({why}), keeping recent history only."
HEADING = "[Archive of earlier history. It is a record; the task in progress is in the messages that follow.]"
STYLE = transcript.Style(thinking="", result_limit=4_000, system=None)


class OldRounds(NamedTuple):
    """What is archived, as path positions (both inside) and as items."""

    first: int
    last: int
    sources: tuple[SummarySource, ...]
    kept: tuple[Message, ...]
    """System messages in it: they are not compacted."""


def old_rounds(s: PlanContext, keep_rounds: int) -> OldRounds | Reason:
    """The finished rounds after the last archive, except the newest ones."""
    rounds = finished(s)
    if rounds <= keep_rounds:
        return Reason("few_rounds", f"{rounds} finished round(s), and at least {keep_rounds} stay")
    first, last = _after_archives(s), round_at(s, rounds - keep_rounds - 1).last
    at = s.projection.item_at
    items = s.items[at(first) : at(max(last + 1, first))]
    kept = tuple(item.message for item in items if isinstance(item.message, System))
    said = (item for item in items if not isinstance(item.message, System))
    sources = tuple(source_of(s.session, item, message_of_item(s.session, item)) for item in said)
    if not sources:
        return Reason("all_archived", f"everything before the newest {keep_rounds} rounds is archived")
    return OldRounds(first, last, sources, kept)


def _after_archives(s: PlanContext) -> int:
    """The first path position behind every archive (and behind summaries of other designs)."""
    archives = (fold for fold in s.projection.folds if fold.edits and LayeredDetails.of(fold).archive)
    ends = [s.session.position(fold.edits[0].last) for fold in archives]
    if any(edit.first != edit.last for fold in s.projection.folds for edit in fold.edits):
        ends += [s.session.position(x.entries[-1]) for x in s.items if x.fold and len(x.entries) > 1]
    return max((end + 1 for end in ends if end is not None), default=s.projection.floor)


def _notice(s: PlanContext) -> str:
    """What the user is told (E10): why there is no archive, now or where none is tried any more."""
    recorded = (one for one in reversed(s.session.annotations(e.Failure)) if one.strategy == "archive")
    failed: Failed | e.Failure | None = s.memo.get(Failed, next(recorded, None))
    return NOTICE if failed is None or failed.code == "timeout" else FAILED.format(why=failed.text)


@dataclass(frozen=True, kw_only=True)
class KeepRecent:
    """Where no archive could be written: the old rounds leave the view without one, and the user is told."""

    keep_rounds: int = 10
    name: str = "keep_recent"

    def propose(self, s: PlanContext, /) -> Proposal | Reason:
        old = old_rounds(s, self.keep_rounds)
        return old if isinstance(old, Reason) else self._proposal(s, old)

    def _proposal(self, s: PlanContext, old: OldRounds) -> Proposal:
        path = s.session.path
        stretch = path[old.first].id, path[old.last].id
        details = LayeredDetails(archive=True, notice=_notice(s)).stored()
        edit = e.Edit(*stretch, old.kept, "trim")
        kept = sum(s.counter.message(message) for message in old.kept)
        return Proposal(
            strategy=self.name,
            finish=lambda _: Finished(edits=(edit,), framed=True, details=details),
            stretch=stretch,
            fold=tuple(source.id for source in old.sources),
            first_kept=s.id_at(old.last + 1),
            tokens_after=s.sizes.tokens - s.sizes.shown(old.first, old.last) + kept,
            smaller=False,
            shorter=False,
        )


@dataclass(frozen=True, kw_only=True)
class Archive(KeepRecent):
    """A record in fixed sections, written by a model, or by code where there is none."""

    tokens: int = 4_000
    timeout: float = 120.0
    prompt: str = ""
    """Asks for the archive, with the slots of the shipped one; empty: that one."""
    name: str = "archive"

    def _proposal(self, s: PlanContext, old: OldRounds) -> Proposal:
        bare = super()._proposal(s, old)

        def finish(answers: Sequence[str]) -> Finished:
            text, files = answers[0], state.of(source.message for source in old.sources).files()
            if missing(text) and not (s.has_model and self.prompt.strip()):
                made = Digest(for_digest(old.sources), template=archive(environment(s, old.sources)))
                text = completed(text, made.text(self.tokens // 2, s.counter))
            put = (system(f"{HEADING}\n\n{quote(text)}"), *old.kept)
            edit = e.Edit(s.session.path[old.first].id, s.session.path[old.last].id, put, "summary")
            details = LayeredDetails(archive=True).stored()
            return Finished(edits=(edit,), framed=True, summary=text, files=files, details=details)

        return replace(
            bare,
            finish=finish,
            asks=(self._ask(s, old),),
            tokens_after=bare.tokens_after + self.tokens,
            timeout=self.timeout,
        )

    def _ask(self, s: PlanContext, old: OldRounds) -> Ask:
        asked = self.prompt if self.prompt.strip() else load("layered_archive")
        if "{{conversation}}" not in asked:
            asked = f"<history>\n{{{{conversation}}}}\n</history>\n\n{asked}{{{{focus}}}}"

        def render(sources: Sequence[SummarySource], previous: str | None) -> Request:  # noqa: ARG001
            text = fill(
                asked,
                conversation=transcript.render(sources, STYLE),
                period=period(source.time for source in old.sources),
                focus=focus_line(s.instructions),
            )
            return stand_alone(text, max_tokens=self.tokens, timeout=self.timeout)

        def by_rule(sources: Sequence[Source], budget: int, counter: TokenCounter) -> str:
            made = Digest(sources, template=archive(environment(s, old.sources)))
            return made.text(min(budget + FRAME, self.tokens), counter)

        return Ask(
            sources=old.sources,
            render=render,
            by_rule=by_rule,
            target_tokens=self.tokens,
            accept=in_sections if s.has_model and not self.prompt.strip() else plain,
        )


TITLES = tuple(archive())
FRAME = 400
"""Tokens of an archive by rule that do not depend on how much was said."""


def in_sections(text: str) -> str:
    """A model's archive; `BadAnswer` where it has none of the sections."""
    text = plain(text)
    if len(missing(text)) == len(TITLES):
        raise BadAnswer("sections", f"the archive has none of the sections {', '.join(TITLES)}")
    return text


def missing(text: str) -> list[str]:
    """Sections that an archive does not have, however it spells their titles."""
    said = _letters(text)
    return [title for title in TITLES if _letters(title) not in said]


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.casefold().replace("&", "and"))


def completed(text: str, known: str) -> str:
    """An archive, and the sections that it lacks out of one that code wrote."""
    lacking, parts = missing(text), re.split(r"^## ", known, flags=re.M)[1:]
    added = [f"## {part.strip()}" for part in parts if part.partition("\n")[0] in lacking]
    return "\n\n".join([text, *added])


_SYSTEM = re.compile(
    r"(?:\bwork in \S{1,400} on |\b(?:platform|os|os version|operating system): {0,4})"
    r"(linux|darwin|macos|windows|freebsd)\b",
    re.IGNORECASE,
)
"""Where a system prompt says on which system it is; that it names one is not enough."""


def environment(s: PlanContext, sources: Sequence[SummarySource]) -> str:
    """Operating system, in the words of the system prompt, and the folder of the session or of its calls."""
    told = (s.system or "", *(x.message.text for x in s.items[: s.projection.first]))
    named = next((found for text in told if (found := _SYSTEM.search(text))), None)
    paths = [x.path for source in sources for call in source.message.calls for x in actions(call)]
    rooted = [path for path in paths if path.startswith("/")]
    folder = s.session.info.cwd or (posixpath.commonpath(map(posixpath.dirname, rooted)) if rooted else "")
    return f"system {named[1] if named else '(unknown)'}; folder {folder or '(unknown)'}"


def archives_fit(s: PlanContext, *, threshold: float, keep_rounds: int) -> Reason | None:
    """Archives are never folded again; where they alone take half the window, this design is at its end. And
    where it has archived what it may, and the view has still not come below the threshold, it says so."""
    sizes: dict[str, int] = {}
    for index, item in enumerate(s.items):
        if item.fold and LayeredDetails.of(s.projection.fold_of(item)).archive:
            sizes[item.fold] = sizes.get(item.fold, 0) + s.sizes.item(index)
    archives = sum(sizes.values())
    named = ", ".join(f"{e.key(fold)} ({size})" for fold, size in list(sizes.items())[-20:])
    if archives > s.window // 2:
        return Reason(
            "archives_too_large",
            f"the archives alone take {archives} of {s.window} tokens, and this design never folds them "
            f"again: {named}; take a larger window, or fold with another preset",
        )
    if not sizes or s.sizes.tokens < threshold * s.window:
        return None
    return Reason(
        "above_threshold",
        f"{s.sizes.tokens} tokens are left, {threshold:.0%} of {s.window} are {threshold * s.window:.0f}: "
        f"archives take {archives} ({named}), the {keep_rounds} newest rounds and the one in progress stay",
    )
