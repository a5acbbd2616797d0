"""The session as a tree: append, branch, move, label, pin; errors; persistence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import Session
from refold import entries as e
from refold import messages as m
from refold.errors import Conflict, EntryNotFound, FoldError, TreeError
from refold.protocols import SessionInfo
from refold.stores.memory import MemoryStore


def chain(*texts: str) -> Session:
    session = Session()
    for number, text in enumerate(texts):
        session.append(m.user(text) if number % 2 == 0 else m.assistant(text))
    return session


def entry(id: str, parent: str | None, text: str = "x") -> e.MessageEntry:
    return e.MessageEntry(id=id, parent=parent, message=m.user(text))


def texts(session: Session) -> list[str]:
    return [x.message.text for x in session.path if isinstance(x, e.MessageEntry)]


def test_append_gives_the_entry_and_extends_the_path() -> None:
    session = Session()
    first = session.append(m.user("a"))
    second = session.append(m.assistant("b"))
    assert [x.id for x in session.path] == [first.id, second.id]
    assert session.leaf == second.id == session.tip
    assert session[first.id] is first
    assert session.position(second.id) == 1


def test_B1_branching_is_moving_the_leaf() -> None:
    session = chain("a", "b", "c")
    a, b, c = (x.id for x in session.path)
    session.move(a)
    d = session.append(m.assistant("d")).id
    assert texts(session) == ["a", "d"]
    assert session.children(a) == (b, d)
    assert session.common_ancestor(c, d) == a
    assert [x.id for x in session.path_to(c)] == [a, b, c]
    assert session.position(c) is None


def test_B3_a_moved_leaf_is_remembered_in_the_log() -> None:
    session = chain("a", "b", "c")
    session.move(session.path[0].id)
    again = Session(session.entries)
    assert again.leaf == session.leaf
    assert texts(again) == ["a"]


def test_moving_before_the_first_entry_starts_a_second_root() -> None:
    session = chain("a")
    session.move(None)
    session.append(m.user("z"))
    assert texts(session) == ["z"]
    assert len(session.children(None)) == 2


def test_annotations_never_move_the_leaf() -> None:
    session = chain("a", "b")
    leaf, tip = session.leaf, session.tip
    session.label(session.path[0].id, "start")
    session.append(session.make(e.Pin, target=leaf))
    session.append(session.make(e.State, name="k", value=1))
    assert (session.leaf, session.tip) == (leaf, tip)
    assert session.labels == {session.path[0].id: "start"}
    assert session.pins == (leaf,)
    assert session.state("k") == 1
    session.label(session.path[0].id, "")
    assert session.labels == {}


def test_turns_start_at_user_messages() -> None:
    session = chain("a", "b", "c", "d")
    assert list(session.turns) == [0, 2]
    session.move(session.path[1].id)
    assert list(session.turns) == [0]


@pytest.mark.parametrize(
    ("entries", "what"),
    [
        ([entry("a", None), entry("a", None)], "two entries"),
        ([entry("a", "missing")], "no such entry"),
        ([entry("a", "b"), entry("b", "a")], "cycle"),
        ([entry("a", "a")], "cycle"),
        ([entry("a", None), e.Label(id="l", target="a", text="t"), entry("b", "l")], "no such entry"),
        ([e.Leaf(id="x", target="gone")], "not in the log"),
    ],
)
def test_damaged_trees_are_clear_errors(entries: list[e.AnyEntry], what: str) -> None:
    with pytest.raises(TreeError, match=what):
        Session(entries)


def test_a_parent_that_comes_later_is_no_error() -> None:
    assert texts(
        Session([entry("b", "a", "second"), entry("a", None, "first"), e.Leaf(id="l", target="b")])
    ) == [
        "first",
        "second",
    ]


def test_wrong_appends_change_nothing() -> None:
    session = chain("a")
    before = list(session.entries)
    with pytest.raises(TreeError):
        session.append(entry(session.path[0].id, None))
    with pytest.raises(TreeError):
        session.append(entry("n", "missing"))
    with pytest.raises(FoldError):
        session.append(session.make(e.Fold, edits=(e.Edit("nowhere", "nowhere"),), preset="x"))
    with pytest.raises(EntryNotFound):
        session.move("missing")
    assert list(session.entries) == before


def test_unknown_entries_with_a_parent_are_on_the_path() -> None:
    session = Session([entry("a", None), e.Unknown(id="u", raw={"id": "u", "type": "future", "parent": "a"})])
    assert [x.id for x in session.path] == ["a", "u"]


def test_a_second_writer_gets_a_conflict_refreshes_and_goes_on() -> None:
    store = MemoryStore()
    store.create(SessionInfo(id="s"))
    one, two = Session(id="s", store=store), Session(id="s", store=store)
    one.append(m.user("first"))
    with pytest.raises(Conflict):
        two.append(m.user("second"))
    assert two.refresh() == 1
    two.append(m.user("second"))
    one.refresh()
    assert texts(one) == ["first", "second"]


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=40))
def test_incremental_paths_equal_rebuilt_ones(steps: list[tuple[int, bool]]) -> None:
    """Whatever order of appends and moves: what is kept up to date equals what is read from the log."""
    session = Session()
    for number, (where, is_move) in enumerate(steps):
        placed = [x for x in session.entries if x.on_path]
        if is_move and placed:
            session.move(placed[where % len(placed)].id)
        else:
            session.append(m.user(str(number)) if number % 3 else m.assistant(str(number)))
    again = Session(session.entries)
    assert [x.id for x in again.path] == [x.id for x in session.path]
    assert list(again.turns) == list(session.turns)
    assert again.leaf == session.leaf
    assert all(again.children(x.id) == session.children(x.id) for x in session.entries)
