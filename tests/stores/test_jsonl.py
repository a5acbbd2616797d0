"""What is special about the JSONL store."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from refold import format as fmt
from refold import messages as m
from refold.entries import MessageEntry
from refold.errors import Conflict, FormatError, NewerFormat, NotJson, RefoldError, StorageError, UnknownName
from refold.protocols import SessionInfo
from refold.stores import jsonl, lines, rows
from refold.stores.jsonl import JsonlStore
from tests.rights import ordinary_rights

from . import kit

S = kit.S


@pytest.fixture
def path(tmp_path: Path) -> Path:
    kit.begin("jsonl", tmp_path).append(S, [kit.said("a", None)], after=None)
    return tmp_path / "s.jsonl"


def ids(path: Path) -> list[str]:
    return [entry.id for entry in JsonlStore(path).load(S).entries]


def test_a_file_is_a_header_and_a_line_per_append(path: Path) -> None:
    store = JsonlStore(path)
    store.append(S, [kit.said("b", "a"), kit.said("c", "b")], after="a")
    header, first, batch, rest = path.read_bytes().split(b"\n")
    assert header.startswith(b'{"type":"session","version":1,"id":"session"') and rest == b""
    assert fmt.decode(first).id == "a"
    assert [fmt.decode(line).id for line in rows.split_line(batch)] == ["b", "c"]
    assert ids(path) == ["a", "b", "c"]


def test_the_first_entries_of_a_session_have_a_line_each(tmp_path: Path) -> None:
    kit.begin("jsonl", tmp_path).append(S, [kit.said(f"e{n}", None) for n in range(5)], after=None)
    lines = (tmp_path / "s.jsonl").read_bytes().splitlines()
    assert len(lines) == 6 and not any(line.startswith(b"[") for line in lines)


@pytest.mark.parametrize("umask", [0o000, 0o277])
def test_only_the_owner_can_read_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        store = JsonlStore(tmp_path / "folder", folder=True)
        store.create(SessionInfo(id="x/../y"))
        store.append("x/../y", [kit.said(f"e{n}", None) for n in range(5)], after=None)
    finally:
        os.umask(before)
    (made,) = (tmp_path / "folder").iterdir()
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.parent.stat().st_mode) == 0o700


# ── tails and bad lines ─────────────────────────────────────────────────────────────────────────


def test_a_torn_tail_is_ended_before_the_next_line(path: Path) -> None:
    whole = fmt.encode(kit.said("torn", "a"))
    for cut in range(1, len(whole), 7):
        with path.open("ab") as file:
            file.write(whole[:cut])
        loaded = JsonlStore(path).load(S)
        assert "interrupted" in loaded.problems[-1].text
        after = loaded.entries[-1].id
        JsonlStore(path).append(S, [kit.said(f"n{cut}", after)], after=after)
        again = JsonlStore(path).load(S)
        assert again.entries[-1].id == f"n{cut}" and len(again.problems) == len(loaded.problems)
        assert again.problems[-1].raw == whole[:cut]


def test_a_line_that_only_lacks_its_end_counts(path: Path) -> None:
    with path.open("ab") as file:
        file.write(fmt.encode(kit.said("whole", "a")))
    store = JsonlStore(path)
    assert [e.id for e in store.load(S).entries] == ["a", "whole"]
    with pytest.raises(Conflict):
        store.append(S, [kit.said("x", "a")], after="a")
    store.append(S, [kit.said("x", "whole")], after="whole")
    assert ids(path) == ["a", "whole", "x"]


def test_half_of_a_batch_is_none_of_it(path: Path) -> None:
    JsonlStore(path).append(S, [kit.said("b", "a"), kit.said("c", "b")], after="a")
    data = path.read_bytes()
    for cut in range(2, 60):
        path.write_bytes(data[:-cut])
        assert ids(path) == ["a"]


@pytest.mark.parametrize(
    "bad", [b"", b"{", b"\x00" * 600, b"[1,2]", b"null", b'{"id":1}', b"\xff\xfe", b"\r"]
)
def test_bad_lines_are_reported_with_their_place_and_kept(path: Path, bad: bytes) -> None:
    with path.open("ab") as file:
        file.write(bad + b"\n" + fmt.encode(kit.said("b", "a")) + b"\n")
    store = JsonlStore(path)
    loaded = store.load(S)
    assert [e.id for e in loaded.entries] == ["a", "b"]
    assert all(problem.where == "line 3" for problem in loaded.problems)
    assert bool(loaded.problems) == bool(bad)
    store.append(S, [kit.said("c", "b")], after="b")
    assert bad in path.read_bytes().split(b"\n")


def test_only_newline_ends_a_line(path: Path) -> None:
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\rg\x1ch"
    JsonlStore(path).append(S, [MessageEntry(id="odd", parent="a", message=m.user(text))], after="a")
    foreign = (
        '{"type":"other","id":"z","raw":{"t":"\u2028\x85"}}\r'  # raw, not escaped; and a Windows line end
    )
    with path.open("ab") as file:
        file.write(foreign.encode() + b"\n")
    found = JsonlStore(path).load(S)
    assert [e.id for e in found.entries] == ["a", "odd", "z"] and found.problems == ()
    assert found.entries[1].message.text == text


def test_a_line_beyond_all_measure_is_skipped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 10_000)
    monkeypatch.setattr(lines, "_CHUNK", 1000)
    with path.open("ab") as file:
        file.write(b'{"x":"' + b"y" * 50_000 + b'"}\n' + fmt.encode(kit.said("b", "a")) + b"\n")
    loaded = JsonlStore(path).load(S)
    assert [e.id for e in loaded.entries] == ["a", "b"]
    (problem,) = loaded.problems
    assert "longer" in problem.text and len(problem.raw) <= 4096


# ── wrong files ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", UnknownName),
        (b"\n", NotJson),
        (b"\x00\x01\x02", NotJson),
        (b'{"type":"session"', NotJson),
        (b'{"type":"session"}\n', FormatError),
        (b'{"type":"session","version":true,"id":"s"}\n', FormatError),
        (b'{"type":"session","version":1}\n', FormatError),
        (b'{"type":"session","version":99,"id":"session"}\n', NewerFormat),
        (b'{"role":"user","content":"x"}\n', FormatError),
        (b"[]\n", FormatError),
    ],
)
def test_what_is_no_session_is_refused_and_untouched(tmp_path: Path, content: bytes, error: type) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(content)
    store = JsonlStore(path)
    for act in (lambda: store.load(S), lambda: store.append(S, [kit.said("a", None)], after=None)):
        with pytest.raises(RefoldError) as caught:
            act()
        assert isinstance(caught.value, error | FormatError)
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_session(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").touch()
    kit.begin("jsonl", tmp_path).append(S, [kit.said("a", None)], after=None)
    assert ids(tmp_path / "s.jsonl") == ["a"]


def test_a_file_holds_its_own_session_only(path: Path) -> None:
    with pytest.raises(UnknownName, match="session"):
        JsonlStore(path).load("other")


def test_a_file_without_permission_is_one_sentence(path: Path) -> None:
    path.chmod(0)
    with ordinary_rights(), pytest.raises(StorageError, match="cannot be opened"):
        JsonlStore(path).load(S)


# ── several writers, replaced files, older versions ─────────────────────────────────────────────


def test_a_store_sees_what_others_wrote_and_reads_only_that(path: Path) -> None:
    one, two = JsonlStore(path), JsonlStore(path)
    assert len(one.load(S).entries) == 1
    two.append(S, [kit.said("b", "a")], after="a")
    assert [e.id for e in one.load(S, 1).entries] == ["b"]
    with pytest.raises(Conflict):
        one.append(S, [kit.said("x", "a")], after="a")
    one.append(S, [kit.said("c", "b")], after="b")
    assert [e.id for e in two.load(S, 2).entries] == ["c"]


def test_a_replaced_file_is_noticed(path: Path) -> None:
    store = JsonlStore(path)
    store.load(S)
    store.append(S, [kit.said("b", "a")], after="a")
    jsonl.write_session_file(path, SessionInfo(id=S), [kit.said("new", None)], replace=True)
    assert [e.id for e in store.load(S).entries] == ["new"]
    store.append(S, [kit.said("n2", "new")], after="new")
    assert ids(path) == ["new", "n2"]


def test_write_makes_a_whole_file_or_none(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    jsonl.write_session_file(path, SessionInfo(id=S), [kit.said("a", None), kit.said("b", "a")])
    assert ids(path) == ["a", "b"]
    with pytest.raises(StorageError, match="exists"):
        jsonl.write_session_file(path, SessionInfo(id=S), [])
    assert [p.name for p in tmp_path.iterdir()] == ["out.jsonl"]


def test_a_file_of_an_older_release_is_read_and_brought_forward(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()
    for module in (fmt, jsonl):
        monkeypatch.setattr(module, "VERSION", 2)
    monkeypatch.setitem(fmt.MIGRATIONS, 1, lambda raw: {**raw, "model": "told:later"})
    store = JsonlStore(path)
    (entry,) = store.load(S).entries
    assert entry.model == "told:later" and path.read_bytes() == before  # reading changes nothing
    store.append(S, [kit.said("b", "a")], after="a")
    assert path.read_bytes().startswith(b'{"type":"session","version":2')
    assert (path.parent / "s.jsonl.v1").read_bytes() == before
    found = JsonlStore(path).load(S).entries
    assert [getattr(e, "model", None) for e in found] == ["told:later", None]
