"""Exchanges: which of them stay (A7), what of the others is sent (A8, A17), and where a summary is sorted (A9)."""

from __future__ import annotations

import pytest

from refold import entries as e
from refold import messages as m
from refold.cli.show import sequence_numbers
from refold.compaction import exchanges
from refold.compaction.exchanges import FOLLOWS, Exchange
from refold.compaction.transcript import SummarySource

from .kit import context, session_of

CALL = m.call("c", "T")


def sources(*said: m.Message) -> tuple[SummarySource, ...]:
    return tuple(SummarySource(f"e{n}", message, float(n)) for n, message in enumerate(said))


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ((), []),
        ((m.user("ab"),), []),
        ((m.assistant("ab"), m.assistant("c")), [(0, 2, 3)]),
        ((m.user("a"), m.assistant("b")), [(0, 2, 2)]),
        ((m.user("a"), m.assistant("b"), m.user("c")), [(0, 2, 2)]),
        (
            (m.user("a"), m.assistant("b"), m.user("c"), m.assistant("de"), m.assistant("f")),
            [(2, 5, 4), (0, 2, 2)],
        ),
        (
            (m.user("a"), m.assistant("", CALL), m.result("c", "xyz"), m.assistant("d")),
            [(2, 4, 4), (0, 2, 4)],
        ),
        ((m.system("s"), m.user("a"), m.assistant("b")), [(1, 3, 2)]),
    ],
)
def test_an_exchange_is_what_was_said_and_answered(
    messages: tuple[m.Message, ...], found: list[tuple[int, int, int]]
) -> None:
    s = context(*messages)
    assert [(x.first, x.last, x.size) for x in exchanges.newest_first(s)] == found
    assert exchanges.history_size(s) == sum(size for _, _, size in found)


@pytest.mark.parametrize(
    ("chars", "at_least", "last"),
    [
        (100, 0, None),
        (61, 0, None),
        (60, 0, 2),
        (31, 0, 2),
        (30, 0, 1),
        (10, 0, 0),
        (0, 0, 0),
        (0, 1, 1),
        (0, 2, 2),
        (0, 3, None),
    ],
)
def test_exchanges_stay_while_together_they_are_smaller(chars: int, at_least: int, last: int | None) -> None:
    newest_first = [Exchange(n, n, size) for n, size in enumerate((10, 20, 30))]
    found = exchanges.last_of_head(newest_first, chars=chars, at_least=at_least)
    assert (None if found is None else found.first) == last


def test_sources_are_grouped_where_somebody_speaks_after_the_assistant() -> None:
    said = sources(
        m.user("a"), m.user("b"), m.assistant("c"), m.assistant("d"), m.user("e"), m.assistant("f")
    )
    assert [[x.id for x in group] for group in exchanges.grouped(said)] == [
        ["e0", "e1", "e2", "e3"],
        ["e4", "e5"],
    ]
    assert exchanges.grouped(()) == []


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ([], []),
        ([5], [[0]]),
        ([11], [[0]]),
        ([5, 5], [[0, 1]]),
        ([5, 6], [[0], [1]]),
        ([11, 1, 9, 1], [[0], [1, 2], [3]]),
    ],
)
def test_a_segment_is_as_much_as_fits(sizes: list[int], parts: list[list[int]]) -> None:
    assert exchanges.segments(sizes, 10) == parts


@pytest.mark.parametrize(("count", "first"), [(0, 0), (3, 0), (4, 2), (5, 2), (6, 4), (7, 4), (8, 6)])
def test_of_four_segments_and_more_the_later_ones_are_sent(count: int, first: int) -> None:
    assert exchanges.first_segment(count) == first


def test_an_exchange_is_cut_to_the_limit_in_the_middle_of_what_is_long() -> None:
    said = sources(m.user("ask " * 10), m.assistant("long " * 400))
    size = exchanges.json_size(said)
    assert exchanges.cut_exchange(said, size) == said
    small = exchanges.cut_exchange(said, 900)
    assert exchanges.json_size(small) <= 900 and small[0] == said[0]
    assert small[1].message.text.startswith("[Assistant]: long ") and small[1].message.text.endswith("long ")


def test_of_many_messages_before_an_answer_both_ends_are_told_as_text() -> None:
    results = (m.result(f"c{n}", f"part {n} " + "x" * 300) for n in range(40))
    said = sources(m.user("go"), *results, m.assistant("answer"))
    small = exchanges.cut_exchange(said, 2_000)
    assert 1_000 < exchanges.json_size(small) <= 2_000
    asked, answer = small
    assert asked.message.text.startswith("[User]: go\n\n[Tool result]: part 0 ")
    assert asked.message.text.endswith("x" * 300) and asked.id == "e0"
    assert answer == said[-1]


def test_calls_and_results_at_the_ends_of_a_stretch_are_paired() -> None:
    said = sources(m.result("c", "out"), m.assistant("so"), m.assistant("", m.call("d", "T")))
    opening, *middle, closing = exchanges.paired(said, {"c": CALL})
    assert opening.message == m.assistant("", CALL) and (opening.id, opening.time) == ("e0", 0.0)
    assert tuple(middle) == said
    assert closing.message == m.result("d", FOLLOWS) and (closing.id, closing.time) == ("e2", 2.0)
    assert exchanges.paired((), {}) == () and exchanges.paired(said[1:2], {"c": CALL}) == said[1:2]
    assert exchanges.paired(said[:2], {}) == said[:2]


def test_what_is_sent_has_no_call_without_its_result() -> None:
    turn = [m.user("go"), m.assistant("b", m.call("x", "T")), m.result("x", "r" * 50), m.assistant("done")]
    head = [sources(*turn), sources(m.user("more"), m.assistant("yes"))]
    assert exchanges.bounded(head, 10_000) == (*head[0], *head[1])
    sent = exchanges.bounded([sources(turn[0], turn[1]), sources(turn[2], turn[3])] * 2, 60)
    made = {call.id for x in sent for call in x.message.calls}
    ended = {x.message.call_id for x in sent if isinstance(x.message, m.Result)}
    assert made == ended


# ── sequence numbers ────────────────────────────────────────────────────────────────────────────


def test_a_view_is_numbered_by_what_its_items_stand_for() -> None:
    session = session_of(m.user("a"), m.assistant("b"), m.user("c"), m.assistant("d"))
    s = context(session=session)
    assert sequence_numbers(session, s.items) == [0.0, 1.0, 2.0, 3.0]
    edit = e.Edit("e0", "e1", (m.user("a summary"),), "summary")
    session.append(e.Fold(id="fold", parent="e3", preset="p", edits=(edit,), summary="a summary"))
    assert sequence_numbers(session, context(session=session).items) == [1.5, 2.0, 3.0]
