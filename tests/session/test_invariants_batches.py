"""R6: parallel calls stay together."""

from __future__ import annotations

from refold import messages as m
from refold.session.invariants import batches, pairs, repair
from refold.testing.builders import items

ASK = m.user("go")
ONE, TWO = m.assistant("", m.call("c1", "Read")), m.assistant("", m.call("c2", "Bash"))
R1, R2 = m.result("c1", "one"), m.result("c2", "two")


def test_a_reply_that_came_in_pieces_is_one_batch() -> None:
    repaired = repair(items([ASK, ONE, TWO, R1, R2]))
    assert [x.message for x in repaired] == [ASK, m.assistant("", *ONE.calls, *TWO.calls), R1, R2]
    assert repaired[1].entries == ("e1", "e2")


def test_a_broken_reply_is_not_continued() -> None:
    broken = m.Assistant(ONE.content, "error")
    repaired = repair(items([ASK, broken, TWO, R2]))
    assert [x.message for x in repaired] == [ASK, broken, pairs.stand_in(ONE.calls[0]), TWO, R2]


def test_results_stand_directly_behind_in_the_order_of_the_calls() -> None:
    both = m.assistant("", *ONE.calls, *TWO.calls)
    stray = m.result("zz", "?")
    listed = items([ASK, both, R2, stray, R1])
    assert [x.message for x in repair(listed)] == [ASK, both, R1, R2, pairs.orphan_note(stray)]


def test_no_cut_inside_a_batch_nor_between_its_pieces() -> None:
    listed = items([ASK, ONE, TWO, R1, R2, ASK])
    assert [i for i in range(7) if batches.legal(listed, i)] == [0, 1, 5, 6]
    half = items([ASK, m.assistant("", *ONE.calls, *TWO.calls), R1])
    assert [i for i in range(4) if batches.legal(half, i)] == [0, 1]
    lost = items([ASK, ONE, TWO, ASK])
    assert not batches.legal(lost, 2) and batches.legal(lost, 3)


def test_cost_follows_the_batch_not_the_history() -> None:
    class Counting(list):  # type: ignore[type-arg]
        reads = 0

        def __getitem__(self, at):  # type: ignore[no-untyped-def]
            Counting.reads += 1
            return super().__getitem__(at)

    listed = Counting(items([ASK, ONE, R1] * 2000))
    assert not batches.around(listed, 5999).open(listed)  # pyright: ignore
    assert Counting.reads < 20
