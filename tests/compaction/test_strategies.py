"""Rungs at work on small situations: what they take, what they keep, what they say they will leave."""

from __future__ import annotations

from typing import Any

import pytest

from refold import Session, presets
from refold import entries as e
from refold import messages as m
from refold.cli.plan_cost import requests_per_turn
from refold.compaction import details
from refold.compaction.clips import least_step
from refold.compaction.details import AugmentDetails
from refold.compaction.plan import Finished, Proposal, Reason, finish
from refold.compaction.plan_context import Due, PlanContext, Writer
from refold.compaction.planning import fallback_plan
from refold.compaction.requests import FRAME_TOKENS
from refold.compaction.strategies.budget_summary import BudgetSummary, Cut, cut_at, cut_by_budget
from refold.compaction.strategies.layered import ShrinkRounds
from refold.compaction.strategies.summary_node import SummaryNode, newest_node
from refold.shrink.clip import CLIP_OVERHEAD, LEVELS

from .kit import WORDS, context, many, session_of

CALL = m.call("c", "Read", path="a.py")


def proposal(found: Proposal | Reason) -> Proposal:
    assert isinstance(found, Proposal), found
    return found


def done(found: Proposal | Reason, *answers: str) -> Finished:
    return finish(proposal(found), answers)


def ids(found: Proposal) -> tuple[str, ...]:
    return found.fold() if callable(found.fold) else found.fold


def talk(turns: int, size: int = 10) -> list[m.Message]:
    return [
        x for n in range(turns) for x in (m.user(many(f"ask{n}.", size)), m.assistant(many(f"did{n}.", size)))
    ]


# ── the budget (B) ──────────────────────────────────────────────────────────────────────────────

PATH: list[Any] = [
    e.MessageEntry(id="u0", message=m.user("a " * 10)),
    e.MessageEntry(id="a0", message=m.assistant("b " * 10, CALL)),
    e.MessageEntry(id="r0", message=m.result("c", "d " * 10)),
    e.ModelChange(id="x0", model="m"),
    e.MessageEntry(id="a1", message=m.assistant("e " * 10)),
    e.Note(id="n0", content=m.content("f " * 10)),
    e.MessageEntry(id="a2", message=m.assistant("g " * 10)),
    e.BranchSummary(id="b0", origin="z", summary="h " * 10),
    e.MessageEntry(id="a3", message=m.assistant("i " * 10)),
]


@pytest.mark.parametrize(
    ("keep", "cut"),
    [
        (1, Cut(8, 7)),
        (10, Cut(8, 7)),
        (11, Cut(7)),
        (20, Cut(7)),
        (30, Cut(6, 5)),
        (40, Cut(5)),
        (50, Cut(3, 0)),
        (51, Cut(3, 0)),
        (61, Cut(1, 0)),
        (9_999, Cut(0)),
    ],
)
def test_B8_the_newest_are_kept_until_the_budget_is_reached(keep: int, cut: Cut) -> None:
    def size(entry: e.Entry) -> int:
        return 0 if isinstance(entry, e.ModelChange) else 10

    assert cut_by_budget(PATH, start=0, keep=keep, size=size) == cut


def test_B8_where_nothing_later_is_legal_the_last_point_before_is_taken() -> None:
    path = [PATH[0], PATH[1], PATH[2]]
    assert cut_by_budget(path, start=0, keep=1, size=lambda _: 10) == Cut(1, 0)
    assert cut_by_budget([PATH[2]], start=0, keep=1, size=lambda _: 10) == Cut(0)
    assert [cut_at(PATH, 0, at).split for at in (0, 4, 5, 7, 8)] == [False, True, False, False, True]


def budget(s: PlanContext, keep: int) -> Proposal | Reason:
    return BudgetSummary(keep_tokens=keep, reserve_tokens=100).propose(s)


def test_a_summary_stands_for_all_before_the_cut() -> None:
    s = context(*talk(3), tools=[1], writer=Writer("w"))
    found = proposal(budget(s, 20))
    assert (found.strategy, found.stretch, found.first_kept, found.split) == (
        "summary",
        ("e0", "e3"),
        "e4",
        False,
    )
    assert ids(found) == ("e0", "e1", "e2", "e3") and found.turn_prefix == () and not found.smaller
    assert found.tokens_after == 1 + 20 + 80 + 2 * FRAME_TOKENS
    assert found.measured_before == 1 + 60
    [ask] = found.asks
    assert (ask.purpose, ask.target_tokens) == ("summary", 80)
    assert ask.render(ask.sources, None).max_tokens == 80
    [edit] = done(found, "It was so.").edits
    assert (edit.first, edit.last) == ("e0", "e3") and "<summary>\nIt was so.\n</summary>" in edit.put[0].text


def test_a_turn_that_is_cut_through_gets_a_summary_of_its_beginning() -> None:
    s = context(*talk(3), writer=Writer("w"))
    found = proposal(budget(s, 10))
    assert (found.first_kept, found.split, found.turn_prefix) == ("e5", True, ("e4",))
    assert [(ask.purpose, ask.target_tokens) for ask in found.asks] == [("summary", 80), ("turn_prefix", 50)]
    assert found.tokens_after == 10 + 80 + 50 + 2 * FRAME_TOKENS
    text = done(found, "Before.", "Beginning.").summary or ""
    assert (
        text.startswith("Before.") and text.endswith("Beginning.") and "Beginning of the current turn" in text
    )
    only = proposal(budget(context(*talk(1), writer=Writer("w")), 10))
    assert [ask.purpose for ask in only.asks] == ["turn_prefix"]
    assert (done(only, "Beginning.").summary or "").startswith("(nothing before this turn)")


def test_what_was_summarised_is_brought_up_to_date() -> None:
    s = context(*talk(3), writer=Writer("w"))
    session = s.session
    made = done(budget(s, 20), "First.")
    session.append(
        e.Fold(
            id="f",
            parent=session.tip,
            preset="pi",
            edits=made.edits,
            summary="First.",
            first_kept="e4",
            files=e.Files(read=("old.py",)),
        )
    )
    again = budget(context(session=session), 20)
    assert isinstance(again, Reason) and again.code == "just_folded"
    for message in talk(2):
        session.append(message)
    found = proposal(budget(context(session=session, writer=Writer("w")), 20))
    assert found.previous_summary == "First." and ids(found)[:2] == ("e4", "e5")
    assert "First." in found.asks[0].render(found.asks[0].sources, "First.").messages[-1].text
    assert done(found, "Second.").files.read == ("old.py",)
    fits = budget(context(*talk(1)), 999)
    assert isinstance(fits, Reason) and fits.code == "everything_fits"


def test_the_kept_part_may_begin_where_somebody_says() -> None:
    s = context(*talk(3), first_kept="e2", writer=Writer("w"))
    found = proposal(budget(s, 9_999))
    assert found.first_kept == "e2" and ids(found) == ("e0", "e1")


def test_a_reply_that_failed_for_the_length_is_hidden() -> None:
    session = session_of(*talk(2))
    session.append(m.Assistant((), "error", "prompt is too long"))
    s = context(session=session, due=Due("overflow", "x"), writer=Writer("w"))
    assert [edit.kind for edit in done(budget(s, 20), "It was.").edits][1:] == ["hide"]
    s = context(session=session, due=Due("asked", "x"), writer=Writer("w"))
    assert len(done(budget(s, 20), "It was.").edits) == 1


# ── the node (A) ────────────────────────────────────────────────────────────────────────────────


def node(**more: Any) -> SummaryNode:
    chosen = {"tail_chars": 100, "prompt": "Sum up.", "template": "S {summary} H {abridged_history}", **more}
    return SummaryNode(acknowledgement="Ok.", **chosen)


def test_A_node_is_one_exchange_in_place_of_the_head() -> None:
    said = [m.user("x" * 60), m.assistant("y" * 60), m.user("z" * 30), m.assistant("w" * 30)]
    s = context(*said, tools=[{"name": "T"}], system="sys tem", writer=Writer("w"))
    found = proposal(node(summary_tokens=7).propose(s))
    assert (found.strategy, found.stretch, found.first_kept) == ("summary_node", ("e0", "e1"), "e2")
    assert ids(found) == ("e0", "e1") and found.previous_summary is None and not found.smaller
    [ask] = found.asks
    request = ask.render(ask.sources, None)
    assert (request.max_tokens, ask.target_tokens, request.system) == (14, 7, "sys tem")
    assert [x.text for x in request.messages] == ["x" * 60, "y" * 60, "Sum up."]
    made = done(found, "It was </summary> so.")
    [edit] = made.edits
    assert [type(x) for x in edit.put] == [m.User, m.Assistant] and edit.put[1].text == "Ok."
    assert edit.put[0].text.startswith("S It was ") and "</summary>" not in edit.put[0].text
    assert AugmentDetails.of(e.Fold(id="f", edits=(), preset="p", details=made.details)) == AugmentDetails(
        is_history_summary=True
    )
    outline = edit.put[0].text.split(" H ")[1]
    assert found.tokens_after == s.sizes.overhead + 2 + 4 + 1 + 14 + WORDS.text(outline)


@pytest.mark.parametrize(("chars", "code"), [(100, "everything_fits"), (39, None)])
def test_A_nothing_is_folded_while_everything_stays(chars: int, code: str | None) -> None:
    s = context(*[m.user("x" * 10), m.assistant("y" * 10)] * 2, writer=Writer("w"))
    found = node(tail_chars=chars).propose(s)
    assert (found.code if isinstance(found, Reason) else None) == code
    off = node(off="not today").propose(s)
    assert isinstance(off, Reason) and (off.code, off.text) == ("off", "not today")


def test_A_calls_whose_results_begin_the_tail_are_made_again() -> None:
    said = [m.user("x" * 60), m.assistant("", CALL), m.result("c", "z" * 90), m.assistant("done")]
    found = proposal(node(tail_chars=95).propose(context(*said, writer=Writer("w"))))
    assert found.first_kept == "e2"
    [edit] = done(found, "So.").edits
    assert edit.put[1].calls == (CALL,)
    asked = found.asks[0].render(found.asks[0].sources, None).messages
    assert isinstance(asked[-2], m.Result) and asked[-2].call_id == "c"


@pytest.mark.parametrize(
    ("versions", "off", "counts"),
    [
        (("1", "1"), False, ["other", "n1"]),
        (("1", "2"), False, ["other", "n0"]),
        (("1",), True, ["other"]),
    ],
)
def test_A_only_the_newest_node_of_this_version_counts(
    versions: tuple[str, ...], off: bool, counts: list[str]
) -> None:
    details = AugmentDetails(is_history_summary=True).stored()
    folds = [e.Fold(id="other", edits=(), preset="p")]
    for n, version in enumerate(versions):
        folds.append(e.Fold(id=f"n{n}", edits=(), preset="p", version=version, details=details))
    assert [x.id for x in newest_node(folds, version="1", off=off)] == counts


def test_A_the_previous_summary_is_carried_where_that_is_asked_for() -> None:
    session = session_of(m.user("x" * 60), m.assistant("y" * 60), m.user("z" * 60), m.assistant("w" * 60))
    put = (m.user("node"), m.assistant("Ok."))
    details = AugmentDetails(is_history_summary=True).stored()
    fold = e.Fold(
        id="f",
        parent="e3",
        preset="augment",
        edits=(e.Edit("e0", "e1", put),),
        summary="Earlier.",
        details=details,
    )
    session.append(fold)
    session.append(m.user("v" * 60))
    session.append(m.assistant("u" * 60))
    s = context(session=session, writer=Writer("w"), instructions="the tests")
    found = proposal(node(tail_chars=121, carry_previous=True).propose(s))
    assert found.previous_summary == "Earlier." and ids(found) == ("e2", "e3")
    text = found.asks[0].render(found.asks[0].sources, "Earlier.").messages[-1].text
    assert "carry over what still matters:\nEarlier." in text and text.endswith(
        "Pay special attention to: the tests"
    )
    assert proposal(node(tail_chars=121).propose(s)).previous_summary is None


# ── shrinking (E3) ──────────────────────────────────────────────────────────────────────────────


def work(n: int, size: int) -> list[m.Message]:
    call = m.call(f"c{n}", "Bash", command="make")
    return [
        m.user(f"ask {n}"),
        m.assistant("", call),
        m.result(f"c{n}", "line of output\n" * size),
        m.assistant("did"),
    ]


def test_E3_results_of_finished_rounds_are_shortened_once() -> None:
    s = context(*work(1, 4_000), *work(2, 1), *work(3, 4_000)[:3], window=99_999)
    found = proposal(ShrinkRounds().propose(s))
    assert (found.strategy, found.masked, found.stretch, found.first_kept) == (
        "shrink",
        ("e2",),
        ("e2", "e2"),
        "e2",
    )
    made = done(found)
    [edit] = made.edits
    assert (edit.first, edit.last, edit.kind) == ("e2", "e2", "shrink") and isinstance(edit.put[0], m.Result)
    assert edit.put[0].call_id == "c1" and made.details == {"shrunk_through": "e7"}
    assert found.tokens_after == s.sizes.tokens - s.sizes.item(2) + WORDS.message(edit.put[0])
    session = s.session
    session.append(
        e.Fold(id="f", parent=session.tip, preset="layered", edits=made.edits, details=made.details)
    )
    again = ShrinkRounds().propose(context(session=session))
    assert isinstance(again, Reason) and again.code == "no_results"
    session.append(m.assistant("did"))
    assert proposal(ShrinkRounds().propose(context(session=session))).masked == ("e10",)


@pytest.mark.parametrize(
    ("messages", "code"), [(talk(2), "no_results"), (work(1, 1), "nothing_shrinks"), ([], "no_results")]
)
def test_E3_where_nothing_becomes_shorter_it_says_so(messages: list[m.Message], code: str) -> None:
    found = ShrinkRounds().propose(context(*messages))
    assert isinstance(found, Reason) and found.code == code


# ── the newest step ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("step", "least"),
    [
        ([m.user("w " * 500)], 500),
        ([m.assistant("w " * 5)], 5),
        ([m.assistant("w " * 500)], LEVELS[0] + CLIP_OVERHEAD),
        ([m.assistant("", CALL), m.result("c", "w " * 5)], 2 + 5),
        ([m.assistant("", CALL), m.result("c", "w " * 500)], 2 + LEVELS[0] + CLIP_OVERHEAD),
        ([m.Assistant((m.Thinking("w " * 50, "sig"), m.Text("w " * 40)))], 90),
    ],
)
def test_the_least_a_step_can_take_is_counted(step: list[m.Message], least: int) -> None:
    s = context(m.user("before"), m.assistant("before"), *step)
    assert least_step(s) == least


# ── the ledger ──────────────────────────────────────────────────────────────────────────────────


def test_what_left_the_view_is_noted_by_stretches() -> None:
    s = context(*talk(3))
    items = list(s.items)
    found = details.left(s.session, items, [items[2], items[5]], WORDS)
    assert [(x.first, x.last, x.entries, x.size) for x in found] == [("e0", "e1", 2, 20), ("e3", "e4", 2, 20)]
    assert details.left(s.session, items, items, WORDS) == ()


def test_many_stretches_become_few() -> None:
    s = context(*talk(300, 1))
    items = list(s.items)
    found = details.left(s.session, items, items[1::2], WORDS)
    assert len(found) == 150 and sum(x.entries for x in found) == 300
    some = details.left(s.session, items[:512], items[1:512:2], WORDS)
    assert len(some) == 256 and all(x.entries == 1 for x in some)


def test_a_fold_says_which_files_are_no_longer_in_view() -> None:
    def read(n: int, path: str, text: str = "text", *, error: bool = False) -> list[m.Message]:
        return [m.assistant("", m.call(f"c{n}", "Read", path=path)), m.result(f"c{n}", text, is_error=error)]

    said = [
        *read(1, "a.py"),
        *read(2, "b.py"),
        *read(3, "gone.py", error=True),
        *read(4, "empty.py", " "),
        *read(5, "a.py"),
        *read(6, "c.py"),
    ]
    s = context(m.user("go"), *said)
    items = list(s.items)
    assert details.reads_left(items, items[-2:]) == ("b.py", "a.py")
    assert details.reads_left(items, items) == ()


# ── the end that a design may borrow ────────────────────────────────────────────────────────────


def test_without_a_fallback_it_is_said() -> None:
    s = context(*talk(40, 20), window=400)
    none = fallback_plan(presets.get("pi", window=40_000, fallback="none"), s)
    assert isinstance(none, Reason) and none.code == "no_fallback"


@pytest.mark.parametrize(
    ("messages", "rate"),
    [
        ([], 1.0),
        ([m.user("a")], 1.0),
        (talk(2), 1.0),
        ([m.user("a"), m.assistant("b"), m.assistant("c")], 2.0),
    ],
)
def test_requests_per_turn_are_replies_per_word_of_the_user(messages: list[m.Message], rate: float) -> None:
    assert requests_per_turn(session_of(*messages)) == rate


def test_an_empty_session_has_nothing_to_fold() -> None:
    found = BudgetSummary(10, 10).propose(context(session=Session()))
    assert isinstance(found, Reason)
