"""Nothing is acknowledged that is not read back as the same value: every field of every kind of entry, with
values of every wrong type, is refused in a sentence or comes back from the store as the session holds it."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import pathlib
import uuid
from collections.abc import Iterator
from math import inf, nan
from typing import Any, get_args

import msgspec
import pytest

from refold import entries as e
from refold import format as fmt
from refold import messages as m
from refold.errors import UsageError, WrongType
from refold.protocols import SessionInfo
from refold.session import Session
from refold.session.strict_types import has_strict_types
from refold.session.validation import validated
from refold.stores.jsonl import JsonlStore
from refold.stores.memory import MemoryStore
from refold.stores.sqlite import SqliteStore


class Colour(enum.Enum):
    RED = "red"


class Loud(str):
    __slots__ = ()


class Count(enum.IntEnum):
    TWO = 2


def inside_itself() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


WRONG: dict[str, Any] = {
    "none": None,
    "true": True,
    "int": 7,
    "float": 1.5,
    "nan": nan,
    "infinity": -inf,
    "numeral": "12",
    "word": "content_filter",
    "empty": "",
    "bytes": b"bytes",
    "raw": b"\xff\x00",
    "bytearray": bytearray(b"array"),
    "memory": memoryview(b"view"),
    "subclass": Loud("loud"),
    "enum": Colour.RED,
    "intenum": Count.TWO,
    "pair": "\ud83d\ude00",
    "half": "\ud800",
    "list": ["a", 1],
    "bytes in a list": [b"x"],
    "tuple": ("a", b"b"),
    "set": {1},
    "generator": (n for n in ()),
    "dict": {"a": (1, 2), 3: "b"},
    "dict of bytes": {"a": b"\xff"},
    "part as a dict": [{"type": "text", "text": "x"}],
    "no part": [{"type": "nonsense"}],
    "time": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    "uuid": uuid.UUID(int=5),
    "path": pathlib.PurePosixPath("a/b"),
    "decimal": decimal.Decimal("1.1"),
    "object": object(),
    "class": int,
    "complex": 1j,
    "deep": [[[[{"a": [nan]}]]]],
    "circle": inside_itself(),
    "large": 10**400,
    "part": m.Text("x"),
    "message": m.user("x"),
    "usage": m.Usage(1),
    "range": range(3),
    "function": len,
    "half in a key": {"\udc00": 1},
    "numbers as keys": {nan: 1, True: 2, None: 3},
    "fraction": fractions.Fraction(1, 3),
    "exception": ValueError("x"),
    "duration": datetime.timedelta(seconds=1),
    "counter": collections.Counter("aab"),
}


def specimens() -> dict[str, e.AnyEntry]:
    """An entry of every kind."""
    usage = m.Usage(1, 2)
    parts = (
        m.Text("x"),
        m.Thinking("t", "s"),
        m.image("aa"),
        m.Call("c", "Read", {"path": "a"}),
        m.Opaque({"type": "x"}),
    )
    files = e.Files(read=("a",))
    edit = e.Edit("u", "u", (m.user("short"),))
    found = (
        e.MessageEntry(id="n", parent="u", message=m.User(parts), usage=usage, model="a:b", meta={"a": 1}),
        e.MessageEntry(id="n", parent="u", message=m.Assistant(parts, "end")),
        e.MessageEntry(id="n", parent="u", message=m.Result("c", parts, "Read")),
        e.MessageEntry(id="n", parent="u", message=m.System(parts)),
        e.MessageEntry(id="n", parent="u", message=m.Bash("ls", "a", 0)),
        e.Note(id="n", parent="u", content=parts, kind="k"),
        e.Fold(id="n", parent="u", edits=(edit,), preset="p", files=files, usage=usage),
        e.Undo(id="n", parent="u", fold="f"),
        e.Redo(id="n", parent="u", fold="f"),
        e.BranchSummary(id="n", parent="u", summary="s", origin="u", files=files),
        e.ModelChange(id="n", parent="u", model="m"),
        e.Other(id="n", parent="u", kind="k", raw={"a": 1}),
        e.Hole(id="n", parent="u", role="tool", call_id="c", why="w"),
        e.Leaf(id="n", target="u"),
        e.Label(id="n", target="u", text="t"),
        e.Pin(id="n", target="u"),
        e.Unpin(id="n", target="u"),
        e.Failure(id="n", target="u", code="c", usage=usage),
        e.TurnLine(id="n", target="u", turn=1, text="t"),
        e.LearnedWindow(id="n", model="m", tokens=5),
        e.State(id="n", name="s", value={"a": [1]}),
        e.Info(id="n", name="x", meta={"a": 1}),
        e.Unknown(id="n", raw={"type": "of-tomorrow", "id": "n", "parent": "u"}),
    )
    return {f"{type(one).__name__}{i}": one for i, one in enumerate(found)}


def test_there_is_a_specimen_of_every_kind() -> None:
    assert {type(one) for one in specimens().values()} == set(get_args(e.AnyEntry))


def test_there_are_more_wrong_types_than_an_attack_had() -> None:
    assert len(WRONG) >= 44


def spoilt(value: Any, wrong: Any) -> Iterator[Any]:
    """The value with one field, at any depth, of the wrong type."""
    if isinstance(value, msgspec.Struct):
        for name in type(value).__struct_fields__:
            yield msgspec.structs.replace(value, **{name: wrong})
            for inner in spoilt(getattr(value, name), wrong):
                yield msgspec.structs.replace(value, **{name: inner})
    elif isinstance(value, tuple):
        for index in range(len(value)):
            for inner in (wrong, *spoilt(value[index], wrong)):
                yield (*value[:index], inner, *value[index + 1 :])
    elif isinstance(value, dict):
        for key in value:
            for inner in (wrong, *spoilt(value[key], wrong)):
                yield {**value, key: inner}
            yield {**value, wrong if wrong.__hash__ else 5: 1}


def stores(place: pathlib.Path) -> dict[str, Any]:
    return {
        "jsonl": JsonlStore(place / "folder", folder=True),
        "sqlite": SqliteStore(place / "s.db"),
        "memory": MemoryStore(),
    }


def is_same(one: Any, other: Any) -> bool:
    """Equal, where NaN is NaN."""
    return fmt.encode(one) == fmt.encode(other) and type(one) is type(other)


def attacked(store: Any, kinds: dict[str, e.AnyEntry], words: dict[str, Any]) -> tuple[int, int, list[str]]:
    taken, refused, wrong = 0, 0, []
    for kind, specimen in kinds.items():
        for word, value in words.items():
            for number, entry in enumerate(spoilt(specimen, value)):
                id = f"{kind}-{number}-{word}"
                store.create(SessionInfo(id=id))
                session = Session(id=id, store=store)
                session.append(e.MessageEntry(id="u", message=m.user("x")))
                try:
                    session.append(entry)
                except UsageError as error:
                    refused += 1
                    assert ":" in str(error) and len(session.entries) == 1
                except Exception as error:
                    if type(error).__module__ != "refold.errors":
                        wrong.append(f"{id}: {error!r}")
                else:
                    taken += 1
                loaded = store.load(id)
                if loaded.problems or len(loaded.entries) != len(session.entries):
                    wrong.append(f"{id}: {loaded.problems}")
                elif not all(map(is_same, loaded.entries, session.entries)):
                    wrong.append(f"{id}: {loaded.entries[-1]} is not {session.entries[-1]}")
    return taken, refused, wrong


@pytest.mark.slow
def test_a_wrong_type_is_refused_or_read_back_as_it_is() -> None:
    """Every field of every kind, in the store that keeps the same lines and needs no disk."""
    chosen = dict(list(WRONG.items())[::3])
    taken, refused, wrong = attacked(MemoryStore(), specimens(), chosen)
    assert wrong[:5] == []
    assert taken > 300 and refused > 300


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_a_wrong_type_in_a_store_on_disk(kind: str, tmp_path: pathlib.Path) -> None:
    chosen = {name: WRONG[name] for name in ("bytes", "word", "nan", "int")}
    kinds = {name: one for name, one in specimens().items() if name in ("MessageEntry1", "State20")}
    taken, refused, wrong = attacked(stores(tmp_path)[kind], kinds, chosen)
    assert wrong == [] and taken and refused


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["jsonl", "sqlite", "memory"])
def test_every_wrong_type_in_every_field_on_disk(kind: str, tmp_path: pathlib.Path) -> None:
    _, _, wrong = attacked(stores(tmp_path)[kind], specimens(), WRONG)
    assert wrong == []


# ── what is turned into what ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (m.result("c", b"caf\xc3\xa9"), m.result("c", "café")),
        (m.Result(7, [m.Text(bytearray(b"x"))]), m.result("7", "x")),  # type: ignore[arg-type]
        (m.User(("a", {"type": "text", "text": "b"})), m.User((m.Text("a"), m.Text("b")))),  # type: ignore[arg-type]
        (m.User("plain"), m.user("plain")),  # type: ignore[arg-type]
        (m.user(Loud("x")), m.user("x")),
        (m.user("\ud83d\ude00"), m.user("😀")),
        (m.call("c", "f", at=(1, 2)), m.call("c", "f", at=[1, 2])),
        (m.Usage("12", 3.0), m.Usage(12, 3)),  # type: ignore[arg-type]
    ],
)
def test_what_is_harmless_is_turned_into_what_it_means(given: Any, taken: Any) -> None:
    if isinstance(given, m.Usage):
        entry = Session().append(m.assistant("x"), usage=given)
        found: Any = entry.usage
    elif isinstance(given, m.Call):
        found = Session().append(m.Assistant((given,), "tool_use")).message.calls[0]
    else:
        found = Session().append(given).message
    assert found == taken


def test_a_reason_to_stop_that_nobody_knows_is_other_and_its_word_is_kept() -> None:
    entry = Session().append(m.Assistant((m.Text("x"),), stop="content_filter"))  # type: ignore[arg-type]
    assert isinstance(entry.message, m.Assistant)
    assert entry.message.stop == "other" and entry.meta == {"stop": "content_filter"}


@pytest.mark.parametrize("said", [42, None, {"a": 1}, b"\xff\xfe", object()])
def test_a_builder_says_what_is_no_content(said: Any) -> None:
    with pytest.raises(WrongType, match=r": \w+|, "):
        m.result("c", said)


def test_the_hot_kinds_are_not_copied() -> None:
    for entry in specimens().values():
        if not isinstance(entry, e.Unknown):
            assert has_strict_types(entry) and validated(entry) is entry


# ── size ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["jsonl", "sqlite", "memory"])
def test_an_entry_that_is_too_large_is_refused(
    kind: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fmt, "MAX_ENTRY", 10_000)
    store = stores(tmp_path)[kind]
    store.create(SessionInfo(id="s"))
    session = Session(id="s", store=store)
    with pytest.raises(UsageError, match="the limit is 10,000"):
        session.append(m.user("x" * 10_000))
    session.append(m.user("x" * 9_000))
    assert len(store.load("s").entries) == len(session.entries) == 1


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_half_a_gigabyte_is_refused_and_a_quarter_is_read_back(kind: str, tmp_path: pathlib.Path) -> None:
    store = stores(tmp_path)[kind]
    store.create(SessionInfo(id="s"))
    session = Session(id="s", store=store)
    with pytest.raises(UsageError, match="the limit is"):
        session.append(m.user("x" * 537_000_000))
    session.append(m.user("x" * (fmt.MAX_ENTRY - 1000)))
    assert len(store.load("s").entries) == 1


@pytest.mark.parametrize("moment", [nan, inf, -inf])
def test_a_time_that_is_none_is_refused_in_the_plainest_message_too(moment: float) -> None:
    session = Session(clock=lambda: moment)
    with pytest.raises(WrongType, match="time"):
        session.append(m.user("Hello."))
    assert len(session) == 0
