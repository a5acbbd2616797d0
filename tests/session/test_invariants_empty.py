"""No message without content."""

from __future__ import annotations

import pytest

from refold import messages as m
from refold.session.invariants import repair
from refold.testing.builders import items


@pytest.mark.parametrize(
    "message",
    [
        m.user(""),
        m.user(" \n"),
        m.system(""),
        m.Assistant((), "error", "overloaded"),
        m.Assistant((m.Text(""),), "aborted"),
        m.Assistant((m.thinking("hm", "sig"),), "aborted"),
        m.Bash("ls", hidden=True),
        m.User((m.call("c", "Bash"),)),
    ],
)
def test_what_shows_nothing_is_not_sent(message: m.Message) -> None:
    listed = items([m.user("a"), message, m.user("b")])
    assert [x.message.text for x in repair(listed)] == ["a", "b"]


@pytest.mark.parametrize(
    "message",
    [
        m.Assistant((m.Text("half a sent"),), "aborted"),
        m.User((m.image("AA"),)),
        m.Bash("ls"),
        m.User((m.Opaque({}),)),
    ],
)
def test_what_shows_something_is_kept(message: m.Message) -> None:
    listed = items([m.user("a"), message])
    assert repair(listed) == listed


def test_an_empty_result_still_answers_its_call() -> None:
    listed = items([m.user("a"), m.assistant("", m.call("c", "Bash")), m.result("c", "")])
    assert repair(listed) == listed
