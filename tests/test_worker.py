"""Long work is done in one thread of our own: the event loop stays free, and what changes meanwhile is noticed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import refold
from refold import Engine, Session, presets, worker
from refold import entries as e
from refold import messages as m
from refold.cancellation import checkpoint
from refold.compaction.details import RefoldDetails
from refold.compaction.plan import Plan, Reason
from refold.compaction.plan_context import Due, PlanRequest
from refold.compaction.record import FoldBudget
from refold.compaction.strategies.graded import NOTED, Clip, Graded, grading
from refold.errors import PluginError
from tests.timing import alarm


def session_of(turns: int, *, tools: bool = True) -> Session:
    session = Session()
    for n in range(turns):
        session.append(
            m.user(f"Look at part {n} of the parser, and never touch the migrations. " + "why " * 40)
        )
        if tools:
            session.append(m.assistant(f"I read {n}.", m.call(f"c{n}", "Read", path=f"src/part{n}.py")))
            session.append(m.result(f"c{n}", f"value_{n} = compute({n})\n" * 120))
        session.append(
            m.assistant(f"Part {n} was read; its answer is {n * 17}. " + f"Detail {n} matters. " * 20)
        )
    return session


async def breaths(work: asyncio.Task[object]) -> int:
    """How often others got their turn while something was under way."""
    count = 0
    while not work.done():
        await asyncio.sleep(0)
        count += 1
    await work
    return count


@pytest.mark.slow
@pytest.mark.parametrize("tools", [True, False], ids=["tools", "talk"])
@pytest.mark.parametrize("name", ["refold", "pi"])
def test_others_get_their_turn_while_a_session_is_folded(name: str, tools: bool) -> None:
    async def run() -> int:
        session, engine = session_of(400, tools=tools), Engine(presets.get(name, window=40_000))
        count = await breaths(asyncio.ensure_future(engine.prepare(session)))
        assert session.annotations(e.Fold)
        return count

    assert asyncio.run(run()) > 3


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["refold", "pi", "augment", "window", "rounds", "layered"])
def test_every_design_plans_beside_the_loop(name: str) -> None:
    async def run() -> int:
        session, engine = session_of(300), Engine(presets.get(name))
        return await breaths(asyncio.ensure_future(engine.planner.planned(session, PlanRequest(force=True))))

    assert asyncio.run(run()) > 3


def test_what_is_said_while_a_fold_is_worked_out_is_in_the_view() -> None:
    async def run() -> None:
        session, engine = session_of(300), Engine(presets.get("refold", window=20_000))
        work = asyncio.ensure_future(engine.prepare(session))
        for n in range(6):
            await asyncio.sleep(0.004)
            session.append(m.user(f"And by the way, number {n}."))
        view = await work
        assert "number 5" in engine.view(session).text
        assert view.tokens <= 20_000
        assert len(session.annotations(e.Fold)) == 1

    asyncio.run(run())


def test_two_callers_fold_one_session_once() -> None:
    async def run() -> None:
        session, engine = session_of(300), Engine(presets.get("refold", window=20_000))
        one, other = await asyncio.gather(engine.prepare(session), engine.prepare(session))
        assert len(session.annotations(e.Fold)) == 1
        assert one.to_openai() == other.to_openai()

    asyncio.run(run())


def test_work_ends_where_nobody_waits_for_it_any_more() -> None:
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        try:
            while True:
                time.sleep(0.001)
                checkpoint()
        finally:
            ended.set()

    async def run() -> None:
        task = asyncio.ensure_future(worker.run_in_worker(work))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await worker.run_in_worker(lambda: 17) == 17

    asyncio.run(run())
    assert ended.wait(120)


def test_a_strategy_that_hangs_stops_neither_others_nor_the_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MAX_WORK_SECONDS", 0.2)
    release = threading.Event()

    async def run() -> None:
        hangs = asyncio.ensure_future(worker.run_in_worker(release.wait))
        other = asyncio.ensure_future(worker.run_in_worker(lambda: 17))
        with pytest.raises(PluginError, match="abandoned"):
            await hangs
        assert await other == 17

    with alarm(120):
        asyncio.run(run())
    alive = [thread for thread in threading.enumerate() if thread.name == "refold-worker"]
    assert all(thread.daemon for thread in alive)
    release.set()


def test_work_that_was_left_behind_fails_for_its_caller_whoever_noticed_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "MAX_WORK_SECONDS", 0.2)
    release, began, noticed = threading.Event(), threading.Event(), threading.Event()

    def hang() -> None:
        began.set()
        release.wait()

    async def hanging() -> str:
        task = asyncio.ensure_future(worker.run_in_worker(hang))
        await asyncio.to_thread(began.wait)
        noticed.wait(60)  # its loop is busy, so that another caller is the first to look
        with pytest.raises(PluginError, match="abandoned"):
            await task
        return "told"

    with ThreadPoolExecutor() as threads, alarm(120):
        told = threads.submit(asyncio.run, hanging())
        began.wait()
        assert asyncio.run(worker.run_in_worker(lambda: 17)) == 17
        noticed.set()
        assert told.result() == "told"
    release.set()


def test_cancelled_work_that_hangs_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "CHECKPOINT_GRACE", 0.1)
    release, began = threading.Event(), threading.Event()

    def hang() -> None:
        began.set()
        release.wait()

    async def run() -> None:
        hangs = asyncio.ensure_future(worker.run_in_worker(hang))
        await asyncio.to_thread(began.wait)
        hangs.cancel()
        with alarm(120):
            assert await worker.run_in_worker(lambda: 17) == 17

    asyncio.run(run())
    release.set()


def test_what_work_raises_reaches_the_caller_and_the_worker_goes_on() -> None:
    async def run() -> None:
        with pytest.raises(LookupError, match="gone"):
            await worker.run_in_worker(lambda: {}["gone"])
        with pytest.raises(KeyboardInterrupt):
            await worker.run_in_worker(_interrupt)
        assert await worker.run_in_worker(lambda: 17) == 17

    asyncio.run(run())


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_work_may_ask_for_more_work() -> None:
    async def run() -> int:
        session, engine = session_of(30), Engine(presets.get("refold", window=20_000))
        plan = await worker.run_in_worker(lambda: engine.plan(session, force=True))
        assert isinstance(plan, Plan)
        return len(plan.fold)

    assert asyncio.run(run()) > 0


def test_a_process_that_was_forked_has_a_worker_of_its_own() -> None:
    async def one() -> int:
        return await worker.run_in_worker(lambda: 17)

    assert asyncio.run(one()) == 17
    child = os.fork()
    if child == 0:
        os._exit(asyncio.run(one()))
    with alarm(120):
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17


def test_others_get_their_turn_while_a_log_is_read_for_recall() -> None:
    async def run() -> int:
        session, engine = session_of(200), Engine(presets.get("refold", window=40_000))
        work = asyncio.ensure_future(
            asyncio.to_thread(engine.recall, session, "part 17 of the parser", limit=3)
        )
        count = await breaths(work)
        assert work.result() == engine.recall(session, "part 17 of the parser", limit=3)
        assert work.result()
        return count

    assert asyncio.run(run()) > 3


@pytest.mark.slow
def test_counts_are_kept_of_what_is_shown_and_of_entries_alone() -> None:
    async def run() -> tuple[int, int]:
        session, engine = Session(), Engine(presets.get("refold", window=6_000))
        for entry in session_of(40).path:
            session.append(entry)
            await engine.prepare(session)
        folds, view = len(session.annotations(e.Fold)), len(engine.view(session).items)
        assert folds > 5
        return max(map(len, session._counts.values())), len(session) + view

    counted, most = asyncio.run(run())
    assert counted <= most


def test_lists_in_a_fold_are_bounded() -> None:
    session, engine = session_of(NOTED + 60), Engine(presets.get("refold", window=8_000))
    asyncio.run(engine.prepare(session))
    fold = session.annotations(e.Fold)[-1]
    noted, files = RefoldDetails.of(fold), fold.files
    assert len(files.read) == NOTED
    assert files.more == 60
    assert files.read[-1] == f"src/part{NOTED + 59}.py"
    assert len(noted.words_left_out) <= NOTED
    assert len(noted.words_left_out) + noted.words_left_out_before > NOTED


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_others_get_their_turn_while_a_session_is_opened_in_a_thread(kind: str, tmp_path: Path) -> None:
    spec = f"{kind}:{tmp_path}/session.{kind}"
    written = refold.open(spec)
    written.extend(session_of(400).entries)

    async def run() -> int:
        work = asyncio.ensure_future(asyncio.to_thread(refold.open, spec, written.id))
        count = await breaths(work)
        assert work.result().entries == written.entries
        work.result().append(m.user("On the loop again."))
        return count

    assert asyncio.run(run()) > 3


def test_a_performed_plan_needs_no_collector_to_go() -> None:
    session, engine = session_of(60), Engine(presets.get("refold", window=20_000))
    plan = engine.plan(session, force=True)
    assert isinstance(plan, Plan)
    situation = weakref.ref(plan.context)
    asyncio.run(engine.apply(session, plan))
    gc.disable()
    try:
        del plan
        assert situation() is None
    finally:
        gc.enable()


def test_a_view_is_graded_once_for_all_strategies() -> None:
    session, engine = session_of(400), Engine(presets.get("refold", window=20_000))
    s = replace(engine.planner.context(session), due=Due("asked", ""))
    shape = FoldBudget(20_000, 10_000)
    reason = Clip(shape).propose(s)
    assert isinstance(reason, Reason)
    assert reason.code == "not_enough"
    graded = grading(s, shape)
    assert isinstance(graded, Graded)  # another strategy can
    assert grading(s, shape) is graded


def test_work_that_is_cancelled_leaves_no_failure_that_nobody_asked_for() -> None:
    """asyncio would tell of it on stderr when a program ends."""
    told: list[Any] = []

    async def go() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, failed: told.append(failed))
        begun = threading.Event()

        def work() -> None:
            begun.set()
            while True:
                checkpoint()

        task = asyncio.ensure_future(worker.run_in_worker(work))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        del task
        await worker.run_in_worker(lambda: None)  # which comes after it
        gc.collect()

    asyncio.run(go())
    assert told == []


def test_the_engine_is_imported_where_there_is_no_fork() -> None:
    """As on Windows."""
    script = "import os; del os.fork, os.register_at_fork; from refold import Engine, Session; Engine().view(Session())"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_R2_what_is_said_while_nothing_is_due_is_folded_too() -> None:
    async def run() -> None:
        session, engine = Session(), Engine(presets.get("refold", window=20_000))
        for n in range(400):  # too many for a quick look, and they fit
            session.append(m.user(f"Step {n} of the plan is clear to me."))
        assert engine.view(session).tokens < 0.5 * engine.preset.budget
        session = Session(session.entries)
        work = asyncio.ensure_future(engine.prepare(session))
        await asyncio.sleep(0)
        for n in range(20):
            session.append(m.assistant("", m.call(f"c{n}", "Read", path=f"p{n}.py")))
            session.append(m.result(f"c{n}", f"a line of part {n}\n" * 400))
        assert (await work).tokens <= engine.preset.budget

    asyncio.run(run())
