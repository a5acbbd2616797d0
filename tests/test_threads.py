"""One session, many hands: threads, forked processes and tasks. Nothing is lost or doubled, and every message is on
the path."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import refold
from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.errors import DoesNotFit, FoldError, LeafMoved
from refold.models.scripted import Scripted, say
from refold.session.forget import forget


@pytest.fixture(autouse=True)
def often() -> Generator[None]:
    """Threads take turns all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[int], None], threads: int = 6) -> None:
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert errors == []


def texts(entries: Any) -> list[str]:
    return [
        entry.message.text
        for entry in entries
        if isinstance(entry, e.MessageEntry) and isinstance(entry.message, m.User)
    ]


@pytest.mark.parametrize("place", [None, "a.jsonl", "a.db"])
def test_what_threads_append_at_once_is_one_path(tmp_path: Path, place: str | None) -> None:
    session = Session() if place is None else refold.open(tmp_path / place)

    def work(number: int) -> None:
        for turn in range(30):
            session.append(m.user(f"{number} {turn}"))

    together(work)
    assert sorted(texts(session.path)) == sorted(f"{a} {b}" for a in range(6) for b in range(30))
    assert len(session.entries) == 180


def test_what_is_appended_while_something_is_forgotten_stays() -> None:
    session = Session()
    first = [session.append(m.user(f"secret number {n}")).id for n in range(30)]

    def work(number: int) -> None:
        for turn in range(30):
            if number:
                session.append(m.user(f"{number} {turn}"))
            else:
                forget(session, [first[turn]])

    together(work, 3)
    said = texts(session.path)
    assert len(said) == 90
    assert not any("secret" in text for text in said)


FORK = """
import os
import refold
from refold import Engine, Session, presets, messages as m
from refold.models.scripted import Scripted, say

session = Session()
engine = Engine(presets.get("refold", window=2_000), model=Scripted(then=lambda _: say("yes"), context_window=9_000))

def ask(text):
    session.append(m.user(text))
    refold.run(engine.call(session))

ask("before")
child = os.fork()
if not child:
    ask("in the child")
    os._exit(0 if len(session.path) == 4 else 1)
ask("beside")
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_goes_on_from_a_session_that_was_in_use() -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0


@pytest.mark.parametrize("seed", range(3))
def test_tasks_on_one_session_lose_and_double_nothing(seed: int) -> None:
    chance, session = random.Random(seed), Session()
    said: list[str] = []
    gone: set[str] = set()

    async def pause(_: float = 0.0) -> None:
        for _ in range(chance.choice((0, 1, 2, 5))):
            await asyncio.sleep(0)

    def answer(request: Any) -> Any:
        calls = (
            [m.call(f"c{chance.random()}", "Read", path="a.py")]
            if request.tools and chance.random() < 0.3
            else []
        )
        return say("and more words. " * chance.choice((3, 60)), *calls)

    model = Engine(
        presets.get("refold", window=3_000), model=Scripted(then=answer, sleep=pause, context_window=40_000)
    )
    tool: dict[str, Any] = {
        "name": "Read",
        "description": "",
        "input_schema": {"type": "object", "properties": {}},
    }

    def speak(number: int) -> None:
        said.append(f"typed {number} " + "so " * chance.choice((3, 90)))
        session.append(m.user(said[-1]))

    async def job(number: int) -> None:
        await pause()
        entries = [entry for entry in session.path if isinstance(entry, e.MessageEntry)]
        kind = chance.randrange(8)
        if kind < 2 or not entries:
            speak(number)
        elif kind == 2:
            speak(number)
            await model.call(session)
        elif kind == 3:
            speak(number)
            await model.turn(session, tools=[tool], run_tool=lambda _: "line\n" * chance.choice((3, 99)))
        elif kind == 4:
            await model.prepare(session)
        elif kind == 5:
            model.pin(session, chance.choice(entries).id)
        elif kind == 6:
            entry = chance.choice(entries)
            gone.add(entry.message.text)
            forget(session, [entry.id])
        else:
            model.undo(session)

    async def one(number: int) -> None:
        with suppress(FoldError, DoesNotFit, LeafMoved):
            await job(number)

    async def run() -> None:
        await asyncio.gather(*(one(number) for number in range(60)))

    asyncio.run(run())
    path = texts(session.path)
    assert {text: path.count(text) for text in said if text not in gone} == dict.fromkeys(
        (text for text in said if text not in gone), 1
    )
    ids = Counter(entry.id for entry in session.entries)
    assert set(ids.values()) == {1}
    on_path = {entry.id for entry in session.path}
    assert [
        entry.id for entry in session.entries if isinstance(entry, e.MessageEntry) and entry.id not in on_path
    ] == []
