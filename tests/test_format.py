"""The stored format: nothing is lost in either direction, old files stay readable."""

from __future__ import annotations

import json
from math import inf, isnan
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refold import entries as e
from refold import format as fmt
from refold import messages as m
from refold.errors import FormatError, NewerFormat, NotJson
from refold.stores import open_store
from refold.stores.sqlite import SqliteStore
from refold.testing.store_contract import HUGE_INTEGER, hostile_entries
from tests.strategies import examples

GOLDEN = Path(__file__).parent / "golden"
texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars, lambda v: st.lists(v, max_size=4) | st.dictionaries(texts, v, max_size=4), max_leaves=12
)


def with_depth(depth: int, work: Any) -> Any:
    """Call `work` with so much of the stack used already."""
    return work() if depth == 0 else with_depth(depth - 1, work)


@pytest.mark.parametrize("name", hostile_entries())
@pytest.mark.parametrize("depth", [0, 400])
def test_hostile_entries_come_back(name: str, depth: int) -> None:
    entry = hostile_entries()[name]
    line = with_depth(depth, lambda: fmt.encode(entry))
    assert b"\n" not in line
    again = with_depth(depth, lambda: fmt.decode(line))
    assert type(again) is type(entry) and again.id == entry.id
    assert fmt.encode(again) == line


@given(values, texts)
@settings(max_examples=examples(150), deadline=None)
@example(HUGE_INTEGER, "")
@example(-0.0, "\0")
def test_any_value_comes_back(value: Any, id: str) -> None:
    entry = e.Unknown(id=id, raw={"type": "of-tomorrow", "id": id, "value": value})
    line = fmt.encode(entry)
    again = fmt.decode(line)
    assert fmt.encode(again) == line and fmt.canonical_line(line) == fmt.canonical_line(fmt.encode(again))
    assert json.loads(line)["type"] == "of-tomorrow"


@given(values)
@settings(max_examples=examples(150), deadline=None)
def test_both_encoders_agree(value: Any) -> None:
    entry = e.Other(id="o", time=1.5, parent="p", kind="k", raw={"v": value})
    try:
        fast = msgspec.json.encode(entry)
    except (UnicodeEncodeError, OverflowError):
        return
    if b"null" in fast:
        return  # infinities
    assert fmt.canonical_line(fmt.dump_json(entry)) == fmt.canonical_line(fast)


def test_defaults_are_left_out_the_slow_way_too() -> None:
    call = m.call("c", "Read", path="\ud800")
    entry = e.MessageEntry(id="a", message=m.Assistant((call,), stop="tool_use"), usage=m.Usage(1, 2))
    assert json.loads(fmt.encode(entry)) == {
        "type": "message",
        "id": "a",
        "message": {
            "role": "assistant",
            "content": [{"type": "call", "id": "c", "name": "Read", "arguments": {"path": "\ud800"}}],
            "stop": "tool_use",
        },
        "usage": {"input": 1, "output": 2},
    }


@pytest.mark.parametrize(
    "line", [b'{"type":"unknown","id":"1","raw":{"x":1},"z":2}', b'{"type":"session","id":"1"}']
)
def test_kinds_we_do_not_write_are_unknown(line: bytes) -> None:
    assert isinstance(fmt.decode(line), e.Unknown) and fmt.encode(fmt.decode(line)) == line


def test_canonical_means_the_same_value() -> None:
    same = [b'{"a":1,"b":[true,"\xc3\xa9"]}', b' { "b" : [ true , "\\u00e9" ] , "a" : 1 } ']
    assert len({fmt.canonical_line(line) for line in same}) == 1
    other = [b'{"a":1}', b'{"a":1.0}', b'{"a":"1"}', b'{"a":true}', b'{"a":null}', b"{}"]
    assert len({fmt.canonical_line(line) for line in other}) == len(other)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b" ",
        b"{",
        b"[",
        b'{"a"',
        b'{"a":',
        b'{"a":1,}',
        b"[1,]",
        b"nul",
        b"1 2",
        b'{"a":1}}',
        b"\xff",
        b"'a'",
        b"01",
    ],
)
def test_what_is_not_json_is_refused(line: bytes) -> None:
    with pytest.raises(NotJson):
        fmt.load_json(line)


@pytest.mark.parametrize(
    "line", [b"null", b"[]", b'"x"', b"{}", b'{"id":"a"}', b'{"type":"message"}', b'{"type":1,"id":"a"}']
)
def test_what_is_no_entry_is_refused(line: bytes) -> None:
    with pytest.raises(FormatError):
        fmt.decode(line)


def test_a_known_kind_with_wrong_fields_says_which() -> None:
    with pytest.raises(FormatError, match="message entry"):
        fmt.decode(b'{"type":"message","id":"a","message":{"role":"nobody"}}')


def test_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NewerFormat, match="upgrade"):
        fmt.check_version("it", 2)
    for wrong in (0, -1, "1", None, True, 1.0):
        with pytest.raises(FormatError):
            fmt.check_version("it", wrong)
    monkeypatch.setattr(fmt, "VERSION", 3)
    monkeypatch.setitem(fmt.MIGRATIONS, 1, lambda raw: {**raw, "type": raw["type"].lower()})
    monkeypatch.setitem(fmt.MIGRATIONS, 2, lambda raw: {**raw, "text": raw["text"] + "!"})
    old = b'{"type":"LABEL","id":"l","text":"x"}'
    assert fmt.decode(old, 1) == e.Label(id="l", text="x!")
    assert fmt.decode(old.lower(), 2) == e.Label(id="l", text="x!")
    assert fmt.decode(old.lower(), 3) == e.Label(id="l", text="x")


# ── golden files: written once by version 1, readable forever ───────────────────────────────────


@pytest.mark.parametrize("name", ["v1.jsonl", "v1.db"])
def test_golden_files_stay_readable(name: str, tmp_path: Path) -> None:
    copy = tmp_path / name
    copy.write_bytes((GOLDEN / name).read_bytes())
    store, named = open_store(str(copy))
    loaded = store.load(named or "golden")
    wanted = json.loads((GOLDEN / "v1.expected.json").read_text())
    assert [json.loads(fmt.encode(entry)) for entry in loaded.entries] == wanted
    assert loaded.problems == () and loaded.info is not None and loaded.info.name == "renamed"
    if isinstance(store, SqliteStore):
        assert [hit.entry_id for hit in store.search(["login"])] == ["e1"]
    store.append("golden", [e.Label(id="new", target="e1")], after=None)
    store.close()


def test_a_golden_file_with_holes_and_ranges_stays_readable() -> None:
    """What version 1 learned to say after its first golden file was written."""
    store, named = open_store(str(GOLDEN / "v1-holes.jsonl"))
    loaded = store.load(named or "")
    wanted = json.loads((GOLDEN / "v1-holes.expected.json").read_text())
    assert [json.loads(fmt.encode(entry)) for entry in loaded.entries] == wanted and loaded.problems == ()


def test_a_golden_file_with_values_that_are_refused_today_stays_readable() -> None:
    """Its writer took NaN, integers of any length and any depth. What is too long or too deep is text now."""
    store, named = open_store(str(GOLDEN / "v1-limits.jsonl"))
    loaded = store.load(named or "")
    assert loaded.problems == ()
    assert [entry.id for entry in loaded.entries] == ["e1", "e2", "e3", "e4", "o1", "s1", "x1"]
    reply, state = loaded.entries[1], loaded.entries[5]
    assert isinstance(reply, e.MessageEntry) and isinstance(state, e.State)
    first, second = reply.message.calls
    assert first.arguments["path"] == "a.py" and first.arguments["offset"] == "7" * 4000 + "0" * 999 + "3"
    assert isnan(reply.meta["score"][0]) and reply.meta["score"][1] == -inf
    assert isnan(state.value[0]) and state.value[1:3] == [inf, None] and len(state.value[3]) == 5_001
    for call, name, levels in ((first, "deep", 900), (second, "command", 3_000)):
        found = bottom(call.arguments[name])
        assert found.count("[") + found.count("{") > levels - 300 and '"bottom"' in found
    for entry in loaded.entries:  # and they are written again as they were read
        assert fmt.encode(fmt.decode(fmt.encode(entry))) == fmt.encode(entry)


def bottom(value: Any) -> Any:
    """What lies innermost."""
    while isinstance(value, dict | list):
        value = value["in"] if isinstance(value, dict) else value[0]
    return value


def test_golden_files_hold_every_kind() -> None:
    files = ("v1.expected.json", "v1-holes.expected.json")
    wanted = [entry for name in files for entry in json.loads((GOLDEN / name).read_text())]
    assert {entry["type"] for entry in wanted} == fmt.ENTRY_TYPES.keys() - {"unknown"} | {"of-tomorrow"}


def test_a_text_says_its_origin_only_where_it_has_one() -> None:
    plain = e.MessageEntry(id="a", message=m.user("Fix it."))
    line = (
        b'{"type":"message","id":"a","message":{"role":"user","content":[{"type":"text","text":"Fix it."}]}}'
    )
    assert fmt.encode(plain) == line and fmt.decode(line) == plain  # as 0.1.0 wrote it
    lone = e.MessageEntry(id="a", message=m.user("\ud800"))
    assert b"origin" not in fmt.encode(lone) and fmt.decode(fmt.encode(lone)) == lone
    for said in ("x", "\ud800"):
        told = e.MessageEntry(
            id="a", message=m.user([m.attached(said), m.quoted(said), m.text(said, "program"), said])
        )
        assert fmt.decode(fmt.encode(told)) == told
        assert fmt.encode(told).count(b'"origin":') == 3


@pytest.mark.parametrize(
    "field", ['"ro\\ud83dle":"user"', '"role":"us\\ud83der"', '"role":"user","x\\ud83d":1']
)
def test_half_a_character_in_a_name_is_damage_and_no_surprise(field: str) -> None:
    content = '"content":[{"type":"text","text":"x"}]'
    line = f'{{"type":"message","id":"a","message":{{{field},{content}}}}}'.encode()
    try:
        assert isinstance(fmt.decode(line), e.MessageEntry)
    except FormatError as error:
        assert "message entry" in str(error)
