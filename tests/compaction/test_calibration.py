"""R12: what fits is judged by the provider's counts, where the log knows them."""

from __future__ import annotations

import asyncio
from functools import cache
from itertools import count as numbers
from itertools import pairwise
from typing import Any

import pytest

from refold import Engine, Session, presets, tokens
from refold import entries as e
from refold import messages as m
from refold.loop import run
from refold.messages import Thinking
from tests.timing import steps

COUNTER = tokens.get()
SCALE, FIXED = 1.35, 9_000
SYSTEM = "You are a careful agent."
WINDOW = 60_000


def count(view: Any) -> int:
    """What the provider counts for a view: another vocabulary, and tools of which we know nothing."""
    return round(SCALE * sum(COUNTER.message(item.message) for item in view.items) + FIXED)


def turn(number: int, size: int = 120) -> list[m.Message]:
    lines = "\n".join(f"value_{number}_{i} = compute({i})" for i in range(size))
    return [
        m.user(f"Step {number}: look at part {number}."),
        m.assistant("", m.call(f"c{number}", "Read", path=f"part{number}.py")),
        m.result(f"c{number}", lines, name="Read"),
        m.assistant(f"Part {number} is as it should be."),
    ]


def talk(engine: Engine, session: Session, turns: int, *, told: bool = True, size: int = 120) -> list[int]:
    """A conversation with a provider that counts by `count`; what it counted, request by request."""
    seen: list[int] = []
    for number in range(turns):
        for message in turn(number, size):
            if isinstance(message, m.Assistant):
                view = run(engine.prepare(session, system=SYSTEM))
                seen.append(count(view))
                usage = m.Usage(input=seen[-1], output=COUNTER.message(message))
                session.append(message, usage=usage if told else None, model="claude-x")
            else:
                session.append(message)
    return seen


def refold(**chosen: Any) -> Engine:
    return Engine(presets.get("refold", window=WINDOW, **chosen))


@cache
def long_talk() -> tuple[Session, list[int]]:
    session = Session()
    return session, talk(refold(), session, 90)


def test_R12_folds_before_the_true_window_is_passed() -> None:
    session, seen = long_talk()
    assert len(session.annotations(e.Fold)) >= 2
    assert max(seen) <= WINDOW
    assert max(seen) > 0.6 * WINDOW  # and not far too early


def test_R12_a_fold_aims_at_half_of_what_the_provider_counts() -> None:
    _, seen = long_talk()
    after = min(b for a, b in pairwise(seen) if b < a)
    usable = WINDOW - WINDOW // 5
    assert after <= 0.5 * usable + 500


def test_R12_one_large_result_is_counted_as_the_provider_will() -> None:
    """Between two usages only our own count knows the newest result: scaled, it must not slip through."""
    engine, session = refold(output_reserve=0, target=0.6), Session()
    talk(engine, session, 12)
    view = run(engine.prepare(session, system=SYSTEM))
    session.append(m.user("One more."))
    session.append(m.assistant("", m.call("big", "Read", path="big.py")))
    room = WINDOW - count(view)
    session.append(m.result("big", "value = compute(1)\n" * int(room / SCALE / 5 * 1.1), name="Read"))
    before = engine.view(session, system=SYSTEM)
    assert count(before) > WINDOW > before.tokens + FIXED  # without the scale nobody would notice
    assert count(run(engine.prepare(session, system=SYSTEM))) <= WINDOW


def test_without_usage_nothing_changes() -> None:
    plain, calibrated = (Session(new_id=lambda n=numbers(): f"{next(n):06}") for _ in range(2))
    assert talk(refold(calibrate=False), plain, 45, told=False) == talk(refold(), calibrated, 45, told=False)
    assert len(plain.annotations(e.Fold)) == len(calibrated.annotations(e.Fold)) > 0


def test_a_budget_is_meant_in_exact_tokens() -> None:
    session = Session()
    for number in range(30):
        for message in turn(number):
            usage = m.Usage(input=300_000) if isinstance(message, m.Assistant) else None
            session.append(message, usage=usage, model="claude-x")
    engine = Engine(presets.get("refold", budget=8_000))
    assert not engine.planner.context(session).sizes.calibration.known
    plan = engine.plan(session, force=True)
    assert plan
    run(engine.apply(session, plan))
    assert 6_000 < engine.view(session).tokens <= 8_000


def test_each_model_has_a_line_of_its_own() -> None:
    session, engine = Session(), refold()
    talk(engine, session, 12)
    assert engine.planner.context(session).sizes.calibration.scale == pytest.approx(SCALE, abs=0.01)
    session.append(session.make(e.ModelChange, model="another"))
    assert not engine.planner.context(session).sizes.calibration.known
    session.append(session.make(e.ModelChange, model="claude-x"))
    assert engine.planner.context(session).sizes.calibration.known


def test_a_fold_hands_on_what_was_learnt() -> None:
    session, _ = long_talk()
    folds = session.annotations(e.Fold)
    reopened = Session(session.entries[: session.entries.index(folds[-1]) + 1])
    found = refold().planner.context(reopened).sizes.calibration
    assert found.known
    assert found.scale == pytest.approx(SCALE, abs=0.02)
    assert found.fixed == pytest.approx(FIXED, abs=600)


def test_usage_that_says_nothing_is_not_believed() -> None:
    """A server that reports only what it read anew."""
    session, engine = Session(), refold()
    for number in range(40):
        for message in turn(number):
            usage = m.Usage(input=7 + 400 * (number % 3)) if isinstance(message, m.Assistant) else None
            session.append(message, usage=usage, model="odd")
            assert run(engine.prepare(session)).tokens <= WINDOW
    assert engine.planner.context(session).sizes.provider >= engine.planner.context(session).sizes.tokens


def test_sealed_thoughts_of_finished_turns_are_left_out() -> None:
    session, engine = Session(), refold()
    seal, read = "x" * 6_000, 0
    for number in range(10):
        said = m.user(f"Question {number}: " + "why? " * 40 * (number + 1))
        session.append(said)
        read += COUNTER.message(said)
        reply = m.assistant([Thinking("", data=seal, id=f"r{number}"), f"Because of {number}."])
        session.append(reply, usage=m.Usage(input=read + 500), model="o")
        read += COUNTER.message(m.assistant(f"Because of {number}."))
    found = engine.planner.context(session).sizes.calibration
    assert found.scale == pytest.approx(1.0, abs=0.02)
    assert found.fixed == pytest.approx(500, abs=60)


def test_a_turn_costs_what_is_new() -> None:
    session, engine = Session(), Engine(presets.get("refold", window=50_000_000))

    def one_more() -> None:
        engine.observe(session, m.assistant("one more"))
        asyncio.run(engine.prepare(session))

    def cost(turns: int) -> int:
        for number in range(turns):
            for message in turn(number, 1):
                usage = m.Usage(input=100 + 60 * len(session)) if isinstance(message, m.Assistant) else None
                session.append(message, usage=usage, model="x")
        one_more()
        assert engine.planner.context(session).sizes.calibration.known
        return steps(one_more)

    few = cost(150)
    assert cost(1_500) < 1.2 * few
