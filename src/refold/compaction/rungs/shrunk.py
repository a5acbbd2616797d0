"""Tool results are shortened once their round has ended: reason with everything, keep the essence (E3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from refold import entries as e
from refold.compaction.details import LayeredDetails
from refold.compaction.plan import Errand, Finished, Proposal, Reason
from refold.compaction.reading import read, reading
from refold.compaction.rounds import finished, left_alone, round_at, touches
from refold.compaction.situation import Situation
from refold.errors import BadAnswer
from refold.messages import Call, Result
from refold.protocols import Steps, complete
from refold.session.toolnames import Kind
from refold.shrink import AnyRule, Limits, Shrinking, kind_of


class Answers(dict[tuple[int, str], Result | None]):
    """What rules that have to be waited for made of results, by rule and entry: each is asked once."""


@dataclass
class _Work:
    """What became of the results up to a place of the path, by their indexes."""

    end: int
    shrinking: dict[int, Shrinking] = field(default_factory=dict[int, Shrinking])
    asked: dict[int, tuple[int, str]] = field(default_factory=dict[int, tuple[int, str]])
    """Rules that have to be waited for."""
    shorter: dict[int, Result] = field(default_factory=dict[int, Result])
    saved: int = 0
    """Tokens."""


LOOKS = 16
"""Results that are looked at between two breaths."""


@dataclass(frozen=True)
class ShrinkRounds:
    """One edit for every result of a finished round that its rule makes shorter."""

    limits: Limits = Limits()
    rules: Mapping[Kind, AnyRule] = field(default_factory=dict[Kind, AnyRule])
    """In the place of the rules of some kinds of tools."""
    name: str = "shrink"

    def ahead(self, s: Situation, /) -> Steps[None]:
        yield from s.sizes.counting()
        yield from read(s.session)
        rounds = finished(s)
        end = round_at(s, rounds - 1).last + 1 if rounds else 0
        answers, work = s.session.followers.of(Answers, Answers), _Work(end)
        for number, x in enumerate(_results(s, _seen(s), end), 1):
            one = work.shrinking[x] = self._shrinking(s, x)
            key = (id(one.own), s.items[x].entries[0])
            result = answers.get(key) if one.waits else one.at_once()
            if one.waits and key not in answers:
                work.asked[x] = key
            elif result and (saved := _gain(s, x, result)) > 0:
                work.shorter[x], work.saved = result, work.saved + saved
            if number % LOOKS == 0:
                yield
        s.memo[ShrinkRounds] = work

    def propose(self, s: Situation, /) -> Proposal | Reason:
        if ShrinkRounds not in s.memo:
            complete(self.ahead(s))
        work: _Work = s.memo[ShrinkRounds]
        end, shrinking, asked, shorter = work.end, work.shrinking, work.asked, work.shorter
        if not shrinking:
            return Reason("no_results", "no tool result of a finished round is left to shorten")
        answers = s.session.followers.of(Answers, Answers)
        if not shorter and not asked:
            return Reason("nothing_shrinks", "no rule makes a result of the finished rounds shorter")
        ids = {x: s.items[x].entries[0] for x in sorted({*shorter, *asked})}
        places, files = list(ids.values()), reading(s.session).state.files()

        def finish(_: Sequence[str]) -> Finished:
            told = {x: answers[key] for x, key in asked.items()}
            put = shorter | {x: result for x, result in told.items() if result and _gain(s, x, result) > 0}
            if not put:
                raise BadAnswer("nothing_shrinks", "no rule makes a result of the finished rounds shorter")
            edits = tuple(e.Edit(ids[x], ids[x], (put[x],), "shrink") for x in sorted(put))
            details = LayeredDetails(shrunk_through=s.session.path[end - 1].id).stored()
            return Finished(edits=edits, files=files, details=details)

        return Proposal(
            rung=self.name,
            finish=finish,
            errands=tuple(_errand(shrinking[x], answers, key) for x, key in asked.items()),
            stretch=(places[0], places[-1]),
            masked=tuple(places),
            first_kept=places[0],
            files=files,
            tokens_after=s.sizes.tokens - work.saved,
        )

    def _shrinking(self, s: Situation, index: int) -> Shrinking:
        result = s.items[index].message
        assert isinstance(result, Result)
        calls = (call for at in range(index - 1, -1, -1) for call in s.items[at].message.calls)
        call = next((call for call in calls if call.id == result.call_id), None)
        call = call or Call(result.call_id, result.name or "")
        return Shrinking(call, result, self.limits, self.rules.get(kind_of(call)))


def _errand(one: Shrinking, answers: Answers, key: tuple[int, str]) -> Errand:
    """Asks a rule. Its answer lies beside the session, so that a fold that comes to nothing asks nobody
    twice."""

    async def run() -> None:
        answers[key] = await one.awaited()

    def failed(error: BaseException) -> None:
        answers[key] = one.instead(error)

    return Errand(run, failed)


def _gain(s: Situation, index: int, small: Result) -> int:
    return s.sizes.item(index) - s.counter.message(small)


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
