"""Whatever comes in: repaired and rendered it is valid, the same every time, and its prefix stays."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings

from refold import messages as m
from refold.session.dialects import anthropic, openai_chat, openai_responses
from refold.session.invariants import cuts, legal, pairs, repair, settled, violations
from refold.session.invariants.empty import blank
from refold.testing import strategies
from refold.testing.builders import items
from refold.testing.validators import validate_anthropic, validate_openai, validate_responses
from tests.session.identity import identity
from tests.session.sdk_types import anthropic_problems, openai_problems, responses_problems

runs = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def speaks(messages: list[m.Message]) -> bool:
    return any(not isinstance(x, m.System) and not blank(x) for x in messages)


@runs
@given(strategies.conversations())
def test_any_conversation_is_valid_chat(messages: list[m.Message]) -> None:
    wire = openai_chat.render(repair(items(messages), "openai"), system="Be kind.")
    assert validate_openai(wire, partial=True) == []
    assert openai_problems(wire) == []
    json.dumps(wire).encode()


@runs
@given(strategies.conversations())
def test_any_conversation_is_valid_responses_input(messages: list[m.Message]) -> None:
    wire = openai_responses.render(repair(items(messages), "responses"), system="Be kind.")
    assert validate_responses(wire, partial=True) == []
    assert responses_problems(wire) == []


@runs
@given(strategies.conversations())
def test_any_conversation_is_valid_anthropic(messages: list[m.Message]) -> None:
    if not speaks(messages):
        return
    wire = anthropic.render(repair(items(messages), "anthropic"), system="Be kind.", cache=True)
    assert validate_anthropic(wire, partial=True) == []
    assert anthropic_problems(wire) == []


@runs
@given(strategies.conversations())
def test_closed_conversations_are_valid_without_exception(messages: list[m.Message]) -> None:
    closed = items([*messages, m.user("and now?")])
    assert validate_openai(openai_chat.render(repair(closed, "openai"))) == []
    assert validate_responses(openai_responses.render(repair(closed, "responses"))) == []
    assert validate_anthropic(anthropic.render(repair(closed, "anthropic"))) == []


@runs
@given(strategies.conversations())
def test_repaired_is_right_and_stays_as_it_is(messages: list[m.Message]) -> None:
    repaired = repair(items(messages))
    assert violations(repaired) == []
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
    before = [i.message for i in repair(listed, "openai") if pairs.is_stand_in(i)]
    for index in range(len(listed) + 1):
        if legal(listed, index):
            cut = repair(front + listed[index:], "openai")
            after = [i.message for i in cut if pairs.is_stand_in(i)]
            assert after == before[len(before) - len(after) :]


@runs
@given(strategies.conversations())
def test_all_cuts_at_once_are_the_legal_ones(messages: list[m.Message]) -> None:
    listed = items(messages)
    assert cuts(listed) == [i for i in range(len(listed) + 1) if legal(listed, i)]


@runs
@given(strategies.orderly())
def test_orderly_conversations_are_left_alone(messages: list[m.Message]) -> None:
    listed = items(messages)
    repaired = repair(listed)
    assert violations(listed) == []
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
    for render in (openai_chat.render, openai_responses.render, anthropic.render):
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
