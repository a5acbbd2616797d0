"""Whatever comes in: repaired and rendered it is valid, the same every time, and its prefix stays."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings

from refold import messages as m
from refold.session.dialects import DIALECTS, anthropic, openai_chat
from refold.session.invariants import legal, pairs, repair, settled
from refold.session.invariants.empty import blank
from refold.session.items import Item
from refold.testing.builders import items
from refold.testing.validators import validate
from tests import strategies
from tests.session.identity import identity
from tests.session.sdk_types import anthropic_problems, openai_problems, responses_problems
from tests.strategies import examples

runs = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def speaks(messages: list[m.Message]) -> bool:
    return any(not isinstance(x, m.System) and not blank(x) for x in messages)


def stand_ins(listed: list[Item]) -> list[m.Message]:
    """Results that were made up for calls without one."""
    return [i.message for i in listed if not i.entries and i.message.text == pairs.MISSING_RESULT]


SDKS = {"openai": openai_problems, "responses": responses_problems, "anthropic": anthropic_problems}


@pytest.mark.parametrize("name", DIALECTS)
@runs
@given(strategies.conversations())
def test_any_conversation_is_valid_in_every_dialect(name: str, messages: list[m.Message]) -> None:
    if not speaks(messages):
        return
    wire = DIALECTS[name].render(repair(items(messages), name), system="Be kind.")
    assert validate(name, wire, partial=True) == []
    assert SDKS[name](wire) == []


@runs
@given(strategies.conversations())
def test_anthropic_with_its_breakpoints_is_valid(messages: list[m.Message]) -> None:
    if not speaks(messages):
        return
    wire = anthropic.render(repair(items(messages), "anthropic"), system="Be kind.", cache=True)
    assert validate("anthropic", wire, partial=True) == []
    assert anthropic_problems(wire) == []


@pytest.mark.parametrize("name", DIALECTS)
@runs
@given(strategies.conversations())
def test_closed_conversations_are_valid_without_exception(name: str, messages: list[m.Message]) -> None:
    closed = items([*messages, m.user("and now?")])
    assert validate(name, DIALECTS[name].render(repair(closed, name))) == []


@runs
@given(strategies.conversations())
def test_repaired_is_right_and_stays_as_it_is(messages: list[m.Message]) -> None:
    repaired = repair(items(messages))
    again = repair(repaired)
    assert len(again) == len(repaired) and all(a is b for a, b in zip(again, repaired, strict=True))
    assert repair(items(messages)) == repaired


@runs
@given(strategies.conversations())
def test_R7_repair_of_a_settled_prefix_is_a_prefix_of_the_repaired_whole(messages: list[m.Message]) -> None:
    listed = items(messages)
    whole = repair(listed)
    for end in range(len(listed) + 1):
        if settled(listed[:end]):
            prefix = repair(listed[:end])
            assert whole[: len(prefix)] == prefix


@runs
@given(strategies.conversations())
def test_R6_a_legal_cut_needs_no_stand_in_that_was_not_needed_before(messages: list[m.Message]) -> None:
    listed = items([*messages, m.user("next")])
    front = items([m.user("summary")])
    before = stand_ins(repair(listed, "openai"))
    for index in range(len(listed) + 1):
        if legal(listed, index):
            after = stand_ins(repair(front + listed[index:], "openai"))
            assert after == before[len(before) - len(after) :]


@runs
@given(strategies.orderly())
def test_orderly_conversations_are_left_alone(messages: list[m.Message]) -> None:
    listed = items(messages)
    repaired = repair(listed)
    assert all(a is b for a, b in zip(repaired, listed, strict=True))


@runs
@given(strategies.orderly())
def test_what_was_sent_is_read_back_as_it_was(messages: list[m.Message]) -> None:
    shown = [identity(x) for x in messages if not any(isinstance(p, m.Thinking) for p in x.parts)]
    chat = openai_chat.parse_list(openai_chat.render(messages))
    assert [identity(x) for x in chat if identity(x) in shown] == shown
    messages = [*messages, m.user("more")]  # the final reply loses its trailing whitespace
    both = anthropic.parse_list(anthropic.render(messages))
    assert [identity(x) for x in both] == [identity(x) for x in messages]


@runs
@given(strategies.conversations())
def test_callers_may_change_what_they_got(messages: list[m.Message]) -> None:
    repaired = repair(items(messages))
    for render in (dialect.render for dialect in DIALECTS.values()):
        first = json.dumps(render(repaired))
        _spoil(render(repaired))
        assert json.dumps(render(repaired)) == first


def _spoil(value: object) -> None:
    if isinstance(value, dict):
        for inner in list(value.values()):
            _spoil(inner)
        value.clear()
    elif isinstance(value, list):
        for inner in value:
            _spoil(inner)
        value.append("spoiled")
