"""The loop (A22): however a turn ends, every call has one result, nothing is run twice, the next request is valid."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from refold import Engine, Session, presets
from refold import messages as m
from refold.agent import events
from refold.agent.interrupted_turn import open_calls
from refold.agent.loop import NEVER_STARTED, NOT_RUN, OUTCOME_UNKNOWN, Agent
from refold.entries import Fold, MessageEntry, State
from refold.errors import ModelUnavailable, Overflow, Transient
from refold.messages import Assistant, Call, Result, User
from refold.models.scripted import Scripted, cut, fail, say, stall
from refold.protocols import Request, TextDelta, ToolSpec
from refold.session import Session as _Session
from refold.testing.validators import validate_anthropic, validate_openai
from refold.tools.base import failure

READ = ToolSpec("Read", "reads", {"type": "object", "properties": {"path": {"type": "string"}}})


unknown = failure("interrupted", OUTCOME_UNKNOWN).to_text()
never = failure("not_run", NEVER_STARTED).to_text()


class Bench:
    """An agent with tools that note what they did."""

    def __init__(
        self, *script: Any, session: _Session | None = None, engine: Engine | None = None, **more: Any
    ) -> None:
        self.ran: list[str] = []
        self.told: list[events.TurnEvent] = []
        self.model = Scripted(*script)
        self.session = session or Session()
        self.wait: Callable[[Call], Awaitable[None]] | None = None
        self.agent = Agent(
            engine or Engine(),
            self.session,
            self.model,
            self.run,
            tools=[READ],
            tell=self.told.append,
            **more,
        )

    async def run(self, call: Call) -> Result:
        self.ran.append(call.id)
        if self.wait:
            await self.wait(call)
        return m.result(call.id, f"did {call.id}", name=call.name)

    def results(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for entry in self.session.path:
            if isinstance(entry, MessageEntry) and isinstance(entry.message, Result):
                found.setdefault(entry.message.call_id, []).append(entry.message.text)
        return found

    def check(self) -> None:
        """What would be sent next is valid by both providers' rules."""
        self.session.append("go on")
        view = Engine().view(self.session)
        assert validate_openai(view.to_openai()) == []
        sent = view.to_anthropic()
        assert validate_anthropic({**sent, "model": "x", "max_tokens": 1}) == []


def call(id: str, name: str = "Read") -> Call:
    return m.call(id, name, path=f"{id}.py")


def test_A22_calls_are_run_until_the_model_is_idle() -> None:
    bench = Bench(say("Look.", call("a"), call("b")), say(call("c")), "Done.")
    reply = asyncio.run(bench.agent.turn("Fix it."))
    assert reply.text == "Done."
    assert bench.ran == ["a", "b", "c"]
    assert bench.results() == {id: [f"did {id}"] for id in "abc"}
    assert [type(event).__name__ for event in bench.told if not isinstance(event, events.ReplyStreamed)] == [
        "RequestStarted", "ReplyFinished", "ToolStarted", "ToolFinished", "ToolStarted", "ToolFinished",
        "RequestStarted", "ReplyFinished", "ToolStarted", "ToolFinished", "RequestStarted", "ReplyFinished",
    ]  # fmt: skip
    bench.check()


def test_A22_every_request_has_an_id_of_its_own_and_a_snapshot_before_it() -> None:
    taken: list[str] = []

    async def snapshot(request: str) -> str:
        taken.append(f"s{len(taken)}")
        return taken[-1]

    bench = Bench(say(call("a")), Transient("busy"), "Done.", snapshot=snapshot)
    asyncio.run(bench.agent.turn("Fix it."))
    noted = [entry.value for entry in bench.session.annotations(State) if entry.name == "snapshot"]
    assert [note["snapshot"] for note in noted] == ["s0", "s1", "s2"]
    asked = [event for event in bench.told if isinstance(event, events.RequestStarted)]
    assert [event.request for event in asked] == [note["request"] for note in noted]
    assert len({event.request for event in asked}) == 3
    assert [(event.attempt, event.failure) for event in asked] == [(1, ""), (1, ""), (2, "busy")]


def test_C9_the_loop_is_bounded_and_ends_with_an_answer() -> None:
    bench = Bench(*(say(call(f"c{n}")) for n in range(3)), "Enough.", most=3)
    assert asyncio.run(bench.agent.turn("Go.")).text == "Enough."
    assert len({repr(request.tools) for request in bench.model.requests}) == 1, "the prefix stays"
    assert "Call no tool" in bench.model.requests[3].messages[-1].text
    bench.check()


def test_C9_what_is_called_after_the_last_request_is_not_run() -> None:
    bench = Bench(*(say("Still busy.", call(f"c{n}")) for n in range(4)), most=3)
    assert asyncio.run(bench.agent.turn("Go.")).text == "Still busy."
    assert bench.ran == ["c0", "c1", "c2"]
    assert NOT_RUN in bench.results()["c3"][0]
    bench.check()


def test_C9_the_presets_own_bound_counts() -> None:
    assert Bench(engine=Engine("window")).agent.most == 10


def test_reads_next_to_each_other_run_together_and_their_results_stand_in_order() -> None:
    open: set[str] = set()
    most: list[int] = []

    async def wait(call: Call) -> None:
        open.add(call.id)
        await asyncio.sleep(0.002 if call.id == "a" else 0)
        most.append(len(open))
        open.discard(call.id)

    reads = say(call("a"), call("b"), m.call("w", "Write"), call("c"))
    bench = Bench(reads, "Done.", together=lambda call: call.name == "Read")
    bench.wait = wait
    asyncio.run(bench.agent.turn("Go."))
    assert max(most) == 2
    assert list(bench.results()) == ["a", "b", "w", "c"]
    assert bench.ran.index("w") > bench.ran.index("b")


async def interrupted(bench: Bench, when: Callable[[], bool]) -> None:
    """A turn that is cancelled as soon as `when` says so."""
    task = asyncio.ensure_future(bench.agent.turn("Go."))
    while not when():  # noqa: ASYNC110
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_an_interrupt_keeps_what_was_said_and_marks_it() -> None:
    bench = Bench(stall("The bug is in the "))
    asyncio.run(
        interrupted(bench, lambda: any(isinstance(event, events.ReplyStreamed) for event in bench.told))
    )
    last = bench.session.last_reply
    assert last is not None
    assert isinstance(last.message, Assistant)
    assert (last.message.text, last.message.stop) == ("The bug is in the ", "aborted")
    assert bench.model.open == 0, "the connection is closed"
    bench.check()


def test_an_interrupt_during_a_tool_gives_every_open_call_a_result() -> None:
    bench = Bench(say(call("a"), call("b"), call("c")), together=lambda _: False)

    async def wait(call: Call) -> None:
        await asyncio.sleep(3600 if call.id == "b" else 0)

    bench.wait = wait
    asyncio.run(interrupted(bench, lambda: "b" in bench.ran))
    assert bench.results() == {"a": ["did a"], "b": [unknown], "c": [never]}
    assert bench.ran == ["a", "b"]
    bench.check()


def test_what_ran_together_and_is_done_is_kept_when_the_others_are_interrupted() -> None:
    bench = Bench(say(call("a"), call("b"), call("c")), together=lambda _: True)

    async def wait(call: Call) -> None:
        await asyncio.sleep(3600 if call.id == "a" else 0)

    bench.wait = wait
    asyncio.run(interrupted(bench, lambda: len(bench.agent._finished) == 2))
    assert bench.results() == {"a": [unknown], "b": ["did b"], "c": ["did c"]}
    bench.check()


@pytest.mark.parametrize("steps", range(0, 60, 2))
def test_an_interrupt_at_any_moment_leaves_a_session_that_goes_on(steps: int) -> None:
    """At every step of the event loop: one result per call, nothing run twice, the next request valid."""
    bench = Bench(say("Look.", call("a"), call("b")), say("More.", call("c")), "Done.", "Again.")

    async def work() -> None:
        task = asyncio.ensure_future(bench.agent.turn("Go."))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(work())
    assert len(bench.ran) == len(set(bench.ran))
    assert open_calls(bench.session) == []
    assert all(len(texts) == 1 for texts in bench.results().values())
    bench.check()


@pytest.mark.parametrize("length", range(2, 10))
def test_a_session_that_was_killed_anywhere_goes_on_without_running_anything_again(length: int) -> None:
    """The log as it was at a kill: every prefix of what a turn writes. Calls that never began are said to be
    so."""
    whole = Bench(say("Look.", call("a"), call("b")), say(call("c")), "Done.")
    asyncio.run(whole.agent.turn("Go."))
    killed = Session(list(whole.session.entries)[:length])
    bench = Bench("Again.", session=killed)
    waiting = bench.agent.resume()
    open, begun = {2: (2, 2), 3: (2, 1), 4: (1, 0), 5: (1, 1), 7: (1, 0), 8: (1, 1)}.get(length, (0, 0))
    assert waiting == open
    asyncio.run(bench.agent.turn("Where were we?"))
    assert bench.ran == []
    assert all(len(texts) == 1 for texts in bench.results().values())
    assert sum(unknown in texts for texts in bench.results().values()) == begun
    assert sum(never in texts for texts in bench.results().values()) == open - begun
    bench.check()


LINES = [f"This is line {n} of a reply that takes its time.\n" for n in range(40)]


def test_what_was_said_of_a_long_reply_is_still_there_after_a_kill() -> None:
    """All lines but the last few, marked; a reply that ended, or was noted by an interrupt, comes once."""
    now = [0.0]

    def clock() -> float:
        now[0] += 0.3
        return now[0]

    bench = Bench(stall("".join(LINES)))
    bench.agent._overheard.clock = clock
    heard = lambda: sum(isinstance(event, events.ReplyStreamed) for event in bench.told) > 60  # noqa: E731

    async def work() -> Session:
        task = asyncio.ensure_future(bench.agent.turn("Go."))
        while not heard():  # noqa: ASYNC110
            await asyncio.sleep(0)
        killed = Session(list(bench.session.entries))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return killed

    killed = asyncio.run(work())
    again = Bench("Going on.", session=killed)
    asyncio.run(again.agent.turn("Where were we?"))
    first, second = (killed.path[at] for at in killed.replies)
    assert isinstance(first, MessageEntry)
    assert isinstance(second, MessageEntry)
    assert first.message.stop == "aborted"  # pyright: ignore
    assert len(first.message.text) > 1000
    assert "".join(LINES).startswith(first.message.text)
    assert second.message.text == "Going on."
    again.check()
    whole = Bench("x", session=Session(list(bench.session.entries)))
    whole.agent.resume()
    assert len(whole.session.replies) == 1, "what an interrupt has kept is not kept again"


def test_a_place_that_was_answered_has_nothing_to_recover() -> None:
    """Going back there does not bring an old draft back."""
    session = Session()
    asked = session.append("Go.")
    session.append(
        session.make(State, target=asked.id, name="partial", value={"request": "r", "text": "Half\n"})
    )
    session.append(m.assistant("The whole."))
    session.move(asked.id)
    bench = Bench("Again.", session=session)
    asyncio.run(bench.agent.turn("Once more."))
    said = [entry.message.text for entry in session.path if isinstance(entry, MessageEntry)]
    assert said == ["Go.", "Once more.", "Again."]


def test_a_model_that_fails_leaves_what_was_said_and_no_open_call() -> None:
    bench = Bench(say(call("a")), fail(ModelUnavailable("gone"), "I was just about to "))
    with pytest.raises(ModelUnavailable):
        asyncio.run(bench.agent.turn("Go."))
    assert bench.session.last_reply is not None
    assert bench.session.last_reply.message.text == "I was just about to "
    bench.check()


def test_a_reply_that_is_tried_again_is_in_the_log_once() -> None:
    bench = Bench(cut("Half a rep"), "The whole reply.")
    assert asyncio.run(bench.agent.turn("Go.")).text == "The whole reply."
    said = [entry.message.text for entry in bench.session.path if isinstance(entry, MessageEntry)]
    assert said == ["Go.", "The whole reply."]
    asked = [event for event in bench.told if isinstance(event, events.RequestStarted)]
    assert [event.attempt for event in asked] == [1, 2]
    assert [event.failure for event in asked] == ["", "the reply was cut off before its end"]


def test_an_overflow_in_the_middle_of_a_tool_loop_is_folded_and_asked_again() -> None:
    session = Session()
    for n in range(30):
        session.append(m.user(f"question {n} " + "words " * 100))
        session.append(m.assistant(f"answer {n} " + "words " * 100))
    refused = fail(Overflow("prompt is too long: 9000 tokens > 4000 maximum", 4000))
    bench = Bench(
        say(call("a")),
        refused,
        say(call("b")),
        "Done.",
        session=session,
        engine=Engine(presets.get("refold", window=32_000)),
    )
    assert asyncio.run(bench.agent.turn("Go.")).text == "Done."
    assert bench.ran == ["a", "b"]
    assert any(isinstance(entry, Fold) for entry in session.path)
    assert Engine().counter.text(repr(bench.model.requests[-1].messages)) < 8_000
    bench.check()


def test_a_fold_in_the_middle_of_a_tool_loop_keeps_calls_and_results_together() -> None:
    engine = Engine(presets.get("refold", window=4_000))
    loops = 40

    def answer(request: Request) -> Any:
        return (
            say(f"Step {len(bench.ran)}. " + "thought " * 60, call(f"c{len(bench.ran)}"))
            if len(bench.ran) < loops
            else say("Done.")
        )

    bench = Bench(*[answer] * (loops + 1), engine=engine)

    async def run(call: Call) -> Result:
        bench.ran.append(call.id)
        return m.result(call.id, f"did {call.id} " + "output " * 150, name=call.name)

    bench.agent.run_tool = run
    assert asyncio.run(bench.agent.turn("Go.")).text == "Done."
    assert any(isinstance(entry, Fold) for entry in bench.session.path)
    assert bench.ran == [f"c{n}" for n in range(loops)]
    for request in bench.model.requests:
        waiting: set[str] = set()
        for message in request.messages:
            waiting |= {c.id for c in message.calls}
            if isinstance(message, Result):
                waiting.remove(message.call_id)
        assert waiting == set()
    bench.check()


def test_pieces_are_told_as_they_come() -> None:
    bench = Bench("A rather long answer that comes in several pieces, one after the other.")
    asyncio.run(bench.agent.turn("Go."))
    pieces = [
        event.event.text
        for event in bench.told
        if isinstance(event, events.ReplyStreamed) and isinstance(event.event, TextDelta)
    ]
    assert len(pieces) > 1
    assert "".join(pieces).startswith("A rather long")
    assert isinstance(bench.session.path[0], MessageEntry)
    assert isinstance(bench.session.path[0].message, User)
