"""How large a view is: exact, no further counted than it must be, and anchored on what the provider said (B7)."""

from __future__ import annotations

from typing import Any

import pytest

from refold import Session
from refold import entries as e
from refold import messages as m
from refold.compaction.plan_context import legal_cut, may_leave, newest_step
from refold.compaction.sizes import Sizes

from .kit import context, session_of

LONG = "w" * 100
"""A word that a count by bytes takes for 25 tokens."""


def replied(*usages: m.Usage | None, stop: m.Stop = "end", **more: Any) -> Sizes:
    """Turns of 3 + 2 words, each reply with what the provider said."""
    session = Session()
    for usage in usages:
        session.append(m.user("a b c"))
        session.append(m.Assistant((m.Text("d e"),), stop), usage=usage, model="m")
    session.append(m.user("f g h i"))
    return context(session=session, **more).sizes


# ── exact ───────────────────────────────────────────────────────────────────────────────────────


def test_a_view_is_its_items_with_system_prompt_and_tools() -> None:
    s = context(m.user("a b c"), m.assistant("d e"), system="one two", tools=[1, 2, 3])
    assert (s.sizes.overhead, s.sizes.tokens) == (5, 10)
    assert [s.sizes.item(0), s.sizes.item(1), s.sizes.items(0, 2), s.sizes.items(1, 1)] == [3, 2, 5, 0]
    assert (
        s.sizes.kept_from(1) == 2
        and s.sizes.shown(0, 1, s.measure) == 5
        and s.sizes.shown(1, 1, s.measure) == 2
    )
    assert [s.sizes.fits(0, 2, room) for room in (4, 5, 6)] == [False, True, True]


@pytest.mark.parametrize("word", ["a", LONG], ids=["short", "long"])
@pytest.mark.parametrize("overhead", [0, 3])
def test_a_view_passes_a_limit_when_it_is_larger_by_one(word: str, overhead: int) -> None:
    said = [m.user(f"{word} " * 3), m.assistant(f"{word} " * 3), m.user(f"{word} " * 4)]
    sizes = context(*said, tools=[1] * overhead).sizes
    size = 10 + overhead
    assert [sizes.passes(size + more) for more in (-1, 0, 1)] == [True, False, False]
    assert [sizes.far_beyond(size + more) for more in (-1, 0, 1)] == [word == LONG, False, False]
    assert [sizes.passes(limit) for limit in range(1, size)] == [True] * (size - 1)
    assert [sizes.far_beyond(limit) for limit in range(1, size)] == [word == LONG] * (
        size - 1
    ) or word != LONG
    assert context(*said, tools=[1] * overhead, window=size - 1).sizes.too_large
    assert not context(*said, tools=[1] * overhead, window=size).sizes.too_large


def test_what_is_written_around_an_item_is_counted_with_it() -> None:
    s = context(m.user("a"), m.assistant("b"), m.system("rule one"), m.user("c"))
    sizes = [s.sizes.item(n) for n in range(4)]
    assert sizes[:2] + sizes[3:] == [1, 1, 1] and sizes[2] > 2
    assert sum(sizes) == s.sizes.items(0, 4) == s.sizes.tokens
    assert s.sizes.after([(f"k{n}", item) for n, item in enumerate(s.items)]) == s.sizes.tokens


# ── anchored ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("usages", "size"),
    [
        ([None, None], 5 + 5 + 4 + 2),
        ([m.Usage(input=40, output=7), None], 47 + 5 + 4),
        ([m.Usage(input=40, output=7), m.Usage(input=90, output=1)], 91 + 4),
        ([m.Usage(input=40, output=7), m.Usage()], 47 + 5 + 4),
        ([m.Usage(input=1)], 1 + 4),
    ],
)
def test_the_last_usage_counts_and_what_came_after_it(usages: list[m.Usage | None], size: int) -> None:
    assert replied(*usages, tools=[1, 2]).anchored() == size


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_a_reply_that_failed_says_nothing_about_the_size(stop: m.Stop) -> None:
    assert replied(m.Usage(input=40), stop=stop).anchored() == 5 + 4


def folded(usage: m.Usage) -> Sizes:
    """Two turns, of which a fold has put the first into a framed summary of two words."""
    session = session_of(m.user("a b c"), m.assistant("d e"), m.user("f g h i"))
    session.append(m.assistant("j"), usage=usage, model="m")
    edit = e.Edit("e0", "e1", (m.user("frame frame frame two words"),), "summary")
    session.append(e.Fold(id="fold", parent=session.tip, preset="p", edits=(edit,), summary="two words"))
    session.append(m.user("k l"))
    return context(session=session).sizes


def test_usage_from_before_a_fold_does_not_count() -> None:
    sizes = folded(m.Usage(input=70))
    assert sizes.anchored() == sizes.tokens == 5 + 4 + 1 + 2
    assert sizes.anchored(bare=True) == 2 + 4 + 1 + 2, "a summary without its frame"


# ── cuts ────────────────────────────────────────────────────────────────────────────────────────

CALL = m.call("c", "T")
TOOLS = (m.user("a"), m.assistant("b", CALL), m.result("c", "d"), m.assistant("e"), m.user("f"))


@pytest.mark.parametrize(
    ("messages", "index"),
    [
        (TOOLS, 4),
        (TOOLS[:4], 3),
        (TOOLS[:3], 1),
        (TOOLS[:2], 1),
        (TOOLS[:1], 0),
        ((m.system("s"), m.user("a")), 1),
        ((*TOOLS, m.assistant("g", m.call("x", "T"), m.call("y", "T")), m.result("x", "h")), 5),
    ],
)
def test_the_newest_step_is_a_reply_with_what_answers_it_or_the_last_word(
    messages: tuple[m.Message, ...], index: int
) -> None:
    assert newest_step(context(*messages)) == index


@pytest.mark.parametrize(
    ("messages", "may"),
    [
        (TOOLS, False),
        (TOOLS[:4], True),
        (TOOLS[:3], True),
        (TOOLS[:2], False),
        (TOOLS[:1], False),
        ((), False),
    ],
)
def test_what_the_user_has_just_said_never_leaves(messages: tuple[m.Message, ...], may: bool) -> None:
    assert may_leave(context(*messages)) is may


@pytest.mark.parametrize(
    ("index", "slack", "cut"),
    [(0, 9, 0), (1, 9, 1), (2, 9, 3), (3, 9, 3), (4, 9, 4)],
)
def test_a_cut_parts_no_call_from_its_result(index: int, slack: int, cut: int) -> None:
    assert legal_cut(context(*TOOLS), index, slack) == cut


@pytest.mark.parametrize(("slack", "cut"), [(0, 1), (9, 1)])
def test_where_nothing_later_is_legal_a_cut_goes_back(slack: int, cut: int) -> None:
    assert legal_cut(context(*TOOLS[:3]), 2, slack) == cut


def test_a_cut_goes_back_to_the_call_of_several_results() -> None:
    calls = m.assistant("b", m.call("x", "T"), m.call("y", "T"), m.call("z", "T"))
    results = [m.result(id, "d") for id in "xyz"]
    for index in (2, 3, 4):
        assert legal_cut(context(m.user("a"), calls, *results), index, 9) == 1


@pytest.mark.parametrize(
    ("names", "tool"),
    [
        ((), ""),
        (("Read",), ""),
        (("Read", "recall_conversation"), "recall_conversation"),
        (("mcp__refold__recall", "mcp__memory__recall"), "mcp__refold__recall"),
        (("mcp__memory__recall",), ""),
    ],
)
def test_R1_recall_is_named_only_where_the_model_has_it_by_the_name_it_has_there(
    names: tuple[str, ...], tool: str
) -> None:
    assert context(m.user("a"), tools=[{"name": name} for name in names]).recall_tool == tool


def test_a_conversation_with_results_uses_tools() -> None:
    assert not context(m.user("a")).has_model and not context(*TOOLS[:2]).uses_tools
    assert context(*TOOLS).uses_tools
