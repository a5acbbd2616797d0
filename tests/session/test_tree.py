"""The session as a tree: append, branch, move, label, pin; errors; persistence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import Session
from refold import entries as e
from refold import format as fmt
from refold import messages as m
from refold.errors import Conflict, EntryNotFound, FoldError, TreeError
from refold.protocols import Loaded, SessionInfo
from refold.session.projection import Projection
from refold.stores.memory import MemoryStore
from refold.tokens import get as counter


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
    ("entries", "path"),
    [
        ([entry("a", None), entry("a", None), entry("b", "a")], ["a", "b"]),
        ([entry("a", "missing")], ["(missing)", "a"]),
        ([entry("a", None), entry("c", "b"), entry("d", "c")], ["a", "(b)", "c", "d"]),
        ([entry("a", "b"), entry("b", "a")], ["a", "b"]),
        ([entry("a", "b"), entry("b", "c"), entry("c", "a")], ["a", "c"]),
        ([entry("a", None), entry("b", "b"), entry("c", "b")], ["a", "b", "c"]),
        ([entry("a", None), e.Label(id="l", target="a", text="t"), entry("b", "l")], ["a", "b"]),
        ([entry("a", None), e.Leaf(id="x", target="gone")], ["a", "(gone)"]),
        ([entry("a", None), e.Hole(id="h", why="x"), entry("b", "h")], ["a", "(h)", "b"]),
        ([entry("x", "y"), entry("y", "gone"), entry("z", "x")], ["(gone)", "y", "x", "z"]),
    ],
)
def test_a_damaged_tree_has_holes_and_says_so(entries: list[e.AnyEntry], path: list[str]) -> None:
    session = Session(entries)
    assert [f"({x.id})" if isinstance(x, e.Hole) else x.id for x in session.path] == path
    assert session.problems or any(isinstance(x, e.Hole) for x in entries)
    session.append(m.user("next"))
    assert [x.id for x in session.path][:-1] == [id.strip("()") for id in path]


def test_a_hole_is_shown_where_it_is() -> None:
    call = m.assistant("", m.call("c", "Read", path="a"))
    session = Session(
        [
            entry("a", None, "first"),
            e.Hole(id="b", parent="a"),
            e.MessageEntry(id="c", parent="b", message=call),
            e.Hole(id="d", parent="c", role="tool", call_id="c"),
        ]
    )
    shown = Projection(session).items
    assert [item.message.role for item in shown] == ["user", "user", "assistant", "tool"]
    assert all("[entry damaged" in shown[at].message.text for at in (1, 3))


def test_what_another_writer_lost_is_a_hole_after_refresh() -> None:
    store = MemoryStore()
    store.create(SessionInfo(id="s"))
    session = Session(id="s", store=store)
    session.append(entry("a", None))
    lines = [b'{"type":"message","id":"b","parent":"a","mess', fmt.encode(entry("c", "b"))]
    store.append_lines("s", lines, after="a")
    session.refresh()
    assert [x.id for x in session.path] == ["a", "b", "c"] and isinstance(session["b"], e.Hole)
    session.append(m.user("next"))
    assert len(store.load("s").entries) == 3


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


# ── all or nothing ──────────────────────────────────────────────────────────────────────────────


def state_of(session: Session) -> tuple[Any, ...]:
    """Everything an append changes."""
    return (
        [x.id for x in session.entries], [x.id for x in session.path], session.leaf, session.tip, session.epoch,
        list(session.turns), list(session.replies), session.pins,
    )  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        entry("new", None),  # the id of its own batch
        entry("root", None),  # an id of the log
        entry("n", "missing"),
        entry("n", "label"),  # an annotation is no parent
        e.Fold(id="f", parent="b", edits=(e.Edit("root", "missing"),), preset="x"),
        e.Fold(id="f", parent="b", edits=(e.Edit("missing", "b"),), preset="x"),
        e.Fold(id="f", parent="b", edits=(e.Edit("b", "root"),), preset="x"),
        e.Fold(id="f", parent="b", edits=(e.Edit("root", "b"), e.Edit("gone", "gone")), preset="x"),
    ],
)
def test_a_batch_is_appended_whole_or_not_at_all(wrong: e.AnyEntry) -> None:
    store = MemoryStore()
    store.create(SessionInfo(id="s"))
    session = Session(id="s", store=store)
    session.extend((entry("root", None), entry("b", "root"), e.Label(id="label", target="root", text="t")))
    before = state_of(session)
    with pytest.raises((TreeError, FoldError)):
        session.extend((e.Pin(id="new", target="b"), wrong))
    assert state_of(session) == before
    assert [x.id for x in store.load("s").entries] == ["root", "b", "label"]


def test_what_the_store_refuses_is_not_in_the_session_either() -> None:
    store = MemoryStore()
    store.create(SessionInfo(id="s"))
    one, two = Session(id="s", store=store), Session(id="s", store=store)
    one.append(m.user("first"))
    before = state_of(two)
    with pytest.raises(Conflict):
        two.append(m.user("second"))
    assert state_of(two) == before


def test_a_batch_may_bring_parents_and_their_children() -> None:
    session = chain("a")
    session.extend((entry("x", session.leaf, "b"), entry("y", "x", "c"), entry("z", "x", "d")))
    assert texts(session) == ["a", "b", "d"]
    assert session.children("x") == ("y", "z")


def test_a_fold_may_be_of_a_single_entry() -> None:
    session = chain("a", "b")
    id = session.path[0].id
    session.append(session.make(e.Fold, edits=(e.Edit(id, id, (m.user("A"),)),), preset="x"))
    assert session.leaf == session.path[2].id


def test_a_fold_of_another_branch_is_taken_as_it_was_made_there() -> None:
    session = chain("a", "b", "c")
    a, b, c = (x.id for x in session.path)
    session.move(a)
    session.append(m.assistant("d"))
    session.append(e.Fold(id="f", parent=c, edits=(e.Edit(b, c),), preset="x"))
    assert [x.id for x in session.path] == [a, b, c, "f"]


# ── where an append goes ────────────────────────────────────────────────────────────────────────


def test_an_entry_with_a_parent_of_its_own_branches_there() -> None:
    session = chain("a", "b", "c")
    a, b, c = (x.id for x in session.path)
    epoch = session.epoch
    session.append(entry("d", a, "d"))
    assert texts(session) == ["a", "d"]
    assert [session.position(id) for id in (a, b, c, "d")] == [0, None, None, 1]
    assert session.epoch > epoch
    assert session.children(a) == (b, "d")


def test_appending_at_the_leaf_is_no_change_of_the_path_but_its_end() -> None:
    """Who follows a session reads `epoch` to know whether it may go on from where it was."""
    session = chain("a", "b")
    epoch, path = session.epoch, session.path
    session.append(m.user("c"))
    session.append(session.make(e.Pin, target=session.leaf))
    assert session.epoch == epoch
    assert session.path is path
    session.move(session.path[0].id)
    assert session.epoch > epoch


def test_a_ready_made_entry_keeps_the_parent_it_was_made_with() -> None:
    session = chain("a", "b", "c")
    a = session.path[0].id
    assert session.make(e.Note, content=(), parent=a).parent == a
    assert session.make(e.Note, content=()).parent == session.leaf


def test_an_appended_message_keeps_what_was_given_along() -> None:
    usage = m.Usage(input=5, output=2)
    appended = Session().append(m.assistant("hi"), usage=usage, model="a:b", meta={"seen": True})
    assert isinstance(appended, e.MessageEntry)
    assert (appended.usage, appended.model, appended.meta) == (usage, "a:b", {"seen": True})


def test_moving_to_where_the_leaf_is_writes_nothing() -> None:
    session = chain("a", "b")
    before = state_of(session)
    session.move(session.leaf)
    assert state_of(session) == before


def test_a_moved_leaf_is_a_new_tip() -> None:
    """A plan made before is stale: it was made for another path."""
    session = chain("a", "b")
    tip = session.tip
    session.move(session.path[0].id)
    assert session.tip not in (tip, session.leaf)
    assert session.tip == session.entries[-1].id


def test_an_annotation_has_no_place_in_the_tree() -> None:
    session = chain("a", "b")
    session.append(e.Label(id="l", target=session.leaf, text="t"))
    before = state_of(session)
    for wrong in (session.move, session.path_to):
        with pytest.raises(TreeError, match="annotation"):
            wrong("l")
    with pytest.raises(EntryNotFound):
        session.label("missing", "t")
    assert state_of(session) == before


def test_the_common_ancestor_may_be_one_of_the_two_or_nobody() -> None:
    session = chain("a", "b", "c")
    a, b, c = (x.id for x in session.path)
    assert session.common_ancestor(b, c) == session.common_ancestor(c, b) == b
    assert session.common_ancestor(b, b) == b
    session.move(None)
    other = session.append(m.user("z")).id
    assert session.common_ancestor(a, other) is None
    assert session.common_ancestor(None, a) is None


# ── annotations ─────────────────────────────────────────────────────────────────────────────────


def test_the_newest_annotation_counts() -> None:
    session = chain("a", "b")
    assert (session.state("k"), session.name) == (None, None)
    for value in (1, 2):
        session.append(session.make(e.State, name="k", value=value))
        session.append(session.make(e.State, name="other", value=-value))
        session.append(session.make(e.Info, name=f"name {value}"))
    session.append(session.make(e.Info, cwd="/"))  # says nothing about the name
    assert (session.state("k"), session.state("other"), session.name) == (2, -2, "name 2")


def test_what_is_unpinned_is_not_pinned() -> None:
    session = chain("a", "b", "c")
    a, b, c = (x.id for x in session.path)
    for kind, target in ((e.Pin, c), (e.Pin, a), (e.Pin, b), (e.Unpin, a)):
        session.append(session.make(kind, target=target))
    assert session.pins == (c, b)
    assert Session(session.entries).pins == (c, b)


def test_a_session_is_called_as_its_information_says() -> None:
    session = Session(info=SessionInfo(id="s1", name="Monday"))
    assert (session.id, session.name) == ("s1", "Monday")
    assert Session(id="s2").info.id == "s2"


def test_replies_are_where_the_assistant_speaks() -> None:
    session = chain("a", "b", "c", "d")
    session.append(session.make(e.Note, content=()))
    session.append(m.result("c", "r"))
    assert (list(session.turns), list(session.replies)) == ([0, 2], [1, 3])


# ── counting ────────────────────────────────────────────────────────────────────────────────────


class Once:
    """Refuses to count the same message twice."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size
        self.seen: list[m.Message] = []

    def text(self, text: str) -> int:
        return self.size

    def message(self, message: m.Message) -> int:
        assert message not in self.seen
        self.seen.append(message)
        return self.size

    def tools(self, tools: Any) -> int:
        return self.size


def test_a_message_is_counted_once_by_each_counter() -> None:
    session, one, two = chain("a"), Once("one", 1), Once("two", 2)
    said = session.path[0]
    assert isinstance(said, e.MessageEntry)
    for _ in range(2):
        assert [session.cached_count(said.id, said.message, x) for x in (one, two)] == [1, 2]
    assert session.cached_count(said.id, said.message, counter("chars")) == 1
    other = Session(session.entries)
    other.share_counts(session)
    assert other.cached_count(said.id, said.message, one) == 1
    assert len(one.seen) == 1


# ── two writers ─────────────────────────────────────────────────────────────────────────────────


class Reads(MemoryStore):
    """Remembers from where it was read."""

    def __init__(self) -> None:
        super().__init__()
        self.starts: list[int] = []

    def load(self, session: str, start: int = 0) -> Loaded:
        self.starts.append(start)
        return super().load(session, start)


def test_a_refresh_takes_what_is_new_and_reads_nothing_twice() -> None:
    store = Reads()
    store.create(SessionInfo(id="s"))
    one, two = Session(id="s", store=store), Session(id="s", store=store)
    for text in ("a", "b"):
        one.append(m.user(text))
    assert (two.refresh(), two.refresh()) == (2, 0)
    one.label(one.path[0].id, "first")
    two.append(m.user("c"))
    assert two.refresh() == 1  # the label; its own message is known
    assert two.labels == one.labels
    assert one.refresh() == 1
    assert [x.id for x in one.path] == [x.id for x in two.path]
    store.starts.clear()
    assert two.refresh() == 0
    assert store.starts == [4]  # behind all four entries
    assert chain("a").refresh() == 0  # without a store there is nobody else


def test_after_a_move_the_next_append_follows_the_move() -> None:
    """Compare-and-swap is on the last entry that moved anything, not on the leaf."""
    store = MemoryStore()
    store.create(SessionInfo(id="s"))
    session = Session(id="s", store=store)
    first = session.append(m.user("a"))
    session.append(m.assistant("b"))
    session.move(first.id)
    session.append(m.assistant("c"))
    again = Session.of(store.load("s"))
    assert texts(again) == texts(session) == ["a", "c"]
    assert again.tip == session.tip


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
    assert list(again.replies) == list(session.replies)
    assert [session.position(x.id) for x in session.path] == list(range(len(session.path)))
    assert again.leaf == session.leaf
    assert all(again.children(x.id) == session.children(x.id) for x in session.entries)
