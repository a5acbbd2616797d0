"""R15: a plan is of one moment. Whatever changes the view between the plan and its fold, the plan is refused; and what
is planned in a thread while others write is what would have been planned at that moment with nobody else there."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.compaction.plan import Plan, finish
from refold.engine.fold import perform
from refold.errors import DoesNotFit, FoldError, StalePlan
from refold.format import encode
from refold.loop import run
from refold.session.forget import forget
from refold.testing.validators import validate_view
from tests.test_worker import session_of

SECRET = "the merger with Umbrella is on Friday the thirteenth"


def talk() -> Session:
    session = session_of(20)
    session.append(m.user(f"Keep to yourself: {SECRET}."))
    session.append(m.assistant("I will."))
    go_on(session)
    return session


def go_on(session: Session) -> None:
    for entry in session_of(20).path:
        assert isinstance(entry, e.MessageEntry)
        session.append(entry.message)


def engine_of(name: str = "refold") -> Engine:
    return Engine(presets.get(name, window=40_000))


def append(engine: Engine, session: Session) -> None:
    session.append(m.user("One more thing."))


def pin(engine: Engine, session: Session) -> None:
    engine.pin(session, session.path[1].id)


def unpin(engine: Engine, session: Session) -> None:
    engine.unpin(session, session.path[0].id)


def forget_secret(engine: Engine, session: Session) -> None:
    [entry] = [x for x in session.path if isinstance(x, e.MessageEntry) and SECRET in x.message.text]
    forget(session, [entry.id])


def undo(engine: Engine, session: Session) -> None:
    engine.undo(session)


def redo(engine: Engine, session: Session) -> None:
    engine.redo(session)


def move(engine: Engine, session: Session) -> None:
    session.move(session.path[-2].id)


def learn(engine: Engine, session: Session) -> None:
    session.append(session.make(e.LearnedWindow, target=session.leaf, model="m", tokens=9_000))


def ready(operation: Callable[[Engine, Session], None]) -> Session:
    """A session in which the operation means something."""
    session, engine = talk(), engine_of()
    engine.pin(session, session.path[0].id)
    if operation in (undo, redo):
        run(engine.apply(session, _plan(engine, session)))
        go_on(session)
    if operation is redo:
        engine.undo(session)
    return session


OPERATIONS = (append, pin, unpin, forget_secret, undo, redo, move, learn)


@pytest.mark.sample(16)
@pytest.mark.parametrize("name", presets.NAMES)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_R15_apply_refuses_a_plan_once_anything_changed_the_view(
    operation: Callable[[Engine, Session], None], name: str
) -> None:
    session, engine = ready(operation), engine_of(name)
    plan = _plan(engine, session)
    operation(engine, session)
    before = list(session.entries)
    with pytest.raises(StalePlan):
        run(engine.apply(session, plan))
    assert list(session.entries) == before


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_R15_a_fold_that_is_ready_is_not_appended_once_anything_changed_the_view(
    operation: Callable[[Engine, Session], None],
) -> None:
    """The change comes in the last moment: while the fold is made."""
    session, engine = ready(operation), engine_of()
    plan, folds = _plan(engine, session), len(session.annotations(e.Fold))

    async def apply() -> None:
        work = asyncio.ensure_future(perform(session, plan, engine.summariser, engine.planner.limits()))
        await asyncio.sleep(0)
        operation(engine, session)
        await work

    run(apply())
    assert len(session.annotations(e.Fold)) == folds
    if operation is forget_secret:
        assert not any(SECRET.encode() in encode(entry) for entry in session.entries)


def test_a_fold_is_not_appended_after_another_base() -> None:
    session = talk()
    base = session.base
    engine_of().pin(session, session.path[0].id)
    with pytest.raises(StalePlan):
        session.append(session.make(e.Note, content=m.content("late")), after=base)


def _plan(engine: Engine, session: Session) -> Plan:
    plan = engine.plan(session, force=True)
    assert isinstance(plan, Plan), plan
    return plan


# ── a planning thread beside a session that changes ─────────────────────────────────────────────


class Recorded(Session):
    """Remembers what the log held whenever a fold was appended."""

    def __init__(self) -> None:
        super().__init__()
        self.folds: list[tuple[tuple[e.AnyEntry, ...], e.Fold]] = []

    def append(self, said: Any, /, **given: Any) -> Any:
        before, entry = tuple(self.entries), super().append(said, **given)
        if isinstance(entry, e.Fold):
            self.folds.append((before, entry))
        return entry


def window() -> Engine:
    return Engine(presets.get("refold", window=3_000))


def hits(engine: Engine, session: Session) -> list[tuple[str, str]]:
    return [(hit.entry_id, hit.text) for hit in engine.recall(session, "answer of part 3", limit=3)]


def step(n: int) -> list[m.Message]:
    return [
        m.user(f"Look at part {n}, and never touch the migrations."),
        m.assistant(f"I read {n}.", m.call(f"c{n}", "Read", path=f"src/part{n}.py")),
        m.result(f"c{n}", f"value_{n} = compute({n})\n" * 40),
        m.assistant(f"Part {n} was read; its answer is {n * 17}."),
    ]


async def interleaved(seed: int) -> int:
    """One session: it grows, is pinned, forgotten and undone, while others prepare it and recall from it.
    Returns the number of its folds."""
    chance, session, engine = random.Random(seed), Recorded(), window()
    for n in range(12):
        session.extend(session._chained(step(n)))

    async def change() -> None:
        for n in range(12, 36):
            await asyncio.sleep(chance.choice((0, 0, 0.001, 0.004, 0.01)))
            path = [x for x in session.path if isinstance(x, e.MessageEntry)]
            what = chance.randrange(8)
            if what == 0:
                engine.pin(session, chance.choice(path).id)
            elif what == 1 and session.pins:
                engine.unpin(session, session.pins[0])
            elif what == 2:
                forget(session, [chance.choice(path[:-6]).id])
            elif what == 3 and session.folds:
                with contextlib.suppress(FoldError):
                    engine.undo(session)
            else:
                session.extend(session._chained(step(n)))

    async def prepare() -> None:
        while not changing.done():
            with contextlib.suppress(DoesNotFit):  # too much is pinned
                view = await engine.prepare(session)
                assert validate_view(view) == []
            await asyncio.sleep(0.001)

    async def ask() -> None:
        for _ in range(3):
            await asyncio.sleep(0.005)
            before = tuple(session.entries)
            found = await asyncio.to_thread(hits, engine, session)
            after = tuple(session.entries)
            if after[: len(before)] != before:
                continue  # an entry was forgotten meanwhile
            logs = (after[:end] for end in range(len(before), len(after) + 1))
            assert any(found == hits(window(), Session(log)) for log in logs)

    changing = asyncio.ensure_future(change())
    await asyncio.gather(changing, prepare(), prepare(), ask())
    for log, fold in session.folds:
        assert await is_sequential(log, fold), f"seed {seed}: no run without others makes {fold}"
    return len(session.folds)


async def is_sequential(log: tuple[e.AnyEntry, ...], fold: e.Fold) -> bool:
    """Does a fresh engine make the same fold of the log as it was then, or of a beginning of it?"""
    for end in range(len(log), 0, -1):
        alone = Session(log[:end])
        with contextlib.suppress(DoesNotFit):
            await window().prepare(alone)
            if alone.annotations(e.Fold) and alone.annotations(e.Fold)[-1].edits == fold.edits:
                return True
    return False


@pytest.fixture
def quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("quick_switches")
def test_what_is_planned_beside_a_changing_session_equals_some_run_without_others() -> None:
    assert sum(asyncio.run(interleaved(seed)) for seed in range(4)) > 0


@pytest.mark.slow
@pytest.mark.usefixtures("quick_switches")
@pytest.mark.parametrize("first", [100, 125])
def test_fifty_interleavings_equal_some_run_without_others(first: int) -> None:
    assert sum(asyncio.run(interleaved(seed)) for seed in range(first, first + 25)) > 5


@pytest.mark.torture
@pytest.mark.usefixtures("quick_switches")
@pytest.mark.parametrize("first", range(150, 1150, 50))
def test_a_thousand_interleavings_equal_some_run_without_others(first: int) -> None:
    assert sum(asyncio.run(interleaved(seed)) for seed in range(first, first + 50)) > 10


def test_a_fold_is_of_the_log_it_was_planned_of_whatever_was_read_meanwhile() -> None:
    def folded(*, recalled: bool) -> tuple[int, list[Any]]:
        session, engine = Session(), window()
        for n in range(40):
            session.extend(session._chained(step(n)))
        plan = _plan(engine, session)
        if recalled:
            session.extend(session._chained(step(40)))
            hits(engine, session)  # others read what came
        return plan.tokens_before, plan.at(lambda: [edit.put for edit in finish(plan, []).edits])

    assert folded(recalled=True) == folded(recalled=False)
