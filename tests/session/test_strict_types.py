"""What is exactly of its type passes at the door as it is; anything else does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import entries as e
from refold import messages as m
from refold.session import strict_types
from refold.text.lenient_json import MAX_DEPTH, MAX_DIGITS


class Word(str):
    pass


class Size(float):
    pass


def entry(message: Any = m.user("hi"), **fields: Any) -> e.MessageEntry:
    return e.MessageEntry(**{"id": "a", "parent": "p", "time": 1.5, "message": message, **fields})


CALL = m.call("c", "Read", path="a.py", lines=[1, 2.5, None, True, {"x": "y"}])
EXACT = [
    entry(),
    entry(parent=None),
    entry(m.User(())),
    entry(m.Assistant((m.Text("so"), CALL), "tool_use")),
    entry(m.Assistant((m.Text("so"),), "end")),
    entry(m.Assistant((m.Text("so"),))),
    entry(m.Result("c", (m.Text("out"),))),
    entry(m.Result("c", (), is_error=True)),
    entry(id="ä"),
    entry(parent="ä"),
    entry(usage=m.Usage(1, 2)),
    entry(model="x:y"),
    entry(meta={"a": 1}),
    entry(m.system("be")),
    entry(m.Assistant((m.Text("so"),), "length")),
    entry(m.Assistant((m.Text("so"),), error="bad")),
    entry(m.Result("ä", ())),
    entry(m.Result("c", (), "Read")),
    entry(m.user("ä")),
    entry(m.User((m.Text("hi", "program"),))),
    entry(m.User((m.Image("image/png", data="AA"),))),
    entry(m.User((m.Text("hi"), m.Thinking("hm")))),
    entry(m.Assistant((m.Call("ä", "Read"),))),
    entry(m.Assistant((m.Call("c", "ä"),))),
    entry(m.Assistant((m.Call("c", "Read", raw="{"),))),
]
WRONG = [
    entry(id=5),
    entry(id=Word("a")),
    entry(parent=Word("p")),
    entry(parent=5),
    entry(time=1),
    entry(time=Size(1.0)),
    entry(time=float("inf")),
    entry(usage=5),
    entry(m.User([m.Text("hi")])),  # type: ignore[arg-type]
    entry(m.User((m.Text("hi"), "text"))),  # type: ignore[arg-type]
    entry(m.User((m.Text(Word("hi")),))),
    entry(m.User((m.Text(5),))),  # type: ignore[arg-type]
    entry(m.User((m.Text("\ud800"),))),
    entry(m.User((m.Text("ä\udfff"),))),
    entry(m.User((m.Text("hi", "nobody"),))),  # type: ignore[arg-type]
    entry(m.Assistant((m.Text("so"),), "soon")),  # type: ignore[arg-type]
    entry(m.Result(5, ())),  # type: ignore[arg-type]
    entry(m.Result("c", (), is_error=1)),  # type: ignore[arg-type]
    entry(m.Result("c", (), Word("Read"))),
    entry(m.Assistant((m.Call(Word("c"), "Read"),))),
    entry(m.Assistant((m.Call("c", Word("Read")),))),
    entry(m.Assistant((m.Call("c", "Read", [("a", 1)]),))),  # type: ignore[arg-type]
    *(
        entry(m.Assistant((m.Call("c", "Read", {"a": value}),)))
        for value in (Word("x"), (1, 2), {1: 2}, {Word("a"): 1}, b"x", float("nan"), "\ud800", [[{"\ud800": 1}]], 10**MAX_DIGITS, object())
    ),
]  # fmt: skip


@pytest.mark.parametrize("value", EXACT)
def test_what_is_exactly_of_its_type_passes(value: e.MessageEntry) -> None:
    assert strict_types.has_strict_types(value)


@pytest.mark.parametrize("value", WRONG)
def test_what_is_not_exactly_of_its_type_does_not_pass(value: e.MessageEntry) -> None:
    assert not strict_types.has_strict_types(value)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_texts_of_the_longest_length_are_measured(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    monkeypatch.setattr(strict_types, "LONG_TEXT", 10)
    for text in ("x" * (10 + more), "ä" * (10 + more)):
        assert strict_types.has_strict_types(entry(m.user(text))) == (more <= 0)
        assert strict_types.has_strict_types(entry(m.Assistant((m.call("c", "T", text=text),)))) == (
            more <= 0
        )
        assert strict_types.has_strict_types(entry(m.Assistant((m.Call("c", "T", {text: 1}),)))) == (
            more <= 0
        )


def test_numbers_are_exact_as_far_as_they_can_be_written() -> None:
    for number in (10**MAX_DIGITS, -(10**MAX_DIGITS)):
        assert not strict_types.has_strict_types(entry(m.Assistant((m.call("c", "T", n=number),))))
        assert strict_types.has_strict_types(
            entry(m.Assistant((m.call("c", "T", n=number + (1 if number < 0 else -1)),)))
        )


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"in": value}])
def test_values_are_exact_as_far_down_as_they_are_read(wrap: Callable[[Any], Any]) -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = wrap(value)
    assert strict_types.has_strict_types(e.State(id="s", name="x", value=value))
    assert not strict_types.has_strict_types(e.State(id="s", name="x", value=wrap(value)))


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5)
)
def test_plain_values_are_those_that_json_says_again(value: Any) -> None:
    assert strict_types._is_plain(value) == (
        (isinstance(value, list) and all(map(strict_types._is_plain, value)))
        or value is None
        or isinstance(value, int)
        or (isinstance(value, float) and abs(value) < float("inf"))
        or (isinstance(value, str) and value == value.encode("utf-8", "replace").decode())
    )  # fmt: skip
