"""What the event loop's own thread does while a session is prepared, counted, not timed: characters given to the
tokenizer and lines of Python run between two of its turns. Neither grows with a message of megabytes, nor with the log."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple

import pytest

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.facts.state import WorkState
from refold.messages import Message
from refold.tokens.exact import Exact

SIZE = 1_500_000
CHARACTERS, LINES = 20_000, 150_000
"""Of one stretch: some ten milliseconds, most of them for reading the new view once. The rest is the worker's."""


class Work(NamedTuple):
    characters: int
    lines: int


def longest(session: Session, name: str, **settings: Any) -> Work:
    """The most that one stretch of a `prepare` does in the thread of the event loop."""
    characters = lines = 0
    most, count, loops = Work(0, 0), Exact._count, threading.get_ident()

    def counted(self: Exact, text: str) -> int:
        nonlocal characters
        characters += len(text) if threading.get_ident() == loops else 0
        return count(self, text)

    def trace(_frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    async def run() -> None:
        nonlocal characters, lines, most
        engine = Engine(presets.get(name, **settings))
        work = asyncio.ensure_future(engine.prepare(session))
        sys.settrace(trace)
        while not work.done():
            await asyncio.sleep(0.001)
            most = Work(max(most.characters, characters), max(most.lines, lines))
            characters = lines = 0
        sys.settrace(before)
        await work

    # What every fold of a process shares (patterns) is made by its first.
    asyncio.run(Engine(presets.get(name, **settings)).prepare(Session(session.entries)))
    before = sys.gettrace()
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Exact, "_count", counted)
            asyncio.run(run())
    finally:
        sys.settrace(before)
    assert session.annotations(e.Fold)
    return most


def session_of(messages: Sequence[Message]) -> Session:
    session = Session()
    for message in messages:
        session.append(message)
    return session


def turns(number: int) -> list[Message]:
    said: list[Message] = []
    for n in range(number):
        call = m.call(f"c{n}", "Read", path=f"src/part{n}.py")
        said += [
            m.user(f"Look at part {n}, and never touch the migrations."),
            m.assistant(f"I read {n}.", call),
        ]
        said += [m.result(f"c{n}", f"value_{n} = compute({n})\n" * 60), m.assistant(f"Part {n} was read.")]
    return said


def log(size: int) -> str:
    row = "tests/test_{0}.py::test_{0} PASSED [ 42%] after {0} ms\n"
    rows = "".join(row.format(n) for n in range(size // 45))
    return rows[: size - 60] + "\n======== 1 failed, 61 passed in 3.21s ========\n"


def numbered(size: int) -> str:
    return "".join(f"{n:6}\tvalue_{n} = compute({n}, other={n})\n" for n in range(size // 42))


def records(size: int) -> str:
    return json.dumps([{"id": n, "name": f"part {n}", "value": n * 7 % 13} for n in range(size // 48)])


def answered(tool: str, text: str, **given: object) -> list[Message]:
    return [m.assistant("I look.", m.call("big", tool, **given)), m.result("big", text)]


LARGE: dict[str, Callable[[int], list[Message]]] = {
    "a log": lambda size: answered("Bash", log(size), command="pytest -q"),
    "a file with numbers": lambda size: answered("Read", numbered(size), path="src/big.py"),
    "records": lambda size: answered("Bash", records(size), command="curl host/all"),
    "one line": lambda size: answered("Bash", "abc def " * (size // 8), command="cat blob"),
    "a file written": lambda size: answered("Write", "ok", path="src/big.py", content=numbered(size)),
    "typed": lambda size: [m.user(log(size)), m.assistant("I have read it.")],
    "said": lambda size: [m.assistant(log(size)), m.user("Go on."), m.assistant("I do.")],
}


@pytest.mark.slow
@pytest.mark.parametrize("what", LARGE)
def test_a_message_of_megabytes_is_not_worked_through_on_the_loop(what: str) -> None:
    for place in (0, 20):  # the newest, and one that has grown old
        session = session_of([*turns(20), *LARGE[what](SIZE), *turns(place)[4:]])
        work = longest(session, "refold", window=60_000)
        assert work.characters < CHARACTERS
        assert work.lines < LINES


@pytest.mark.slow
@pytest.mark.parametrize("name", ["refold", "pi", "augment"])
def test_a_long_log_is_not_worked_through_on_the_loop(name: str) -> None:
    settings: dict[str, Any] = {"window": 100_000}
    if name == "augment":
        settings = {"trigger_on_history_size_chars": 400_000, "prompt": "Summarise the conversation."}
    work = longest(session_of(turns(500)), name, **settings)
    assert work.characters < CHARACTERS
    assert work.lines < LINES


@pytest.mark.slow
def test_the_verdict_at_the_end_of_five_megabytes_is_found_cold_and_warm() -> None:
    text = log(5_000_000)
    (check,) = WorkState().extend(answered("Bash", text, command="pytest -q")).checks
    assert check.quote == "1 failed, 61 passed"

    async def run() -> None:
        warm, engine = Session(), Engine(presets.get("refold", window=24_000))
        for message in (*turns(30), *answered("Bash", text, command="pytest -q"), *turns(30)):
            warm.append(message)
            await engine.prepare(warm)
        folds = len(warm.annotations(e.Fold))
        assert folds > 1
        for message in turns(60)[4:]:
            warm.append(message)
        cold = Session(warm.entries)
        views = [
            (await Engine(presets.get("refold", window=20_000)).prepare(cold)).text,
            (await Engine(presets.get("refold", window=20_000)).prepare(warm)).text,
        ]
        assert "1 failed, 61 passed" in views[0]
        assert views[0] == views[1]

    asyncio.run(run())
