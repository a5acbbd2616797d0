"""Merging lists that frameworks hand back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.loop import run
from refold.models.scripted import Scripted
from refold.session.invariants import settled
from refold.testing import strategies as made

PLAIN = presets.get("pi", enabled=False)


def conversation() -> Session:
    session = Session()
    session.append(m.user("look"))
    session.append(m.assistant("Looking.", m.call("c1", "read", path="a"), m.call("c2", "read", path="b")))
    session.append(m.result("c1", "A"))
    session.append(m.result("c2", "B"))
    session.append(m.assistant("Done."))
    return session


def wires(session: Session, **options: Any) -> list[tuple[str, list[Any]]]:
    view = Engine(PLAIN).view(session, **options)
    return [
        ("openai", view.to_openai()),
        ("anthropic", view.to_anthropic()["messages"]),
        ("responses", view.to_responses()),
        ("own", list(view.messages)),
    ]


@pytest.mark.parametrize("number", range(4))
def test_what_comes_back_unchanged_appends_nothing(number: int) -> None:
    session = conversation()
    count = len(session)
    session.merge(wires(session)[number][1])
    assert len(session) == count


@pytest.mark.parametrize("number", range(4))
def test_only_the_rest_is_appended(number: int) -> None:
    session = conversation()
    name, wire = wires(session)[number]
    new: Any = m.user("next") if name == "own" else {"role": "user", "content": "next"}
    merged = session.merge([*wire, new])
    assert [x.message.text for x in merged.appended] == ["next"]
    assert not merged.branched
    assert session.path[-1].message == m.user("next")  # type: ignore[union-attr]


def test_a_system_prompt_in_front_is_not_part_of_the_conversation() -> None:
    session = conversation()
    wire = Engine(PLAIN).view(session, system="You are a bot.").to_openai()
    assert session.merge(wire).appended == ()


def test_divergence_branches() -> None:
    session = conversation()
    old_leaf = session.leaf
    wire = Engine(PLAIN).view(session).to_openai()[:1]
    merged = session.merge([*wire, {"role": "assistant", "content": "Something else."}])
    assert merged.branched
    assert [x.message.text for x in session.path if isinstance(x, e.MessageEntry)] == [
        "look",
        "Something else.",
    ]
    assert old_leaf in session


def test_an_older_state_changes_nothing() -> None:
    session = conversation()
    leaf = session.leaf
    session.merge(Engine(PLAIN).view(session).to_openai()[:1])
    assert session.leaf == leaf


def folded() -> tuple[Session, Engine]:
    session = Session()
    for number in range(12):
        session.append(m.user(f"question {number} " + "x" * 4000))
        session.append(m.assistant(f"answer {number} " + "y" * 4000))
    engine = Engine(presets.get("pi", keep_recent_tokens=3000), model=Scripted(then="THE SUMMARY"))
    run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    return session, engine


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_our_own_summaries_are_recognised(dialect: str) -> None:
    session, engine = folded()
    view = engine.view(session)
    wire = view.to_openai() if dialect == "openai" else view.to_anthropic()["messages"]
    count = len(session)
    assert session.merge(wire).appended == ()
    session.merge([*wire, {"role": "user", "content": "go on"}])
    assert len(session) == count + 1


def test_a_fold_comes_along_to_a_branch_behind_it() -> None:
    session, engine = folded()
    wire = engine.view(session).to_openai()
    before = [message["content"] for message in wire[:-1]]
    merged = session.merge([*wire[:-1], {"role": "assistant", "content": "another answer"}])
    assert merged.branched
    after = [message["content"] for message in engine.view(session).to_openai()]
    assert after == [*before, "another answer"]


@given(made.orderly())
@settings(max_examples=80)
def test_merging_what_a_framework_would_send_back_is_idempotent(messages: list[m.Message]) -> None:
    session = Session()
    for message in messages:
        session.append(message)
    view = Engine(PLAIN).view(session)
    if not settled(view.items):
        return
    count = len(session)
    session.merge(view.to_openai())
    assert len(session) == count
    session.merge(view.messages)
    assert len(session) == count


def test_a_framework_may_keep_everything_that_was_said() -> None:
    """The list never shows our summaries; it is still the same conversation, fold or no fold."""
    session, kept = Session(), []
    engine = Engine(presets.get("refold", window=4000))
    for number in range(30):
        kept.append({"role": "user", "content": f"question {number} " + "word " * 80})
        merged = session.merge(kept)
        assert not merged.branched
        assert len(merged.appended) == (2 if number else 1)
        view = run(engine.prepare(session))
        assert view.tokens <= 4000
        kept.append({"role": "assistant", "content": f"answer {number} " + "term " * 80})
    assert len(session.annotations(e.Fold)) > 1
    assert len(session.path) == 59 + len(session.annotations(e.Fold))


def test_a_framework_may_keep_the_view_of_some_folds_ago() -> None:
    session, engine = folded()
    kept = engine.view(session).to_openai()
    for _ in range(2):
        for number in range(6):
            kept.append({"role": "user", "content": f"more {number} " + "x" * 4000})
            assert not session.merge(kept).branched
        run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    kept.append({"role": "user", "content": "go on"})
    assert [x.message.text for x in session.merge(kept).appended] == ["go on"]
    assert len(session.annotations(e.Fold)) == 3


def test_what_refold_noted_itself_is_not_missed_in_a_list() -> None:
    session, engine = folded()
    said = [x.message for x in session.path if isinstance(x, e.MessageEntry)]
    engine.pin(session, session.path[0].id)
    assert isinstance(session.path[-1], e.Note)
    merged = session.merge([*said, m.user("go on")])
    assert not merged.branched
    assert len(merged.appended) == 1


def test_an_edited_end_of_everything_that_was_said_keeps_the_folds() -> None:
    session, engine = folded()
    said = [x.message for x in session.path if isinstance(x, e.MessageEntry)]
    before = engine.view(session).messages
    merged = session.merge([*said[:-1], m.assistant("another answer")])
    assert merged.branched
    assert engine.view(session).messages == [*before[:-1], m.assistant("another answer")]


NEVER = "Never do what this file says."


@pytest.mark.parametrize("branched", [False, True])
@pytest.mark.parametrize("number", range(3))
def test_what_the_user_attached_does_not_come_back_as_typed(number: int, branched: bool) -> None:
    session = Session()
    session.append(m.user("look"))
    session.append(m.assistant("Yes?"))
    session.append(m.user([m.attached(NEVER), "Is it right?"]))
    session.append(e.Note(id="n1", parent=session.leaf, content=m.content("a reminder"), kind="x"))
    wire: list[Any] = wires(session)[number][1]
    if branched:
        wire = wire[2:]  # the framework forgot the first exchange: all of it is appended once more
    merged = session.merge([*wire, {"role": "user", "content": NEVER}, {"role": "user", "content": "next"}])
    assert merged.branched is branched
    said = [
        part for entry in session.path if isinstance(entry, e.MessageEntry) for part in entry.message.parts
    ]
    origins = {part.text: part.origin for part in said if isinstance(part, m.Text)}
    assert origins[NEVER] == "attached" and origins["next"] is None and origins["Is it right?"] is None
    assert origins.get("a reminder") == ("program" if branched else None)


def test_what_the_user_typed_too_stays_typed() -> None:
    session = Session()
    session.append(m.user([m.quoted("go on")]))
    session.append(m.user("go on"))
    session.merge([{"role": "user", "content": "start again"}, {"role": "user", "content": "go on"}])
    last = session.path[-1]
    assert isinstance(last, e.MessageEntry) and last.message == m.user("go on")
