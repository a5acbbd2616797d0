"""The small parts under the stores, each by itself: damaged lines, words for the index, batches, calls of the disk,
tallies, lines of a file."""

from __future__ import annotations

import errno
import gc
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import entries as e
from refold import format as fmt
from refold import messages as m
from refold.errors import Conflict, FormatError, StorageError
from refold.protocols import SessionInfo
from refold.stores import damage, disk, lines, rows, search_text, transfer
from refold.stores.jsonl import JsonlStore
from refold.stores.lines import ReadState
from refold.stores.memory import MemoryStore

LINE = b'{"type":"message","id":"a","time":1.5,"parent":"p","message":{"role":"user","content":[{"type":"text","text":"hi"}]}}'
NEXT = b'{"type":"message","id":"b","parent":"a","message":{"role":"tool","call_id":"c","content":[]}}'


# ── damage ──────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(1, len(LINE) - 1))
def test_every_beginning_of_a_line_is_torn(cut: int) -> None:
    assert damage.is_torn(LINE[:cut]) and damage.hole_of(LINE[:cut], "why") is None


@pytest.mark.parametrize(
    ("line", "torn"),
    [
        (LINE, False),
        (b"", False),
        (b" ", False),
        (b"x", False),
        (b'{"a":x}', False),
        (b'{"a":tru', True),
        (b'{"a":"\xc3', True),
        (b'{"a":"\xc3x"}', False),
        (b'{"a":"\xff', False),
        (b'{"a":"\xff"}', False),
        (b"[" * 100_000, False),
        (b'{"a":-', True),
        *((b'{"a":"\\u12e4'[:cut], True) for cut in range(6, 12)),
        (b'{"a":"\\u12"}', False),
        (b'{"a":"\\q', False),
        (b"u12", False),
        (b'{"a":Na', True),
    ],
)
def test_what_a_crash_leaves_is_a_beginning(line: bytes, torn: bool) -> None:
    assert damage.is_torn(line) is torn


@pytest.mark.parametrize(
    ("line", "hole"),
    [
        (LINE.replace(b'"hi"', b"hi"), e.Hole(id="a", parent="p", role="user", why="bad")),
        (NEXT.replace(b"[]", b"]["), e.Hole(id="b", parent="a", role="tool", call_id="c", why="bad")),
        (b'{"type":"of-tomorrow","id":"x","parent":5}', e.Hole(id="x", why="bad")),
        (b'{"type":"message","id":"x","parent":"y"}', e.Hole(id="x", parent="y", why="bad")),
        (b'{"type":"message","id":5}', None),
        (b'{"type":5,"id":"x"}', None),
        (b'{"type":"label","id":"x","parent":"y"}', None),
        (b'{"type":"label","id":"x",}', None),
        (b"[1]", None),
        (b"\x00\x00", None),
        (b'{"type":"message","id":"\\u00e9",}', e.Hole(id="é", why="bad")),
        (b'{"type":"message","id":"\\q",}', None),
    ],
)
def test_a_line_that_is_no_entry_leaves_a_hole_where_it_had_a_place(line: bytes, hole: e.Hole | None) -> None:
    assert damage.hole_of(line, "bad") == hole


def test_a_hole_may_be_named_elsewhere_and_says_why_in_short() -> None:
    assert damage.hole_of(b"\x00", "w" * 300, "n") == e.Hole(id="n", why="w" * 200)
    assert damage.hole_of(LINE[:40], "bad", "n") == e.Hole(id="n", why="bad")


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (LINE, [LINE]),
        (LINE + NEXT, [LINE, NEXT]),
        (b"[" + LINE + b"," + NEXT + b"]", [LINE, NEXT]),
        (b"[" + LINE + b"]", [b"[" + LINE + b"]"]),
        (b"[" + LINE + b"]\x00[" + NEXT + b"]", [LINE, NEXT]),
        (b"[" + LINE.replace(b'"hi"', b"hi") + b"," + NEXT + b"]", [LINE.replace(b'"hi"', b"hi"), NEXT]),
        (b"[" + LINE + b"," + NEXT.replace(b"[]", b"x") + b"]", [LINE, NEXT.replace(b"[]", b"x")]),
        (b"[" + LINE + b"," + NEXT[:30], [b"[" + LINE + b"," + NEXT[:30]]),
        (b"[" + LINE + b"," + NEXT + b"\x00", [LINE, NEXT]),
    ],
)
def test_the_entries_of_a_line_that_holds_several(line: bytes, parts: list[bytes]) -> None:
    assert damage.entries_in_damaged_line(line) == parts


def test_a_destroyed_header_ends_where_a_line_of_ours_begins() -> None:
    assert damage.split_header(b"xx" + LINE + b"\n") == (b"x", 2)
    assert damage.split_header(b"rubbish\n" + LINE + b"\n" + NEXT) == (b"rubbish", 8)
    assert damage.split_header(b'{"timestamp":1}\n' + LINE) is None
    assert damage.split_header(b"rubbish\nmore\n") is None
    assert damage.header_facts(b'{"id":"s","name":"n\\u00e9","cwd":5') == {"id": "s", "name": "né"}


# ── words ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "indexed"),
    [
        ("plain words", "plain words"),
        ("readFile", "readFile read File"),
        ("HTTPServer2 and parseJSON", "HTTPServer2 and parseJSON HTTP Server 2 parse JSON"),
        ("fooBars baz", "fooBars baz foo Bars"),
        ("éaB aB", "éaB aB a B a B"),
        ("a\0b", "a b"),
        ("a\ud800b", "a?b"),
        ("x" * 119, "x" * 119),
        ("a " + "x" * 120 + " b", "a   b"),
    ],
)
def test_what_a_tokenizer_would_miss_is_written_out(text: str, indexed: str) -> None:
    assert search_text.prepared(text) == indexed


def test_characters_without_blanks_are_sought_in_pairs() -> None:
    assert search_text.prepared("数据库").split() == ["数", "据", "库", "数据", "据库"]
    assert search_text.prepared("数据库", query=True).split() == ["数据", "据库"]
    assert search_text.prepared("数").split() == search_text.prepared("数", query=True).split() == ["数"]


def test_a_question_is_any_of_its_words_and_nothing_else() -> None:
    assert search_text.query(["a b", "b", 'say"so', "--"]) == '"a" OR "b" OR "say""so"'
    assert search_text.query([]) == search_text.query(["-", ""]) == ""
    assert search_text.query(f"w{n}" for n in range(100)).count(" OR ") == search_text.MAX_TERMS - 1
    assert len(search_text.query(["x y " * 100])) < search_text.MAX_TERM


def test_of_an_entry_what_was_said_is_indexed() -> None:
    message = e.MessageEntry(id="a", message=m.assistant("so", m.call("c", "Read", path="src/a.py")))
    note = e.Note(id="n", content=m.content("remember"), kind="k")
    assert "so" in search_text.of_entry(message) and "src/a.py" in search_text.of_entry(message)
    assert search_text.of_entry(note) == "remember"
    assert (
        search_text.of_entry(e.Info(id="i", name="x"))
        == search_text.of_entry(e.MessageEntry(id="a", message=m.user("")))
        == ""
    )
    long = search_text.of_entry(e.MessageEntry(id="a", message=m.user("a " * 200_000 + "end")))
    assert len(long) <= search_text.MAX_TEXT and long.endswith("end") and long.count("\n") == 1
    assert long.index("\n") > 0.7 * len(long)


# ── moving ──────────────────────────────────────────────────────────────────────────────────────


def test_lines_are_poured_in_batches_that_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "BATCH_BYTES", 10)
    monkeypatch.setattr(transfer, "BATCH_LINES", 3)

    def pour(*sizes: int) -> list[list[int]]:
        return [[len(line) for line in batch] for batch in transfer._batches(b"x" * n for n in sizes)]

    assert pour() == []
    assert pour(1, 1, 1, 1) == [[1, 1, 1], [1]]
    assert pour(5, 5, 1) == [[5, 5], [1]]
    assert pour(5, 6) == [[5], [6]]
    assert pour(5, 6, 4, 1) == [[5], [6, 4], [1]]
    assert pour(20, 20) == [[20], [20]]


def test_sessions_are_the_same_that_hold_the_same_values() -> None:
    first, second = b'{"a":1,"b":2}', b'{ "b":2, "a":1 }'
    assert transfer.same([first, b"no json"], [second, b"no json"])
    assert not transfer.same([first], []) and not transfer.same([], [first])
    assert not transfer.same([first], [b"{}"]) and not transfer.same([b"ab", b"c"], [b"a", b"bc"])


# ── the disk ────────────────────────────────────────────────────────────────────────────────────


class Short(disk.Disk):
    """Writes less than it is given."""

    def __init__(self, by: int = 0) -> None:
        self.by = by

    def write(self, fd: int, data: bytes) -> int:
        return len(data) - self.by

    def link(self, source: Path, target: Path) -> None:
        raise OSError(self.by, "no links here")


def test_a_short_write_is_an_error() -> None:
    disk.write_all(Short(), 0, b"abc")
    with pytest.raises(OSError, match="only 2 of 3 bytes"):
        disk.write_all(Short(1), 0, b"abc")


def test_where_there_are_no_links_a_file_is_renamed_but_never_over_another(tmp_path: Path) -> None:
    source, target = tmp_path / "new", tmp_path / "there"
    source.write_text("new")
    disk._link(Short(errno.EPERM), source, target)
    assert target.read_text() == "new" and not source.exists()
    source.write_text("newer")
    with pytest.raises(FileExistsError) as caught:
        disk._link(Short(errno.ENOTSUP), source, target)
    assert caught.value.filename == str(target) and target.read_text() == "new"
    with pytest.raises(OSError, match="no links"):
        disk._link(Short(errno.EIO), source, tmp_path / "other")


def test_folders_and_files_are_the_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    before = os.umask(0)
    try:
        disk.make_folder(disk.Disk(), folder)
        disk.place_file(disk.Disk(), folder / "f", b"x", replace=False)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "f").stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["f"]
    with pytest.raises(FileExistsError):
        disk.place_file(disk.Disk(), folder / "f", b"y", replace=False)
    link = folder / "link"
    link.symlink_to(folder / "f")
    disk.place_file(disk.Disk(), link, b"y", replace=True)
    assert link.is_symlink() and (folder / "f").read_bytes() == b"y"


def test_a_lock_excludes_and_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("x")
    first, second = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    try:
        with (
            disk.locked(first, path, shared=True, timeout=0),
            disk.locked(second, path, shared=True, timeout=0),
        ):
            pass
        with (
            disk.locked(first, path, shared=False, timeout=0),
            pytest.raises(StorageError, match="has been locked by another process for 0 s"),
            disk.locked(second, path, shared=True, timeout=0),
        ):
            pass
        with disk.locked(second, path, shared=False, timeout=0):
            pass
        assert disk.same_file(first, path)
        path.rename(tmp_path / "g")
        assert not disk.same_file(first, path)
        path.write_text("other")
        assert not disk.same_file(first, path)
    finally:
        os.close(first)
        os.close(second)


def test_what_the_system_says_is_told(tmp_path: Path) -> None:
    with (
        pytest.raises(StorageError, match=r"f cannot be opened \(full\): free some space"),
        disk.os_errors_translated(tmp_path / "f"),
    ):
        raise OSError(errno.ENOSPC, "full")
    with (
        pytest.raises(StorageError, match=r"cannot be opened \(odd\)"),
        disk.os_errors_translated(tmp_path / "f"),
    ):
        raise OSError("odd")
    assert "nothing was added: " in str(disk.disk_error(tmp_path, OSError(1, "no")))
    assert "nor could that be taken back" in str(disk.disk_error(tmp_path, OSError(1, "no"), undone=False))
    assert "(odd)" in str(disk.disk_error(tmp_path, OSError("odd")))


def test_reading_at_an_offset_moves_nothing(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    plain = disk.Disk()
    fd = plain.open(tmp_path / "f", os.O_RDWR)
    assert (plain.read(fd, 3, 4), plain.read(fd, 3, 0), plain.read(fd, 30, 8)) == (b"456", b"012", b"89")
    plain.truncate(fd, 2)
    plain.sync(fd)
    plain.close(fd)
    assert (tmp_path / "f").read_bytes() == b"01"
    with pytest.raises(OSError):
        os.fstat(fd)


# ── rows and lines ──────────────────────────────────────────────────────────────────────────────


def test_a_tally_counts_what_comes() -> None:
    tally = rows.new_tally(SessionInfo(id="s", name="first"), now=7.0)
    assert (tally.created, tally.updated, tally.name, tally.tip) == (7.0, 7.0, "first", None)
    assert rows.new_tally(SessionInfo(id="s", created=3.0), now=7.0).updated == 3.0
    label = e.Label(id="l", target="a", text="x")
    found = [
        rows.of_line(LINE),
        *rows.of_entries([e.Info(id="i", cwd="/a"), e.Info(id="j", name="later"), label]),
        rows.of_line(b"x"),
    ]
    tally.add(found)
    assert (tally.entries, tally.bad, tally.tip, tally.name, tally.cwd) == (4, 1, "a", "later", "/a")
    assert tally.bytes == sum(len(row.line) + 1 for row in found)
    info = tally.info
    assert (info.id, info.created, info.entries, info.bytes, info.name, info.cwd) == (
        "s",
        7.0,
        4,
        tally.bytes,
        "later",
        "/a",
    )
    tally.guard(found, "a")
    tally.guard([rows.of_entries([label])[0]], "other")
    with pytest.raises(Conflict):
        tally.guard(found, None)
    assert rows.of_columns(rows.tally_values(tally, lambda text: text)) == tally


def test_what_is_loaded_begins_where_it_is_asked_to() -> None:
    found = [
        ("line 2", rows.of_line(LINE)),
        ("line 3", rows.of_line(b"\x00" * 900)),
        ("line 4", rows.of_line(NEXT)),
    ]
    tally = rows.SessionTally(id="s")
    whole = rows.loaded(found, 0, tally)
    assert [entry.id for entry in whole.entries] == ["a", "b"]
    assert [(problem.where, len(problem.raw)) for problem in whole.problems] == [
        ("line 3", min(900, rows.RAW_LIMIT))
    ]
    assert [entry.id for entry in rows.loaded(found, 1, tally).entries] == ["b"]
    assert rows.loaded(found, 2, tally).entries == ()


def test_rows_that_are_missing_are_said() -> None:
    def select(first: int, last: int) -> Any:
        yield from ((n, None, fmt.VERSION, LINE) for n in (0, 1, 4) if first <= n < last)

    found = [(place, row.why) for place, row in rows.rows_by_place(select, 0, 7, OSError)]
    assert found == [(0, ""), (1, ""), (2, "2 rows are missing"), (4, ""), (5, "the last 2 rows are missing")]
    assert [place for place, _ in rows.rows_by_place(select, 4, 5, OSError)] == [4]


def test_texts_that_begin_so_lie_in_a_span() -> None:
    first, last = rows.span("ab")
    assert first <= b"ab" < last and first <= b"abz" < last and not first <= b"ac" < last
    assert rows.span("") == (b"", b"\xff")
    assert rows.newest_time([rows.of_line(LINE), rows.of_line(NEXT), rows.of_line(b"x")]) == 1.5
    assert rows.newest_time([]) == 0.0


def test_reading_many_rows_leaves_the_collector_as_it_was() -> None:
    with rows.decoding():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with rows.decoding():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1 << 16])
def test_lines_are_the_same_whatever_the_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(lines, "_CHUNK", size)
    data = b"head\n\nfirst\r\nsecond\n\nlast"
    (tmp_path / "f").write_bytes(data)
    fd = os.open(tmp_path / "f", os.O_RDONLY)
    known = ReadState((0, 0), 5, 1, rows.SessionTally(id="s"))
    ends: list[int] = []
    found: list[tuple[bytes, bool]] = []
    for row in lines.raw_lines(disk.Disk(), fd, known):
        found.append(row)
        ends.append(known.end)
    os.close(fd)
    assert found == [(b"", True), (b"first\r", True), (b"second", True), (b"", True), (b"last", False)]
    assert ends == [6, 13, 20, 21, 25] and known.end == len(data)
    assert known.number == 6 and known.torn


def test_a_line_may_be_as_long_as_the_longest_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", len(LINE))
    monkeypatch.setattr(lines, "_CHUNK", 16)
    (tmp_path / "f").write_bytes(LINE + b"\n" + LINE + b" \n" + NEXT + b"\n" + NEXT[:20])
    fd = os.open(tmp_path / "f", os.O_RDONLY)
    known = ReadState((0, 0), 0, 1, rows.SessionTally(id="s"))
    found = [
        (number, row.entry and row.entry.id, row.why)
        for number, row in lines.read_rows(disk.Disk(), fd, known)
    ]
    os.close(fd)
    assert found[0] == (2, "a", "") and found[2] == (4, "b", "")
    assert found[1] == (3, None, f"a line longer than {len(LINE)} bytes")
    assert found[3] == (5, None, damage.INTERRUPTED_APPEND)
    assert known.tally.bad == 2 and known.tally.entries == 2


# ── names of files and sessions ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("session", "name"),
    [
        ("plain", "plain.jsonl"),
        ("a/b", "a%2Fb.jsonl"),
        ("ü (1) [x]+=@,", "%C3%BC (1) [x]+=@,.jsonl"),
        ("\ud800", "%ED%A0%80.jsonl"),
        ("x" * 200, "x" * 200 + ".jsonl"),
    ],
)
def test_a_session_is_a_file_of_its_name(tmp_path: Path, session: str, name: str) -> None:
    assert JsonlStore(tmp_path, folder=True)._place(session).name == name


@pytest.mark.parametrize("session", ["", ".", ".hidden", "x" * 201])
def test_what_cannot_be_a_file_name_is_refused(tmp_path: Path, session: str) -> None:
    with pytest.raises(StorageError, match="is not a possible file name"):
        JsonlStore(tmp_path, folder=True)._place(session)


def test_a_folder_holds_the_files_that_are_not_hidden(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", ".c.jsonl", "d.txt"):
        (tmp_path / name).write_text("")
    assert [path.name for path in JsonlStore(tmp_path, folder=True).files()] == ["a.jsonl", "b.jsonl"]


@pytest.mark.parametrize("open_store", [lambda _: MemoryStore(), lambda path: JsonlStore(path, folder=True)])
def test_what_is_not_there_is_called_a_session(tmp_path: Path, open_store: Any) -> None:
    store = open_store(tmp_path)
    for ask in (store.load, store.delete, lambda name: store.append(name, [e.Info(id="i")], after=None)):
        with pytest.raises(Exception, match=r"session\b.*nobody") as caught:
            ask("nobody")
        assert type(caught.value).__name__ == "UnknownName"


def test_the_header_of_another_program_is_not_written_to() -> None:
    with pytest.raises(FormatError, match="a session of another program"):
        rows.parse_header(
            json.dumps({"type": "session", "version": 3, "id": "s", "timestamp": "x"}).encode(), "f"
        )
