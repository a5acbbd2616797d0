"""Lists of people who share a session: the path says what the list says, word for word."""

from __future__ import annotations

import asyncio

import pytest

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.models.scripted import Scripted
from refold.session.path_digests import write_list


def said(session: Session) -> list[m.Message]:
    return [x.message for x in session.path if isinstance(x, e.MessageEntry)]


def folded() -> tuple[Session, Engine]:
    session = Session()
    for number in range(12):
        session.append(m.user(f"question {number} " + "x" * 4000))
        session.append(m.assistant(f"answer {number} " + "y" * 4000))
    engine = Engine(presets.get("pi", keep_recent_tokens=3000), model=Scripted(then="THE SUMMARY"))
    asyncio.run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    return session, engine


@pytest.mark.parametrize(
    "less",
    [
        m.Assistant((m.Text("Looking."),)),
        m.Assistant((m.Thinking("hm"), m.Text("Looking."))),
        m.Assistant((m.Text("Looking."), m.Thinking("hm", "sealed"))),
    ],
)
def test_nothing_is_on_the_path_that_the_list_lacks(less: m.Message) -> None:
    session = Session()
    write_list(
        session,
        [m.user("look"), m.Assistant((m.Thinking("hm", "sealed"), m.Text("Looking."))), m.user("next")],
    )
    write_list(session, [m.user("look"), less, m.user("next")])
    assert said(session) == [m.user("look"), less, m.user("next")]


def test_a_view_is_not_the_conversation() -> None:
    session, engine = folded()
    shown = engine.view(session).messages
    write_list(session, shown)
    assert said(session) == shown


def test_a_summary_of_another_branch_is_no_part_of_a_list() -> None:
    session = Session()
    session.append(m.user("look"))
    summary = e.BranchSummary(id="b", parent=session.leaf, summary="what was said elsewhere")
    session.append(summary)
    session.append(m.assistant("Looking."))
    write_list(session, [m.user("look"), m.assistant("Looking.")])
    assert summary not in session.path


def test_a_fold_comes_along_only_where_nothing_else_was_said_before_it() -> None:
    session, _ = folded()
    everything = said(session)
    [fold] = session.annotations(e.Fold)
    session.append(m.assistant("And more."))
    write_list(session, everything)
    assert fold in session.path, "it was made of just this list"
    write_list(session, [*everything[:-2], m.user("another question")])
    assert not [x for x in session.path if isinstance(x, e.Fold)], "it may tell of what was said later"
    assert len(session.annotations(e.Fold)) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([m.Assistant((m.Text("a"), m.Text("b")))], [m.assistant("a"), m.assistant("b")]),
        ([m.user("a"), m.user("b")], [m.User((m.Text("a"), m.Text("b")))]),
    ],
)
def test_the_same_in_other_messages_is_known(one: list[m.Message], other: list[m.Message]) -> None:
    session = Session()
    write_list(session, [m.user("look"), *one, m.user("next")])
    before = list(session.entries)
    write_list(session, [m.user("look"), *other, m.user("next")])
    assert session.entries == before


def test_what_is_written_since_an_entry_stays_behind_it() -> None:
    """Also where the same was said elsewhere, without the fold."""
    session, _ = folded()
    everything, since = said(session), session.leaf
    write_list(session, everything[:-1])
    write_list(session, [*everything[:-1], everything[-1], m.user("next")])
    write_list(session, [m.user("next")], since)
    assert since in [x.id for x in session.path] and said(session) == [*everything, m.user("next")]
