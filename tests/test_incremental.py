"""What a session knows already changes no fold: its bytes are those of a cold computation on a reopened copy."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import msgspec
import pytest

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.compaction.plan import Plan, finish
from refold.errors import RefoldError

NAMES = ("refold", "pi", "augment", "window", "rounds", "layered")
SETTINGS: dict[str, dict[str, object]] = {
    "refold": {"window": 3_000},
    "pi": {"window": 4_000, "reserve_tokens": 1_000, "keep_recent_tokens": 800},
    "augment": {
        "trigger_on_history_size_chars": 9_000,
        "history_tail_size_chars_to_exclude": 2_000,
        "prompt": "Summarise the conversation.",
    },
    "window": {"compact_threshold": 18, "compact_window": 8},
    "rounds": {"window": 4_000},
    "layered": {"window": 4_000},
}
WORDS = [
    "retry",
    "upload",
    "parser",
    "cache",
    "the",
    "login",
    "of",
    "session",
    "branch",
    "src/app.py",
    "fails",
    "with",
    "error",
    "17",
    "because",
]


class Run:
    """One session that is used as an agent does, with folds undone, branches and reopening in between."""

    def __init__(self, name: str, seed: int, *, tools: bool) -> None:
        self.preset = presets.get(name, **SETTINGS[name])
        self.chance, self.tools = random.Random(seed), tools
        self.session, self.engine = self._opened([]), Engine(self.preset, clock=lambda: 1.8e9)
        self.calls = self.folds = 0

    def _opened(self, entries: list[e.AnyEntry]) -> Session:
        return Session(entries, id="same", clock=lambda: 1.8e9)

    def text(self, most: int) -> str:
        chance = self.chance
        return " ".join(chance.choices(WORDS, k=chance.randint(3, most))) + chance.choice((".", "?", "!"))

    def turn(self) -> None:
        self.session.append(m.user(self.text(60 if self.tools else 500)))
        self.check()
        for _ in range(self.chance.randint(0, 4) if self.tools else 0):
            self.calls += 1
            name = self.chance.choice(("Read", "Bash", "Edit"))
            call = m.call(
                f"c{self.calls}", name, path=f"src/{self.chance.randrange(9)}.py", command="make test"
            )
            self.session.append(m.assistant(self.text(20), call))
            self.session.append(m.result(f"c{self.calls}", self.text(400)))
            self.check()
        self.session.append(m.assistant(self.text(80 if self.tools else 500)))

    def check(self) -> None:
        """Prepare, warm and cold: the same folds, the same view."""
        before = list(self.session.entries)
        cold, fresh = self._opened(before), Engine(self.preset, clock=lambda: 1.8e9)
        warm_view = outcome(self.engine, self.session)
        assert outcome(fresh, cold) == warm_view
        made = [known(entry) for entry in self.session.entries[len(before) :] if isinstance(entry, e.Fold)]
        assert [known(entry) for entry in cold.entries[len(before) :] if isinstance(entry, e.Fold)] == made
        self.folds += len(made)

    def undo(self) -> None:
        if any(isinstance(entry, e.Fold) for entry in self.session.path):
            try:
                self.engine.undo(self.session)
                if self.chance.random() < 0.5:
                    self.engine.redo(self.session)
            except RefoldError:
                return

    def branch(self) -> None:
        replies = self.session.replies
        if len(replies) > 3:
            self.session.move(self.session.path[replies[-self.chance.randint(1, 3)]].id)

    def reopen(self) -> None:
        self.session = self._opened(list(self.session.entries))

    def pin(self) -> None:
        self.engine.pin(self.session, self.session.path[0].id)

    def play(self, turns: int) -> int:
        others: list[Callable[[], None]] = [self.undo, self.branch, self.reopen, self.pin]
        for _ in range(turns):
            self.turn()
            if self.chance.random() < 0.25:
                self.chance.choice(others)()
        return self.folds


def outcome(engine: Engine, session: Session) -> object:
    try:
        view = asyncio.run(engine.prepare(session, system="Be brief."))
    except RefoldError as error:
        return repr(error)
    return [known_message(item.message) for item in view.items], view.tokens


def known_message(message: m.Message) -> bytes:
    return msgspec.json.encode(message)


def known(fold: e.Fold) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(fold, id="", parent=None, time=0.0))


@pytest.mark.sample(2)
@pytest.mark.parametrize("tools", [True, False], ids=["tools", "talk"])
@pytest.mark.parametrize("name", NAMES)
def test_a_fold_is_the_same_warm_and_cold(name: str, tools: bool) -> None:
    assert sum(Run(name, seed, tools=tools).play(14) for seed in range(2)) > 0


@pytest.mark.slow
def test_a_plan_one_message_after_another_is_that_of_a_cold_session() -> None:
    run, plans = Run("refold", 5, tools=True), 0
    for _ in range(16):
        run.turn()
    warm, session = Engine(presets.get("refold", window=6_000), clock=lambda: 1.8e9), run._opened([])
    for entry in (entry for entry in run.session.entries if isinstance(entry, e.MessageEntry)):
        session.append(entry.message)
        outcome, cold = planned(warm, session), Engine(warm.preset, clock=lambda: 1.8e9)
        assert planned(cold, run._opened(list(session.entries))) == outcome
        plans += not isinstance(outcome, str)
    assert plans > 30


def planned(engine: Engine, session: Session) -> object:
    plan = engine.plan(session, force=True)
    if not isinstance(plan, Plan):
        return plan.code
    finished = finish(plan, [])
    return finished.summary, msgspec.json.encode(finished.edits), plan.clipped


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("name", NAMES)
def test_folds_of_long_sessions_are_the_same_warm_and_cold(name: str, seed: int) -> None:
    Run(name, 1_000 + seed, tools=seed % 3 > 0).play(60)
