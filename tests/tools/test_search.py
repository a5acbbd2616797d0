"""Glob and Grep: which files are looked at, what patterns mean, and that ripgrep and Python agree."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from typing import Any

import pytest

from refold.tools import grep, listing
from refold.tools.listing import pattern
from refold.tools.workspace import ToolRefused
from tests.timing import alarm
from tests.tools.place import Bench

RIPGREP = pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep (rg) is not installed")


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("*.py", "a.py b/c.py", "a.pyc"),
        ("src/*.py", "src/a.py", "src/b/c.py a.py"),
        ("src/**/*.py", "src/a.py src/b/c.py", "a.py"),
        ("**/test_*.py", "test_a.py x/y/test_b.py", "a_test_.py"),
        ("./a?.[ch]", "ab.c", "a.c abb.c ab.d"),
        ("*.{ts,tsx}", "a.ts b/c.tsx", "a.t a.tsxx"),
        ("[!a]*", "b", "a"),
        ("a,b", "a,b", "a b"),
        ("docs/**", "docs/a docs/b/c", "doc/a"),
        ("a+(b).txt", "a+(b).txt", "aab.txt"),
        ("src/**/x/**/*.py", "src/x/a.py src/q/x/y/x/z/a.py", "src/a.py src/x a/x/b.py"),
        ("**/**/a*b*c", "abc x/a1b2c x/y/abbcc", "acb x/ab"),
        ("{a,b/**}/*.{c,h}", "a/x.c b/q/x.h b/x.c", "a/q/x.c x.c"),
        ("a/**/b", "a/b a/x/b a/x/y/b", "a/xb ab"),
        ("*a*a", "aa bab/xaya", "a ab"),
        ("[]x]", "] x", "a"),
    ],
)
def test_patterns_of_names(glob: str, yes: str, no: str) -> None:
    assert [name for name in yes.split() if not pattern(glob).match(name)] == []
    assert [name for name in no.split() if pattern(glob).match(name)] == []


def test_no_pattern_takes_long(bench: Bench) -> None:
    bench.write("deep/" * 30 + "a" * 200, "")
    with alarm(120):
        for glob in (
            "*a" * 100 + "b",
            "**/" * 50 + "*b",
            "/".join(["**", "*"] * 40) + "/b",
            "{a,b}" * 30,
            "?*" * 100 + "b",
            "[" * 400,
        ):
            bench.call("Glob", pattern=glob)


@pytest.mark.parametrize("glob", ["{a", "a}", "[z-a]", "{", "[", "\\", "**", ""])
def test_odd_patterns_match_something_or_are_refused(glob: str) -> None:
    try:
        pattern(glob).match("a")
    except ToolRefused as refused:
        assert "is no pattern" in refused.message


def git(bench: Bench, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@x", *words],
        cwd=bench.root,
        check=True,
        capture_output=True,
    )


def test_what_git_ignores_is_left_out_unless_it_is_named(bench: Bench) -> None:
    git(bench, "init", "-q")
    bench.write(".gitignore", "build/\n*.log\n")
    for name in ("a.py", "b/c.py", "build/d.py", "e.log", ".github/f.py"):
        bench.write(name, "needle\n")
    assert bench.data("Glob", pattern="*.py")["paths"] == [".github/f.py", "a.py", "b/c.py"]
    assert bench.data("Grep", pattern="needle")["total_files"] == 3
    assert bench.data("Glob", pattern="*.py", path="build")["paths"] == ["build/d.py"]
    assert bench.data("Grep", pattern="needle", path="e.log")["matches"] == ["e.log:1:needle"]


def test_without_git_folders_that_programs_fill_are_left_out(bench: Bench) -> None:
    for name in ("a.py", "node_modules/x/b.py", "b/c.py", "venv/d.py"):
        bench.write(name, "needle\n")
    assert bench.data("Glob", pattern="*.py")["paths"] == ["a.py", "b/c.py"]
    assert bench.data("Glob", pattern="*.py", path="b")["paths"] == ["b/c.py"]


def test_a_repository_cannot_make_us_run_its_programs(bench: Bench) -> None:
    git(bench, "init", "-q")
    bench.write("a.py", "x\n")
    trap = bench.root / "trap.sh"
    trap.write_text("#!/bin/sh\ntouch sprung\n")
    trap.chmod(0o755)
    git(bench, "config", "core.fsmonitor", str(trap))
    assert bench.data("Glob", pattern="*.py")["paths"] == ["a.py"]
    assert not (bench.root / "sprung").exists()


def test_Grep_gives_file_line_and_text_and_counts_all(bench: Bench) -> None:
    bench.write("b.txt", "no\nneedle two\n")
    bench.write("a.txt", "".join(f"needle {i}\n" for i in range(300)))
    found = bench.data("Grep", pattern=r"needle \w+")
    assert found["matches"][0] == "a.txt:1:needle 0"
    assert len(found["matches"]) == grep.MAX_MATCHES
    assert (found["total_matches"], found["total_files"], found["truncated"]) == (301, 2, True)
    assert bench.data("Grep", pattern="needle", glob="b.*")["matches"] == ["b.txt:2:needle two"]
    assert "No match in 2 files" in bench.call("Grep", pattern="absent").text


@pytest.mark.parametrize("wanted", ["(", "*", "[[:alpha:]]", "(?P<a", "a{2,1}", "a\0", "\ud800"])
def test_a_pattern_that_is_none_gets_a_sentence(bench: Bench, wanted: str) -> None:
    assert bench.error("Grep", pattern=wanted)[0] == "invalid_arguments"


def test_links_pipes_and_files_that_are_no_text_are_not_searched(bench: Bench) -> None:
    bench.write("a.txt", "SECRET here\n")
    bench.write("b.bin", b"\0SECRET\n")
    (bench.root / "out").symlink_to(bench.outside)
    (bench.root / "secret.txt").symlink_to(bench.outside / "secret.txt")
    assert bench.data("Grep", pattern="SECRET")["matches"] == ["a.txt:1:SECRET here"]
    assert bench.error("Grep", pattern="SECRET", path="out")[0] == "outside_workspace"
    assert bench.error("Grep", pattern="SECRET", path="secret.txt")[0] == "outside_workspace"


def test_a_pattern_that_never_ends_is_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grep, "SEARCH_SECONDS", 0.5)
    monkeypatch.setattr(grep, "commands", python_only)
    bench.write("a.txt", "a" * 40 + "b\n")
    found = bench.data("Grep", pattern="^(a+)+$")
    assert (found["timed_out"], found["truncated"]) == (True, True)


_commands = grep.commands


def python_only(wanted: str) -> list[list[str]]:
    return [_commands(wanted)[-1]]


def ripgrep_only(wanted: str) -> list[list[str]]:
    first = _commands(wanted)[0]
    assert first[0] != sys.executable, wanted
    return [first]


PATTERNS = [
    "def ", r"def \w+\(", "^import", r"x{2,3}", "(?i)NEEDLE", "a|b$", r"\d+\.\d+", "[a-z_]+ = ", "[^a-z ]", r"\bfoo\b", "",
    "^$", ".", r"(foo|bar)+", r"\s$", "é", "日本", r"\w+", r"foo\s+bar", "a-b", "x.y", r"\$\{", '"[^"]+"',
]  # fmt: skip
WORDS = ["def foo(x):", "import os", "needle", "Needle = 1.5", "foo bar", "", "  ", "xx xxx", "é日本", "a-b", "x.y\r", "\t", '"q"', "${v}", "b", "\ufeffdef"]  # fmt: skip


@RIPGREP
def test_ripgrep_and_python_give_the_same_answer(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(7)
    for i in range(12):
        rows = [" ".join(chance.choices(WORDS, k=chance.randint(0, 4))) for _ in range(chance.randint(0, 40))]
        bench.write(f"d{i % 3}/f{i}.txt", "\n".join(rows) + "\n" * chance.randint(0, 2))

    def answer(commands: Any, wanted: str) -> dict[str, Any]:
        monkeypatch.setattr(grep, "commands", commands)
        return bench.data("Grep", pattern=wanted)

    for wanted in PATTERNS:
        assert answer(ripgrep_only, wanted) == answer(python_only, wanted), wanted
    # In bytes that are no text at all, `.` finds something for Python only; words are found by both.
    bench.write("latin.txt", b"caf\xe9 needle\nfoo\n")
    assert answer(ripgrep_only, "needle") == answer(python_only, "needle")


@pytest.mark.parametrize(
    "wanted", [r"\<foo", "(?=a)", r"(a)\1", "interface{}", "[a&&b]", r"\pL", r"\x41", "(?x)a b", "[[]"]
)
def test_patterns_that_ripgrep_reads_otherwise_are_not_given_to_it(wanted: str) -> None:
    assert len(grep.commands(wanted)) == 1


def test_a_listing_has_an_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_LISTED_FILES", 10)
    monkeypatch.setattr(listing, "DEEPEST", 3)
    bench.write("a/b/c/d/e/f.txt", "")
    assert listing.files(bench.place.workspace) == []
    for i in range(30):
        bench.write(f"g/{i:02}.txt", "")
    assert len(listing.files(bench.place.workspace)) == 10
