"""R6: signed thinking stays with the tool loop it belongs to."""

from __future__ import annotations

from refold import messages as m
from refold.session.invariants import legal, repair
from refold.testing.builders import items

ASK = m.user("go")
SIGNED = m.Thinking("hmm", "sig")


def step(id: str, *thoughts: m.Thinking) -> list[m.Message]:
    return [m.Assistant((*thoughts, m.call(id, "Read")), "tool_use"), m.result(id, "text")]


def cut_points(*messages: m.Message) -> list[int]:
    listed = items(messages)
    return [i for i in range(len(listed) + 1) if legal(listed, i)]


def test_inside_a_loop_only_before_a_reply_that_thinks_itself() -> None:
    loop = [ASK, *step("a", SIGNED), *step("b"), *step("c", SIGNED), m.assistant("done"), ASK]
    assert cut_points(*loop) == [0, 1, 5, 8, 9]


def test_redacted_thinking_counts_and_unsigned_or_optional_does_not() -> None:
    assert cut_points(ASK, *step("a", m.Thinking(data="x")), *step("b")) == [0, 1, 5]
    assert cut_points(ASK, *step("a", m.Thinking("x", id="rs", data="y")), *step("b")) == [0, 1, 3, 5]
    assert cut_points(ASK, *step("a", m.Thinking("plain")), *step("b")) == [0, 1, 3, 5]


def test_a_user_message_ends_the_loop() -> None:
    assert cut_points(ASK, *step("a", SIGNED), ASK, *step("b")) == [0, 1, 3, 4, 6]


def test_thinking_that_came_alone_goes_to_its_reply() -> None:
    alone, reply = m.Assistant((SIGNED,)), m.Assistant((m.call("a", "Read"),))
    listed = items([ASK, alone, reply, m.result("a", "x")])
    repaired = repair(listed)
    assert repaired[1].message.parts == (SIGNED, *reply.content)
    assert repaired[1].entries == ("e1", "e2")
    assert not legal(listed, 2) and legal(listed, 1)


def test_thinking_of_a_broken_reply_goes_to_nobody() -> None:
    broken, reply = m.Assistant((SIGNED,), "aborted"), m.assistant("again")
    assert [x.message for x in repair(items([ASK, broken, reply]))] == [ASK, reply]


def test_thinking_is_never_altered() -> None:
    listed = items([ASK, *step("a", SIGNED, m.Thinking(data="x"))])
    assert repair(listed) == listed


def test_thinking_that_led_to_nothing_is_dropped() -> None:
    reply = m.Assistant((m.Text("done"), SIGNED, m.Text(" ")))
    assert repair(items([ASK, reply]))[1].message.parts == (m.Text("done"),)
