"""Rungs of `refold` on situations that can be counted by hand: what fits, to the word, and what is asked for (R19–R21)."""

from __future__ import annotations

from typing import Any

import pytest

from refold import entries as e
from refold import messages as m
from refold.compaction.plan import Finished, Proposal, Reason, finish
from refold.compaction.plan_context import Due, PlanContext, Writer
from refold.compaction.record import FoldBudget
from refold.compaction.strategies.graded import Clip, LinesStrategy, Summary, dialogue
from refold.errors import BadAnswer, DoesNotFit

from .kit import WORDS, context, many, session_of


def work(turns: int, size: int = 200) -> list[m.Message]:
    said: list[m.Message] = []
    for n in range(turns):
        call = m.call(f"c{n}", "Read", path=f"src/p{n}.py")
        said += [m.user(f"Please fix part {n}."), m.assistant("Looking.", call)]
        said += [m.result(f"c{n}", f"def part{n}: " + "word " * size), m.assistant(f"Part {n} is fixed.")]
    return said


def talk(turns: int, size: int = 20) -> list[m.Message]:
    return [
        x for n in range(turns) for x in (m.user(many(f"ask{n}.", size)), m.assistant(many(f"did{n}.", size)))
    ]


def shape(goal: int, **more: Any) -> FoldBudget:
    return FoldBudget(budget=2 * goal, goal=goal, **more)


def lines(goal: int, **more: Any) -> LinesStrategy:
    return LinesStrategy(shape(goal, **more))


def proposal(found: Proposal | Reason) -> Proposal:
    assert isinstance(found, Proposal), found
    return found


def code(found: Proposal | Reason) -> str:
    assert isinstance(found, Reason), found
    return found.code


def done(found: Proposal | Reason, *answers: str) -> Finished:
    return finish(proposal(found), answers)


def after(s: PlanContext, made: Finished) -> PlanContext:
    """The view with the fold in it."""
    fold = e.Fold(
        id=f"fold {len(s.session.entries)}",
        parent=s.session.tip,
        preset="refold",
        edits=made.edits,
        summary=made.summary,
    )
    s.session.append(fold)
    return context(session=s.session, window=s.window, system=s.system, tools=s.tools)


@pytest.mark.parametrize("goal", [220, 260, 300, 340, 400, 500, 650, 800, 1_000, 1_200])
def test_R20_a_fold_uses_its_goal_and_says_so(goal: int) -> None:
    s = context(*work(6), window=2 * goal, system="be brief", tools=[1])
    found = lines(goal).propose(s)
    folded = after(s, done(found))
    goal += s.sizes.fixed // 2  # half of what system prompt and tools leave, and these
    assert folded.sizes.tokens <= goal and proposal(found).tokens_after <= goal
    assert folded.sizes.tokens >= goal * (0.9 if folded.items[0].fold is None else 0.75)
    assert folded.items[-1].message.text == "Part 5 is fixed."
    results = [
        folded.sizes.item(n) for n, item in enumerate(folded.items) if isinstance(item.message, m.Result)
    ]
    assert results == sorted(results), "what is older is shorter"


def test_R20_a_larger_goal_never_shows_less() -> None:
    before: dict[str, int] = {}
    for goal in range(300, 1_250, 50):
        s = context(*work(6), window=2 * goal)
        folded = after(s, done(lines(goal).propose(s)))
        sizes = {
            item.entries[0]: folded.sizes.item(n)
            for n, item in enumerate(folded.items)
            if len(item.entries) == 1
        }
        assert all(sizes.get(id, 0) >= size for id, size in before.items())
        before = sizes


@pytest.mark.parametrize(
    ("goal", "clip", "strategy"),
    [
        (300, "not_enough", None),
        (500, None, "clip"),
        (1_277, None, "clip"),
        (1_278, "everything_fits", "everything_fits"),
    ],
)
def test_what_can_stay_in_its_place_is_only_clipped(
    goal: int, clip: str | None, strategy: str | None
) -> None:
    s = context(*work(6), window=2 * goal)
    assert s.sizes.tokens == 1_278
    found = Clip(shape(goal)).propose(s)
    assert (found.code if isinstance(found, Reason) else None) == clip
    if strategy == "everything_fits":
        assert code(lines(goal).propose(s)) == strategy
    if clip is None:
        assert (
            proposal(found).strategy == "clip"
            and proposal(found).asks == ()
            and proposal(found).first_kept == "e0"
        )
        assert all(edit.first == edit.last and len(edit.put) == 1 for edit in done(found).edits)
        assert set(proposal(found).clipped) == {edit.first for edit in done(found).edits}
    assert code(Clip(shape(60)).propose(context(*talk(9)))) == "dialogue"


def test_a_cut_through_a_turn_names_what_of_it_leaves() -> None:
    found = proposal(lines(280).propose(context(*work(6), window=560)))
    assert (found.first_kept, found.turn_prefix) == ("e11", ("e8", "e9", "e10"))
    assert (found.fold() if callable(found.fold) else found.fold) == tuple(f"e{n}" for n in range(8))
    assert found.stretch == ("e0", "e10")
    [record, *_] = done(found).edits
    assert (record.first, record.last) == ("e0", "e10") and "src/p0.py" in record.put[0].text


def test_the_kept_part_begins_where_somebody_says() -> None:
    s = context(*work(6), window=4_000, first_kept="e8")
    found = proposal(lines(2_000).propose(s))
    assert found.first_kept == "e8" and found.turn_prefix == ()


def test_what_was_refused_as_too_long_is_halved_at_least() -> None:
    s = context(*work(6), window=4_000, due=Due("overflow", "x"))
    assert after(s, done(lines(2_000).propose(s))).sizes.tokens <= 639
    s = context(*work(6), window=600, due=Due("overflow", "x"))
    assert after(s, done(lines(300).propose(s))).sizes.tokens <= 300
    assert shape(2_000).room(context(*work(6), due=Due("full", "x"))).goal == 2_000
    assert shape(2_000).room(context(*work(6), due=Due("overflow", "x"))).goal == 639


def test_what_cannot_fit_is_said() -> None:
    with pytest.raises(DoesNotFit):
        lines(20).propose(context(*work(2), m.user(many("w", 100)), window=40))


# ── a model's summary ───────────────────────────────────────────────────────────────────────────


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("goal", "summary", "factor", "target", "most"),
    [
        (40_000, 4_000, 1.0, 4_000, 4_000),
        (20_000, 4_000, 1.0, 2_500, 4_000),
        (11_997, 4_000, 1.0, 1_499, 3_999),
        (20_000, 4_000, 0.5, 1_250, 2_000),
        (1_000, 4_000, 1.0, 125, 333),
        (505, 300, 1.0, 100, 168),
        (270, 4_000, 1.0, 100, 100),
    ],
)
def test_a_summary_is_asked_for_in_a_size_that_leaves_room(
    goal: int, summary: int, factor: float, target: int, most: int
) -> None:
    said = [*work(1, 10), *talk(60, goal // 40)]
    s = context(*said, window=2 * goal, writer=Writer("w"), instructions="the tests")
    found = proposal(Summary(shape(goal, summary=summary), factor).propose(s))
    [ask] = found.asks
    request = ask.render(ask.sources, "earlier notes")
    assert (ask.target_tokens, request.max_tokens, request.purpose) == (target, 2 * most, "summary")
    text = request.messages[-1].text
    assert (
        f"{int(target * 0.6)} words" in text and "<previous-notes>\nearlier notes\n</previous-notes>" in text
    )
    assert "special attention to: the tests" in text and "[User]: Please fix part 0." in text
    assert "previous-notes>" not in ask.render(ask.sources, None).messages[-1].text
    folded = after(s, done(found, "All parts were fixed."))
    assert folded.sizes.tokens <= goal and "All parts were fixed." in folded.items[0].message.text


def test_a_summary_that_has_nothing_to_say_is_not_asked_for() -> None:
    strategy = Summary(shape(600))
    assert code(strategy.propose(context(*work(6), window=1_000))) == "no_model"
    assert code(strategy.propose(context(*work(6), window=1_000, writer=Writer("w")))) == "in_place"
    assert (
        code(strategy.propose(context(*work(1, 10), window=1_000, writer=Writer("w")))) == "everything_fits"
    )


def test_a_summary_that_is_too_long_is_refused() -> None:
    s = context(*work(20), window=600, writer=Writer("w"))
    found = Summary(shape(300)).propose(s)
    with pytest.raises(BadAnswer) as caught:
        done(found, "so it goes on " * 150)
    assert caught.value.code == "too_long"


def test_claims_of_a_summary_are_checked_against_what_it_read() -> None:
    s = context(*work(20), window=600, writer=Writer("w"))
    made = done(Summary(shape(300)).propose(s), "It changed src/p0.py and src/other.py.")
    assert made.check == {"verified": False, "claims": 2, "unverified": ["src/other.py"]}


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_a_warm_cache_is_continued_and_a_second_attempt_is_not(factor: float) -> None:
    session = session_of(*work(20)[:-1])
    session.append(m.assistant("Part 19 is fixed."), model="m", usage=m.Usage(input=5))
    s = context(
        session=session,
        window=600,
        system="known: src/sys.py",
        writer=Writer("m"),
        now=session.path[-1].time + 1,
    )
    found = proposal(Summary(shape(300), factor).propose(s))
    [ask] = found.asks
    assert (ask.prefix is not None) is (factor == 1.0)
    if ask.prefix is None:
        return
    request = ask.prefix()
    assert request.system == "known: src/sys.py" and len(request.messages) == len(s.items) + 1
    kept = s.items[s.projection.item_at(session.position(found.first_kept) or 0)].message.text
    assert f'begins "{" ".join(kept.split())[:120]}"' in request.messages[-1].text
    assert done(found, "It knows src/sys.py.").check["unverified"] == []


# ── without tools ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("goal", [200, 300, 450, 600])
def test_a_conversation_without_tools_is_told_by_its_digest(goal: int) -> None:
    s = context(*talk(20), window=2 * goal)
    found = proposal(dialogue(s, shape(goal)))
    assert found.strategy == "digest" and found.asks == ()
    folded = after(s, done(found))
    assert goal * 0.8 <= folded.sizes.tokens <= goal
    assert folded.items[-1].message.text == s.items[-1].message.text
    assert "ask0.1" in folded.items[0].message.text


@pytest.mark.parametrize(("goal", "found"), [(799, None), (800, "everything_fits")])
def test_a_conversation_that_fits_is_left_alone(goal: int, found: str | None) -> None:
    made = dialogue(context(*talk(20), window=2 * goal), shape(goal))
    assert (made.code if isinstance(made, Reason) else None) == found
    assert code(lines(goal).propose(context(*talk(2), window=2 * goal))) == "everything_fits"


def test_a_newest_message_that_fills_the_view_leaves_room_for_a_record() -> None:
    s = context(*talk(5), m.user(many("now", 150)), window=400)
    folded = after(s, done(dialogue(s, shape(200))))
    assert folded.sizes.tokens <= 400 and folded.items[-1].message.text == many("now", 150)
    assert WORDS.text(folded.items[0].message.text) > 20


# ── what age does not decide ────────────────────────────────────────────────────────────────────


def folded_by(goal: int, *said: m.Message, session: Any = None, **more: Any) -> PlanContext:
    s = context(*said, session=session, window=2 * goal, **more)
    return after(s, done(lines(goal).propose(s)))


def shown(s: PlanContext, id: str) -> int:
    """Tokens that the view has for an entry in its place."""
    return next((s.sizes.item(n) for n, item in enumerate(s.items) if item.entries == (id,)), 0)


def test_what_is_pinned_stays_whole_whatever_its_age() -> None:
    session = session_of(*work(6))
    session.append(e.Pin(id="p", target="e6"))
    folded = folded_by(600, session=session)
    [holder] = [item.message.text for item in folded.items if "def part1:" in item.message.text]
    assert holder.count("word ") >= 199 and folded.sizes.tokens <= 600
    assert all(
        item.message.text.count("word") < 200 for item in folded.items if "part1" not in item.message.text
    )


def test_a_system_message_in_between_stays_whole() -> None:
    said = work(6)
    said[8:8] = [m.system(many("rule", 60))]
    folded = folded_by(500, *said)
    assert shown(folded, "e8") >= 60 and folded.sizes.tokens <= 500


@pytest.mark.parametrize(("size", "whole"), [(100, True), (150, True), (900, False)])
def test_results_that_nobody_has_answered_come_first(size: int, whole: bool) -> None:
    calls = [m.call("x", "Read", path="x.py"), m.call("y", "Read", path="y.py")]
    waiting = [m.assistant("", *calls), m.result("x", "word " * size), m.result("y", "word " * (size // 2))]
    folded = folded_by(500, *work(6), m.user("And now?"), *waiting)
    assert folded.sizes.tokens <= 500
    assert (shown(folded, "e26") == size) is whole and (shown(folded, "e27") == size // 2) is whole
    assert 1.5 < shown(folded, "e26") / shown(folded, "e27") < 2.6, "each its part"
    assert shown(folded, "e26") > 1.3 * shown(folded, "e22")


@pytest.mark.parametrize("size", [50, 300, 420])
def test_what_the_user_has_just_said_is_never_cut(size: int) -> None:
    folded = folded_by(500, *work(6), m.user(many("now", size)))
    assert folded.items[-1].message.text == many("now", size) and folded.sizes.tokens <= 1_000


def test_of_the_same_call_made_twice_the_newest_result_says_how_things_are() -> None:
    def read(n: int, path: str) -> list[m.Message]:
        return [m.assistant("", m.call(f"c{n}", "Read", path=path)), m.result(f"c{n}", "word " * 150)]

    same = folded_by(
        300,
        m.user("go"),
        *read(0, "a.py"),
        *read(1, "b.py"),
        *read(2, "a.py"),
        m.assistant("ok"),
        m.user("on"),
    )
    other = folded_by(
        300,
        m.user("go"),
        *read(0, "z.py"),
        *read(1, "b.py"),
        *read(2, "a.py"),
        m.assistant("ok"),
        m.user("on"),
    )
    assert shown(same, "e2") < shown(other, "e2") and shown(same, "e4") >= shown(other, "e4")


def test_thinking_of_a_turn_that_is_over_is_dropped_and_of_the_one_going_on_is_not() -> None:
    thought = m.Thinking(many("hm", 30), "sig")
    past = [
        m.user("a"),
        m.Assistant((thought, m.call("p", "T"))),
        m.result("p", "word " * 300),
        m.assistant("b"),
    ]
    present = [m.user("c"), m.Assistant((thought, m.call("q", "T"))), m.result("q", "word " * 300)]
    folded = folded_by(400, *past, *present)
    kept = {item.entries[0]: item.message for item in folded.items if len(item.entries) == 1}
    assert thought in kept["e5"].parts and kept["e5"].calls
    assert "e1" not in kept or thought not in kept["e1"].parts


def test_fold_after_fold_fits() -> None:
    session = session_of(*work(6))
    folded_by(300, session=session)
    for n in range(6, 10):
        for message in work(1):
            session.append(message)
        again = folded_by(300, session=session)
        assert again.sizes.tokens <= 300, n
        assert again.items[-1].message.text == "Part 0 is fixed."


def test_of_a_message_that_is_partly_typed_the_typed_part_stays() -> None:
    mixed = m.user([m.attached("file " * 300), m.text("do it so and not otherwise")])
    folded = folded_by(500, *work(1), mixed, m.assistant("Ok."), *work(5))
    assert "do it so and not otherwise" in "\n".join(item.message.text for item in folded.items)
    assert shown(folded, "e4") < 200


@pytest.mark.parametrize("tools", [0, 100, 2_000, 6_000])
def test_R2_the_goal_is_a_share_of_what_system_prompt_and_tools_leave(tools: int) -> None:
    s = context(*work(60), window=10_000, system="word " * tools)
    room = FoldBudget(budget=10_000, goal=5_000).room(s)
    assert room.goal - s.sizes.fixed == pytest.approx((10_000 - s.sizes.fixed) / 2, abs=1)
    folded = after(s, done(LinesStrategy(FoldBudget(budget=10_000, goal=5_000)).propose(s)))
    assert folded.sizes.tokens - s.sizes.fixed > (10_000 - s.sizes.fixed) * 0.4
