"""The scripted model says what its script says, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from refold.errors import Overflow, Transient
from refold.messages import Text, Usage, assistant, call, thinking, user
from refold.models import Retry, Scripted, ScriptExhausted, complete, cut, fail, say, stall
from refold.models.retry import NO_RETRY
from refold.protocols import Request, TextDelta

ASK = Request(messages=(user("Hello"),))


def run(coroutine):
    return asyncio.run(coroutine)


def test_strings_are_answers_and_requests_are_kept() -> None:
    model = Scripted("One.", "Two.")
    replies = [run(complete(model, ASK)) for _ in range(2)]
    assert [r.text for r in replies] == ["One.", "Two."]
    assert replies[0].message == assistant("One.")
    assert model.requests == [ASK, ASK]
    assert model.left == 0


def test_parts_come_back_in_order_with_usage() -> None:
    said = (thinking("Hm. " * 20, "sig"), "Let me look. " * 9, call("c1", "Read", path="a"), call("c2", "LS"))
    reply = run(complete(Scripted(say(*said, usage=Usage(10, 3))), ASK))
    assert reply.message.content == (said[0], Text(said[1]), *said[2:])
    assert reply.message.stop == "tool_use"
    assert reply.usage == Usage(10, 3)


def test_exhausted_is_loud_and_no_model_error() -> None:
    model = Scripted()
    with pytest.raises(ScriptExhausted, match=r"request 1 .* finds no line"):
        run(complete(model, ASK))


def test_lines_wait_for_their_purpose() -> None:
    model = Scripted(say("summary!", purpose="summary"), "chat!")
    assert run(complete(model, ASK)).text == "chat!"
    with pytest.raises(ScriptExhausted, match="left only for summary"):
        run(complete(model, ASK))
    summary = Request(messages=ASK.messages, purpose="summary")
    assert run(complete(model, summary)).text == "summary!"


def test_functions_see_the_request() -> None:
    model = Scripted(then=lambda request: f"You said {request.messages[-1].text}.")
    assert run(complete(model, ASK)).text == "You said Hello."
    assert run(complete(model, ASK)).text == "You said Hello."


def test_errors_are_raised_after_what_was_said() -> None:
    model = Scripted(fail(Overflow("too long", 100), "Half an ans"), Overflow("again"))
    seen = []

    async def read() -> None:
        async for event in model.stream(ASK):
            seen.append(event)  # noqa: PERF401  # must keep what came before the error

    with pytest.raises(Overflow) as caught:
        run(read())
    assert caught.value.window == 100
    assert seen[0] == TextDelta("Half an ans")
    with pytest.raises(Overflow, match="again"):
        run(complete(model, ASK))


def test_a_cut_stream_is_never_a_completion() -> None:
    with pytest.raises(Transient, match="cut off"):
        run(complete(Scripted(cut("It looks complete.")), ASK, retries=NO_RETRY))


def test_stalls_are_ended_by_the_timeout_and_closed() -> None:
    model = Scripted(stall("Half"))
    with pytest.raises(Transient, match=r"within 0\.02 s"):
        run(complete(model, ASK, timeout=0.02))
    assert model.open == 0


def test_the_timeout_of_the_request_limits_one_attempt() -> None:
    model = Scripted(stall(), "late but here")
    hasty = Request(messages=ASK.messages, timeout=0.02)
    assert run(complete(model, hasty, retries=Retry(base=0.0))).text == "late but here"


def test_pace_and_delay_use_the_injected_sleep() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    run(complete(Scripted(say("x" * 40, delay=2.0, pace=0.5), sleep=sleep), ASK))
    assert slept == [2.0, 0.5, 0.5, 0.5]


@pytest.mark.parametrize("stop", ["length", "refusal", "other"])
def test_any_stop_reason(stop) -> None:
    assert run(complete(Scripted(say("…", stop=stop)), ASK)).message.stop == stop


def test_a_closed_stream_is_free() -> None:
    model = Scripted(say("x" * 100))

    async def peek() -> None:
        stream = model.stream(ASK)
        await anext(stream)
        assert model.open == 1
        await stream.aclose()

    run(peek())
    assert model.open == 0
