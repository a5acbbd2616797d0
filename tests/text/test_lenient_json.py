"""JSON without recursion: what the plain library reads and writes, and what it refuses, is the same here."""

from __future__ import annotations

import json
import sys
from enum import Enum
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.errors import FormatError, NotJson
from refold.text import lenient_json
from refold.text.lenient_json import (
    MAX_DIGITS,
    Pairs,
    _digits,
    _integer,
    _parse,
    dump_hostile,
    load_hostile,
    partial_json,
)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(values, st.sampled_from([None, 0, 1]))
def test_our_parser_reads_what_the_library_writes(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assert _parse(f" {text}\n") == load_hostile(text) == value


@given(values)
def test_what_we_write_is_what_the_library_reads(value: Any) -> None:
    assert json.loads(dump_hostile(value)) == value
    assert dump_hostile(value, sort=True) == dump_hostile(json.loads(json.dumps(value, sort_keys=True)))


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "[", "{", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1}", '{"a"', '{"a" 1}', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', '{"a":1]', "{1:2}",
        "{a:1}", '{"a":}', '"a', "tru", "nul", "-", "01", "1.", ".5", "1e", "+1", "1 2", "[] []", "{}{}", "]", "}", ",", ":", '["a"', "'a'",
    ],
)  # fmt: skip
def test_what_is_no_json_is_refused_by_both(text: str) -> None:
    with pytest.raises(NotJson, match="not JSON"):
        _parse(text)
    with pytest.raises(NotJson, match="not JSON"):
        load_hostile(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a" 1}', "a colon was expected at character 5"),
        ("{1:2}", "a key was expected at character 1"),
        ("[1 2]", "'2' at character 4"),
        ("[] []", "more text after the value, at character 3"),
        ("[x]", r"Expecting value: .*char 1"),
    ],
)
def test_what_is_wrong_and_where_is_told(text: str, why: str) -> None:
    with pytest.raises(NotJson, match=why):
        _parse(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[]", []),
        (" { } ", {}),
        ("[ [ ] , { } ]", [[], {}]),
        ('{"a" : [1 , -2.5e3,"x"] , "b":null}', {"a": [1, -2500.0, "x"], "b": None}),
        ("[true,false,null]", [True, False, None]),
        ("[1e2, 1.0, 0, -0]", [100.0, 1.0, 0, 0]),
        ("[Infinity,-Infinity]", [float("inf"), float("-inf")]),
        ('"\\ud800\\u00e9"', "\ud800é"),
    ],
)
def test_every_kind_of_value_is_read(text: str, value: Any) -> None:
    found = _parse(text)
    assert found == load_hostile(text) == value
    assert repr(found) == repr(value), "an integer stays one"


def test_repeated_keys_are_remembered_in_their_order() -> None:
    for read in (_parse, load_hostile):
        found: Any = read('{"a":1,"b":2,"a":[{"c":1,"c":2}]}')
        assert isinstance(found, Pairs) and dict(found) == {"a": [{"c": 2}], "b": 2}
        assert dump_hostile(found) == '{"a":1,"b":2,"a":[{"c":1,"c":2}]}'
        assert not isinstance(read('{"a":1,"b":1}'), Pairs)


def test_depth_is_bounded_and_siblings_are_not_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lenient_json, "MAX_DEPTH", 50)
    deep: Any = 0
    for _ in range(50):
        deep = [deep]
    assert dump_hostile(deep) == "[" * 50 + "0" + "]" * 50
    with pytest.raises(ValueError, match="deeper than 50"):
        dump_hostile([deep])
    assert dump_hostile([[{}, []]] * 60) == f"[{','.join(['[{},[]]'] * 60)}]"
    assert load_hostile("[" * 5_000 + "]" * 5_000)[0][0] != []


class Colour(Enum):
    RED = "red"


class Tagged(msgspec.Struct, tag="tagged", omit_defaults=True, rename="camel"):
    first_one: int
    second: str = "x"
    third: dict[str, int] = {}
    fourth: bool = False


class Bare(msgspec.Struct):
    a: int = 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (float("inf"), "1e999"),
        (float("-inf"), "-1e999"),
        (float("nan"), "NaN"),
        ("ä\ud800", '"\\u00e4\\ud800"'),
        ((1, 2), "[1,2]"),
        (frozenset({1}), "[1]"),
        ({1: 2, None: 3, 1.5: 4, False: 5}, '{"1":2,"null":3,"1.5":4,"false":5}'),
        ({(1, 2): 3}, '{"(1, 2)":3}'),
        (Tagged(1), '{"type":"tagged","firstOne":1}'),
        (
            Tagged(0, "y", {"a": 1}, True),
            '{"type":"tagged","firstOne":0,"second":"y","third":{"a":1},"fourth":true}',
        ),
        (Bare(), '{"a":1}'),
    ],
)
def test_every_kind_of_value_is_written(value: Any, text: str) -> None:
    assert dump_hostile(value) == text
    if isinstance(value, msgspec.Struct):
        assert msgspec.json.encode(value).decode() == text


def test_what_has_no_json_is_refused() -> None:
    with pytest.raises(TypeError, match="Colour cannot be stored"):
        dump_hostile(Colour.RED)
    with pytest.raises(TypeError):
        dump_hostile(object())
    with pytest.raises(NotJson, match="not UTF-8 at byte 2"):
        load_hostile(b'["\xff"]')


@pytest.mark.parametrize("digits", [1, 3_912, 3_913, 3_914, 3_999, 4_000, 4_001, 8_001, 9_999])
def test_integers_of_any_length_come_back(digits: int) -> None:
    for text in ("7" * digits, "1" + "0" * (digits - 1), "9" * digits):
        value = _integer(text)
        assert _digits(value) == text and _integer("-" + text) == -value and _digits(-value) == "-" + text
        assert value == sum(
            int(text[max(0, end - 100) : end]) * 10 ** (digits - end) for end in range(digits, 0, -100)
        )


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


def test_more_digits_than_anybody_needs_are_refused() -> None:
    with pytest.raises(FormatError, match="digits"):
        _integer("1" * (MAX_DIGITS + 1))
    assert _integer("1" * 4_000) == int("1" * 4_000)
    assert sys.get_int_max_str_digits() == 4_300, "the interpreter's own limit is as it was"
