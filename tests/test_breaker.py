"""The breaker (R3): after three failures in a row the summariser rests for five minutes. Read off the log."""

from __future__ import annotations

import pytest

from refold import Plan, Reason, Session
from refold import entries as e
from refold import messages as m
from refold.models.scripted import Scripted
from tests.probe import engine, swap, talk

START = 1_000.0


def logged(attempts: str) -> Session:
    """A session with these attempts, one a second: `f` failed, `s` succeeded, `r` a fold by rule, `t` stale,
    `c` cancelled, `a` aborted."""
    now = [START]
    session = talk(6, clock=lambda: now[0])
    codes = {"f": "model", "t": "stale", "c": "cancelled", "a": "aborted"}
    for attempt in attempts:
        now[0] += 1
        if attempt in codes:
            session.append(session.make(e.Failure, target=session.leaf, code=codes[attempt]))
        else:
            session.append(session.make(e.Fold, edits=(), preset="probe", requests=int(attempt == "s")))
            session.append(m.user("and on"))
    return session


def rests(session: Session, later: float = 0.0) -> bool:
    """Is a fold that would ask a model refused so long after the last attempt?"""
    made = engine(swap(asks=True), model=Scripted(), clock=lambda: session.clock() + later)
    plan = made.plan(session)
    assert isinstance(plan, Plan) or plan.code == "breaker"
    return isinstance(plan, Reason)


@pytest.mark.parametrize(
    ("attempts", "resting"),
    [
        ("", False),
        ("ff", False),
        ("fff", True),
        ("ffff", True),
        ("sfff", True),
        ("fffs", False),
        ("ffsf", False),
        ("ffsff", False),
        ("ffsfff", True),
        ("sfsff", False),
        ("fsfff", True),
        ("ffrf", True),  # a fold by rule says nothing about the model
        ("rrrfff", True),
        ("fftca", False),  # nor do attempts that came to nothing whatever it answered
        ("fftcaf", True),
        ("ttt", False),
    ],
)
def test_R3_three_failures_in_a_row_and_no_success_since(attempts: str, resting: bool) -> None:
    assert rests(logged(attempts)) is resting


@pytest.mark.parametrize(
    ("later", "resting"), [(0.0, True), (299.9, True), (300.0, False), (3000.0, False), (-0.5, False)]
)
def test_R3_it_rests_for_five_minutes_and_a_clock_set_back_ends_the_rest(later: float, resting: bool) -> None:
    assert rests(logged("fff"), later) is resting


def test_R3_the_rest_begins_with_the_newest_failure() -> None:
    session = logged("fff")
    last = session.annotations(e.Failure)[-1]
    session.append(e.Failure(id="new", target=last.target, code="model", time=last.time + 200))
    assert rests(session, 400)


def test_R3_while_the_model_rests_rules_fold_on() -> None:
    session = logged("fff")
    made = engine(swap(asks=True), swap(name="rule"), model=Scripted(), clock=session.clock)
    plan = made.plan(session)
    assert isinstance(plan, Plan)
    assert plan.strategy == "rule"


def test_R3_without_a_model_nothing_rests() -> None:
    session = logged("fff")
    assert isinstance(engine(swap(asks=True), clock=session.clock).plan(session), Plan)
