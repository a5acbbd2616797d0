"""When a fold is due: each trigger at its limit and one beside it, and what it says where it does not fire."""

from __future__ import annotations

from typing import Any

import pytest

from refold import Session
from refold import entries as e
from refold import messages as m
from refold.compaction import overflow
from refold.compaction.details import LayeredDetails
from refold.compaction.plan import Reason
from refold.compaction.plan_context import Due, PlanContext, Writer
from refold.compaction.triggers import (
    FillLevel,
    HistorySize,
    MessageCount,
    Never,
    NewInput,
    RoundEnded,
    UsageThreshold,
    fold_beats_cold_cache,
)

from .kit import context, many, session_of

CALL = m.call("c", "T")
REFUSED = m.Assistant((), "error", "prompt is too long: 213462 tokens > 200000 maximum")


def code(found: Due | Reason) -> str:
    assert isinstance(found, Due | Reason)
    return found.code if isinstance(found, Due) else f"not: {found.code}"


def replied(
    used: int, stop: m.Stop = "end", *more: m.Message, model: str | None = "m", **chosen: Any
) -> PlanContext:
    """A user's word and a reply for which the provider counted `used`."""
    session = Session()
    session.append(m.user("ask"))
    session.append(m.Assistant((m.Text("answer"),), stop), usage=m.Usage(input=used), model=model)
    for message in more:
        session.append(message)
    return context(session=session, **chosen)


def test_what_is_switched_off_says_so() -> None:
    assert code(Never().due(context(m.user("a")))) == "not: disabled"
    assert code(HistorySize(1, off="no thanks").due(context(m.user("a")))) == "not: off"


# ── tokens ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("s", "found"),
    [
        (replied(80), "not: below_threshold"),
        (replied(81), "threshold"),
        (replied(79, "end", m.user("b")), "not: below_threshold"),
        (replied(80, "end", m.user("b")), "threshold"),
        (replied(99, "aborted"), "not: aborted"),
        (replied(99, "aborted", incoming="go on"), "not: below_threshold"),
        (replied(99, "aborted", m.user("go on")), "not: below_threshold"),
        (context(m.user(many("w", 80))), "not: below_threshold"),
        (context(m.user(many("w", 81))), "threshold"),
        (context(m.user("a"), REFUSED, window=1_000), "overflow"),
    ],
)
def test_usage_passes_the_window_less_a_reserve(s: PlanContext, found: str) -> None:
    assert code(UsageThreshold(20 if s.window == 100 else 0).due(s)) == found


def folded(*later: m.Message, used: int = 99, archive: bool = False) -> Session:
    session = replied(used).session
    first, last = session.path[0].id, session.path[1].id
    edit = e.Edit(first, last, (m.user("frame frame frame frame a summary"),), "summary")
    details = LayeredDetails(archive=True).stored() if archive else {}
    fold = e.Fold(
        id="fold", parent=session.tip, preset="p", edits=(edit,), summary="a summary", details=details
    )
    session.append(fold)
    for message in later:
        session.append(message)
    return session


def test_usage_from_before_a_fold_is_not_judged_and_a_summary_counts_bare() -> None:
    assert code(UsageThreshold(20).due(context(session=folded(m.user("b"))))) == "not: stale"
    session = folded(m.user("b"), m.assistant("c"))
    assert code(UsageThreshold(6).due(context(session=session, window=10))) == "not: below_threshold"
    assert code(UsageThreshold(7).due(context(session=session, window=10))) == "threshold"


@pytest.mark.parametrize(
    ("words", "used", "found"),
    [
        (80, None, "not: below_threshold"),
        (81, None, "full"),
        (1, 79, "not: below_threshold"),
        (1, 80, "full"),
    ],
)
def test_a_level_is_full_when_it_is_passed(words: int, used: int | None, found: str) -> None:
    session = Session()
    session.append(m.user("ask"))
    if used is not None:
        session.append(m.assistant("answer"), usage=m.Usage(input=used), model="m")
        session.append(m.user(many("w", words)))
    else:
        session.append(m.user(many("w", words - 1)))
    assert code(FillLevel(80).due(context(session=session, calibrated=True))) == found


@pytest.mark.parametrize(
    ("expiring", "goal", "found"),
    [
        (True, 10, "cache_expiring"),
        (True, 0, "not: below_threshold"),
        (False, 10, "not: below_threshold"),
        (True, 60, "not: below_threshold"),
    ],
)
def test_a_cold_cache_makes_it_due_early_where_that_is_cheaper(expiring: bool, goal: int, found: str) -> None:
    s = context(m.user(many("w", 50)), cache_expiring=expiring)
    assert code(FillLevel(80, goal).due(s)) == found


@pytest.mark.parametrize(
    ("before", "after", "model", "cheaper"),
    [
        (100_000, 20_000, True, True),
        (100_000, 99_999, True, False),
        (100_000, 99_999, False, True),
        (100_000, 100_000, False, False),
        (4_782, 500, True, False),
        (4_783, 500, True, True),
    ],
)
def test_folding_costs_a_summary_and_saves_the_difference(
    before: int, after: int, model: bool, cheaper: bool
) -> None:
    s = context(m.user("a"), writer=Writer("w") if model else None)
    assert fold_beats_cold_cache(s, before, after) is cheaper


@pytest.mark.parametrize(
    ("s", "found"),
    [
        (replied(79, "end", m.user("xx")), "not: below_threshold"),
        (replied(79, "end", m.user("xxx")), "threshold"),
        (replied(79, "end", m.user("xx"), incoming="x"), "threshold"),
        (replied(80, "end"), "not: in_turn"),
        (replied(80, "end", incoming=""), "not: few_messages"),
        (replied(0, "end", m.user("x" * 233)), "not: below_threshold"),
        (replied(0, "end", m.user("x" * 234)), "threshold"),
        (replied(99, "aborted", m.user("x")), "not: below_threshold"),
        (context(session=folded(m.user("x"), archive=True)), "not: few_messages"),
        (
            context(session=folded(m.user("x"), m.assistant("y"), m.user("z"), archive=True)),
            "not: below_threshold",
        ),
    ],
)
def test_new_input_reaches_a_share_of_the_window(s: PlanContext, found: str) -> None:
    assert code(NewInput().due(s)) == found


# ── messages, characters, rounds ────────────────────────────────────────────────────────────────

TALK = [m.user("ab"), m.assistant("cd"), m.user("ef"), m.assistant("gh")]


@pytest.mark.parametrize(
    ("s", "found"),
    [
        (context(*TALK), "count"),
        (context(*TALK[:3]), "not: below_threshold"),
        (context(m.system("s"), *TALK[:3]), "not: below_threshold"),
        (context(*TALK[:3], m.assistant("", CALL)), "not: in_turn"),
        (context(*TALK[:2], m.assistant("", CALL), m.result("c", "x")), "not: in_turn"),
        (context(*TALK[:2], m.assistant("", CALL), m.result("c", "x"), incoming="y"), "count"),
        (context(), "not: below_threshold"),
    ],
)
def test_messages_are_counted_when_somebody_has_spoken(s: PlanContext, found: str) -> None:
    assert code(MessageCount(4).due(s)) == found


@pytest.mark.parametrize(
    ("threshold", "expiring", "is_expiring", "found"),
    [
        (8, 0, False, "size"),
        (9, 0, False, "not: below_threshold"),
        (9, 8, True, "cache_expiring"),
        (8, 9, True, "not: below_threshold"),
        (0, 8, False, "not: off"),
        (8, 0, True, "not: off"),
    ],
)
def test_characters_of_the_history_reach_a_threshold(
    threshold: int, expiring: int, is_expiring: bool, found: str
) -> None:
    due = HistorySize(threshold, expiring).due(context(*TALK, cache_expiring=is_expiring))
    assert code(due) == found
    assert found != "not: off" or ("when_cache_expiring" in due.text) is is_expiring


@pytest.mark.parametrize(("count", "found"), [(1, "not: no_round"), (2, "round_ended"), (3, "round_ended")])
def test_a_round_has_ended_with_its_answer(count: int, found: str) -> None:
    assert code(RoundEnded("x").due(context(*TALK[:count]))) == found


# ── overflow ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("reply", "usage", "found"),
    [
        (REFUSED, None, True),
        (m.Assistant((), "error", "rate limit reached, tokens per minute"), None, False),
        (m.Assistant((), "error"), m.Usage(input=999), False),
        (m.Assistant((m.Text("a"),), "end", "prompt is too long: 9 tokens > 8 maximum"), None, True),
        (m.assistant("a"), m.Usage(input=60, cache_read=40), False),
        (m.assistant("a"), m.Usage(input=60, cache_read=41), True),
        (m.Assistant((m.Text("a"),), "aborted"), m.Usage(input=101), False),
        (m.Assistant((), "length"), m.Usage(input=99), True),
        (m.Assistant((), "length"), m.Usage(input=98), False),
        (m.Assistant((m.Text("a"),), "length"), m.Usage(input=99, output=1), False),
        (m.assistant("a"), None, False),
    ],
)
def test_a_reply_betrays_that_the_context_was_too_long(
    reply: m.Assistant, usage: m.Usage | None, found: bool
) -> None:
    assert (overflow.in_reply(reply, usage, 100) is not None) is found
    assert overflow.in_reply(m.assistant("a"), m.Usage(input=999), None) is None


def taught(*notes: tuple[int, str], later: tuple[m.Stop, int, str] | None = None) -> Session:
    session = session_of(m.user("a"))
    for n, (tokens, model) in enumerate(notes):
        session.append(e.LearnedWindow(id=f"w{n}", time=5.0, tokens=tokens, model=model))
    if later is not None:
        stop, used, model = later
        reply = m.Assistant((m.Text("b"),), stop)
        session.append(
            e.MessageEntry(
                id="r", parent="e0", time=6.0, message=reply, usage=m.Usage(input=used), model=model
            )
        )
    return session


@pytest.mark.parametrize(
    ("session", "window"),
    [
        (taught(), None),
        (taught((9_000, "m"), (8_000, "m")), 8_000),
        (taught((8_000, "m"), (9_000, "m")), 8_000),
        (taught((8_000, "other"), (9_000, "m")), 9_000),
        (taught((8_000, "")), 8_000),
        (taught((overflow.SMALLEST_WINDOW - 1, "m")), None),
        (taught((overflow.SMALLEST_WINDOW, "m")), overflow.SMALLEST_WINDOW),
        (taught((8_000, "m"), later=("end", 8_000, "m")), 8_000),
        (taught((8_000, "m"), later=("end", 8_001, "m")), None),
        (taught((8_000, "m"), later=("end", 8_001, "other")), 8_000),
        (taught((8_000, "m"), later=("aborted", 8_001, "m")), 8_000),
        (taught((8_000, "m"), later=("error", 8_001, "m")), 8_000),
    ],
)
def test_the_smallest_window_that_was_taught_holds_until_it_is_disproved(
    session: Session, window: int | None
) -> None:
    assert overflow.learned_window(session, 100_000, "m") == window
