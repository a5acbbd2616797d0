"""Chains of folds with a kill before each: what comes from the disk is what would have been in memory. Designs
switched in the middle of a conversation, branches and merges among the folds."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.compaction.plan import Failed, Plan
from refold.engine.summarise import ByModel
from refold.errors import FoldError
from refold.loop import run
from refold.models.retry import NO_RETRY
from refold.models.scripted import Scripted
from refold.protocols import Request, SessionInfo, Store
from refold.registry.sessions import stored
from refold.session.invariants import settled
from refold.stores.jsonl import JsonlStore
from refold.stores.memory import MemoryStore
from refold.stores.sqlite import SqliteStore
from refold.testing.validators import validate_anthropic, validate_view
from refold.tokens import get as counter

STORES = ("jsonl", "sqlite")
PAIRS = pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("jsonl", False),
        ("sqlite", True),
        pytest.param("jsonl", True, marks=pytest.mark.torture),
        pytest.param("sqlite", False, marks=pytest.mark.torture),
    ],
)
"""Each store and each kind of summariser once; who is paired with whom makes no difference, so the other pairs
are left to `make torture`."""
DESIGNS = ("pi", "refold", "window", "augment", "rounds", "layered")
BUDGET = 3_000


def opener(kind: str, folder: Path) -> Callable[[], Store]:
    if kind == "memory":
        store = MemoryStore()
        return lambda: store
    return lambda: JsonlStore(folder / "s.jsonl") if kind == "jsonl" else SqliteStore(folder / "s.db")


def numbered() -> dict[str, Any]:
    """Ids and times that are the same in every run."""
    numbers, clock = itertools.count(), itertools.count(1_700_000_000)
    return {"new_id": lambda: f"id{next(numbers)}", "clock": lambda: float(next(clock))}


def begin(open_store: Callable[[], Store], **options: Any) -> Session:
    store = open_store()
    store.create(SessionInfo(id="s", created=0.0))
    return reopened(open_store, **options)


def reopened(open_store: Callable[[], Store], **options: Any) -> Session:
    session = stored(open_store(), "s")
    for name, value in options.items():
        setattr(session, name, value)
    return session


def engine_for(name: str, *, model: bool, budget: int | None = None) -> Engine:
    chosen: dict[str, dict[str, Any]] = {
        "refold": {"window": BUDGET},
        "pi": {"window": BUDGET, "reserve_tokens": 1_000, "keep_recent_tokens": 600},
        "window": {"compact_threshold": 22, "compact_window": 12, "max_history": 26},
        "augment": {"history_tail_size_chars_to_exclude": 2_000, "trigger_on_history_size_chars": 8_000},
        "rounds": {},
        "layered": {},
    }
    preset = presets.get(name, budget=budget, **chosen[name])
    if not model:
        return Engine(preset)
    count = itertools.count(1)

    def summary(request: Request) -> str:
        return f"## Goal\nSummary number {next(count)} of the login work ({request.purpose})."

    scripted = Scripted(then=summary, context_window=1_000_000)
    return Engine(preset, model=scripted, summariser=ByModel(scripted, counter(), retries=NO_RETRY))


def turn(number: int) -> list[m.Message]:
    a, b = f"a{number % 3}", f"b{number}"  # `a…` comes again and again
    return [
        m.user(f"Request {number}: fix part {number} of the login. Never touch file{number % 4}.lock!"),
        m.assistant(
            "Looking.", m.call(a, "Read", path=f"src/p{number}.py"), m.call(b, "Bash", command="make")
        ),
        m.result(a, f"def part_{number}(): ...\n" + "    compute(value)\n" * 40, name="Read"),
        m.result(b, "ok\n" + "compiling…\n" * 20, name="Bash"),
        m.assistant(f"Part {number} is fixed: the value was wrong."),
    ]


def bytes_of(engine: Engine, session: Session) -> str:
    view = engine.view(session, system="Be brief.")
    return json.dumps([view.to_openai(), view.to_anthropic(), view.to_responses(), view.tokens])


def fold(engine: Engine, session: Session) -> e.Fold | None:
    plan = engine.plan(session, force=True)
    made = run(engine.apply(session, plan)) if isinstance(plan, Plan) else None
    return made if isinstance(made, e.Fold) else None


def check_wire(engine: Engine, session: Session) -> None:
    view = engine.view(session)
    if view.items and settled(view.items):
        assert validate_view(view) + validate_anthropic(view.to_anthropic()) == []


def check_undo(engine: Engine, session: Session, before: str, made: e.Fold) -> None:
    """On a copy: taking the fold back gives the bytes from before it, bringing it back those after."""
    after = bytes_of(engine, session)
    twin = Session(session.entries)
    engine.undo(twin, made.id)
    assert bytes_of(engine, twin) == before
    engine.redo(twin, made.id)
    assert bytes_of(engine, twin) == after


@pytest.mark.sample(4)
@PAIRS
@pytest.mark.parametrize("name", DESIGNS)
def test_ten_folds_each_after_a_kill_give_the_bytes_of_a_session_that_was_never_closed(
    name: str, kind: str, model: bool, tmp_path: Path
) -> None:
    options, others = numbered(), numbered()
    open_store, twin = opener(kind, tmp_path), begin(opener("memory", tmp_path), **others)
    begin(open_store, **options)
    engine, other = engine_for(name, model=model), engine_for(name, model=model)
    folds = 0
    for number in range(30):
        session = reopened(open_store, **options)  # nobody closed the one before
        for message in turn(number):
            session.append(message)
            twin.append(message)
        if number % 3 == 2:
            session = reopened(open_store, **options)
            made, theirs = fold(engine, session), fold(other, twin)
            assert (made is None) == (theirs is None)
            folds += made is not None
        if number % 3:  # before each fold, and after it
            assert bytes_of(engine_for(name, model=model), session) == bytes_of(other, twin)
            check_wire(engine, session)
    assert folds >= 5
    assert list(reopened(open_store).entries) == list(twin.entries)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, marks=pytest.mark.torture if (at + number) % 2 else ())
        for at, kind in enumerate(STORES)
        for number, name in enumerate(DESIGNS)
    ],
)
def test_undo_and_redo_survive_a_reopening(name: str, kind: str, tmp_path: Path) -> None:
    open_store = opener(kind, tmp_path)
    session, engine = begin(open_store), engine_for(name, model=True)
    seen: list[tuple[str, str, str]] = []
    for number in range(24):
        for message in turn(number):
            session.append(message)
        if number % 6 == 5:
            before = bytes_of(engine, session)
            made = fold(engine, session)
            if made is not None:
                seen.append((made.id, before, bytes_of(engine, session)))
    assert seen
    last, before, after = seen[-1]
    for _ in range(2):
        session = reopened(open_store)
        engine.undo(session, last)
        session = reopened(open_store)
        assert bytes_of(engine, session)[:-10] == before[:-10]
        with pytest.raises(FoldError):
            engine.undo(session, last)
        engine.redo(session, last)
        session = reopened(open_store)
        assert bytes_of(engine, session) == after


ORDERS = (("pi", "refold", "window", "pi"), *itertools.permutations(DESIGNS, 2))


@pytest.mark.sample(10)
@pytest.mark.parametrize(
    ("order", "model"),
    [
        pytest.param(
            order,
            model,
            id=f"{'-'.join(order)}-{'model' if model else 'digest'}",
            marks=pytest.mark.torture if number % 2 == model else (),
        )
        for number, order in enumerate(ORDERS)
        for model in (True, False)
    ],
)
def test_designs_switched_in_the_middle_stay_valid_lose_nothing_and_fit(
    order: tuple[str, ...], model: bool, tmp_path: Path
) -> None:
    open_store = opener(STORES[model], tmp_path)
    session, said, number = begin(open_store), list[str](), 0
    for name in (*order, *order):
        session = reopened(open_store)
        engine = engine_for(name, model=model)
        for _ in range(5):
            for message in turn(number):
                said.append(session.append(message).id)
            number += 1
        before = bytes_of(engine, session)
        made = fold(engine, session)
        check_wire(engine, session)
        newest = engine.view(session).items[-1]
        assert newest.fold is None or newest.message.text, "the newest message is gone"
        assert said[-1] in newest.entries
        if made is not None:
            check_undo(engine, session, before, made)
        view = run(engine.prepare(session))
        if name == "refold":
            assert view.tokens <= engine.preset.budget
        check_wire(engine, session)
        for entry in [x for x in session.path if isinstance(x, e.MessageEntry)]:
            assert entry.id in said
    assert [x.id for x in session.path if isinstance(x, e.MessageEntry)] == said


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(12))
def test_branches_folds_and_merges_mixed(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    open_store = opener(STORES[seed % 2], tmp_path)
    session, said, number = begin(open_store), set[str](), 0
    for _ in range(40):
        engine = engine_for(rng.choice(DESIGNS), model=rng.random() < 0.5)
        match rng.randrange(7):
            case 0 | 1 | 2:
                for message in turn(number):
                    said.add(session.append(message).id)
                number += 1
            case 3:
                before = bytes_of(engine, session)
                made = fold(engine, session)
                if made is not None:
                    check_undo(engine, session, before, made)
            case 4 if session.path:
                places = [x.id for x in session.entries if isinstance(x, e.MessageEntry)]
                moved = run(engine.branch(session, rng.choice(places), summarize=rng.random() < 0.5))
                assert not isinstance(moved, Failed)
            case 5 if session.path:
                given = engine.view(session).to_openai()
                changed = rng.random() < 0.5
                if changed:
                    given = given[: rng.randrange(len(given)) + 1] if given else given
                    given.append({"role": "user", "content": f"another way {number}"})
                merged = session.merge(given)
                said |= {entry.id for entry in merged.appended}
                assert changed or not merged.appended, "what we showed ourselves is nothing new"
                again = session.merge(engine_for("refold", model=False).view(session).to_openai())
                assert not again.appended
            case _:
                session = reopened(open_store)
        check_wire(engine, session)
    final = reopened(open_store)
    assert {x.id for x in final.entries if isinstance(x, e.MessageEntry)} == said
    assert list(final.entries) == list(session.entries)
    assert bytes_of(engine_for("refold", model=False), final) == bytes_of(
        engine_for("refold", model=False), session
    )
