"""Races: messages, aborts, kills, folds of several engines and sessions, background publishing, undo and redo at
random moments. Whatever the order, nothing is lost or doubled and every fold can be taken back."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.compaction.details import rows
from refold.engine.summarise import ByModel
from refold.errors import Conflict, DoesNotFit, FoldError, ModelError
from refold.models.retry import NO_RETRY
from refold.models.scripted import Scripted, fail, say
from refold.protocols import Request, SessionInfo, Store
from refold.registry.sessions import stored
from refold.session.invariants import settled
from refold.session.items import Item
from refold.stores.jsonl import JsonlStore
from refold.stores.sqlite import SqliteStore
from refold.testing.validators import validate_anthropic, validate_view
from refold.tokens import get as counter

STEPS = 70
WINDOW = 2_400


@dataclass
class World:
    """One run: a stored conversation and everybody who works on it."""

    rng: random.Random
    open_store: Callable[[], Store]
    acknowledged: list[tuple[str, m.Message]] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    engines: list[Engine] = field(default_factory=list)
    running: list[asyncio.Task[None]] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    """Calls whose results have not been appended yet."""
    number: int = 0

    async def pause(self, _: float = 0.0) -> None:
        for _ in range(self.rng.choice((0, 0, 1, 2, 3, 7))):
            await asyncio.sleep(0)

    # ── who takes part ──────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        store = self.open_store()
        store.create(SessionInfo(id="race", created=0.0))
        self.reopen()
        for name in self.rng.choices(("refold", "refold", "refold", "pi", "window"), k=2):
            self.engines.append(self.engine(name))

    def reopen(self) -> None:
        """Everybody who had the session is gone, without a word; two new processes open the file."""
        self.sessions = [stored(self.open_store(), "race") for _ in range(2)]

    def engine(self, name: str) -> Engine:
        preset = {
            "refold": lambda: presets.get("refold", window=WINDOW, cache_ttl=0.0),
            "pi": lambda: presets.get("pi", window=WINDOW, reserve_tokens=900, keep_recent_tokens=700),
            "window": lambda: presets.get("window", compact_threshold=22, compact_window=12, max_history=30),
        }[name]()
        model = Scripted(then=self.answer, sleep=self.pause, context_window=100_000)
        return Engine(preset, summariser=ByModel(model, counter(), retries=NO_RETRY))

    def answer(self, _: Request) -> Any:
        self.number += 1
        if self.rng.random() < 0.1:
            return fail(ModelError("the model is gone"))
        return say(f"## Goal\nSummary number {self.number}: the login works.", delay=0.01, pace=0.01)

    @property
    def session(self) -> Session:
        return self.rng.choice(self.sessions)

    # ── what they do ────────────────────────────────────────────────────────────────────────────

    async def speak(self) -> None:
        message = self.next_message()
        for _ in range(20):
            session = self.session
            try:
                entry = session.append(message)
            except Conflict:
                session.refresh()
                await self.pause()
                continue
            self.acknowledged.append((entry.id, message))
            return
        raise AssertionError("an append never got through")

    def next_message(self) -> m.Message:
        self.number += 1
        words = f"number {self.number}: " + "and so on it goes. " * self.rng.choice((4, 30, 90))
        if self.waiting:
            return m.result(self.waiting.pop(0), words, name="Read")
        match self.rng.randrange(3):
            case 0:
                return m.user(words)
            case 1:
                return m.assistant(words)
            case _:
                self.waiting = [f"c{self.number}_{i}" for i in range(self.rng.randint(1, 3))]
                return m.assistant("", *(m.call(id, "Read", path=f"src/{id}.py") for id in self.waiting))

    async def prepare(self) -> None:
        session, engine = self.session, self.rng.choice(self.engines)
        try:
            view = await engine.prepare(session, system="You are helpful.")
        except Conflict:
            session.refresh()
            return
        except DoesNotFit:  # a summary came to nothing, and a foreign design has no other way
            assert engine.preset.name != "refold"
            return
        if engine.preset.name == "refold":  # R2, whatever arrived meanwhile; what was undone may stay longer
            assert view.tokens <= (WINDOW if session.annotations(e.Undo) else engine.preset.budget)

    async def force(self) -> None:
        session, engine = self.session, self.rng.choice(self.engines)
        plan = engine.plan(session, force=True)
        await self.pause()
        try:
            if plan and plan.base == session.tip:
                await engine.apply(session, plan)
        except Conflict:
            session.refresh()

    async def live(self) -> None:
        """A loop with background preparation: it publishes whenever the moment comes."""
        session, engine = self.session, self.rng.choice(self.engines)
        async with engine.watch(session, sleep=self.pause):
            for _ in range(self.rng.randint(1, 4)):
                with suppress(DoesNotFit):
                    await self._tried(engine.prepare(session), session)
                await self.pause()

    async def _tried(self, work: Awaitable[Any], session: Session) -> None:
        try:
            await work
        except Conflict:
            session.refresh()

    async def unfold(self) -> None:
        session, engine = self.session, self.engines[0]
        try:
            (engine.undo if self.rng.random() < 0.6 else engine.redo)(session)
        except FoldError:
            return
        except Conflict:
            session.refresh()

    async def note(self) -> None:
        """Annotations need no compare-and-swap: they slip in between."""
        session = self.session
        if session.path:
            session.label(self.rng.choice(session.path).id, f"label {self.number}")

    async def refresh(self) -> None:
        self.session.refresh()

    async def abort(self) -> None:
        if self.running:
            self.rng.choice(self.running).cancel()

    async def kill(self) -> None:
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)
        self.running = []
        self.reopen()

    async def run(self) -> None:
        self.begin()
        actions = {
            self.speak: 14, self.prepare: 4, self.force: 2, self.live: 2, self.unfold: 3,
            self.note: 2, self.refresh: 2, self.abort: 2, self.kill: 1,
        }  # fmt: skip
        for _ in range(STEPS):
            action = self.rng.choices(list(actions), list(actions.values()))[0]
            if action in (self.prepare, self.force, self.live):
                self.running.append(asyncio.ensure_future(action()))
            else:
                await action()
            await self.pause()
        while self.waiting:
            await self.speak()
        for task in self.running:
            if self.rng.random() < 0.5:
                task.cancel()
        ends = await asyncio.gather(*self.running, return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException) and not isinstance(end, asyncio.CancelledError):
                raise end


def stores(kind: str, folder: Path) -> Callable[[], Store]:
    if kind == "jsonl":
        return lambda: JsonlStore(folder / "race.jsonl")
    return lambda: SqliteStore(folder / "race.db")


def bytes_of(engine: Engine, session: Session) -> str:
    return json.dumps([engine.view(session).to_openai(), engine.view(session).to_anthropic()])


def shown(items: list[Item]) -> set[str]:
    return {item.entries[0] for item in items if item.fold is None}


def check(world: World) -> int:
    """What must hold after any run; the number of folds."""
    session = stored(world.open_store(), "race")
    said = [(x.id, x.message) for x in session.entries if isinstance(x, e.MessageEntry)]
    assert said == world.acknowledged, "a message was lost, doubled or moved"
    assert [x.id for x in session.path if isinstance(x, e.MessageEntry)] == [id for id, _ in said]
    assert not session.problems
    for engine in world.engines:
        view = engine.view(session)
        if settled(view.items):
            assert validate_view(view) + validate_anthropic(view.to_anthropic()) == []
    return sum(check_fold(session, number) for number in range(len(session)))


def check_fold(session: Session, number: int) -> int:
    """One fold per stretch: what a fold took out of the view was still in it. And it can be taken back."""
    fold = session.entries[number]
    if not isinstance(fold, e.Fold):
        return 0
    engine = Engine(presets.get(fold.preset))
    before = Session(session.entries[:number])
    assert {row.id for row in rows(session, fold, engine.counter)} <= shown(engine.view(before).items)
    after = Session(session.entries[: number + 1])
    undone, redone = bytes_of(engine, before), bytes_of(engine, after)
    engine.undo(after, fold.id)
    assert bytes_of(engine, after) == undone
    engine.redo(after, fold.id)
    assert bytes_of(engine, after) == redone
    return 1


def race(seed: int, folder: Path) -> int:
    world = World(random.Random(seed), stores("jsonl" if seed % 2 else "sqlite", folder))
    asyncio.run(world.run())
    return check(world)


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(25))
def test_races_lose_and_double_nothing(seed: int, tmp_path: Path) -> None:
    race(seed, tmp_path)


@pytest.mark.slow
def test_races_do_fold(tmp_path: Path) -> None:
    """The runs above would hold for nothing if nobody ever folded."""
    folds = 0
    for seed in range(12):
        folder = tmp_path / str(seed)
        folder.mkdir()
        folds += race(seed, folder)
    assert folds >= 3


@pytest.mark.torture
@pytest.mark.parametrize("block", range(20))
def test_races_five_hundred(block: int, tmp_path: Path) -> None:
    for seed in range(1_000 + 25 * block, 1_025 + 25 * block):
        folder = tmp_path / str(seed)
        folder.mkdir()
        race(seed, folder)
