"""What holds of every folded view of the default design (R8, R19–R21), on sessions made at random: long and short
results, parallel batches, signed and sealed thinking, several turns, an open step at the end."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from refold import Engine, Session, presets, tokens
from refold import entries as e
from refold import messages as m
from refold.compaction.plan import Plan
from refold.errors import DoesNotFit
from refold.facts.words import typed
from refold.loop import run
from refold.session.invariants import settled
from refold.session.invariants.thinking import required
from refold.testing.validators import validate_view
from tests.strategies import examples

COUNTER = tokens.get()
BUDGETS = (700, 1_500, 3_000, 6_000)


def text(name: str, size: int) -> str:
    return "\n".join(
        f"{name} line {number} says that it is {number * 7919 % 1009}, as before" for number in range(size)
    )


@st.composite
def steps(draw: DrawFn, number: int, thinks: str | None) -> list[m.Message]:
    """A reply with one to three calls, and their results."""
    calls: list[Any] = []
    for part in range(draw(st.sampled_from((1, 1, 1, 2, 3)))):
        id = f"c{number}_{part}"
        if draw(st.integers(0, 3)) == 0:
            body = text(f"new{number}_{part}", draw(st.integers(1, 60)))
            calls.append(m.call(id, "Write", path=f"src/f{number}_{part}.py", content=body))
        else:
            calls.append(m.call(id, "Bash", command=f"make part{number}_{part}"))
    parts: list[Any] = []
    if thinks == "signed":
        parts.append(m.thinking(text(f"thought{number}", draw(st.integers(1, 20))), f"sig{number}"))
    elif thinks == "sealed":
        parts.append(m.Thinking("", None, "x" * draw(st.integers(800, 4_000)), f"rs_{number}"))
    if draw(st.booleans()):
        parts.append(f"Step {number}: " + text(f"why{number}", draw(st.integers(1, 12))))
    results = [
        m.result(call.id, text(f"out{call.id}", draw(st.integers(1, 120))), name=call.name) for call in calls
    ]
    return [m.assistant([*parts, *calls]), *results]


@st.composite
def sessions(draw: DrawFn, thinks: str | Any | None = "any") -> Session:
    session, number = Session(), 0
    thinks = draw(st.sampled_from((None, "signed", "sealed"))) if thinks == "any" else thinks
    turns = draw(st.integers(1, 4))
    for turn in range(turns):
        request = f"Request {turn}: never touch folder number {turn * 31}. " + text(f"ask{turn}", turn)
        around = text(f"around{turn}", draw(st.sampled_from((0, 0, 3, 60))))
        session.append(m.user([m.text(around, "program"), request] if around else request))
        for _ in range(draw(st.integers(1, 9))):
            number += 1
            for message in draw(steps(number, thinks)):
                session.append(message)
        if turn < turns - 1:
            session.append(m.assistant(f"Turn {turn} is done."))
    return session


def folded(session: Session, budget: int) -> tuple[Engine, Session]:
    """The session, reopened, with its view folded to a budget; unchanged where there is nothing to fold."""
    twin = Session(session.entries)
    engine = Engine(presets.get("refold", budget=budget))
    try:
        plan = engine.plan(twin, force=True)
    except DoesNotFit:
        reject()
    if isinstance(plan, Plan):
        assert isinstance(run(engine.apply(twin, plan)), e.Fold)
    return engine, twin


def originals(session: Session) -> dict[str, m.Message]:
    return {x.id: x.message for x in session.path if isinstance(x, e.MessageEntry)}


@given(sessions(), st.sampled_from(BUDGETS))
@settings(max_examples=examples(60), deadline=None)
def test_R2_R6_the_view_fits_and_every_dialect_takes_it(session: Session, budget: int) -> None:
    engine, twin = folded(session, budget)
    view = engine.view(twin)
    assert view.tokens <= budget
    assert validate_view(view, partial=not settled(view.items)) == []


@given(sessions(), st.sampled_from(BUDGETS))
@settings(max_examples=examples(60), deadline=None)
def test_R19_replies_with_signed_thinking_of_the_open_turn_are_untouched_or_gone(
    session: Session, budget: int
) -> None:
    engine, twin = folded(session, budget)
    whole, begins = originals(session), max(twin.turns)
    for item in engine.view(twin).items:
        if len(item.entries) != 1 or item.entries[0] not in whole:
            continue
        original, position = whole[item.entries[0]], twin.position(item.entries[0])
        assert position is not None
        if position > begins and any(required(part) for part in original.parts):
            assert item.message == original


@given(sessions(), st.sampled_from(BUDGETS))
@settings(max_examples=examples(40), deadline=None)
def test_R19_clips_are_the_same_bytes_cold_warm_and_after_undo_and_redo(
    session: Session, budget: int
) -> None:
    engine, twin = folded(session, budget)
    cold = engine.view(twin).to_openai()
    folds = twin.annotations(e.Fold)
    assume(folds)
    engine.undo(twin)
    again = engine.plan(twin, force=True)  # warm: every clip that is wanted has been made before
    assert isinstance(again, Plan)
    other = run(engine.apply(twin, again))
    assert isinstance(other, e.Fold)
    assert [edit.put for edit in other.edits] == [edit.put for edit in folds[0].edits]
    engine.undo(twin)
    engine.redo(twin, folds[0].id)
    assert engine.view(twin).to_openai() == cold
    assert Engine(presets.get("refold", budget=budget)).view(Session(twin.entries)).to_openai() == cold


def forms(session: Session, budget: int) -> dict[str, int]:
    """Tokens of every entry in the view; 0: it is not in its place. Thinking of turns that are over may go as
    soon as anything has to, and does not count."""
    engine, twin = folded(session, budget)
    kept = {x.entries[0]: x.message for x in engine.view(twin).items if len(x.entries) == 1}
    return {id: COUNTER.message(bare(kept[id])) if id in kept else 0 for id in originals(session)}


def bare(message: m.Message) -> m.Message:
    if not isinstance(message, m.Assistant):
        return message
    return m.assistant([part for part in message.content if not isinstance(part, m.Thinking)])


def lowered(small: dict[str, int], large: dict[str, int]) -> list[str]:
    # Levels are a fifth apart; within one, where a line ends moves the size by a little.
    return [id for id, size in small.items() if large[id] < 0.9 * size - 4]


@given(sessions(), st.sampled_from(BUDGETS), st.integers(1, 3_000))
@settings(max_examples=examples(60), deadline=None)
def test_R20_no_entry_is_in_a_lower_form_at_a_larger_budget(session: Session, budget: int, more: int) -> None:
    assert lowered(forms(session, budget), forms(session, budget + more)) == []


def built(*lines: int) -> Session:
    """Parts built one after the other, each with so many lines of output; nobody has answered the last."""
    session = Session()
    session.append(m.user("Request: build all parts."))
    for number, size in enumerate(lines):
        session.append(m.assistant([m.call(f"c{number}", "Bash", command=f"make part{number}")]))
        output = text(f"out{number}", size) + "\nExit code: 0"
        session.append(m.result(f"c{number}", output, name="Bash"))
    return session


def test_R20_an_unanswered_result_that_just_fits_its_half_costs_no_other_its_form() -> None:
    session = built(*[1] * 11, 30)
    views = [forms(session, budget) for budget in range(870, 990, 12)]
    assert [less for pair in pairwise(views) if (less := lowered(*pair))] == []


def test_R19_a_huge_result_that_nobody_has_answered_leaves_room_for_what_led_to_it() -> None:
    session = built(*[3] * 29, 200)
    newest, budgets = session.path[-1].id, range(1_000, 9_000, 400)
    whole = forms(session, 99_999)
    size = whole[newest]
    views = [forms(session, budget) for budget in budgets]
    for budget, view in zip(budgets, views, strict=True):
        others = all(view[id] == whole[id] for id in view if id != newest)
        assert 0.2 * budget < view[newest] <= (budget if others else budget / 2)
        assert view[newest] == size or 2 * size > budget
    assert [less for pair in pairwise(views) if (less := lowered(*pair))] == []


@given(sessions(None), st.sampled_from((2_000, 3_000, 6_000)))
@settings(max_examples=examples(60), deadline=None)
def test_R19_the_goal_is_used_or_the_next_step_is_larger_than_what_is_free(
    session: Session, budget: int
) -> None:
    assume(Engine().view(session).tokens > 2 * budget)
    engine, twin = folded(session, budget)
    view = engine.view(twin)
    shown = {item.entries[0] for item in view.items if len(item.entries) == 1}
    newest = next((step for step in reversed(steps_of(session)) if not step.keys() & shown), {})
    assert view.tokens <= budget
    assert view.tokens + sum(map(COUNTER.message, newest.values())) >= 0.85 * budget


def steps_of(session: Session) -> list[dict[str, m.Message]]:
    """Replies with their results."""
    found: list[dict[str, m.Message]] = []
    for id, message in originals(session).items():
        if message.calls:
            found.append({id: message})
        elif isinstance(message, m.Result):
            found[-1][id] = message
    return found


@given(sessions(), st.integers(0, 40))
@settings(max_examples=examples(60), deadline=None)
def test_R20_a_view_that_fits_is_unchanged(session: Session, spare: int) -> None:
    budget = Engine().view(session).tokens + spare
    engine = Engine(presets.get("refold", budget=budget))
    before = engine.view(session).to_openai()
    run(engine.prepare(session))
    assert not session.annotations(e.Fold)
    assert engine.view(session).to_openai() == before


@given(sessions(None), st.sampled_from(BUDGETS))
@settings(max_examples=examples(60), deadline=None)
def test_R19_unanswered_results_are_whole_whenever_they_fit_half_of_the_view(
    session: Session, budget: int
) -> None:
    step = list(steps_of(session)[-1].values())
    assume(sum(COUNTER.message(x) for x in step) <= 0.4 * budget)  # a call is whole or gone
    engine, twin = folded(session, budget)
    assert list(engine.view(twin).messages[1 - len(step) :]) == step[1:]


@given(sessions(), st.sampled_from(BUDGETS))
@settings(max_examples=examples(60), deadline=None)
def test_R21_what_the_record_says_stands_nowhere_else_in_the_view(session: Session, budget: int) -> None:
    engine, twin = folded(session, budget)
    rows = Counter(
        row.strip()
        for message in engine.view(twin).messages
        for row in message.text.splitlines()
        if len(row) > 40
    )
    assert [row for row, times in rows.items() if times > 1] == []


@given(sessions(), st.sampled_from((1_500, 3_000, 6_000)))
@settings(max_examples=examples(60), deadline=None)
def test_R8_every_rule_the_user_typed_is_in_the_view_once(session: Session, budget: int) -> None:
    engine, twin = folded(session, budget)
    shown = "\n".join(message.text for message in engine.view(twin).messages)
    if shown.startswith("[The conversation up to here"):  # where things stand may be said again (R25)
        shown = shown.partition("\n")[2]
    for turn in range(len(twin.turns)):
        assert shown.count(f"never touch folder number {turn * 31}.") == 1


@given(sessions(None), st.sampled_from(BUDGETS))
@settings(max_examples=examples(40), deadline=None)
def test_R8_R19_what_a_program_wrote_around_typed_words_is_clipped_and_they_are_not(
    session: Session, budget: int
) -> None:
    engine, twin = folded(session, budget)
    whole = originals(session)
    for item in engine.view(twin).items:
        original = whole.get(item.entries[0]) if len(item.entries) == 1 else None
        record = any(isinstance(part, m.Text) and part.origin == "summary" for part in item.message.parts)
        if record or not isinstance(original, m.User) or COUNTER.text(typed(original)) > budget // 4:
            continue
        assert typed(item.message) == typed(original)
        if item.message != original:
            assert [part.origin for part in item.message.parts if isinstance(part, m.Text)] == [
                "program",
                None,
            ]


def test_R19_a_dialogue_uses_its_budget() -> None:
    session = Session()
    for number in range(400):
        said = f"On day {number} I met {number * 7919 % 1009} people in the town of Place{number}, and they liked it."
        session.append(m.assistant(said) if number % 2 else m.user("Go on."))
    for budget in (1_000, 2_000, 4_000):
        engine, twin = folded(session, budget)
        assert 0.95 * budget < engine.view(twin).tokens <= budget
