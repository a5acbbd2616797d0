"""What every store has to do, as tests to run on a store of your own (`docs/stores.md`).

```python
class TestMyStore(StoreContract):
    def make(self, place: Path) -> Store:
        return MyStore(place / "things")
```
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refold import format as fmt
from refold import messages as m
from refold.entries import AnyEntry, Info, Label, Leaf, MessageEntry, Other, Unknown
from refold.errors import Conflict, RefoldError, SessionExists
from refold.protocols import Grouping, Lines, Lookup, SessionInfo, Store
from refold.stores import transfer
from refold.stores.memory import MemoryStore

S = "s"


def message_entry(id: str, text: str = "hello", parent: str | None = None) -> MessageEntry:
    return MessageEntry(id=id, parent=parent, message=m.user(text))


def chain(count: int, first: int = 0, parent: str | None = None) -> list[AnyEntry]:
    """`count` messages, each the child of the one before."""
    found: list[AnyEntry] = []
    for number in range(first, first + count):
        found.append(message_entry(f"e{number}", f"message {number}", parent))
        parent = f"e{number}"
    return found


def nested(depth: int) -> Any:
    value: Any = "bottom"
    for level in range(depth):
        value = [value] if level % 2 else {"in": value}
    return value


HUGE_INTEGER = int("7" * 4000)
HOSTILE_TEXTS = {
    "nul": "a\0b\0",
    "lone-high": "a\ud800b",
    "lone-low": "\udfff",
    "line-separators": "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\r\nh\r",
    "bidi": "\u202egnp.exe\u2066\u200f",
    "emoji": "👩\u200d👩\u200d👧 e\u0301 🇪🇺",
    "astral": "\U0010ffff\ufffe\uffff",
    "escapes": '\\u0041 \\" \\\\ </script> ${x} %s {0} \x1b[31m',
    "empty": "",
    "spaces": " \t\n ",
    "sql": "'; DROP TABLE entries; --",
    "ten-megabytes": "0123456789" * 1_048_576,
}


def hostile_entries() -> dict[str, AnyEntry]:
    """Entries that break stores which are careless with text, numbers or depth."""
    found: dict[str, AnyEntry] = {
        name: MessageEntry(id=f"t-{name}", message=m.user(text)) for name, text in HOSTILE_TEXTS.items()
    }
    call = m.call(
        "c\ud800",
        "Re\0ad",
        {"path": "\u2028", "big": -HUGE_INTEGER, "deep": nested(100), "": None, "f": 1e-300},
    )
    found["call"] = MessageEntry(id="call", message=m.assistant("x", call), meta={"big": HUGE_INTEGER})
    found["deep"] = Other(id="deep", kind="k", raw={"d": nested(190)})
    found["odd-ids"] = MessageEntry(id="id\0\ud800'\n\u2028", parent="\udfff", message=m.user("x"))
    found["unknown"] = Unknown(
        id="u", raw={"type": "of-tomorrow", "id": "u", "parent": "e", "n": HUGE_INTEGER}
    )
    return found


class StoreContract:
    """Subclass it, and say how to make a store: twice with the same place is the same store again."""

    def make(self, place: Path) -> Store:
        raise NotImplementedError

    durable = True
    """Whether a second store made at the same place has what the first one acknowledged."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = self.make(tmp_path)
        yield store
        store.close()

    @pytest.fixture
    def started(self, store: Store) -> Store:
        store.create(SessionInfo(id=S, created=5.0, name="first", cwd="/tmp"))
        return store

    def again(self, store: Store, place: Path) -> Store:
        """The store as another process would find it."""
        if not self.durable:
            return store
        store.close()
        return self.make(place)

    # ── sessions ────────────────────────────────────────────────────────────────────────────────

    def test_a_new_session_is_empty_and_listed(self, started: Store) -> None:
        loaded = started.load(S)
        assert loaded.entries == () and loaded.problems == ()
        (info,) = started.sessions()
        assert (info.id, info.created, info.name, info.cwd, info.entries) == (S, 5.0, "first", "/tmp", 0)

    def test_an_id_is_taken_once(self, started: Store) -> None:
        with pytest.raises(SessionExists):
            started.create(SessionInfo(id=S))

    def test_sessions_are_found_by_how_their_ids_begin(self, store: Store) -> None:
        if not isinstance(store, Lookup):
            return  # then all of them are looked at
        ids = ["a", "ab", "abc", "ac", "b", "é", "éa"]
        ids += ["ab\0", "ab\ud800", "ab\ud7ff", "ab\ud7ffz", "a\U0010ffff\U0010ffff"]
        for id in ids:
            store.create(SessionInfo(id=id))
        for text in [*ids, "", "ab\ud7ff\ud800", "\U0010ffff", "a\U0010ffff", "zz"]:
            found = [info.id for info in store.beginning(text, 50)]
            assert sorted(found) == sorted(id for id in ids if id.startswith(text)), text
            assert text not in ids or found[0] == text
            assert found[:2] == [info.id for info in store.beginning(text, 2)]

    def test_a_missing_session_is_an_error_of_its_own(self, store: Store) -> None:
        for act in (
            lambda: store.load("missing"),
            lambda: store.append("missing", chain(1), after=None),
            lambda: store.delete("missing"),
        ):
            with pytest.raises(RefoldError, match="missing"):
                act()

    def test_delete_leaves_nothing_and_frees_the_id(self, started: Store) -> None:
        started.append(S, chain(3), after=None)
        started.delete(S)
        assert list(started.sessions()) == []
        started.create(SessionInfo(id=S))
        assert started.load(S).entries == ()
        started.append(S, chain(1), after=None)

    def test_the_list_knows_later_names(self, started: Store) -> None:
        started.append(S, [*chain(2), Info(id="i", name="second")], after=None)
        (info,) = started.sessions()
        assert (info.name, info.cwd, info.entries) == ("second", "/tmp", 3)
        assert info.bytes > 0

    # ── appending and loading ───────────────────────────────────────────────────────────────────

    def test_entries_come_back_in_order_and_equal(self, started: Store, tmp_path: Path) -> None:
        entries = chain(20)
        started.append(S, entries[:1], after=None)
        started.append(S, entries[1:5], after="e0")
        for entry in entries[5:]:
            started.append(S, [entry], after=f"e{int(entry.id[1:]) - 1}")
        store = self.again(started, tmp_path)
        assert list(store.load(S).entries) == entries
        store.close()

    def test_load_from_a_position(self, started: Store) -> None:
        started.append(S, chain(10), after=None)
        started.append(S, chain(3, 10, "e9"), after="e9")
        for start in (0, 1, 9, 10, 12, 13, 99):
            assert [e.id for e in started.load(S, start).entries] == [f"e{n}" for n in range(start, 13)]

    def test_an_empty_append_changes_nothing(self, started: Store) -> None:
        started.append(S, [], after="whatever")
        assert started.load(S).entries == ()

    def test_what_the_caller_changes_later_is_not_in_the_log(self, started: Store) -> None:
        raw: dict[str, Any] = {"a": 1}
        started.append(S, [Other(id="o", raw=raw)], after=None)
        raw["a"] = 2
        (entry,) = started.load(S).entries
        assert isinstance(entry, Other) and entry.raw == {"a": 1}

    def test_a_value_that_is_no_json_is_refused_and_nothing_written(self, started: Store) -> None:
        with pytest.raises(RefoldError):
            started.append(S, [message_entry("a"), Other(id="o", raw={"x": object()})], after=None)
        assert started.load(S).entries == ()

    # ── compare-and-swap ────────────────────────────────────────────────────────────────────────

    def test_a_second_writer_gets_a_conflict_and_nothing_is_written(self, started: Store) -> None:
        started.append(S, chain(2), after=None)
        for after in (None, "e0", "missing"):
            with pytest.raises(Conflict) as caught:
                started.append(S, [Label(id="l", text="x"), message_entry("x")], after=after)
            assert caught.value.found == "e1"
        assert len(started.load(S).entries) == 2
        started.append(S, [message_entry("x", parent="e0")], after="e1")  # branching on purpose

    def test_annotations_need_no_turn(self, started: Store) -> None:
        started.append(S, chain(2), after=None)
        started.append(S, [Label(id="l", target="e0", text="x")], after="long ago")
        started.append(S, chain(1, 2, "e1"), after="e1")

    def test_a_moved_leaf_counts(self, started: Store) -> None:
        started.append(S, chain(2), after=None)
        started.append(S, [Leaf(id="m", target="e0")], after="e1")
        with pytest.raises(Conflict):
            started.append(S, [message_entry("x")], after="e1")
        started.append(S, [message_entry("x", parent="e0")], after="m")

    def test_of_many_threads_one_wins_each_place(self, started: Store) -> None:
        wins: list[str] = []
        errors: list[BaseException] = []

        def write(name: str) -> None:
            try:
                for number in range(10):
                    while True:
                        last = started.load(S).entries
                        after = last[-1].id if last else None
                        try:
                            started.append(S, [message_entry(f"{name}{number}", parent=after)], after=after)
                        except Conflict:
                            continue
                        wins.append(f"{name}{number}")
                        break
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        found = started.load(S).entries
        assert sorted(e.id for e in found) == sorted(wins) and len(found) == 40
        parents = [e.parent for e in found if isinstance(e, MessageEntry)]
        assert parents == [None, *(e.id for e in found[:-1])]

    # ── several appends in one commit ───────────────────────────────────────────────────────────

    def test_a_group_is_kept_or_taken_back_as_a_whole(self, started: Store, tmp_path: Path) -> None:
        if not isinstance(started, Grouping):
            pytest.skip("this store commits every append by itself")
        with started.grouped():
            started.create(SessionInfo(id="other"))
            started.append("other", [message_entry("o")], after=None)
            started.append(S, [message_entry("a")], after=None)
            assert [entry.id for entry in started.load(S).entries] == ["a"]
        with pytest.raises(KeyError), started.grouped():
            started.append(S, [message_entry("b", parent="a")], after="a")
            started.append("other", [message_entry("p", parent="o")], after="o")
            raise KeyError
        for store in (started, self.again(started, tmp_path)):
            assert [entry.id for entry in store.load(S).entries] == ["a"]
            assert [entry.id for entry in store.load("other").entries] == ["o"]

    def test_an_append_that_is_refused_within_a_group_takes_back_itself_alone(self, started: Store) -> None:
        if not isinstance(started, Grouping):
            pytest.skip("this store commits every append by itself")
        with started.grouped():
            started.append(S, [message_entry("a")], after=None)
            with pytest.raises(Conflict):
                started.append(S, [message_entry("b")], after=None)
            with pytest.raises(SessionExists):
                started.create(SessionInfo(id=S))
            started.append(S, [message_entry("c", parent="a")], after="a")
        assert [entry.id for entry in started.load(S).entries] == ["a", "c"]

    # ── hostile content ─────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("name", hostile_entries())
    def test_hostile_content_survives(self, started: Store, tmp_path: Path, name: str) -> None:
        entry = hostile_entries()[name]
        line = fmt.canonical_line(fmt.encode(entry))
        started.append(S, [entry], after=None)
        started.append(S, [message_entry("next")], after=entry.id if entry.moves else None)
        store = self.again(started, tmp_path)
        first, second = store.load(S).entries
        assert first.id == entry.id and type(first) is type(entry)
        assert fmt.canonical_line(fmt.encode(first)) == line
        assert second.id == "next"
        store.close()

    def test_moving_keeps_everything(self, started: Store) -> None:
        """There and back through memory: the same values in the same order."""
        started.append(S, [*hostile_entries().values(), *chain(50)], after=None)
        other = MemoryStore()
        transfer.copy_session(started, S, other)
        transfer.copy_session(other, S, started, id="back")
        for store, session in ((started, "back"), (other, S)):
            assert transfer.same(transfer.stored_lines(store, session), transfer.stored_lines(started, S))

    def test_lines_that_are_no_entries_are_kept_and_reported(self, started: Store) -> None:
        if not isinstance(started, Lines):
            pytest.skip("the store does not have the power `Lines`")
        lines = [
            fmt.encode(message_entry("a")),
            b'{"no":"entry"}',
            b"not json \xff",
            fmt.encode(message_entry("b", parent="a")),
        ]
        started.append_lines(S, lines, after=None)
        loaded = started.load(S)
        assert [e.id for e in loaded.entries] == ["a", "b"]
        assert [p.raw for p in loaded.problems] == lines[1:3]
        assert list(started.lines(S)) == lines
        assert [e.id for e in started.load(S, 1).entries] == ["b"]
        started.append(S, [message_entry("c", parent="b")], after="b")
        started.append_lines(S, [b"[bad", fmt.encode(message_entry("d", parent="c"))], after="c")
        assert [e.id for e in started.load(S, 2).entries] == ["c", "d"]
