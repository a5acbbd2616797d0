"""R3: nothing waits for ever. A summariser that stalls, drips, hangs in mid-reply or asks for patience ends at one
limit, whatever the design, its strategies and its retries; and what comes then is what the design does without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.compaction.plan import Failed, Plan
from refold.engine.summarise import Answer, ByModel
from refold.errors import DoesNotFit, Transient
from refold.models.retry import Retry
from refold.models.scripted import Scripted, ScriptStep, fail, say, stall
from refold.tokens import get as counter
from tests.virtual import run_virtually

SECONDS = 120.0
DRIP = say("x" * 24_000, pace=1.0)
WAITS: dict[str, ScriptStep] = {
    "stalls": stall(),
    "hangs in mid-reply": stall("## Goal\nThe user wants"),
    "drips": DRIP,
    "is slow to begin": say("## Goal\nFine.", delay=3_600.0),
    "wants patience": fail(Transient("429 slow down", retry_after=90.0)),
    "breaks off and wants patience": fail(Transient("503", retry_after=100.0), "## Goal\nThe"),
}
PRESETS: dict[str, Callable[[], presets.Preset]] = {
    "refold": lambda: presets.get("refold", window=6_000),
    "pi": lambda: presets.get("pi", window=9_000, reserve_tokens=1_000, keep_recent_tokens=2_000),
    "augment": lambda: presets.get("augment", budget=4_000, window=50_000),
    "window": lambda: presets.get("window", compact_threshold=22, compact_window=12, max_history=30),
    "rounds": lambda: presets.get("rounds"),
    "layered": lambda: presets.get("layered", window=9_000, keep_rounds=2),
}


def work(turns: int = 14, words: int = 120) -> Session:
    session = Session()
    for number in range(turns):
        session.append(m.user(f"Please fix bug {number} of the login. " + "and so on " * words))
        session.append(m.assistant("Looking.", m.call(f"c{number}", "Read", path=f"src/p{number}.py")))
        session.append(m.result(f"c{number}", f"def part_{number}(): ...\n" * words, name="Read"))
        session.append(m.assistant(f"Fixed bug {number}."))
    session.append(m.user("What is left?"))
    return session


def engine_of(name: str, model: Any) -> Engine:
    # A drip must not be saved by the clock of the retries, which is a real one.
    by = ByModel(model, counter(), retries=Retry(total=1e9))
    return Engine(PRESETS[name](), model=model, summariser=by)


async def prepared(engine: Engine, session: Session) -> None:
    try:
        await engine.prepare(session)
    except DoesNotFit:  # a foreign design without a summary has nothing else
        assert engine.preset.name != "refold"


@pytest.mark.sample(14)
@pytest.mark.parametrize("behaviour", WAITS)
@pytest.mark.parametrize("name", presets.NAMES)
def test_R3_prepare_ends_at_the_limit(name: str, behaviour: str) -> None:
    session, model = work(), Scripted(then=WAITS[behaviour], context_window=100_000)
    before = list(session.path)
    _, seconds = run_virtually(prepared(engine_of(name, model), session))
    assert model.requests, "nobody was asked"
    assert model.open == 0
    assert seconds <= SECONDS + 1
    assert [x for x in session.path if not isinstance(x, e.Fold)] == before
    assert session.annotations(e.Failure)


@pytest.mark.parametrize("behaviour", WAITS)
def test_R3_the_limit_is_a_setting_and_the_deterministic_end_comes_after_it(behaviour: str) -> None:
    session, model = work(), Scripted(then=WAITS[behaviour], context_window=100_000)
    engine = Engine(presets.get("refold", window=6_000, summary_seconds=7.0), model=model)
    view, seconds = run_virtually(engine.prepare(session))
    assert seconds <= 8
    assert view.tokens <= engine.preset.budget
    [fold] = session.annotations(e.Fold)
    assert fold.strategy == "lines"
    assert len(model.requests) == 1, "a strategy was tried after the time was over"


@pytest.mark.parametrize("behaviour", WAITS)
def test_R3_apply_branch_and_background_work_end_at_the_limit(behaviour: str) -> None:
    async def by_hand(engine: Engine, session: Session) -> None:
        plan = engine.plan(session, force=True)
        assert isinstance(plan, Plan)
        await engine.apply(session, plan)

    async def branched(engine: Engine, session: Session) -> None:
        outcome = await engine.branch(session, session.path[3].id, summarize=True)
        assert isinstance(outcome, Failed)

    async def watched(engine: Engine, session: Session) -> None:
        async with engine.watch(session) as watch:
            await engine.prepare(session)
            await watch.tasks["fold"]

    for job in (by_hand, branched, watched):
        session, model = work(), Scripted(then=WAITS[behaviour], context_window=100_000)
        window = 6_000 if job is by_hand else 2 * Engine().view(session).tokens
        preset = presets.get("refold", window=window, soft=0.3, target=0.2)
        engine = Engine(preset, summariser=ByModel(model, counter(), retries=Retry(total=1e9)))
        _, seconds = run_virtually(job(engine, session))
        assert model.requests and seconds <= SECONDS + 1
        assert model.open == 0


def test_R3_a_summariser_that_does_not_care_for_being_cancelled_is_left_behind() -> None:
    class Deaf:
        name, uses_model, told = "deaf", True, False

        async def answer(self, _: Any, /) -> Answer:
            while not self.told:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(1e5)
            return Answer("too late")

    async def story() -> float:
        deaf = Deaf()
        engine = Engine(presets.get("refold", window=6_000), summariser=deaf)
        await engine.prepare(work())
        seconds, deaf.told = asyncio.get_running_loop().time(), True
        await asyncio.sleep(1e5)
        return seconds

    seconds, _ = run_virtually(story())
    assert seconds <= SECONDS + 5
