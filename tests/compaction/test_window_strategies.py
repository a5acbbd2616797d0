"""The strategies that count messages (C): a window at the beginning, or the oldest dropped; calls keep their results."""

from __future__ import annotations

from typing import Any

import pytest

from refold import entries as e
from refold import messages as m
from refold.compaction.plan import Finished, Proposal, Reason, finish
from refold.compaction.plan_context import PlanContext, Writer
from refold.compaction.strategies.window import (
    HardTrim,
    WindowSummary,
    kept_from,
    message_count,
    safe_end,
)
from refold.session import Session

from .kit import context, session_of


def talk(count: int) -> list[m.Message]:
    return [m.user(f"ask {n}") if n % 2 == 0 else m.assistant(f"answer {n}") for n in range(count)]


def with_call(*, at: int, count: int) -> list[m.Message]:
    """A call and its result at `at` and behind it."""
    said = talk(count)
    said[at : at + 2] = [m.assistant("", m.call("c", "T")), m.result("c", "out")]
    return said


def summarised(session: Session, first: str, last: str) -> Session:
    edit = e.Edit(first, last, (m.system("what was said before"),), "summary")
    session.append(
        e.Fold(id="fold", parent=session.tip, preset="p", edits=(edit,), summary="before", requests=1)
    )
    return session


def reason(found: Proposal | Reason) -> str:
    assert isinstance(found, Reason), found
    return found.code


def proposal(found: Proposal | Reason) -> Proposal:
    assert isinstance(found, Proposal), found
    return found


def finished(found: Proposal | Reason, *answers: str) -> Finished:
    return finish(proposal(found), answers)


@pytest.mark.parametrize(("count", "first"), [(0, 0), (9, 0), (10, 0), (11, 1), (15, 5)])
def test_the_newest_ten_messages_stay(count: int, first: int) -> None:
    assert kept_from(context(*talk(count))) == first


def test_a_system_message_of_the_log_is_not_counted_and_a_summary_is() -> None:
    s = context(m.system("rules"), *talk(11))
    assert message_count(s.items) == 11 and kept_from(s) == 2
    s = context(session=summarised(session_of(*talk(12)), "e0", "e1"))
    assert message_count(s.items) == 11 and kept_from(s) == 1


@pytest.mark.parametrize(("ideal", "end"), [(0, None), (1, 1), (2, 2), (3, 2), (4, 4), (5, 5), (9, 6)])
def test_an_end_is_the_last_one_that_parts_nothing(ideal: int, end: int | None) -> None:
    s = context(*with_call(at=2, count=6))
    assert safe_end(s, ideal) == end


def test_no_end_is_safe_inside_of_a_pair() -> None:
    assert safe_end(context(*with_call(at=0, count=6)), 1) is None
    assert safe_end(context(*with_call(at=2, count=6)), 3, 2) is None


# ── the window ──────────────────────────────────────────────────────────────────────────────────


def window(s: PlanContext, size: int = 4, **more: Any) -> Proposal | Reason:
    return WindowSummary(window=size, max_chars=40, **more).propose(s)


@pytest.mark.parametrize(
    ("messages", "size", "code"),
    [
        (talk(10), 4, "nothing_to_fold"),
        (with_call(at=0, count=11), 4, "no_safe_end"),
        (talk(11), 4, "no_gain"),
        ([m.system("rules"), m.system("more"), *talk(10)], 4, "nothing_to_fold"),
    ],
)
def test_a_window_that_cannot_be_summarised_says_why(messages: list[m.Message], size: int, code: str) -> None:
    assert reason(window(context(*messages), size)) == code


def test_a_window_of_nothing_but_the_last_summary_is_left_alone() -> None:
    s = context(session=summarised(session_of(*talk(14)), "e0", "e3"))
    assert reason(window(s, 1)) == "nothing_to_fold"
    found = proposal(window(context(session=summarised(session_of(*talk(20)), "e0", "e3"))))
    assert found.previous_summary == "before" and found.fold == ("e4", "e5", "e6")
    assert found.asks[0].previous == "before"


def test_a_window_becomes_a_system_message_before_what_stays() -> None:
    said = [m.user("word " * 20) if n % 2 == 0 else m.assistant("word " * 20) for n in range(20)]
    found = proposal(window(context(*said)))
    assert (found.strategy, found.stretch, found.first_kept) == ("summary", ("e0", "e3"), "e4")
    assert found.fold == ("e0", "e1", "e2", "e3") and found.timeout == 30.0 and not found.smaller
    assert found.tokens_after == 16 * 20 + 40 and found.previous_summary is None
    [ask] = found.asks
    assert ask.target_tokens == 10 and [x.id for x in ask.sources] == ["e0", "e1", "e2", "e3"]
    request = ask.render(ask.sources, None)
    assert (request.temperature, request.purpose) == (0.3, "summary")
    assert "40" in request.messages[0].text and "[user] word" in request.messages[0].text
    assert "Summary of what came before:\nearlier" in ask.render(ask.sources, "earlier").messages[0].text
    [edit] = finished(window(context(*said, writer=Writer("w"))), "x" * 60).edits
    assert (edit.first, edit.last) == ("e0", "e3")
    assert [type(x) for x in edit.put] == [m.System]
    assert edit.put[0].text == "[Conversation summary: early context]\n" + "x" * 40


def test_the_window_is_written_in_the_language_that_was_asked_for() -> None:
    said = [m.user("word " * 20) if n % 2 == 0 else m.assistant("word " * 20) for n in range(20)]
    found = proposal(window(context(*said), language="zh"))
    text = found.asks[0].render(found.asks[0].sources, "旧").messages[0].text
    assert "对话摘要：" in text and "Summary of what came before:\n旧" in text
    [edit] = finished(window(context(*said), language="zh"), "User: hi").edits
    assert edit.put[0].text == "[对话摘要 - 早期上下文]\n对话摘要：\n› User: hi"
    found = proposal(window(context(*said), language="French"))
    assert "Write in: French." in found.asks[0].render(found.asks[0].sources, None).messages[0].text


# ── the oldest dropped ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("messages", "most", "code"),
    [
        (talk(6), 6, "below_cap"),
        (talk(6), 7, "below_cap"),
        ([m.user("a"), m.assistant("", m.call("c", "T")), m.result("c", "d")], 1, "no_safe_end"),
    ],
)
def test_nothing_is_dropped_where_it_must_not(messages: list[m.Message], most: int, code: str) -> None:
    assert reason(HardTrim(most).propose(context(*messages))) == code


@pytest.mark.parametrize(("most", "dropped"), [(5, 1), (4, 2), (3, 4), (2, 4), (1, 5)])
def test_the_oldest_are_dropped_until_few_enough_are_left(most: int, dropped: int) -> None:
    s = context(*with_call(at=2, count=6), tools=[1])
    found = proposal(HardTrim(most).propose(s))
    assert found.fold == tuple(f"e{n}" for n in range(dropped))
    assert (found.stretch, found.first_kept) == (("e0", f"e{dropped - 1}"), f"e{dropped}")
    assert found.tokens_after == 1 + s.sizes.items(dropped, 6)
    assert finished(found).edits == (e.Edit("e0", f"e{dropped - 1}", (), "trim"),)


def test_a_summary_stays_first_when_others_are_dropped() -> None:
    s = context(session=summarised(session_of(*talk(8)), "e0", "e3"))
    found = proposal(HardTrim(3).propose(s))
    assert found.fold == ("e4", "e5") and found.tokens_after == s.sizes.item(0) + s.sizes.items(3, 5)
