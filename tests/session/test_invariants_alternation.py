"""Where the dialect demands it, the two sides take turns."""

from __future__ import annotations

from refold import messages as m
from refold.session.invariants import alternation, repair
from refold.testing.builders import items


def test_two_replies_in_a_row_become_one_for_anthropic_only() -> None:
    listed = items([m.user("a"), m.assistant("one"), m.assistant("two"), m.user("b")])
    repaired = repair(listed, "anthropic")
    assert [x.message.text for x in repaired] == ["a", "one\ntwo", "b"]
    assert repaired[1].entries == ("e1", "e2")
    assert repair(listed, "openai") == listed


def test_taking_turns_is_left_alone() -> None:
    listed = items([m.user("a"), m.user("b"), m.assistant("one")])
    assert alternation.repair(listed) is listed
