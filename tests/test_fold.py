"""What becomes of a proposal: taken where the view gets smaller, refused with a reason where it does not."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from refold import Engine, Failed, Fold, Plan, Reason, Session, presets
from refold import entries as e
from refold import format as fmt
from refold import messages as m
from refold.compaction import details
from refold.compaction.details import STRETCHES, left, rows
from refold.errors import FoldError
from refold.loop import run
from refold.models.scripted import Scripted, fail, say
from refold.protocols import Request
from refold.session.projection import Projection
from refold.tokens import get as counter
from tests.probe import SIZE, Swap, engine, swap, talk

COUNTER = counter("chars")


def planned(made: Engine, session: Session, **given: Any) -> Plan:
    plan = made.plan(session, **given)
    assert isinstance(plan, Plan), plan
    return plan


def folded(made: Engine, session: Session, **given: Any) -> Fold | Failed:
    return run(made.apply(session, planned(made, session, **given)))


# ── not smaller, not shorter, not worth it ──────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("letters", "taken"), [(1, True), (399, True), (400, False), (401, False), (799, False), (5000, False)]
)
def test_R3_a_fold_after_which_the_view_is_not_smaller_is_refused(letters: int, taken: bool) -> None:
    session, made = talk(), engine(swap(letters=letters))
    before = made.view(session).tokens
    outcome = folded(made, session)
    after = made.view(session).tokens
    if taken:
        assert isinstance(outcome, Fold)
        assert (outcome.tokens_before, outcome.tokens_after) == (before, after) == (600, 200 + letters)
    else:
        assert isinstance(outcome, Failed)
        assert (outcome.code, after) == ("inflated", before)
        assert [failure.code for failure in session.annotations(e.Failure)] == ["inflated"]


def test_a_design_that_does_not_care_may_make_the_view_larger() -> None:
    made = engine(swap(letters=5000, smaller=False))
    assert isinstance(folded(made, talk()), Fold)


@pytest.mark.parametrize(("letters", "taken"), [(399, True), (400, False), (401, False), (799, False)])
def test_R3_a_summary_that_is_not_shorter_than_what_it_replaces_is_refused(letters: int, taken: bool) -> None:
    """By the design's own measure, and whatever becomes of the view."""
    session = talk()
    made = engine(swap(asks=True, smaller=False), model=Scripted(then="s" * letters))
    outcome = folded(made, session)
    assert bool(outcome) is taken
    if isinstance(outcome, Failed):
        assert (outcome.code, outcome.requests) == ("inflated", 1)


def test_a_summary_of_what_takes_no_room_may_have_any_length() -> None:
    session = Session()
    session.append(m.user(""))
    session.append(m.user("x" * 500))
    made = engine(swap(last=0, asks=True, smaller=False), model=Scripted(then="a summary"))
    assert isinstance(folded(made, session), Fold)


def test_a_long_summary_is_taken_where_the_design_shows_something_shorter() -> None:
    made = engine(swap(asks=True, smaller=False, shorter=False), model=Scripted(then="s" * 450))
    assert isinstance(folded(made, talk()), Fold)


@pytest.mark.parametrize(("letters", "taken"), [(339, True), (340, True), (341, False)])
def test_R3_a_fold_that_frees_less_than_the_least_gain_is_not_worth_it(letters: int, taken: bool) -> None:
    session, made = talk(), engine(swap(letters=letters, min_gain=0.1))  # a tenth of 600
    outcome = folded(made, session)
    assert bool(outcome) is taken
    if isinstance(outcome, Failed):
        assert outcome.code == "no_gain"
        assert "10%" in outcome.text


def test_R3_any_gain_is_worth_it_where_the_view_is_too_large_for_the_window() -> None:
    made = engine(swap(letters=399, min_gain=0.1), window=599)
    assert isinstance(folded(made, talk()), Fold)
    made = engine(swap(letters=399, min_gain=0.1), window=600)
    assert isinstance(folded(made, talk()), Failed)


def test_the_system_prompt_counts_before_and_after() -> None:
    session, made = talk(), engine(swap(letters=10))
    fold = folded(made, session, system="p" * 50)
    assert isinstance(fold, Fold)
    assert (fold.tokens_before, fold.tokens_after) == (650, 260)


@dataclass(frozen=True)
class Slowly(Swap):
    """Takes its time."""

    begun: threading.Event = field(default_factory=threading.Event)
    goes_on: threading.Event = field(default_factory=threading.Event)

    def propose(self, s: Any, /) -> Any:
        self.begun.set()
        assert self.goes_on.wait(120)
        return super().propose(s)


def test_a_plan_is_given_up_where_the_conversation_moves_while_a_rung_works() -> None:
    slow = Slowly(name="slow")
    session, made = talk(), engine(swap(letters=5000), slow)
    plan = planned(made, session)

    async def moved() -> Fold | Failed:
        work = asyncio.ensure_future(made.apply(session, plan))
        await asyncio.to_thread(slow.begun.wait, 30)
        session.append("Wait.")
        slow.goes_on.set()
        return await work

    outcome = asyncio.run(moved())
    assert isinstance(outcome, Failed) and outcome.code == "stale"


# ── what is written down ────────────────────────────────────────────────────────────────────────


def test_a_fold_says_who_wrote_it_what_it_cost_and_why() -> None:
    usage = m.Usage(input=40, output=3, cache_read=5, cache_write=2)
    made = engine(swap(asks=True, author="nobody"), model=Scripted(then=say("short", usage=usage)))
    fold = folded(made, talk())
    assert isinstance(fold, Fold)
    assert (fold.author, fold.requests, fold.usage) == ("scripted:script", 1, usage)
    assert (fold.preset, fold.strategy, fold.summary) == ("probe", "swap", "short")
    assert fold.reason == "test: always"


def test_a_fold_by_rule_has_no_author_but_the_rule_and_no_usage() -> None:
    fold = folded(engine(swap(author="a rule")), talk())
    assert isinstance(fold, Fold)
    assert (fold.author, fold.requests, fold.usage) == ("a rule", 0, None)


def test_the_ledger_names_what_left_the_view_and_only_that() -> None:
    session = talk(8)
    first = folded(engine(swap(first=2, last=3)), session)
    made = engine(swap(first=0, last=4, letters=5))
    second = folded(made, session)
    assert isinstance(first, Fold)
    assert isinstance(second, Fold)
    ids = [entry.id for entry in session.path]
    first_rows, second_rows = (rows(session, fold, made.counter) for fold in (first, second))
    assert [row.id for row in first_rows] == ids[2:4]
    # What the first fold took is gone already; what it had put there was never said.
    assert [row.id for row in second_rows] == [ids[0], ids[1], ids[4]]
    assert [(row.kind, row.size) for row in second_rows] == [
        ("user", SIZE), ("assistant", SIZE), ("user", SIZE)
    ]  # fmt: skip
    assert [row.key for row in second_rows] == [e.key(row.id) for row in second_rows]
    assert len({row.hash for row in second_rows}) == 3


def test_a_ledger_is_bounded_and_its_rows_are_read_from_the_log() -> None:
    """Every other entry of a long path leaves the view: the fold says so in so many stretches, no more."""
    session = talk(2_000)
    edits = tuple(e.Edit(one.id, one.id, kind="hide") for one in session.path[::2])
    fold = session.make(e.Fold, edits=edits, preset="probe")
    before = Projection(session).items
    after = [item for _, item in Projection(session).after(fold)]
    fold = msgspec.structs.replace(fold, left=left(session, before, after, COUNTER))
    alone = e.Fold(id="f", edits=(), preset="p", left=fold.left)
    assert len(fold.left) <= STRETCHES and len(fmt.encode(alone)) < 25_000
    session.append(fold)
    lost = rows(session, fold, COUNTER)
    assert [row.id for row in lost] == [edit.first for edit in edits]
    assert sum(one.entries for one in fold.left) == 1_000
    assert sum(one.size for one in fold.left) == sum(row.size for row in lost)


def test_a_ledger_of_rows_is_still_read() -> None:
    row = e.Lost(id="a", kind="user", size=3, hash="h", key="k")
    old = fmt.decode(fmt.encode(e.Fold(id="f", edits=(), preset="p", ledger=(row,))))
    assert isinstance(old, Fold) and rows(Session(), old, COUNTER) == (row,)


# ── strategies ──────────────────────────────────────────────────────────────────────────────────


def test_R3_where_a_rung_fails_the_next_one_is_tried_and_the_failure_written_down() -> None:
    session = talk()
    model = Scripted(fail(ValueError("no")), then="never asked")
    made = engine(
        swap(asks=True, name="by model"), swap(letters=900, name="too long"), swap(name="rule"), model=model
    )
    fold = folded(made, session)
    assert isinstance(fold, Fold)
    assert fold.strategy == "rule"
    assert [(f.strategy, f.code, f.preset) for f in session.annotations(e.Failure)] == [
        ("by model", "model", "probe"), ("too long", "inflated", "probe")
    ]  # fmt: skip
    assert len(model.requests) == 1


def test_R3_a_conversation_that_went_on_ends_the_strategies() -> None:
    """The strategies that remain would fold a path that is not there any more."""
    session = talk()

    def interrupts(_: Request) -> str:
        session.append(m.user("one more thing"))
        return "short"

    made = engine(swap(asks=True), swap(name="rule"), model=Scripted(then=interrupts))
    outcome = folded(made, session)
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.requests) == ("stale", 1)
    assert not session.annotations(e.Fold)


def test_R3_a_failure_says_where_and_what() -> None:
    session = talk()
    made = engine(swap(asks=True), model=Scripted(fail(ValueError("no"))))
    outcome = folded(made, session)
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.text) == (
        "model",
        "scripted:script failed: ValueError: no",
    )
    [failure] = session.annotations(e.Failure)
    assert (failure.target, failure.requests) == (session.leaf, 1)


# ── what was undone ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("first", "last", "left_alone"),
    [(0, 1, False), (0, 2, True), (2, 5, True), (3, 4, True), (5, 7, True), (6, 7, False), (0, 7, True)],
)
def test_an_undone_stretch_is_left_alone_and_its_neighbours_are_not(
    first: int, last: int, left_alone: bool
) -> None:
    session = talk(8)
    made = engine(swap(first=2, last=5))
    assert isinstance(folded(made, session), Fold)
    made.undo(session)
    plan = engine(swap(first=first, last=last)).plan(session)
    assert bool(plan) is not left_alone
    if isinstance(plan, Reason):
        assert plan.code == "undone"


def test_what_was_redone_may_be_folded_again() -> None:
    session, made = talk(8), engine(swap(first=2, last=5))
    assert isinstance(folded(made, session), Fold)
    made.undo(session)
    assert isinstance(made.plan(session), Reason)
    made.redo(session)
    assert isinstance(engine(swap(first=0, last=6)).plan(session), Plan)


def test_an_undone_stretch_goes_when_it_must_or_when_somebody_asks() -> None:
    session, made = talk(8), engine(swap(first=2, last=5))
    assert isinstance(folded(made, session), Fold)
    made.undo(session)
    assert isinstance(made.plan(session, force=True), Plan)
    assert isinstance(engine(swap(first=2, last=5), window=800).plan(session), Reason)
    assert isinstance(engine(swap(first=2, last=5), window=799).plan(session), Plan)


def test_an_undone_fold_of_what_is_not_on_this_path_blocks_nothing() -> None:
    session = talk(8)
    elsewhere = e.Edit(session.path[2].id, "elsewhere"), e.Edit("elsewhere", session.path[3].id)
    lost = e.Fold(id="f", parent=session.leaf, preset="probe", edits=elsewhere)
    session = Session([*session.entries, lost, e.Undo(id="u", parent="f", fold="f")])
    assert isinstance(engine(swap(first=2, last=3)).plan(session), Plan)


def test_redo_brings_back_what_was_undone_last() -> None:
    session = talk(8)
    one = folded(engine(swap(first=0, last=1)), session)
    made = engine(swap(first=3, last=4))
    two = folded(made, session)
    assert isinstance(one, Fold)
    assert isinstance(two, Fold)
    made.undo(session, one.id)
    made.undo(session, two.id)
    made.redo(session, one.id)
    made.undo(session, one.id)
    assert made.redo(session).fold == one.id
    assert made.redo(session).fold == two.id
    with pytest.raises(FoldError, match="no fold to redo"):
        made.redo(session)


def test_the_entry_of_a_fold_does_not_grow_with_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """What left the view is noted by stretches, files by name up to a number: never row by row."""
    monkeypatch.setattr(details, "READS", 20)
    sizes: list[int] = []
    for turns in (400, 800):
        session = Session()
        for n in range(turns):
            session.append(m.user(f"Fix bug {n}."))
            session.append(m.assistant("Looking.", m.call(f"c{n}", "Read", path=f"src/p{n}.py")))
            session.append(m.result(f"c{n}", "def f(): pass\n" * 3, name="Read"))
            session.append(m.assistant(f"Fixed bug {n}."))
        session.append(m.user("Go on."))
        run(Engine(presets.get("refold", window=4_000)).prepare(session))
        [fold] = session.annotations(e.Fold)
        sizes.append(len(fmt.encode(fold)))
    assert sizes[1] < 1.1 * sizes[0]


@pytest.mark.parametrize("said", ["<summary>only this inner bit</summary>", "<analysis>all of it"])
@pytest.mark.parametrize("preset", ["pi", "augment"])
def test_what_is_written_by_rule_is_not_read_as_a_models_answer(preset: str, said: str) -> None:
    """A conversation may quote the tags that a model is asked for."""
    session = Session()
    for number in range(40):
        session.append(m.user(f"Question {number}: why does part{number}.py fail? " + "More words. " * 20))
        quoted = f"I changed {said} in parser.py because the tag was wrong."
        told = quoted if number == 20 else f"Answer {number}: beta{number} equals {number} in it."
        session.append(m.assistant(f"{told} " + "Filler text about it. " * 40))
    fold = folded(Engine(presets.get(preset, budget=4_000)), session, force=True)
    assert isinstance(fold, Fold) and len(fold.summary) > 500
