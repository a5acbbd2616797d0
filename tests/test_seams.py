"""Odd sessions and the places where parts meet: nothing raises but the errors that say what to do, everything that
goes over the wire is valid, and what a design promises holds."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.compaction import requests
from refold.compaction.plan import Plan, Reason
from refold.compaction.triggers import FillLevel
from refold.engine.summarise import ByModel
from refold.errors import DoesNotFit
from refold.loop import run
from refold.models.retry import NO_RETRY
from refold.models.scripted import Scripted, say
from refold.protocols import Request, SessionInfo
from refold.registry.sessions import stored
from refold.session import Projection
from refold.session.edits import outermost
from refold.session.invariants import settled
from refold.stores.memory import MemoryStore
from refold.testing.validators import validate_anthropic, validate_view
from refold.tokens import get as counter
from tests.timing import JUDGED, steps, within

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def sample(turns: int = 12, words: int = 120) -> Session:
    session = Session()
    for number in range(turns):
        session.append(m.user(f"question {number} " + "why? " * words))
        session.append(m.assistant(f"answer {number} " + "so. " * words))
    return session


def fold(engine: Engine, session: Session) -> e.Fold | None:
    plan = engine.plan(session, force=True)
    made = run(engine.apply(session, plan)) if isinstance(plan, Plan) else None
    return made if isinstance(made, e.Fold) else None


def check_wire(engine: Engine, session: Session, **given: Any) -> None:
    view = engine.view(session, **given)
    if view.items and settled(view.items) and view.to_anthropic()["messages"]:
        assert validate_view(view) + validate_anthropic(view.to_anthropic()) == []


# ── two writers ─────────────────────────────────────────────────────────────────────────────────


def test_refresh_beside_annotations_of_another_writer() -> None:
    store = MemoryStore()
    store.create(SessionInfo(id="s", created=0.0))
    one, two = stored(store, "s"), stored(store, "s")
    first = one.append(m.user("one"))
    two.refresh()
    one.label(first.id, "seen by nobody yet")
    two.append(m.user("two"))  # annotations need no compare-and-swap
    assert two.refresh() == 1
    assert [type(x) for x in two.entries].count(e.MessageEntry) == 2
    assert two.labels == {first.id: "seen by nobody yet"}
    assert two.refresh() == 0
    one.refresh()
    assert {x.id for x in one.entries} == {x.id for x in two.entries}
    assert [x.id for x in one.path] == [x.id for x in two.path]


# ── what arrives while a summary is written ─────────────────────────────────────────────────────


def test_R2_a_message_that_arrives_during_the_summary_does_not_leave_the_view_too_large() -> None:
    session = sample()

    def interrupts(_: Request) -> Any:
        session.append(m.user("and another thing " * 20))
        return "## Goal\nAn answer that comes too late."

    model = Scripted(then=interrupts, context_window=100_000)
    engine = Engine(
        presets.get("refold", window=2_500),
        model=model,
        summariser=ByModel(model, counter(), retries=NO_RETRY),
    )
    view = run(engine.prepare(session))
    assert len(model.requests) <= 2
    assert view.tokens <= engine.preset.budget


def test_R12_a_background_fold_is_published_only_if_system_prompt_and_tools_fit_too() -> None:
    session = sample()
    model = Scripted(then=say("## Goal\nFine."), context_window=100_000)
    preset = presets.get("refold", window=5_000, target=0.9)
    engine = Engine(preset, model=model, summariser=ByModel(model, counter(), retries=NO_RETRY))
    system = "Be brief. " * 600

    async def talk() -> None:
        async with engine.watch(session):
            await engine.prepare(session)
            for number in range(20):
                await asyncio.sleep(0)
                session.append(m.user(f"more {number} " * 60))
                view = await engine.prepare(session, system=system if number > 3 else None)
                assert view.tokens <= preset.budget

    run(talk())


def test_R3_a_stale_summary_is_no_failure_of_the_model() -> None:
    session = sample(2)
    for _ in range(requests.FAILURES):
        session.append(session.make(e.Failure, code="stale", target=session.leaf))
    assert not requests.rests(session, session.clock())
    for _ in range(requests.FAILURES):
        session.append(session.make(e.Failure, code="model", target=session.leaf))
    assert requests.rests(session, session.clock())


def test_R3_a_clock_that_was_set_back_does_not_keep_the_breaker_open() -> None:
    session = sample(2)
    for _ in range(requests.FAILURES):
        session.append(session.make(e.Failure, code="model", target=session.leaf))
    assert not requests.rests(session, session.clock() - 86_400)


def by_small_model(model: Scripted) -> Engine:
    preset = presets.get("pi", window=50_000, reserve_tokens=2_000, keep_recent_tokens=50)
    return Engine(preset, summariser=ByModel(model, counter(), retries=NO_RETRY))


def test_B13_of_a_call_larger_than_the_summarisers_window_head_and_end_are_read() -> None:
    """A head of large Write calls, ten times the summariser's window: the texts are in the arguments."""
    session = Session()
    for number in range(5):
        written = m.call(f"c{number}", "Write", path=f"f{number}.py", content=f"word_{number} = 1\n" * 3_000)
        session.append(m.user(f"write file {number}"))
        session.append(m.assistant("", written))
        session.append(m.result(f"c{number}", "ok"))
    session.append(m.user("go on"))
    model = Scripted(then="## Goal\nWrite files.", context_window=9_000)
    assert fold(by_small_model(model), session)
    asked = [request.messages[-1].text for request in model.requests]
    assert all(any(f"word_{number}" in text for text in asked) for number in range(4))
    assert all(counter().text(text) < 9_000 for text in asked)


def test_one_engine_serves_one_loop_after_another() -> None:
    session = sample(40, 250)
    engine = by_small_model(Scripted(then=say("## Goal\nTalk.", delay=0.001), context_window=9_000))
    for _ in range(2):
        twin = Session(session.entries)
        plan = engine.plan(twin, force=True)
        assert isinstance(plan, Plan)
        assert isinstance(asyncio.run(engine.apply(twin, plan)), e.Fold)


# ── windows and settings ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", presets.NAMES)
@pytest.mark.parametrize("learned", [0, 1, 50, 300, 5_000])
def test_R13_a_learned_window_smaller_than_the_settings_never_breaks_a_session(
    name: str, learned: int
) -> None:
    session, engine = sample(), Engine(presets.get(name))
    session.append(m.user("last"))
    session.append(session.make(e.LearnedWindow, target=session.leaf, model="", tokens=learned))
    engine.view(session)
    try:
        run(engine.prepare(session))
    except DoesNotFit:
        assert name == "refold" and learned < 300
    check_wire(engine, session)


@pytest.mark.parametrize("budget", [1, 2, 7, 50, 120, 161, 170, 200])
def test_R2_tiny_budgets_fit_or_say_why(budget: int) -> None:
    session, engine = sample(6), Engine(presets.get("refold", budget=budget))
    session.append(m.user("ok?"))
    try:
        view = run(engine.prepare(session))
    except DoesNotFit as error:
        assert error.parts
    else:
        assert view.tokens <= budget
        check_wire(engine, session)


def test_R2_a_system_prompt_larger_than_the_window_is_named() -> None:
    engine = Engine(presets.get("refold", window=2_000))
    with pytest.raises(DoesNotFit, match="system prompt"):
        run(engine.prepare(sample(), system="rules " * 5_000))


# ── folds that meet ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_cut_never_parts_what_one_edit_put() -> None:
    """An `augment` node is two messages for one stretch: a cut between them would fold the whole path."""
    session = sample(30, 400)
    assert fold(Engine(presets.get("augment")), session)
    sizes = [counter().message(item.message) for item in Engine().view(session).items]
    for at, extra in itertools.product((1, 2), (0, 1, 50)):
        twin = Session(session.entries)
        tail = sum(sizes[at:]) + extra
        engine = Engine(presets.get("refold", budget=max(tail, 1_000)))
        if fold(engine, twin):
            newest = [x.id for x in twin.path if isinstance(x, e.MessageEntry)][-1]
            assert engine.view(twin).items[-1].entries == (newest,)


def test_of_folds_that_overlap_the_newer_shows_and_what_the_older_had_hidden() -> None:
    session = sample(8, 1)
    ids = [x.id for x in session.path]

    def folded(*edits: e.Edit) -> e.Fold:
        made = session.make(e.Fold, edits=edits, preset="x")
        session.append(made)
        return made

    inner = folded(e.Edit(ids[2], ids[3], (m.user("inner"),)))
    outer = folded(e.Edit(ids[0], ids[6], (m.user("outer"),)))
    newest = folded(e.Edit(ids[4], ids[9], (m.user("newest"),)))
    assert [s.fold.id for s in outermost([inner, outer], session.position)] == [outer.id]
    assert [s.fold.id for s in outermost([inner, outer, newest], session.position)] == [inner.id, newest.id]
    last = folded(
        e.Edit(ids[8], ids[12], (m.user("last"),))
    )  # beats the newest, so the outer one holds again
    assert [s.fold.id for s in outermost([inner, outer, newest, last], session.position)] == [
        outer.id,
        last.id,
    ]


def test_a_projection_follows_entries_with_parents_of_their_own() -> None:
    session = sample(4, 2)
    projection = Projection(session)
    assert len(projection.items) == 8
    side = session.make(e.MessageEntry, message=m.user("elsewhere"), parent=session.path[2].id)
    session.append(side)
    assert [item.message.text for item in projection.items][-1] == "elsewhere"
    assert len(projection.items) == 4
    session.append(m.assistant("yes"))
    assert len(projection.items) == 5
    fresh = Projection(session)
    assert [item.message for item in fresh.items] == [item.message for item in projection.items]
    assert projection.size(counter()) == fresh.size(counter())


# ── odd conversations ───────────────────────────────────────────────────────────────────────────


def one_turn(count: int) -> list[Any]:
    found: list[Any] = [m.user("do everything")]
    for number in range(count // 2):
        found.append(m.assistant("", m.call(f"c{number}", "Read", path=f"f{number}.py")))
        found.append(m.result(f"c{number}", "line\n" * 3, name="Read"))
    return found


def parallel(count: int) -> list[Any]:
    calls = [m.call(f"c{n}", "Read", path=f"f{n}.py") for n in range(count)]
    return [
        m.user("all at once"),
        m.assistant("", *calls),
        *(m.result(c.id, "x " * 30) for c in reversed(calls)),
    ]


def same_ids(turns: int) -> list[Any]:
    found: list[Any] = []
    for number in range(turns):
        found += [m.user(f"again {number}"), m.assistant("", m.call("call_0", "Read", path=f"f{number}.py"))]
        found += [m.result("call_0", f"text {number} " * 120, name="Read"), m.assistant("ok")]
    return found


LONE = "a\ud800b\udfffc \x00 \u202e é😀"
ODD: dict[str, Callable[[], list[Any]]] = {
    "empty": list,
    "one message": lambda: [m.user("hello")],
    "one blank message": lambda: [m.user("")],
    "one reply": lambda: [m.assistant("hello")],
    "one result": lambda: [m.result("c", "x")],
    "only results": lambda: [m.result(f"c{n}", "x " * 200) for n in range(30)],
    "only systems": lambda: [m.system("rules " * 100) for _ in range(60)],
    "systems first": lambda: [m.system("rules"), m.system("more"), *same_ids(12)],
    "orphans first": lambda: [m.result("gone", "x " * 300), m.result("gone", "y"), *same_ids(12)],
    "thinking only": lambda: [
        x for n in range(30) for x in (m.user(f"q{n} " * 50), m.Assistant((m.thinking("hmm " * 90, "sig"),), "end"))
    ],
    "hidden shell": lambda: [
        x for n in range(30) for x in (m.Bash("ls", "x " * 200, 0, hidden=True), m.assistant("ok " * 20))
    ],
    "pictures": lambda: [
        x for n in range(25)
        for x in (
            m.user(("look", m.image(PIXEL))), m.assistant("", m.call(f"c{n}", "Shot")),
            m.result(f"c{n}", (m.image(PIXEL), "seen " * 50)), m.assistant("nice"),
        )
    ],
    "same ids": lambda: same_ids(25),
    "many in parallel": lambda: [*parallel(400), m.assistant("done"), m.user("next")],
    "surrogates": lambda: [x for n in range(30) for x in (m.user(f"Never do {LONE} {n}!"), m.assistant(LONE * 30))],
    "aborted": lambda: [x for n in range(25) for x in (m.user(f"q{n} " * 60), m.Assistant((), "aborted"))],
    "errors": lambda: [x for n in range(25) for x in (m.user(f"q{n} " * 60), m.Assistant((), "error", "boom"))],
}  # fmt: skip
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {"name": "Read", "description": "reads", "parameters": {"type": "object"}},
    },
    {"name": "Bash", "description": "runs", "input_schema": {"type": "object", "properties": {}}},
    {"type": "function", "name": "Edit", "parameters": {}},
    {"type": "web_search_20250305", "name": "web_search"},
    {},
]


@pytest.mark.sample(13)
@pytest.mark.parametrize("model", [False, True], ids=["digest", "model"])
@pytest.mark.parametrize("name", presets.NAMES)
@pytest.mark.parametrize("kind", ODD)
def test_odd_conversations_fold_or_say_why_and_stay_valid(kind: str, name: str, model: bool) -> None:
    session = Session()
    for message in ODD[kind]():
        session.append(message)
    written = Scripted(then="## Goal\nShort.", context_window=100_000)
    engine = Engine(
        presets.get(name, budget=2_000),
        summariser=ByModel(written, counter(), retries=NO_RETRY) if model else None,
    )
    before = json.dumps(engine.view(session).to_openai())
    made = None
    try:
        made = fold(engine, session)
        run(engine.prepare(session, tools=TOOLS))
    except DoesNotFit as error:
        assert sum(error.parts.values()) > 2_000
    check_wire(engine, session, tools=TOOLS)
    for mark in [x.id for x in session.path if isinstance(x, e.Fold)][::-1]:
        engine.undo(session, mark)
    assert json.dumps(engine.view(session).to_openai()) == before
    assert made is None or made.id in session


@pytest.mark.timing
@pytest.mark.parametrize("name", presets.NAMES)
def test_one_turn_of_thousands_of_entries(name: str) -> None:
    session = Session()
    for message in one_turn(3_000 if JUDGED else 1_000):
        session.append(message)
    engine = Engine(presets.get(name, budget=4_000))
    with within(10):
        fold(engine, session)
        try:
            assert run(engine.prepare(session)).tokens <= 4_000
        except DoesNotFit as error:
            assert name != "refold" and sum(error.parts.values()) > 4_000
    check_wire(engine, session)


@pytest.mark.parametrize("name", presets.NAMES)
def test_ids_that_are_empty_or_hold_anything(name: str) -> None:
    numbers = itertools.count()
    odd = ["", "a\nb", "</refold-record>", "\u202e", "x" * 300, "\ud800"]
    session = Session(id="s")
    session.new_id = lambda: odd[n] if (n := next(numbers)) < len(odd) else f"id{n}"
    for message in same_ids(25):
        session.append(message)
    engine = Engine(presets.get(name, budget=2_000))
    fold(engine, session)
    check_wire(engine, session)
    assert [x.id for x in Session(session.entries).path] == [x.id for x in session.path]


def test_a_pin_of_something_unknown_does_not_stop_folding() -> None:
    session, engine = sample(), Engine(presets.get("refold", budget=2_000))
    session.append(session.make(e.Pin, target="nobody"))
    assert fold(engine, session)


@pytest.mark.slow
def test_time_that_goes_backwards_changes_no_order() -> None:
    session = sample()
    clock = itertools.count(1_000_000, -1)
    session.clock = lambda: float(next(clock))
    engine = Engine(presets.get("refold", budget=2_000), clock=lambda: 0.0)
    for number in range(40):
        session.append(m.user(f"later {number} " * 40))
        assert run(engine.prepare(session)).tokens <= 2_000
    newest = [x.id for x in session.path if isinstance(x, e.MessageEntry)][-1]
    assert engine.view(session).items[-1].entries == (newest,)
    assert len(session.annotations(e.Fold)) > 1


# ── cost ────────────────────────────────────────────────────────────────────────────────────────


def test_engines_do_not_keep_sessions_alive() -> None:
    engines = [Engine(presets.get(name)) for name in presets.NAMES]
    session = sample()
    for engine in engines:
        run(engine.prepare(session))
        fold(engine, session)
        engine.recall(session, "question")
    gone = weakref.ref(session)
    del session
    gc.collect()
    assert gone() is None


def test_a_turn_costs_what_is_new_even_where_nobody_answered() -> None:
    session, engine = Session(), Engine(presets.get("refold", window=100_000_000))

    def cost(length: int) -> int:
        while len(session) < length:
            session.append(m.user(f"message {len(session)}"))
        asyncio.run(engine.prepare(session))
        session.append(m.user("one more"))
        return steps(lambda: asyncio.run(engine.prepare(session)))

    few = cost(500)
    assert cost(5_000) < 1.2 * few
    assert isinstance(FillLevel(10**9).due(engine.planner.context(session)), Reason)


@pytest.mark.timing
def test_one_message_of_five_megabytes_converges() -> None:
    session, engine = Session(), Engine(presets.get("refold", window=20_000))
    session.append(m.user("read it"))
    session.append(m.assistant("", m.call("c", "Read", path="big.log")))
    session.append(m.result("c", "a line of the log\n" * 280_000, name="Read"))
    with within(20):
        view = run(engine.prepare(session))
    assert view.tokens <= engine.preset.budget
