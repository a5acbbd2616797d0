"""Folds and the view: edits, nesting, undo and redo, stability."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.session.invariants import settled
from refold.session.projection import Projection
from refold.testing.validators import validate_anthropic, validate_openai, validate_responses
from tests import strategies as made
from tests.strategies import examples

PLAIN = presets.get("pi", enabled=False)


def session_of(messages: list[m.Message]) -> Session:
    session = Session()
    for message in messages:
        session.append(message)
    return session


def numbered(count: int) -> Session:
    return session_of([m.user(f"u{i}") if i % 2 == 0 else m.assistant(f"a{i}") for i in range(count)])


def fold(session: Session, first: int, last: int, *texts: str, preset: str = "x") -> e.Fold:
    ids = [x.id for x in session.path]
    made = session.make(
        e.Fold, edits=(e.Edit(ids[first], ids[last], tuple(m.user(t) for t in texts)),), preset=preset
    )
    session.append(made)
    return made


def shown(session: Session) -> list[str]:
    return [item.message.text for item in Projection(session).items]


def test_an_edit_replaces_a_stretch_and_items_know_their_entries() -> None:
    session = numbered(6)
    ids = tuple(x.id for x in session.path[:3])
    fold(session, 0, 2, "S")
    items = Projection(session).items
    assert [i.message.text for i in items] == ["S", "a3", "u4", "a5"]
    assert items[0].entries == ids
    assert items[1].entries == (session.path[3].id,)


def test_an_edit_may_put_nothing() -> None:
    session = numbered(4)
    fold(session, 1, 1)
    assert shown(session) == ["u0", "u2", "a3"]


def test_the_outermost_edit_wins_and_undoing_it_shows_the_inner_one() -> None:
    session = numbered(6)
    fold(session, 1, 1, "inner")
    outer = fold(session, 0, 3, "outer")
    assert shown(session) == ["outer", "u4", "a5"]
    session.append(session.make(e.Undo, fold=outer.id))
    assert shown(session) == ["u0", "inner", "u2", "a3", "u4", "a5"]


def test_of_two_edits_of_one_stretch_the_newer_wins() -> None:
    session = numbered(4)
    fold(session, 0, 1, "old")
    fold(session, 0, 1, "new")
    assert shown(session) == ["new", "u2", "a3"]


def test_of_overlapping_edits_the_newer_wins() -> None:
    session = numbered(6)
    fold(session, 0, 2, "old")
    fold(session, 1, 4, "new")
    assert shown(session) == ["u0", "new", "a5"]


def test_undo_and_redo_of_any_fold_in_any_order() -> None:
    session, engine = numbered(8), Engine(PLAIN)
    first = fold(session, 0, 1, "A")
    second = fold(session, 2, 3, "B")
    engine.undo(session, first.id)
    assert shown(session)[:3] == ["u0", "a1", "B"]
    engine.undo(session)
    assert shown(session)[:3] == ["u0", "a1", "u2"]
    engine.redo(session)
    assert shown(session)[:3] == ["u0", "a1", "B"]
    engine.redo(session, first.id)
    assert shown(session)[:2] == ["A", "B"]
    assert second.id in session


@given(st.data())
@settings(max_examples=examples(60))
def test_R1_undo_restores_the_view_byte_for_byte_and_redo_undoes_that(data: st.DataObject) -> None:
    session, engine = session_of(data.draw(made.conversations())), Engine(PLAIN)
    if len(session.path) < 2:
        return
    before = json.dumps(engine.view(session).to_openai())
    first = data.draw(st.integers(0, len(session.path) - 1))
    last = data.draw(st.integers(first, len(session.path) - 1))
    made_fold = fold(session, first, last, "S")
    folded = json.dumps(engine.view(session).to_openai())
    for _ in range(2):
        engine.undo(session, made_fold.id)
        assert json.dumps(engine.view(session).to_openai()) == before
        engine.redo(session, made_fold.id)
        assert json.dumps(engine.view(session).to_openai()) == folded


@given(st.data())
@settings(max_examples=examples(60))
def test_following_a_session_equals_building_it_anew(data: st.DataObject) -> None:
    """Appends, folds, undo and moves in any order: the projection that followed equals a fresh one."""
    session = Session()
    followed, engine = Projection(session), Engine(PLAIN)
    for message in data.draw(made.conversations()):
        session.append(message)
        step = data.draw(st.sampled_from(["say", "say", "fold", "undo", "move"]))
        n = len(session.path)
        if step == "fold":
            first = data.draw(st.integers(0, n - 1))
            fold(session, first, data.draw(st.integers(first, n - 1)), "S")
        elif (
            step == "undo"
            and session.annotations(e.Fold)
            and engine.planner.context(session).projection.folds
        ):
            engine.undo(session)
        elif step == "move":
            session.move(session.path[data.draw(st.integers(0, n - 1))].id)
        fresh = Projection(session)
        assert list(followed.items) == list(fresh.items)
        assert followed.size(engine.counter) == fresh.size(engine.counter)
        assert list(followed.replies) == list(fresh.replies)


@given(made.conversations())
@settings(max_examples=examples(100))
def test_R7_the_view_of_a_settled_prefix_is_a_prefix_of_the_view(messages: list[m.Message]) -> None:
    session, engine = Session(), Engine(PLAIN)
    earlier: list[object] = []
    for message in messages:
        session.append(message)
        view = engine.view(session)
        wire = view.to_openai()
        assert wire[: len(earlier)] == earlier
        earlier = wire if settled(view.items) else earlier


@given(made.conversations(), st.data())
@settings(max_examples=examples(100))
def test_all_dialects_are_valid_at_any_cut_and_bytes_repeat(
    messages: list[m.Message], data: st.DataObject
) -> None:
    session = session_of(messages)
    if session.path:
        last = data.draw(st.integers(0, len(session.path) - 1))
        fold(session, 0, last, "S")
    view = Engine(PLAIN).view(session)
    if not view.to_openai():
        return
    partial = not settled(view.items)
    assert validate_openai(view.to_openai(), partial=partial) == []
    assert validate_responses(view.to_responses(), partial=partial) == []
    if view.to_anthropic()["messages"]:
        assert validate_anthropic(view.to_anthropic(), partial=partial) == []
    assert json.dumps(view.to_openai()) == json.dumps(view.to_openai())
    again = Engine(PLAIN).view(Session(session.entries))
    assert json.dumps(again.to_openai()) == json.dumps(view.to_openai())


@given(made.conversations())
@settings(max_examples=examples(60))
def test_nothing_is_lost_every_entry_is_shown_or_covered(messages: list[m.Message]) -> None:
    session = session_of(messages)
    if len(session.path) > 3:
        fold(session, 0, len(session.path) // 2, "S")
    covered = {id for item in Projection(session).items for id in item.entries}
    assert {x.id for x in session.path if isinstance(x, e.MessageEntry)} <= covered


def test_callers_may_change_what_they_get() -> None:
    session = numbered(3)
    view = Engine(PLAIN).view(session, system="be brief")
    wire = view.to_openai()
    wire[0]["content"] = "changed"
    wire.clear()
    assert view.to_openai()[0]["content"] == "be brief"


def test_a_view_is_a_snapshot() -> None:
    session, engine = numbered(3), Engine(PLAIN)
    view = engine.view(session)
    tokens = view.tokens
    session.append(m.user("later"))
    lazy = engine.view(session)
    session.append(m.user("even later"))
    fold(session, 0, 2, "S")
    assert len(view) == 3
    assert view.tokens == tokens
    assert len(lazy) == 4
    assert lazy.tokens > tokens
