"""What a view still holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from refold import entries as e
from refold import messages as m
from refold.compare import measures
from refold.session import Session
from refold.session.items import Item
from tests.compare.sessions import agent_session


def stand_in(session: Session, text: str) -> list[Item]:
    """A view in which `text` stands for everything."""
    return [Item(m.user(text), tuple(entry.id for entry in session.path), "fold")]


def whole(session: Session) -> list[Item]:
    return [Item(entry.message, (entry.id,)) for entry in session.path]  # type: ignore[union-attr]


def test_a_view_that_holds_nothing_scores_zero_and_one_that_says_all_scores_one() -> None:
    session = agent_session()
    nothing = measures.kept(session, stand_in(session, "Some work was done."))
    assert (nothing.constraints, nothing.artifacts, nothing.identifiers) == (0, 0, 0)
    everything = measures.kept(
        session, stand_in(session, measures.readable(i.message for i in whole(session)))
    )
    assert (everything.constraints, everything.artifacts, everything.identifiers) == (1, 1, 1)


def test_typed_words_count_only_verbatim_whatever_the_line_breaks() -> None:
    session = agent_session()
    said = [
        x.message.text for x in session.path if isinstance(x, e.MessageEntry) and x.message.role == "user"
    ]
    broken = stand_in(session, said[0].replace(" ", "\n  "))
    assert 0 < (measures.kept(session, broken).constraints or 0) < 1
    assert measures.kept(session, stand_in(session, "\n".join(said))).constraints == 1
    assert measures.kept(session, stand_in(session, "Do not touch migrations.")).constraints == 0


def test_only_what_was_folded_is_asked_for() -> None:
    session = agent_session()
    shown = measures.kept(session, whole(session))
    assert shown.constraints == 1 and shown.identifiers is None
    assert shown.artifacts == 1


def test_a_file_is_named_by_the_shortest_end_nobody_else_has() -> None:
    paths = ["src/a/handler.py", "src/b/handler.py", "src/b/view.py"]
    assert measures.shortest_ending("src/b/view.py", paths) == "view.py"
    assert measures.shortest_ending("src/a/handler.py", paths) == "a/handler.py"
    assert measures.named("src/b/view.py", paths, "- src/b/: view.py, other")
    assert not measures.named("src/b/view.py", paths, "review.py")
    assert not measures.named("src/a/handler.py", paths, "handler.py")


def test_M2_probes_are_needed_later_known_before_and_not_repeated_between() -> None:
    session = Session()
    session.append(m.user("Look at src/early_file.py, src/again_file.py and order 9081726."))
    session.append(m.assistant("ok"))
    session.append(m.user("src/again_file.py is the one."))
    session.append(
        m.assistant("", m.call("1", "Read", path="src/early_file.py", note="9081726 brand_new_name"))
    )
    session.append(m.assistant("", m.call("2", "Read", path="src/again_file.py")))
    session.append(m.assistant("", m.call("3", "Read", path="src/early_file.py")))
    found = measures.probes(session.path, 2)
    assert found.names == ("src/early_file.py", "9081726")
    assert found.found("… src/early_file.py …") == 0.5
    assert measures.Probes(0, ()).found("anything") is None


@given(st.text(max_size=300))
def test_shares_are_shares(text: str) -> None:
    session = agent_session(3)
    found = measures.kept(session, stand_in(session, text))
    assert all(
        share is None or 0 <= share <= 1 for share in (found.constraints, found.artifacts, found.identifiers)
    )
