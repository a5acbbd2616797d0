"""Which values can be stored, and JSON that the fast library refuses."""

from __future__ import annotations

import json
from enum import Enum
from math import inf, nan
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.errors import InvalidValue, NotJson
from refold.text.lenient_json import (
    LINE_DEPTH,
    MAX_DEPTH,
    MAX_DIGITS,
    dump_json,
    invalid,
    load_json,
    partial_json,
    storable,
)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None, exclude_categories=()), max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


def nested(levels: int, value: Any = 0) -> Any:
    for _ in range(levels):
        value = [value]
    return value


@given(values)
def test_values_come_back(value: Any) -> None:
    assert load_json(dump_json(value)) == json.loads(json.dumps(value))
    assert load_json(dump_json(value, sort=True)) == load_json(dump_json(value))
    assert invalid(value) == "" and storable(value) == value


@pytest.mark.parametrize(
    ("value", "why", "text"),
    [
        (nan, "nan is not a JSON number", "NaN"),
        ({"a": [1, -inf]}, "-inf is not", {"a": [1, "-Infinity"]}),
        (10**MAX_DIGITS, "more than 4,300 digits", None),
        (nested(MAX_DEPTH + 1), "more than 200 levels deep", nested(MAX_DEPTH, "[0]")),
        (10**MAX_DIGITS - 1, "", 10**MAX_DIGITS - 1),
        (nested(MAX_DEPTH), "", nested(MAX_DEPTH)),
    ],
    ids=["nan", "infinity", "digits", "depth", "the longest", "the deepest"],
)
def test_what_cannot_be_stored_is_told_and_becomes_text(value: Any, why: str, text: Any) -> None:
    assert why in invalid(value) and bool(invalid(value)) == bool(why)
    if text is None:
        with pytest.raises(InvalidValue):
            storable(value)
    else:
        assert storable(value) == text and invalid(storable(value)) == ""


@pytest.mark.parametrize("levels", [LINE_DEPTH, LINE_DEPTH + 1, 5_000])
def test_what_is_too_deep_is_read_as_its_text(levels: int) -> None:
    text = "[1," * levels + '"]"' + "]" * levels
    value = load_json(text)
    for _ in range(LINE_DEPTH):
        assert value[0] == 1
        value = value[1]
    beyond = levels - LINE_DEPTH
    assert value == ("[1," * beyond + '"]"' + "]" * beyond if beyond else "]")
    assert load_json(f'{{"a":{text},"b":{text}}}')["b"][0] == 1
    for torn in (text[:-1], text[: len(text) // 2]):
        with pytest.raises(NotJson):
            load_json(torn)


def test_an_integer_that_is_too_long_is_read_as_its_text() -> None:
    assert load_json("9" * MAX_DIGITS) == 10**MAX_DIGITS - 1
    assert load_json(f"[-{'9' * MAX_DIGITS}]") == ["-" + "9" * MAX_DIGITS]


@pytest.mark.parametrize(
    "text", ["", "[", "[1,]", "[1 2]", '{"a":', "{1:2}", '"a', "tru", "01", "[] []", "'a'"]
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(NotJson, match="not JSON"):
        load_json(text)


class Colour(Enum):
    RED = "red"


class Tagged(msgspec.Struct, tag="tagged", omit_defaults=True, rename="camel"):
    first_one: int
    second: str = "x"
    third: dict[str, int] = {}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("ä\ud800", '"\\u00e4\\ud800"'),
        ((1, 2), "[1,2]"),
        ({1: 2, None: 3, 1.5: 4, False: 5}, '{"1":2,"null":3,"1.5":4,"false":5}'),
        (Tagged(1), '{"type":"tagged","firstOne":1}'),
        (
            [Tagged(0, "\ud800", {"a": 1})],
            '[{"type":"tagged","firstOne":0,"second":"\\ud800","third":{"a":1}}]',
        ),
        (Colour.RED, '"red"'),
    ],
)
def test_every_kind_of_value_is_written(value: Any, text: str) -> None:
    assert dump_json(value) == text


def test_what_has_no_json_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for value in (object(), circle, 10**MAX_DIGITS, nested(50_000), {(1, 2): 3}):
        with pytest.raises(InvalidValue, match="not a JSON value"):
            dump_json(value)
    with pytest.raises(NotJson, match="not UTF-8 at byte 2"):
        load_json(b'["\xff"]')


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("  {", {}),
        ("[", []),
        ("[1, 2", [1]),
        ('{"a": 1, "b": [1, {"c": "x, y", "d"', {"a": 1, "b": [1, {"c": "x, y"}]}),
        ('{"a": [1, 2], "b', {"a": [1, 2]}),
        ('{"a": [1, 2]', {"a": [1, 2]}),
        ('[{"a": 1}, {"b": "]', [{"a": 1}, {}]),
        ("[1] and more", [1]),
        ("[" * 200, None),
        *((text, ValueError) for text in ("", "1", '"a"', "[}", '{"a": 1]', "[" * 201, "]", "x[")),
    ],
)
def test_what_breaks_off_is_read_as_far_as_it_goes(text: str, value: Any) -> None:
    if value is ValueError:
        with pytest.raises(ValueError, match=r"\S"):
            partial_json(text)
    else:
        found: Any = partial_json(text)
        assert found == (json.loads("[" * 200 + "]" * 200) if value is None else value)
