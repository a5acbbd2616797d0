"""The first message that is not a system message comes from the user."""

from __future__ import annotations

from refold import messages as m
from refold.session.invariants import first_user, repair
from refold.testing.builders import items


def test_a_stand_in_comes_after_the_system_messages() -> None:
    system, reply = m.system("rules"), m.assistant("hello")
    repaired = repair(items([system, reply]))
    assert [x.message for x in repaired] == [system, first_user.STAND_IN, reply]


def test_users_commands_and_notes_are_from_the_user() -> None:
    for first in (m.user("hi"), m.Bash("ls"), m.result("gone", "orphan")):
        assert first_user.STAND_IN not in [x.message for x in repair(items([first, m.assistant("ok")]))]


def test_nothing_is_put_into_an_empty_conversation() -> None:
    assert repair([]) == []
    assert repair(items([m.system("rules")])) == items([m.system("rules")])
