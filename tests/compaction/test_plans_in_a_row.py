"""A plan after each message is the one that a cold engine makes, also while signed thinking waits for its results."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from refold import Engine, Session, presets
from refold import messages as m
from refold.compaction.plan import Plan
from refold.errors import DoesNotFit


def said(seed: int) -> Iterator[m.Message]:
    chance, number = random.Random(seed), 0
    for _ in range(4):
        yield m.user("please " + "word " * chance.randint(3, 60))
        for _ in range(chance.randint(1, 5)):
            number += 1
            thought = m.Thinking("thought " * chance.randint(5, 200), f"signature {number}")
            yield m.assistant([thought, m.call(f"c{number}", "bash", {"command": f"ls {number % 3}"})])
            yield m.result(f"c{number}", "line\n" * chance.randint(1, 300))
            if chance.random() < 0.3:
                yield m.user("note " + "y " * chance.randint(1, 30))  # beside the results
        yield m.assistant("done " + "z " * chance.randint(1, 50))


def made(engine: Engine, session: Session) -> object:
    try:
        plan = engine.plan(session, force=True)
    except DoesNotFit:
        return DoesNotFit
    return (plan.clipped, plan.first_kept) if isinstance(plan, Plan) else plan


@pytest.mark.sample(1)
@pytest.mark.parametrize("budget", [900, 2_000])
@pytest.mark.parametrize("seed", range(2))
def test_R19_a_plan_after_each_message_is_a_cold_one(seed: int, budget: int) -> None:
    session, engine = Session(), Engine(presets.get("refold", budget=budget))
    for message in said(seed):
        session.append(message)
        cold = made(Engine(presets.get("refold", budget=budget)), Session(session.entries))
        assert made(engine, session) == cold
