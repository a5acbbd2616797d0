"""Turn lines (D): written once a round is over, shown for the rounds that leave the zone."""

from __future__ import annotations

from typing import Any

import pytest

from refold import Session
from refold import entries as e
from refold import messages as m
from refold.compaction.plan import Finished, Proposal, Reason, finish
from refold.compaction.plan_context import PlanContext, Writer, is_over
from refold.compaction.requests import ACKNOWLEDGEMENT
from refold.compaction.strategies.turn_lines import (
    HEADER,
    WORKSPACE,
    TurnLines,
    WriteLines,
    Zone,
    workspace_text,
)

from .kit import context, many, session_of

EDIT = m.call("c1", "Edit", path="src/login.py", old_string="a", new_string="b")


def rounds(count: int) -> list[m.Message]:
    return [x for n in range(1, count + 1) for x in (m.user(f"ask {n}"), m.assistant(f"did {n}"))]


def proposal(found: Proposal | Reason) -> Proposal:
    assert isinstance(found, Proposal), found
    return found


def done(found: Proposal | Reason, *answers: str) -> Finished:
    return finish(proposal(found), answers)


def write(s: PlanContext, **more: Any) -> Proposal | Reason:
    return WriteLines(line_tokens=8, **more).propose(s)


# ── written ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("messages", "over"),
    [
        ((), False),
        (rounds(1), True),
        ([*rounds(1), m.user("x")], False),
        ([m.user("x"), m.Assistant((m.Text("y"),), "aborted")], False),
        ([m.user("x"), m.Assistant((m.Text("y"),), "error")], False),
        ([m.user("x"), m.assistant("y", EDIT)], False),
    ],
)
def test_a_round_is_over_with_its_final_answer(messages: list[m.Message], over: bool) -> None:
    assert is_over(context(*messages)) is over


def test_every_finished_round_without_a_line_gets_one() -> None:
    s = context(*rounds(3), m.user("ask 4"))
    found = write(s)
    assert proposal(found).strategy == "line" and proposal(found).asks == ()
    lines = done(found).annotations
    assert [(x.target, x.turn, x.text, x.author) for x in lines if isinstance(x, e.TurnLine)] == [
        ("e1", 1, "ask 1 → did 1", "rule"),
        ("e3", 2, "ask 2 → did 2", "rule"),
        ("e5", 3, "ask 3 → did 3", "rule"),
    ]
    for line in lines:
        s.session.append(e.TurnLine(id=f"l{line.target}", target=line.target, turn=line.turn, text=line.text))
    nothing = write(context(session=s.session))
    assert isinstance(nothing, Reason) and nothing.code == "all_written"
    empty = write(context(m.user("a")))
    assert isinstance(empty, Reason) and empty.code == "all_written"


def test_a_model_writes_the_newest_two_and_rules_the_others() -> None:
    s = context(*rounds(4), writer=Writer("w"))
    found = proposal(write(s))
    assert [[x.id for x in ask.sources] for ask in found.asks] == [["e4", "e5"], ["e6", "e7"]]
    ask = found.asks[0]
    assert (ask.purpose, ask.target_tokens) == ("line", 8)
    request = ask.render(ask.sources, None)
    assert (request.purpose, request.max_tokens) == ("line", 208)
    assert "6 words" in request.messages[-1].text and "[User]: ask 3" in request.messages[-1].text
    assert [x.text for x in done(found, "third", "fourth").annotations] == [
        "ask 1 → did 1",
        "ask 2 → did 2",
        "third",
        "fourth",
    ]
    assert [x.author for x in done(found, "third").annotations] == ["rule", "rule", "model", "rule"]
    tiny = proposal(WriteLines(line_tokens=2).propose(s)).asks[0]
    assert "5 words" in tiny.render(tiny.sources, None).messages[-1].text
    for others in ({"resting": True}, {"writer": None}):
        assert proposal(write(context(*rounds(4), **{"writer": Writer("w"), **others}))).asks == ()
    assert proposal(write(s, by_model=False)).asks == ()


# ── shown ───────────────────────────────────────────────────────────────────────────────────────


def lines(s: PlanContext, keep: int = 1, **more: Any) -> Proposal | Reason:
    chosen = {"summaries_budget": 500, "line_tokens": 8, "workspace_tokens": 30, **more}
    return TurnLines(zone=Zone(keep), **chosen).propose(s)


def test_rounds_that_leave_become_lines_above_the_workspace() -> None:
    s = context(*rounds(3), m.user("ask 4"), tools=[1])
    found = proposal(lines(s))
    assert (found.strategy, found.stretch, found.first_kept) == ("line", ("e0", "e3"), "e4")
    assert complete_ids(found) == ("e0", "e1", "e2", "e3") and not found.smaller
    [edit] = done(found).edits
    assert (edit.first, edit.last, edit.kind, edit.put[1:]) == ("e0", "e3", "line", (ACKNOWLEDGEMENT,))
    texts = parts(edit)
    assert texts == [
        f"{HEADER}\n[Turn 1] ask 1 → did 1",
        "[Turn 2] ask 2 → did 2",
        f"{WORKSPACE}\n(no files yet)",
    ]
    sizes = sum(len(text.split()) for text in texts[:2])
    assert found.tokens_after == s.sizes.tokens - 8 + sizes + 30 + 30


def parts(edit: e.Edit) -> list[str]:
    """The texts of a block of lines."""
    return [part.text for part in edit.put[0].parts if isinstance(part, m.Text)]


def complete_ids(found: Proposal) -> tuple[str, ...]:
    return found.fold() if callable(found.fold) else found.fold


@pytest.mark.parametrize(("count", "keep"), [(0, 1), (1, 1), (3, 3), (3, 9)])
def test_nothing_leaves_while_few_enough_are_finished(count: int, keep: int) -> None:
    found = lines(context(*rounds(count), m.user("now")), keep)
    assert isinstance(found, Reason) and found.code == "nothing_leaves"
    assert (f"{count} finished round(s) stay" in found.text) is bool(count)


def apply(session: Session, found: Proposal | Reason, id: str) -> Session:
    made = done(found)
    session.append(e.Fold(id=id, parent=session.tip, preset="rounds", edits=made.edits, details=made.details))
    return session


def test_the_block_only_grows_at_its_end() -> None:
    session = session_of(*rounds(3))
    apply(session, lines(context(session=session)), "f1")
    assert isinstance(lines(context(session=session)), Reason)
    for message in (m.user("ask 4"), m.assistant("did 4")):
        session.append(message)
    found = lines(context(session=session))
    assert proposal(found).strategy == "line" and complete_ids(proposal(found)) == ("e4", "e5")
    [edit] = done(found).edits
    assert parts(edit)[1:] == [
        "[Turn 2] ask 2 → did 2",
        "[Turn 3] ask 3 → did 3",
        f"{WORKSPACE}\n(no files yet)",
    ]


def test_a_workspace_that_changed_is_brought_up_to_date_alone() -> None:
    session = session_of(*rounds(3))
    apply(session, lines(context(session=session)), "f1")
    session.append(e.State(id="s1", name="branch", value="main"))
    found = lines(context(session=session))
    assert proposal(found).strategy == "workspace" and proposal(found).stretch is None
    [edit] = done(found).edits
    assert parts(edit)[1:] == ["[Turn 2] ask 2 → did 2", f"{WORKSPACE}\nState:\n- branch: main"]


def test_where_lines_are_too_many_they_become_ranges_and_it_is_noted() -> None:
    s = context(*rounds(9))
    found = lines(s, summaries_budget=45)
    assert proposal(found).strategy == "merge"
    made = done(found)
    assert made.details["cache_reset"] == "lines were merged into ranges"
    assert made.edits[0].put[0].text.startswith(f"{HEADER}\n[Turn 1-2]")


def test_results_of_all_but_the_newest_round_in_the_zone_are_cut() -> None:
    def work(n: int) -> list[m.Message]:
        call = m.call(f"c{n}", "Read", path="a.py")
        return [
            m.user(f"ask {n}"),
            m.assistant("", call),
            m.result(f"c{n}", "word " * 40),
            m.assistant("did"),
        ]

    s = context(*work(1), *work(2), *work(3))
    zone = Zone(budget=90, result_chars=50)
    assert zone.first(s, 3) == 0
    assert [(x.first, x.kind) for x in zone.trims(s, 0, 3)] == [("e2", "shrink"), ("e6", "shrink")]
    newest = s.sizes.items(8, 12)
    assert Zone(budget=newest, result_chars=50).first(s, 3) == 2
    assert Zone(budget=newest - 1, result_chars=50).first(s, 3) == 3
    found = TurnLines(zone=zone, summaries_budget=500, line_tokens=8, workspace_tokens=30).propose(s)
    assert proposal(found).strategy == "line" and proposal(found).masked == ("e2", "e6")
    assert all(len(x.put[0].text) <= 50 for x in done(found).edits)


def test_the_workspace_says_the_newest_values_within_its_budget() -> None:
    session = session_of(m.user("go"), m.assistant("", EDIT), m.result("c1", "ok"), m.assistant("done"))
    for n, (name, value) in enumerate((("branch", "old"), ("port", {"a": 1}), ("branch", "main"))):
        session.append(e.State(id=f"s{n}", name=name, value=value))
    text = workspace_text(context(session=session), 100)
    assert text.endswith('State:\n- branch: main\n- port: {"a":1}') and "src/login.py" in text
    assert "old" not in text
    for n in range(40):
        session.append(e.State(id=f"t{n}", name=f"n{n}", value=many("v", 3)))
    for n in range(30):
        session.append(
            m.assistant("", m.call(f"f{n}", "Edit", path=f"src/f{n}.py", old_string="a", new_string="b"))
        )
        session.append(m.result(f"f{n}", "ok"))
    small = workspace_text(context(session=session), 60)
    assert len(small.split()) <= 62 and "- n39: v1 v2 v3" in small and "f29.py" in small
    assert 20 < len(small.partition("State:")[2].split()) <= 30


def test_an_application_may_render_its_own_workspace_and_fail_at_it() -> None:
    def broken(_: Session) -> str:
        raise RuntimeError

    s = context(*rounds(2))
    own = done(lines(s, render=lambda session: f"{len(session.path)} entries")).edits[-1]
    assert parts(own)[-1] == f"{WORKSPACE}\n4 entries"
    ours = done(lines(context(*rounds(2)), render=broken)).edits[-1]
    assert parts(ours)[-1] == f"{WORKSPACE}\n(no files yet)"
