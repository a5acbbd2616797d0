"""Every await of the engine, replayed with somebody else acting right there: a message, an undo, a moved leaf, an
abort. Whatever the moment, nothing is lost, nothing lands on another branch, and only typed errors come out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any

import pytest

from refold import Engine, Hooks, Session, presets
from refold import entries as e
from refold import messages as m
from refold.compaction.plan import Plan
from refold.engine.summarise import ByModel
from refold.errors import FoldError, RefoldError
from refold.models.retry import NO_RETRY
from refold.models.scripted import Scripted, say
from refold.protocols import Request
from refold.session.edits import edit_stretches
from refold.session.invariants import settled
from refold.testing.validators import validate_view
from refold.tokens import get as counter
from tests.test_waits import PRESETS, work
from tests.virtual import run_virtually

PACE = 0.01
ANSWER = "You ask: "


@dataclass
class World:
    """One run: a conversation, an engine, and what somebody else does at one moment."""

    engine: Engine
    session: Session
    act: Callable[[World], None]
    at: int
    """The number of the suspension at which it happens; −1: never."""
    seen: int = 0
    main: asyncio.Task[Any] | None = None
    said: list[str] = field(default_factory=list[str])
    """Ids of messages that somebody else appended."""

    def suspended(self) -> None:
        self.seen += 1
        if self.seen - 1 == self.at:
            self.act(self)


class Stepped(Coroutine[Any, Any, Any]):
    """The same work; the world hears of every moment at which it waits."""

    def __init__(self, work: Coroutine[Any, Any, Any], world: World) -> None:
        self.work, self.world = work, world

    def send(self, value: Any, /) -> Any:
        return self._waits(self.work.send(value))

    def throw(self, *error: Any) -> Any:
        return self._waits(self.work.throw(*error))

    def close(self) -> None:
        self.work.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self.work.__await__()

    def _waits(self, on: Any) -> Any:
        self.world.suspended()
        return on


# ── what somebody else does ─────────────────────────────────────────────────────────────────────


def speak(world: World) -> None:
    world.said.append(world.session.append(m.user("And one more thing.")).id)


def undo(world: World) -> None:
    try:
        world.engine.undo(world.session)
    except FoldError:
        return


def move(world: World) -> None:
    """To another branch, in the middle of an older round, and on from there."""
    session = world.session
    session.move(session.path[min(9, len(session.path) - 1)].id)
    world.said.append(session.append(m.assistant("I see: another way.")).id)
    world.said.append(session.append(m.user("Try that instead.")).id)


def back(world: World) -> None:
    """To a place from which everything that is being worked on is gone, and nothing more."""
    world.session.move(world.session.path[1].id)


def cancel(world: World) -> None:
    assert world.main is not None
    world.main.cancel()


ACTIONS = {"speak": speak, "undo": undo, "move": move, "back": back, "cancel": cancel}

# ── what the engine does ────────────────────────────────────────────────────────────────────────


async def prepare(world: World) -> None:
    await world.engine.prepare(world.session)


async def apply(world: World) -> None:
    plan = world.engine.plan(world.session, force=True)
    assert isinstance(plan, Plan), plan
    await world.engine.apply(world.session, plan)


def answer(request: Request, *calls: m.Call) -> Any:
    """Says what it was asked."""
    asked = [x.text for x in request.messages if isinstance(x, m.User) and x.text[0] not in "<["]
    return say(f"{ANSWER}{asked[-1]}", *calls, delay=PACE, pace=PACE)


async def call(world: World) -> None:
    await world.engine.call(world.session, Scripted(then=answer, name="a:chat"))


async def turn(world: World) -> None:
    calls = m.call("t1", "Read", path="a.py"), m.call("t2", "Read", path="b.py")
    chat = Scripted(lambda request: answer(request, *calls), then=answer, name="a:chat")

    async def run_tool(asked: m.Call) -> str:
        await asyncio.sleep(PACE)
        return f"contents for {asked.id}"

    await world.engine.turn(world.session, run_tool, chat)


async def branch(world: World) -> None:
    await world.engine.branch(world.session, world.session.path[5].id, summarize=True)


async def watch(world: World) -> None:
    async with world.engine.watch(world.session):
        await world.engine.prepare(world.session)
        await asyncio.sleep(1)
        world.engine.observe(world.session, m.assistant("Nothing."))
        await asyncio.sleep(400)


JOBS = {"prepare": prepare, "apply": apply, "call": call, "turn": turn, "branch": branch, "watch": watch}


def line(request: Request) -> Any:
    said = "Fixed it." if request.purpose == "line" else "## Goal\nThe login works."
    return say(said, delay=PACE, pace=PACE)


def engine_of(name: str, job: str) -> Engine:
    by = ByModel(Scripted(then=line, context_window=100_000), counter(), retries=NO_RETRY)
    hooks = Hooks()
    for hook in (
        "before_compact",
        "after_compact",
        "compact_failed",
        "before_branch",
        "after_branch",
        "context",
    ):
        hooks.on(hook, _wait)
    roomy = presets.get("refold", window=60_000, soft=0.1, target=0.1, summary_seconds=60)
    preset = roomy if name == "refold" and job == "watch" else PRESETS[name]()
    return Engine(preset, summariser=by, hooks=hooks)


async def _wait(_: Any) -> None:
    await asyncio.sleep(0)


# ── running and judging ─────────────────────────────────────────────────────────────────────────


async def whole(world: World, job: Callable[[World], Coroutine[Any, Any, None]]) -> BaseException | None:
    """What came of the job; every task that it starts is watched."""

    def watched(loop: asyncio.AbstractEventLoop, work: Any, **given: Any) -> asyncio.Task[Any]:
        return asyncio.Task(Stepped(work, world), loop=loop, **given)

    loop = asyncio.get_running_loop()
    loop.set_task_factory(watched)
    world.main = loop.create_task(job(world))
    [outcome] = await asyncio.gather(world.main, return_exceptions=True)
    world.at = -1
    return outcome


def play(name: str, job: str, action: str, at: int) -> World:
    session = work(8, 60) if name not in ("pi", "layered") else work()
    before = list(session.path)
    world = World(engine_of(name, job), session, ACTIONS[action], at)
    outcome, _ = run_virtually(whole(world, JOBS[job]))
    if isinstance(outcome, BaseException):
        assert isinstance(outcome, RefoldError) or (
            action == "cancel" and isinstance(outcome, asyncio.CancelledError)
        ), repr(outcome)
    check(world, before)
    return world


def check(world: World, before: list[Any]) -> None:
    session = world.session
    again = Session(session.entries)
    assert (again.leaf, list(again.path)) == (session.leaf, list(session.path)), "the log reads otherwise"
    for entry in before:
        assert session[entry.id] is entry
    for id in world.said:
        assert id in session
    for fold in session.annotations(e.Fold):
        path = {entry.id: at for at, entry in enumerate(session.path_to(fold.parent))}
        assert len(edit_stretches([fold], path.get)) == len(fold.edits), "a fold of another branch"
        assert {row.id for row in fold.ledger} <= set(path)
    for line in session.annotations(e.TurnLine):
        path = session.path_to(line.target)
        users = [x for x in path if isinstance(x, e.MessageEntry) and isinstance(x.message, m.User)]
        assert len(users) == line.turn, "a line of another branch"
        assert "another way" not in line.text
    for entry in session.entries:
        if isinstance(entry, e.MessageEntry) and entry.model == "a:chat":
            asked = [x.message.text for x in session.path_to(entry.id) if isinstance(x, e.MessageEntry)]
            assert entry.message.text.removeprefix(ANSWER) in asked[:-1], "a reply of another branch"
        if isinstance(entry, e.MessageEntry) and isinstance(entry.message, m.Result):
            path = [x for x in session.path_to(entry.id) if isinstance(x, e.MessageEntry)]
            calls = [call.id for x in path for call in x.message.calls]
            assert entry.message.call_id in calls, "a result of another branch"
    for failure in session.annotations(e.Failure):
        assert failure.code != "error", failure.text
    view = world.engine.view(session)
    if settled(view.items):
        assert validate_view(view) == []


def rows() -> list[tuple[str, str]]:
    """Every job with the default, and with each design what its folds go through."""
    return [("refold", job) for job in JOBS] + [
        (name, job) for name in presets.NAMES if name != "refold" for job in ("prepare", "apply", "turn")
    ]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("name", "job"), rows())
def test_whatever_happens_at_any_await_nothing_is_lost_or_misplaced(name: str, job: str) -> None:
    undisturbed = play(name, job, "speak", -1)
    moments = range(undisturbed.seen)
    assert moments, "nothing was waited for"
    # Every action at other moments; at all of them in `make torture`.
    step = max(len(moments) // 4, 1)
    for number, action in enumerate(ACTIONS):
        for at in moments[number % step :: step]:
            play(name, job, action, at)


@pytest.mark.torture
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(("name", "job"), [(name, job) for name in presets.NAMES for job in JOBS])
def test_every_design_at_every_await(name: str, job: str, action: str) -> None:
    for at in range(play(name, job, action, -1).seen):
        play(name, job, action, at)


def test_D1_a_line_that_was_written_while_the_leaf_moved_belongs_to_nobody() -> None:
    """Found by the runs above: an IndexError, or the line on the other branch."""
    for at in range(play("rounds", "prepare", "back", -1).seen):
        world = play("rounds", "prepare", "back", at)
        assert len(world.session.path) == 2


def test_D1_a_round_that_goes_on_elsewhere_has_a_line_of_its_own() -> None:
    world = play("rounds", "prepare", "move", 3)
    session = world.session
    run_virtually(world.engine.prepare(session))
    ends = {session.path[at - 1].id for at in session.turns[1:]}
    assert ends <= {line.target for line in session.annotations(e.TurnLine)}
