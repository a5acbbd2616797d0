"""Hooks (B17): order, cancelling, supplying, changing, and hooks that fail."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.metadata
import logging
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.compaction.plan import Failed, Plan
from refold.errors import StalePlan, UnknownName
from refold.hooks import (
    EVENTS,
    AfterCompact,
    BeforeBranch,
    BeforeCompact,
    Cancel,
    Change,
    CompactFailed,
    Context,
    Hooks,
    Supply,
)
from refold.loop import run
from refold.models.scripted import Scripted, stall
from tests.data import ROOT
from tests.presets.chains import check_wire, summariser
from tests.soon import a_while


def chat(*sizes: int, letter: str = "x") -> Session:
    session = Session()
    for number, size in enumerate(sizes):
        said = letter * (4 * size)
        session.append(m.user(said) if number % 2 == 0 else m.assistant(said))
    return session


def words(seed: int) -> str:
    return " ".join(f"word{seed * 1000 + n}" for n in range(500))


def tools(steps: int = 6) -> Session:
    session = Session()
    session.append(m.user(words(100)))
    session.append(m.assistant(words(101)))
    for number in range(steps):
        session.append(m.user(f"step {number} " + words(number)))
        session.append(m.assistant("", m.call(f"c{number}", "read", path=f"{number}.ts")))
        session.append(m.result(f"c{number}", words(number + 50)))
        session.append(m.assistant("done"))
    return session


def engine_with(hooks: Hooks, *, model: Any = None, **settings: Any) -> Engine:
    settings = {"keep_recent_tokens": 3000, **settings}
    return Engine(presets.get("pi", **settings), model=model or summariser(), hooks=hooks)


def plan_of(engine: Engine, session: Session) -> Plan:
    plan = engine.plan(session, force=True)
    assert isinstance(plan, Plan), plan
    return plan


def fold_with(engine: Engine, session: Session) -> e.Fold | Failed:
    return run(engine.apply(session, plan_of(engine, session)))


def ids(session: Session) -> list[str]:
    return [entry.id for entry in session.path]


def recorder(hooks: Hooks) -> list[str]:
    """The names of the events that come, in order."""
    seen: list[str] = []
    for name in EVENTS:
        hooks.on(name, lambda event: seen.append(event.name))
    return seen


# ── what hooks are told ─────────────────────────────────────────────────────────────────────────


def test_B17_before_and_after_are_told_everything_sync_and_async_in_order() -> None:
    hooks, seen = Hooks(), list[Any]()

    @hooks.on("before_compact")
    def first(event: BeforeCompact) -> None:
        seen.append(("first", event))

    @hooks.on("before_compact")
    async def second(event: BeforeCompact) -> None:
        await asyncio.sleep(0)
        seen.append(("second", event))

    hooks.on("after_compact", lambda event: seen.append(("after", event)))
    session = chat(3000, 3000, 3000, 3000)
    engine = engine_with(hooks)
    plan = plan_of(engine, session)
    fold = run(engine.apply(session, plan))
    assert [name for name, _ in seen] == ["first", "second", "after"]
    told: BeforeCompact = seen[0][1]
    assert (told.preset, told.strategy, told.first_kept) == ("pi", "summary", plan.first_kept)
    assert (told.fold, told.turn_prefix) == (plan.fold, plan.turn_prefix)
    assert [x.text for x in told.messages] == [
        session[id].message.text for id in (*plan.fold, *plan.turn_prefix)
    ]  # type: ignore[union-attr]
    assert told.tokens_before == plan.tokens_before
    assert told.model == "scripted:script"
    after: AfterCompact = seen[2][1]
    assert (after.fold, after.supplied) == (fold, False)


@pytest.mark.parametrize(
    ("pi", "ours"),
    [
        ("session_before_compact", "before_compact"),
        ("session_compact", "after_compact"),
        ("session_before_tree", "before_branch"),
        ("session_before_fork", "before_branch"),
    ],
)
def test_B18_the_names_that_pi_has_for_hooks_are_accepted(pi: str, ours: str) -> None:
    hooks, heard = Hooks(), list[str]()
    hooks.on(pi, lambda event: heard.append(event.name))
    session, engine = tools(), engine_with(hooks)
    fold_with(engine, session)
    run(engine.branch(session, session.path[0].id, summarize=True))
    assert heard == [ours]


def test_B17_each_before_is_followed_by_after_or_failed() -> None:
    hooks = Hooks()
    seen = recorder(hooks)
    session = chat(3000, 3000, 3000)
    engine = engine_with(hooks, model=Scripted("", "S"), keep_recent_tokens=100)
    assert isinstance(fold_with(engine, session), Failed)
    assert seen == ["before_compact", "compact_failed"]
    assert isinstance(fold_with(engine, session), e.Fold)
    assert seen == ["before_compact", "compact_failed", "before_compact", "after_compact"]


def test_B17_an_aborted_fold_is_told_as_failed_and_appends_nothing() -> None:
    hooks, codes = Hooks(), list[str]()
    hooks.on("compact_failed", lambda event: codes.append(event.code))
    session = chat(3000, 3000, 3000)
    model = Scripted(stall("half"))
    engine = engine_with(hooks, model=model)
    before = list(session.entries)

    async def abort() -> None:
        task = asyncio.ensure_future(engine.apply(session, plan_of(engine, session)))
        await a_while()
        assert model.requests
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(abort())
    assert codes == ["aborted"]
    assert list(session.entries) == before


def test_B17_hooks_run_in_prepare_too() -> None:
    hooks = Hooks()
    seen = recorder(hooks)
    session = chat(*[3000] * 8)
    engine = engine_with(hooks, window=20_000, reserve_tokens=2_000)
    run(engine.prepare(session))
    assert seen == ["before_compact", "after_compact", "context"]


def test_B17_a_stale_plan_asks_no_hook() -> None:
    hooks = Hooks()
    seen = recorder(hooks)
    session = chat(3000, 3000, 3000)
    engine = engine_with(hooks)
    plan = plan_of(engine, session)
    session.append(m.user("wait"))
    with pytest.raises(StalePlan):
        run(engine.apply(session, plan))
    assert seen == []


# ── cancel, supply, change ──────────────────────────────────────────────────────────────────────


def test_B17_the_first_cancel_stops_and_nothing_is_written() -> None:
    hooks, seen = Hooks(), list[str]()
    hooks.on("before_compact", lambda _: Cancel("not now"))
    hooks.on("before_compact", lambda _: seen.append("asked"))
    hooks.on("compact_failed", lambda event: seen.append(event.code))
    session = chat(3000, 3000, 3000)
    model = Scripted()
    before = list(session.entries)
    failed = fold_with(engine_with(hooks, model=model), session)
    assert failed == Failed("cancelled", "not now", "summary")
    assert seen == ["cancelled"]
    assert list(session.entries) == before
    assert model.requests == []


def test_B17_the_first_supplied_fold_wins_and_no_model_is_asked() -> None:
    hooks = Hooks()
    hooks.on("before_compact", lambda _: None)
    hooks.on("before_compact", lambda _: Supply(summary="FROM HOOK", details={"mine": 1}))
    hooks.on("before_compact", lambda _: Supply(summary="TOO LATE"))
    told: list[AfterCompact] = []
    hooks.on("after_compact", told.append)
    session, model = tools(), Scripted()
    engine = engine_with(hooks, model=model)
    plan = plan_of(engine, session)
    fold = run(engine.apply(session, plan))
    assert isinstance(fold, e.Fold)
    assert (fold.summary, fold.author, fold.requests) == ("FROM HOOK", "hook", 0)
    assert fold.details["mine"] == 1
    assert fold.first_kept == plan.first_kept
    assert fold.files == plan.files
    assert model.requests == []
    assert told[0].supplied
    view = engine.view(session)
    assert "FROM HOOK" in view.items[0].message.text
    assert view.items[1].entries == (fold.first_kept,)
    check_wire(view)


def test_B17_a_cancel_after_a_supply_still_stops() -> None:
    hooks = Hooks()
    hooks.on("before_compact", lambda _: Supply(summary="S"))
    hooks.on("before_compact", lambda _: Cancel())
    session = chat(3000, 3000, 3000)
    failed = fold_with(engine_with(hooks), session)
    assert isinstance(failed, Failed)
    assert failed.code == "cancelled"


def test_B17_a_supplied_fold_may_bring_its_cut_and_files() -> None:
    session = tools()
    kept = next(
        x.id for x in session.path[12:] if isinstance(x, e.MessageEntry) and isinstance(x.message, m.User)
    )
    hooks = Hooks()
    hooks.on("before_compact", lambda _: Supply(summary="S", first_kept=kept, files=e.Files(read=("q.py",))))
    engine = engine_with(hooks)
    fold = fold_with(engine, session)
    assert isinstance(fold, e.Fold)
    assert (fold.first_kept, fold.files.read) == (kept, ("q.py",))
    assert engine.view(session).items[1].entries == (kept,)


def test_B17_a_supplied_summary_that_makes_nothing_smaller_is_refused_and_the_design_folds() -> None:
    hooks = Hooks()
    hooks.on("before_compact", lambda _: Supply(summary="long " * 20_000))
    session = chat(3000, 3000, 3000)
    fold = fold_with(engine_with(hooks), session)
    assert isinstance(fold, e.Fold)
    assert fold.author == "scripted:script"
    assert [f.code for f in session.annotations(e.Failure)] == ["inflated"]


def test_B17_pins_survive_a_supplied_fold() -> None:
    hooks = Hooks()
    hooks.on("before_compact", lambda _: Supply(summary="S"))
    session = Session()
    pinned = session.append(m.user("never touch the migrations"))
    for entry in chat(3000, 3000, 3000).path:
        session.append(entry.message)  # type: ignore[union-attr]
    engine = engine_with(hooks)
    engine.pin(session, pinned.id)
    assert isinstance(fold_with(engine, session), e.Fold)
    assert "never touch the migrations" in engine.view(session).items[0].message.text


@pytest.mark.parametrize("preset", ["pi", "window", "refold"])
def test_B17_the_cut_can_be_moved(preset: str) -> None:
    session = tools()
    users = [x.id for x in session.path if isinstance(x, e.MessageEntry) and isinstance(x.message, m.User)]
    hooks = Hooks()
    for wanted in users[1:5]:
        hooks = Hooks()
        hooks.on("before_compact", lambda _, wanted=wanted: Change(first_kept=wanted))
        copy = Session(session.entries)
        small = {"window": 20_000, "target": 0.3} if preset == "refold" else {}
        engine = Engine(presets.get(preset, **small), model=summariser(), hooks=hooks)
        if preset == "pi":
            engine = engine_with(hooks)
        plan = engine.plan(copy, force=True)
        if not isinstance(plan, Plan):
            pytest.fail(str(plan))
        fold = run(engine.apply(copy, plan))
        assert not hooks.troubles, hooks.troubles
        assert isinstance(fold, e.Fold), fold
        assert fold.first_kept == wanted
        assert any(item.entries == (wanted,) for item in engine.view(copy).items)
        check_wire(engine.view(copy))


@pytest.mark.parametrize("preset", presets.NAMES)
def test_B17_every_design_moves_its_cut_or_says_that_it_does_not(preset: str) -> None:
    session = tools(14)
    users = [x.id for x in session.path if isinstance(x, e.MessageEntry) and isinstance(x.message, m.User)]
    hooks = Hooks()
    hooks.on("before_compact", lambda _: Change(first_kept=users[3], instructions="the words"))
    engine = Engine(presets.get(preset, budget=16_000), model=summariser(), hooks=hooks)
    plan = engine.plan(session, force=True)
    assert isinstance(plan, Plan), plan
    fold = run(engine.apply(session, plan))
    assert isinstance(fold, e.Fold), fold
    assert (fold.first_kept == users[3]) is not bool(hooks.troubles)
    check_wire(engine.view(session))


def test_B17_an_impossible_cut_is_reported_and_the_fold_happens_where_it_would() -> None:
    session = tools()
    result = next(
        x.id for x in session.path if isinstance(x, e.MessageEntry) and isinstance(x.message, m.Result)
    )
    plan = plan_of(engine_with(Hooks()), session)
    for wrong in (result, "nowhere", session.path[0].id):
        hooks = Hooks()
        hooks.on("before_compact", lambda _, wrong=wrong: Change(first_kept=wrong))
        copy = Session(session.entries)
        fold = fold_with(engine_with(hooks), copy)
        assert isinstance(fold, e.Fold)
        assert fold.first_kept == plan.first_kept
        assert len(hooks.troubles) == 1


def test_B17_instructions_prompt_and_model_can_be_changed() -> None:
    hooks = Hooks()
    other, own = summariser("OTHER"), Scripted()
    events: list[BeforeCompact] = []
    hooks.on("before_compact", lambda _: Change(instructions="the footer", model=other))
    hooks.on("before_compact", events.append)
    session = chat(3000, 3000, 3000, 3000)
    fold = fold_with(engine_with(hooks, model=own), session)
    assert isinstance(fold, e.Fold)
    assert fold.summary.startswith("OTHER")
    assert "the footer" in other.requests[0].messages[-1].text
    assert own.requests == []
    assert (events[0].instructions, events[0].model) == ("the footer", other.name)


def test_B17_a_prompt_takes_the_place_of_the_designs_words() -> None:
    hooks = Hooks()
    hooks.on("before_compact", lambda _: Change(prompt="Write a haiku."))
    model = summariser()
    session = chat(3000, 3000, 3000, 3000, letter="q")
    fold_with(engine_with(hooks, model=model), session)
    prompt = model.requests[0].messages[-1].text
    assert prompt.rstrip().endswith("Write a haiku.")
    assert "q" * 12_000 in prompt
    assert "## Goal" not in prompt
    assert model.requests[0].max_tokens == int(0.8 * 16_384)


def test_B17_a_model_for_an_engine_without_one() -> None:
    hooks = Hooks()
    other = Scripted("## Goal\nAll is done.", "## Goal\nAll is done.", "## Goal\nAll is done.")
    hooks.on("before_compact", lambda _: Change(model=other))
    session = chat(*[3000] * 12)
    engine = Engine(presets.get("refold", window=30_000), hooks=hooks)
    fold = fold_with(engine, session)
    assert isinstance(fold, e.Fold)
    assert fold.author == other.name


def test_B17_changes_of_several_hooks_add_up_and_the_later_wins() -> None:
    hooks, model = Hooks(), summariser()
    hooks.on("before_compact", lambda _: Change(instructions="one", prompt="P"))
    hooks.on("before_compact", lambda event: Change(instructions=event.instructions + " two"))
    session = chat(3000, 3000, 3000, 3000)
    decided: list[BeforeCompact] = []
    hooks.on("before_compact", decided.append)
    fold_with(engine_with(hooks, model=model), session)
    assert (decided[0].instructions, decided[0].prompt) == ("one two", "P")


# ── hooks that fail ─────────────────────────────────────────────────────────────────────────────


def test_B17_a_raising_hook_is_reported_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    hooks, seen = Hooks(), list[str]()

    def broken(event: Any) -> None:
        raise ValueError(f"bad\x1b[31m in {event.name}")

    for name in EVENTS:
        hooks.on(name, broken)
    hooks.on("before_compact", lambda event: seen.append(event.name))
    session = chat(*[3000] * 8)
    engine = engine_with(hooks, window=20_000, reserve_tokens=2_000)
    with caplog.at_level(logging.WARNING, logger="refold"):
        view = run(engine.prepare(session))
    assert len(session.annotations(e.Fold)) == 1
    assert seen == ["before_compact"]
    assert len(view) == len(engine.view(session))
    assert [t.event for t in hooks.troubles] == ["before_compact", "after_compact", "context"]
    assert "broken" in hooks.troubles[0].hook
    assert len(caplog.records) == 3
    assert "\x1b" not in caplog.text


@pytest.mark.parametrize("nonsense", ["a text", 7, Supply(summary="  "), {"cancel": True}])
def test_B17_an_answer_that_makes_no_sense_is_skipped(nonsense: object) -> None:
    hooks = Hooks()
    hooks.on("before_compact", lambda _: nonsense)
    fold = fold_with(engine_with(hooks), chat(3000, 3000, 3000))
    assert isinstance(fold, e.Fold)
    assert fold.author == "scripted:script"
    assert len(hooks.troubles) == 1


def test_B17_a_hook_that_appends_makes_the_fold_stale_and_breaks_nothing() -> None:
    hooks = Hooks()
    session = chat(3000, 3000, 3000)
    hooks.on("before_compact", lambda _: session.append(m.user("me too")) and None)
    failed = fold_with(engine_with(hooks), session)
    assert isinstance(failed, Failed)
    assert failed.code == "stale"
    assert not session.annotations(e.Fold)


def test_B17_an_unknown_event_is_named() -> None:
    with pytest.raises(UnknownName, match="before_compact"):
        Hooks().on("before_lunch", print)


# ── context ─────────────────────────────────────────────────────────────────────────────────────


def test_B17_context_replaces_the_messages_of_one_call_and_not_the_log() -> None:
    hooks, seen = Hooks(), list[int]()

    @hooks.on("context")
    def remind(event: Context) -> list[m.Message]:
        return [*event.messages, m.user("be brief")]

    @hooks.on("context")
    async def count(event: Context) -> None:
        seen.append(len(event.messages))

    session = chat(10, 10, 10)
    engine = engine_with(hooks)
    before = list(session.entries)
    view = run(engine.prepare(session, system="S" * 100))
    assert seen == [4]
    assert view.messages[-1].text == "be brief"
    assert [item.entries for item in view.items] == [*((id,) for id in ids(session)), ()]
    assert view.system == "S" * 100
    plain = engine.view(session, system="S" * 100)
    assert view.tokens == plain.tokens + engine.counter.message(m.user("be brief"))
    assert list(session.entries) == before
    assert len(plain) == 3
    assert "be brief" in str(view.to_openai()[-1])


def test_B17_context_with_holes_is_mended_on_the_wire() -> None:
    hooks = Hooks()
    hooks.on("context", lambda event: [x for x in event.messages if x.role != "tool"])
    view = run(engine_with(hooks).prepare(tools()))
    check_wire(view)


@pytest.mark.parametrize("nonsense", ["text", [{"role": "user"}], 3])
def test_B17_context_answers_are_checked(nonsense: object) -> None:
    hooks = Hooks()
    hooks.on("context", lambda _: nonsense)
    session = chat(10, 10, 10)
    assert len(run(engine_with(hooks).prepare(session))) == 3
    assert len(hooks.troubles) == 1


# ── background, installed packages, documentation ───────────────────────────────────────────────


def test_B17_a_fold_prepared_ahead_asks_the_hooks_and_tells_them_when_it_is_published() -> None:
    hooks, seen = Hooks(), list[str]()
    hooks.on("before_compact", lambda event: seen.append(event.name) or Change(instructions="the footer"))
    hooks.on("after_compact", lambda event: seen.append(event.name))
    model = Scripted(then=lambda _: "## Goal\nGo on.", context_window=1_000_000)
    engine = Engine(presets.get("refold", window=30_000), model=model, hooks=hooks)

    async def talk() -> Session:
        session = Session()
        async with engine.watch(session) as watch:
            for number in range(200):
                session.append(m.user(f"{number} " + "word " * 200))
                await engine.prepare(session)
                if "fold" in watch.tasks:
                    await watch.tasks["fold"]
                session.append(m.assistant("ok " * 100))
                if session.annotations(e.Fold):
                    return session
        return session

    session = run(talk())
    assert session.annotations(e.Fold)
    assert seen[:2] == ["before_compact", "after_compact"]
    assert "the footer" in model.requests[0].messages[-1].text


def register(hooks: Hooks) -> None:
    hooks.on("before_compact", lambda _: Cancel("installed"))


def test_B17_installed_packages_bring_hooks_only_where_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = [
        EntryPoint("b-broken", "tests.no_such_module:register", "refold.hooks"),
        EntryPoint("a-good", f"{__name__}:register", "refold.hooks"),
    ]

    def entry_points(*, group: str) -> EntryPoints:
        return EntryPoints(p for p in points if p.group == group)

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    hooks = Hooks.installed()
    assert len(hooks.of("before_compact")) == 1
    assert [(t.event, t.hook) for t in hooks.troubles] == [("register", "b-broken")]
    assert not Engine("pi").hooks
    failed = fold_with(engine_with(hooks), chat(3000, 3000, 3000))
    assert isinstance(failed, Failed)
    assert failed.text == "installed"


def test_B17_every_hook_and_every_field_is_documented() -> None:
    text = (ROOT / "docs" / "hooks.md").read_text()
    for name, event in EVENTS.items():
        assert f"### `{name}`" in text
        section = text.split(f"### `{name}`")[1].split("\n##")[0]
        assert f"`{event.__name__}`" in text
        for field in dataclasses.fields(event):
            assert f"`{field.name}`" in section, (name, field.name)
    for answer in (Cancel, Supply, Change):
        assert f"`{answer.__name__}" in text


def test_B17_a_registry_that_is_filled_later_counts() -> None:
    hooks = Hooks()
    engine = engine_with(hooks)
    assert not hooks
    hooks.on("before_compact", lambda _: Cancel())
    assert hooks
    assert isinstance(fold_with(engine, chat(3000, 3000, 3000)), Failed)


def test_B17_branch_events_refuse_a_cut() -> None:
    hooks = Hooks()
    hooks.on("before_branch", lambda _: Change(first_kept="x"))
    session = chat(10, 10, 10, 10)
    seen: list[BeforeBranch] = []
    hooks.on("before_branch", seen.append)
    assert run(engine_with(hooks).branch(session, ids(session)[1]))
    assert len(hooks.troubles) == 1
    assert len(seen[0].entries) == 2


def test_B17_failed_events_carry_the_code() -> None:
    hooks, seen = Hooks(), list[CompactFailed]()
    hooks.on("compact_failed", seen.append)
    fold_with(engine_with(hooks, model=Scripted("")), chat(3000, 3000, 3000))
    assert [(x.code, x.strategy, x.preset) for x in seen] == [("empty", "summary", "pi")]


def test_B17_a_supplied_summary_that_does_not_fit_is_refused_and_the_design_folds() -> None:
    hooks = Hooks()
    hooks.on("before_compact", lambda _: Supply(summary="long " * 9_000))
    session = chat(*[3000] * 6, letter="ab ")
    view = run(Engine(presets.get("refold", budget=8_000), hooks=hooks).prepare(session))
    assert view.tokens <= 8_000
    assert [failure.code for failure in session.annotations(e.Failure)] == ["too_large"]


def test_B17_a_cut_that_keeps_more_than_fits_stays_where_it_was(caplog: pytest.LogCaptureFixture) -> None:
    hooks, session = Hooks(), chat(*[3000] * 6, letter="ab ")
    hooks.on("before_compact", lambda event: Change(first_kept=event.session.path[1].id))
    view = run(Engine(presets.get("refold", budget=8_000), hooks=hooks).prepare(session))
    assert view.tokens <= 8_000
    assert "does not fit the window" in caplog.text


def test_B17_what_is_said_while_a_hook_is_told_of_a_fold_is_folded_too() -> None:
    hooks, session = Hooks(), chat(*[3000] * 4, letter="ab ")
    told: list[str] = []

    async def goes_on(event: AfterCompact) -> None:
        told.append(event.fold.id)
        await asyncio.sleep(0)
        if len(told) == 1:
            for entry in chat(3000, 3000, letter="cd ").path:
                event.session.append(entry.message)  # type: ignore[union-attr]

    hooks.on("after_compact", goes_on)
    view = run(Engine(presets.get("refold", budget=8_000), hooks=hooks).prepare(session))
    assert len(told) == 2 and view.tokens <= 8_000
