"""Read, LS, Edit, MultiEdit, Write."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from refold.tools import read
from refold.tools.workspace import TEMPORARY
from tests.tools.place import Bench

# ── Read ────────────────────────────────────────────────────────────────────────────────────────


def test_lines_have_their_numbers_and_a_piece_says_where_to_go_on(bench: Bench) -> None:
    bench.write("a.txt", "one\ntwo\nthree\nfour\n")
    envelope = bench.call("Read", path="a.txt", offset=2, limit=2)
    assert envelope.data["content"] == "2\ttwo\n3\tthree"
    assert envelope.data["total_lines"] == 4
    assert envelope.text == "There is more: go on with offset 4."
    assert bench.call("Read", path="a.txt", offset=3).text == ""


@pytest.mark.parametrize(
    ("data", "content", "lines"),
    [
        (b"", "", 0),
        (b"\n", "1\t", 1),
        (b"a", "1\ta", 1),
        (b"a\r\nb\r\n", "1\ta\n2\tb", 2),
        (b"\xef\xbb\xbfa\n", "1\ta", 1),
        ("ä\n".encode("utf-16"), "1\tä", 1),
        (b"caf\xe9\n", "1\tcaf\ufffd", 1),
    ],
)
def test_text_comes_in_many_forms(bench: Bench, data: bytes, content: str, lines: int) -> None:
    bench.write("a.txt", data)
    found = bench.data("Read", path="a.txt")
    assert (found["content"], found["total_lines"]) == (content, lines)


def test_E13_a_file_that_others_changed_is_noted_once(bench: Bench) -> None:
    path = bench.write("a.txt", "one\n")
    first = bench.call("Read", path="a.txt")
    assert first.data["mtime"] == pytest.approx(path.stat().st_mtime, abs=0.001)
    assert bench.call("Read", path="a.txt").text == ""
    path.write_text("changed by somebody\n")
    assert bench.call("Read", path="./a.txt").text == "Note: a.txt was modified externally."
    assert bench.call("Read", path="a.txt").text == ""


def test_E13_what_the_tools_change_is_no_change_from_outside(bench: Bench) -> None:
    bench.write("a.txt", "one\n")
    bench.call("Read", path="a.txt")
    bench.data("Edit", path="a.txt", old_string="one", new_string="two")
    assert bench.call("Read", path="a.txt").text == ""
    bench.data("Write", path="a.txt", content="three\n")
    assert bench.call("Read", path="a.txt").text == ""


def test_files_that_are_no_text_and_things_that_are_no_files_are_said(bench: Bench) -> None:
    bench.write("image", b"\x89PNG\0\0")
    os.mkfifo(bench.root / "pipe")
    assert bench.error("Read", path="image")[0] == "binary"
    assert bench.error("Read", path="pipe") == ("not_a_file", "`pipe` is a pipe.")
    assert bench.error("Read", path=".") == ("not_a_file", "`.` is a folder: use LS.")
    assert bench.error("Read", path="none")[0] == "not_found"
    bench.write("a.txt", "x\n")
    assert "has 1 line: there is no line 5" in bench.error("Read", path="a.txt", offset=5)[1]


def test_a_huge_file_is_read_in_pieces_within_bounds(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.write("wide.txt", "x" * 3_000_000 + "\nend\n")
    found = bench.data("Read", path="wide.txt")
    assert len(found["content"]) < 3_000
    assert (found["end_line"], found["total_lines"]) == (2, 2)
    bench.write("long.txt", "0123456789\n" * 300_000)
    envelope = bench.call("Read", path="long.txt", limit=100_000)
    assert len(envelope.data["content"]) <= read.READ_CHARS
    assert (envelope.status, envelope.data["truncated"]) == ("partial", True)
    assert envelope.data["total_lines"] == 300_000
    monkeypatch.setattr(read, "SCANNED", 1_000_000)
    assert "total_lines" not in bench.data("Read", path="long.txt")
    assert bench.data("Read", path="long.txt", offset=250_000)["content"] == ""


# ── LS ──────────────────────────────────────────────────────────────────────────────────────────


def test_LS_lists_folders_first_and_does_not_follow_links(bench: Bench) -> None:
    bench.write("b.txt", "")
    bench.write("z/a.txt", "")
    (bench.root / "out").symlink_to(bench.outside)
    found = bench.data("LS")
    assert found["entries"] == ["z/", "b.txt", f"out -> {bench.outside}"]
    assert (found["total_files"], found["total_folders"]) == (2, 1)
    assert bench.error("LS", path="out")[0] == "outside_workspace"
    assert bench.error("LS", path="b.txt")[0] == "not_found"


# ── Edit and MultiEdit ──────────────────────────────────────────────────────────────────────────


def test_an_edit_is_exact_and_keeps_everything_else(bench: Bench) -> None:
    path = bench.write("a.py", b"caf\xe9 = 1\r\nx = 2\r\n")
    path.chmod(0o751)
    found = bench.data("Edit", path="a.py", old_string="x = 2\n", new_string="x = 3\ny = 4\n")
    assert path.read_bytes() == b"caf\xe9 = 1\r\nx = 3\r\ny = 4\r\n"
    assert path.stat().st_mode & 0o7777 == 0o751
    assert (found["lines_added"], found["lines_removed"]) == (2, 1)
    assert "+y = 4" in found["diff"]


def test_an_edit_must_be_unique_unless_all_are_meant(bench: Bench) -> None:
    path = bench.write("a.py", "x\ny\nx\n")
    code, message = bench.error("Edit", path="a.py", old_string="x", new_string="z")
    assert (code, "2 times (lines 1, 3)" in message) == ("not_unique", True)
    assert path.read_text() == "x\ny\nx\n"
    assert (
        bench.data("Edit", path="a.py", old_string="x", new_string="z", replace_all=True)["replacements"] == 2
    )
    assert path.read_text() == "z\ny\nz\n"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("none", "x", "was not found. Read the file again"),
        ("if a:\n    b", "x", "Its first line `if a:` is in line 1"),
        ("", "x", "old_string is empty"),
        ("b", "b", "are the same"),
    ],
)
def test_an_edit_that_cannot_be_made_says_why(bench: Bench, old: str, new: str, sentence: str) -> None:
    bench.write("a.py", "if a:\n\tb\n")
    assert sentence in bench.error("Edit", path="a.py", old_string=old, new_string=new)[1]


def test_an_edit_is_refused_when_the_file_changed_since_it_was_read(bench: Bench) -> None:
    path = bench.write("a.py", "x = 1\n")
    bench.call("Read", path="a.py")
    path.write_text("x = 1\n# mine\n")
    for tool, rest in {
        "Edit": {"old_string": "x", "new_string": "y"},
        "MultiEdit": {"edits": [{"old_string": "x", "new_string": "y"}]},
        "Write": {"content": "mine is better\n"},
    }.items():
        assert bench.error(tool, path="a.py", **rest)[0] == "changed"
    assert path.read_text() == "x = 1\n# mine\n"
    bench.call("Read", path="a.py")
    bench.data("Edit", path="a.py", old_string="x", new_string="y")


def test_several_edits_are_made_together_or_not_at_all(bench: Bench) -> None:
    path = bench.write("a.py", "a\nb\n")
    edits = [{"old_string": "a", "new_string": "b2"}, {"old_string": "none", "new_string": "c"}]
    code, message = bench.error("MultiEdit", path="a.py", edits=edits)
    assert (code, message.startswith("Edit 2 of 2: `a.py`")) == ("not_found", True)
    assert "Nothing was changed" in message
    assert path.read_text() == "a\nb\n"
    edits[1] = {"old_string": "b2\nb", "new_string": "c"}
    assert bench.data("MultiEdit", path="a.py", edits=edits)["edits"] == 2
    assert path.read_text() == "c\n"


@pytest.mark.slow
def test_a_reader_sees_the_old_or_the_new_file_and_never_a_part(bench: Bench) -> None:
    sizes = {200_000, 300_000}
    path = bench.write("a.txt", "x" * 200_000)
    seen: set[int] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.add(len(path.read_bytes()))

    reader = threading.Thread(target=look)
    reader.start()
    for i in range(100):
        bench.place.workspace.write("a.txt", b"x" * (300_000 if i % 2 else 200_000))
    done.set()
    reader.join()
    assert seen <= sizes


# ── Write ───────────────────────────────────────────────────────────────────────────────────────


def test_Write_makes_folders_and_says_what_it_did(bench: Bench) -> None:
    found = bench.data("Write", path="new/deep/a.txt", content="é\n")
    assert (found["operation"], found["bytes"], found["lines"]) == ("created", 3, 1)
    assert (bench.root / "new/deep/a.txt").read_text() == "é\n"
    assert bench.data("Write", path="new/deep/a.txt", content="")["operation"] == "overwritten"
    assert not list((bench.root / "new/deep").glob(f"{TEMPORARY}*"))


def test_Write_goes_through_a_link_that_stays_inside(bench: Bench) -> None:
    real = bench.write("real/a.txt", "old")
    (bench.root / "link.txt").symlink_to("real/a.txt")
    bench.data("Write", path="link.txt", content="new")
    assert (bench.root / "link.txt").is_symlink()
    assert real.read_text() == "new"


def test_a_hard_link_is_cut_not_written_through(bench: Bench) -> None:
    (bench.root / "a.txt").hardlink_to(bench.outside / "secret.txt")
    bench.data("Write", path="a.txt", content="mine")
    assert (bench.outside / "secret.txt").read_text() == "SECRET\n"


def test_read_only_files_and_folders_stay(bench: Bench) -> None:
    bench.write("a.txt", "keep").chmod(0o444)
    bench.write("folder/b.txt", "")
    assert bench.error("Write", path="a.txt", content="x")[0] == "read_only"
    assert bench.error("Write", path="folder", content="x")[0] == "not_a_file"
    assert bench.error("Write", path="folder/", content="x")[0] == "not_a_file"
    assert (bench.root / "a.txt").read_text() == "keep"


@pytest.mark.parametrize(
    "path", [".git/config", "sub/.git/hooks/pre-commit", ".GIT/config", "x/../.git/config", "link/config"]
)
def test_what_git_keeps_for_itself_is_not_edited(bench: Bench, path: str) -> None:
    bench.write(".git/config", "")
    (bench.root / "x").mkdir()
    (bench.root / "link").symlink_to(".git")
    assert bench.error("Write", path=path, content="[core]\nfsmonitor = evil\n")[0] == "refused"


def test_nothing_is_left_behind_when_writing_fails(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    bench.write("a.txt", "old")
    monkeypatch.setattr(os, "fsync", full)
    assert bench.error("Write", path="a.txt", content="new") == (
        "io",
        "`a.txt` was not written: the disk is full.",
    )
    assert (bench.root / "a.txt").read_text() == "old"
    assert [path.name for path in Path(bench.root).iterdir()] == ["a.txt"]
