"""From a context to a plan, or to the reason why there is none; and what a plan costs (R15)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from refold import entries as e
from refold import messages as m
from refold import presets
from refold.cli.plan_cost import _summary, cost
from refold.compaction.plan import Ask, Finished, Plan, Proposal, Reason, Stage
from refold.compaction.plan_context import Due, PlanContext, Writer
from refold.compaction.planning import make_plan, refused, replan
from refold.compaction.preset import Preset
from refold.compaction.requests import PROMPT, choose_form, fits
from refold.compaction.transcript import SummarySource
from refold.costs import SummaryCost
from refold.protocols import Request

from .kit import context, session_of

TALK = [m.user("ask one"), m.assistant("did one"), m.user("ask two"), m.assistant("did two")]


@dataclass(frozen=True)
class Fixed:
    """A trigger and a strategy that always say the same."""

    outcome: Any
    name: str = "fixed"

    def due(self, _: PlanContext, /) -> Due | Reason:
        return self.outcome

    def propose(self, _: PlanContext, /) -> Proposal | Reason:
        return self.outcome


def proposal(name: str, **more: Any) -> Proposal:
    return Proposal(strategy=name, finish=lambda _: Finished(edits=()), **more)


def preset(*stages: Stage) -> Preset:
    return replace(presets.get("pi"), stages=stages)


def stage(due: Due | Reason, *outcomes: Proposal | Reason, maintenance: bool = False) -> Stage:
    return Stage(Fixed(due), tuple(Fixed(outcome) for outcome in outcomes), maintenance=maintenance)


def planned(found: Preset, s: PlanContext, **more: Any) -> str:
    outcome = make_plan(found, s, **more)
    return (
        f"{outcome.reason.code}: {outcome.strategy}" if isinstance(outcome, Plan) else f"not: {outcome.code}"
    )


DUE, NOT = Due("full", "x"), Reason("below", "x")
NO, NEITHER = Reason("nothing", "x"), Reason("neither", "x")
ASKING = Ask(sources=(), render=lambda *_: Request(messages=()), target_tokens=10, accept=str)


@pytest.mark.parametrize(
    ("stages", "force", "found"),
    [
        ([stage(DUE, proposal("a"))], False, "full: a"),
        ([stage(DUE, NO, proposal("b"))], False, "full: b"),
        ([stage(DUE, NO, NEITHER)], False, "not: nothing"),
        ([stage(DUE)], False, "not: nothing_to_fold"),
        ([stage(NOT, proposal("a"))], False, "not: below"),
        ([stage(NOT, proposal("a")), stage(DUE, proposal("b"))], False, "full: b"),
        ([stage(DUE, NO), stage(DUE, proposal("b"))], False, "full: b"),
        ([stage(DUE, proposal("a")), stage(NOT, proposal("b"))], True, "asked: b"),
        ([stage(DUE, proposal("a")), stage(NOT, NEITHER)], True, "not: neither"),
    ],
)
def test_the_first_stage_that_is_due_and_has_something_to_fold(
    stages: list[Stage], force: bool, found: str
) -> None:
    assert planned(preset(*stages), context(*TALK, force=force)) == found


def test_maintenance_asks_only_the_stages_that_are_for_it() -> None:
    both = preset(stage(DUE, proposal("a")), stage(DUE, proposal("b"), maintenance=True))
    assert planned(both, context(*TALK), maintenance_only=True) == "full: b"
    assert (
        planned(preset(stage(DUE, proposal("a"))), context(*TALK), maintenance_only=True) == "not: no_stage"
    )


def test_a_plan_knows_where_it_was_made_and_what_comes_after_it() -> None:
    s = context(*TALK, window=77)
    plan = make_plan(preset(stage(DUE, NO, proposal("b"), proposal("c"))), s)
    assert isinstance(plan, Plan)
    assert (plan.base, plan.preset, plan.window, len(plan.remaining), len(plan.strategies)) == (
        s.session.tip,
        "pi",
        77,
        1,
        3,
    )
    again = replan(plan, context(*TALK))
    assert isinstance(again, Plan) and again.strategy == "b"
    wanted = replan(plan, context(*TALK, first_kept="e2"))
    assert isinstance(wanted, Reason) and wanted.code == "nothing"


@pytest.mark.parametrize(
    ("offer", "more", "code"),
    [
        (proposal("a"), {}, None),
        (proposal("a", first_kept="e2"), {"first_kept": "e2"}, None),
        (proposal("a", first_kept="e1"), {"first_kept": "e2"}, "fixed_cut"),
        (proposal("a", first_kept="e1"), {"first_kept": "e2", "force": True}, "fixed_cut"),
        (proposal("a", asks=(ASKING,)), {"resting": True}, "breaker"),
        (proposal("a", asks=(ASKING,)), {"resting": True, "force": True}, None),
        (proposal("a"), {"resting": True}, None),
    ],
)
def test_a_proposal_that_could_be_followed_may_be_refused(
    offer: Proposal, more: dict[str, Any], code: str | None
) -> None:
    found = refused(context(*TALK, **more), offer)
    assert (None if found is None else found.code) == code


@pytest.mark.parametrize(
    ("stretch", "window", "code"),
    [
        (("e0", "e1"), 99, "undone"),
        (("e1", "e3"), 99, "undone"),
        (("e2", "e3"), 99, None),
        (None, 99, None),
        (("e0", "e1"), 7, None),
    ],
)
def test_what_was_unfolded_by_hand_is_left_alone_until_it_must_go(
    stretch: tuple[str, str] | None, window: int, code: str | None
) -> None:
    session = session_of(*TALK)
    edit = e.Edit("e0", "e1", (m.user("short"),), "summary")
    session.append(e.Fold(id="f", parent="e3", preset="pi", edits=(edit,), summary="short"))
    session.append(e.Undo(id="u", parent="f", fold="f"))
    found = refused(context(session=session, window=window), proposal("a", stretch=stretch))
    assert (None if found is None else found.code) == code


# ── money ───────────────────────────────────────────────────────────────────────────────────────


def asking(s: PlanContext, *asks: Ask) -> Plan:
    plan = make_plan(preset(stage(DUE, proposal("a", asks=asks, tokens_after=2))), s)
    assert isinstance(plan, Plan)
    return plan


def test_asking_costs_a_prompt_and_what_it_reads_unless_a_cache_is_continued() -> None:
    s = context(*TALK, writer=Writer("gpt-4.1"))
    read = replace(ASKING, sources=(SummarySource("e0", m.user("a b c")),))
    cached = replace(read, prefix=lambda: Request(messages=()))
    assert (
        _summary(asking(context(*TALK)), "m") == _summary(asking(context(*TALK), read), "m") == SummaryCost()
    )
    alone = _summary(asking(s, read, read), "gpt-4.1")
    assert (alone.form, alone.prompt, alone.output, alone.prices) == ("stand-alone", 2 * PROMPT + 6, 20, None)
    one = _summary(asking(s, cached, read), "other")
    assert (one.form, one.prompt) == ("stand-alone", 2 * PROMPT + 6) and one.prices is not None
    both = _summary(asking(s, cached), "gpt-4.1")
    assert (both.form, both.prompt, both.output) == ("cached-prefix", PROMPT, 10)


def test_a_plan_has_a_price_where_the_model_has_one() -> None:
    plan = asking(context(*TALK))
    assert cost(plan).model is None and cost(plan).now is None
    assert cost(plan, "nobody knows it") == type(cost(plan))(model="nobody knows it")
    money = cost(plan, "gpt-4.1")
    assert money.model == "gpt-4.1" and money.now is not None and money.per_turn is not None


# ── in which form ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("size", "output", "window", "goes"),
    [
        (950, 0, 1_000, True),
        (951, 0, 1_000, False),
        (850, 100, 1_000, True),
        (851, 100, 1_000, False),
        (10**9, 1, None, True),
    ],
)
def test_a_request_goes_into_a_window_with_a_margin(
    size: int, output: int, window: int | None, goes: bool
) -> None:
    assert fits(size, output, window) is goes


def chat(model: str | None = "m", *, age: float = 10.0, **more: Any) -> PlanContext:
    session = session_of(*TALK[:1])
    session.append(m.assistant("did one"), model=model)
    now = session.path[-1].time + age
    return context(session=session, now=now, **{"system": "s", "writer": Writer("m"), **more})


@pytest.mark.parametrize(
    ("s", "wanted", "form"),
    [
        (chat(), "auto", "cached-prefix"),
        (chat(age=0.0), "auto", "cached-prefix"),
        (chat(age=59.9), "auto", "cached-prefix"),
        (chat(age=60.0), "auto", "stand-alone"),
        (chat(age=-1.0), "auto", "stand-alone"),
        (chat("other"), "auto", "stand-alone"),
        (chat(None), "auto", "stand-alone"),
        (chat(system=None), "auto", "stand-alone"),
        (chat(system=None, tools=[{"name": "T"}]), "auto", "cached-prefix"),
        (chat(writer=None), "cached-prefix", "stand-alone"),
        (chat(), "stand-alone", "stand-alone"),
        (chat(age=999.0), "cached-prefix", "cached-prefix"),
        (chat(None), "cached-prefix", "cached-prefix"),
        (chat("other"), "cached-prefix", "stand-alone"),
        (chat(writer=Writer("m", 647)), "auto", "stand-alone"),
        (chat(writer=Writer("m", 648)), "auto", "cached-prefix"),
    ],
)
def test_a_chat_is_continued_where_that_reads_a_cache(s: PlanContext, wanted: Any, form: str) -> None:
    assert choose_form(s, wanted, ttl=60.0, redact=True, output=10) == form
    if wanted == "cached-prefix" and s.writer is not None:
        assert choose_form(s, wanted, ttl=60.0, redact=False, output=10) == "cached-prefix"
