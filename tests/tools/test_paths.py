"""No path leaves the workspace: not by its letters, not by links, not by races, not by what is no file."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refold.tools import safe_open
from refold.tools.safe_open import Opener, by_kernel, by_walking
from refold.tools.workspace import ToolRefused, Workspace
from tests.tools.place import Bench

OPENERS: dict[str, Opener] = {"kernel": by_kernel, "walking": by_walking}


@pytest.fixture(params=list(OPENERS))
def opener(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Opener:
    if request.param == "kernel" and safe_open.open_beneath is not by_kernel:
        pytest.skip("this kernel has no openat2, or a container forbids it")
    monkeypatch.setattr(safe_open, "open_beneath", OPENERS[request.param])
    return OPENERS[request.param]


@pytest.fixture
def maze(bench: Bench) -> Iterator[Bench]:
    """A workspace with every kind of trap in it. What is outside says SECRET, and one name there is HIDDEN."""
    outside, root = bench.outside, bench.root
    (outside / "HIDDEN").mkdir()
    (outside / "deep").mkdir()
    (outside / "deep" / "secret.txt").write_text("SECRET\n")
    bench.write("a.txt", "fine\n")
    bench.write("sub/b.txt", "fine\n")
    bench.write("sub/deeper/c.txt", "fine\n")
    links = {
        "out": str(outside), "out_rel": "../outside", "secret": str(outside / "secret.txt"),
        "sub/up": "..", "sub/upup": "../..", "chain": "sub/upup/outside", "self": "self", "loop_a": "loop_b",
        "loop_b": "loop_a", "root": "/", "proc": "/proc/self/root", "cwd": "/proc/self/cwd", "fd": "/proc/self/fd",
        "in": "sub/deeper", "in_file": "sub/b.txt", "abs_in": str(root / "sub"), "gone": "nowhere/at/all",
        "dots": "sub/../sub/./deeper/../../../outside", "sub/deeper/far": "../../../outside/deep",
        "stdin": "/dev/stdin", "new_out": "../outside/new.txt",
    }  # fmt: skip
    for name, target in links.items():
        (root / name).symlink_to(target)
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(root)  # the name of a socket may not be long
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
        yield bench


WORDS = [
    "..", "..", "..", ".", "", "sub", "deeper", "a.txt", "b.txt", "out", "out_rel", "secret", "up", "upup", "chain",
    "self", "loop_a", "root", "proc", "cwd", "fd", "in", "abs_in", "gone", "dots", "far", "stdin", "new_out", "pipe",
    "socket", "outside", "work", "secret.txt", "new.txt", "etc", "passwd", "environ", "0", "1", "3", "in_file",
    "\u2024\u2024", "%2e%2e", "..\\..", "~", "~root", "$HOME", "..;", "a\0b", "x" * 300, " ..", ".. ", "\ud800",
]  # fmt: skip


def attack(chance: random.Random, bench: Bench) -> str:
    start = chance.choice(
        ["", "", "", "", "/", "//", "./", str(bench.root) + "/", str(bench.outside) + "/", "/proc/self/", "/dev/",
         str(bench.root) + "/../", "/proc/self/root" + str(bench.outside) + "/", "../outside/", "file://"]
    )  # fmt: skip
    return start + "/".join(chance.choices(WORDS, k=chance.randint(1, 6)))


def state(folder: Path) -> list[tuple[str, int, bytes]]:
    return sorted(
        (str(path.relative_to(folder)), path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    )


def calls(path: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("Read", {"path": path}),
        ("LS", {"path": path}),
        ("Write", {"path": path, "content": "ESCAPED"}),
        ("Edit", {"path": path, "old_string": "SECRET", "new_string": "ESCAPED"}),
        ("MultiEdit", {"path": path, "edits": [{"old_string": "SECRET", "new_string": "ESCAPED"}]}),
        ("Glob", {"pattern": "*", "path": path}),
        ("Grep", {"pattern": "SECRET", "path": path}),
        ("Glob", {"pattern": path}),
        ("Grep", {"pattern": "SECRET", "glob": path}),
    ]


def attacked(maze: Bench, count: int, seed: int) -> int:
    """Make so many attacks; how many of them were refused."""
    chance = random.Random(seed)
    outside, home, refused = state(maze.outside), Path.cwd(), 0
    for number in range(count):
        path = attack(chance, maze)
        several = calls(path)
        # Listing by git takes a process each: a few of them are enough.
        for tool, arguments in several if number % 50 == 0 else several[:5]:
            envelope = maze.call(tool, **arguments)
            said = (str(envelope.data) + envelope.text).replace("'SECRET'", "")
            assert "SECRET" not in said.replace(path, ""), (tool, path)
            assert "HIDDEN" not in said, (tool, path)
            assert "root:x" not in said, (tool, path)
            refused += envelope.status == "error"
    assert state(maze.outside) == outside
    assert Path.cwd() == home
    return refused


@pytest.mark.sample(1)
def test_no_generated_path_leaves_the_workspace(maze: Bench, opener: Opener) -> None:
    assert attacked(maze, 60, seed=1) > 100


@pytest.mark.torture
def test_a_thousand_generated_paths_do_not_leave_the_workspace(maze: Bench, opener: Opener) -> None:
    assert attacked(maze, 1_000, seed=int(time.time())) > 2_000


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../outside/secret.txt", "outside_workspace"),
        ("sub/../../outside/secret.txt", "outside_workspace"),
        ("out/secret.txt", "outside_workspace"),
        ("out_rel/secret.txt", "outside_workspace"),
        ("secret", "outside_workspace"),
        ("chain/secret.txt", "outside_workspace"),
        ("dots/secret.txt", "outside_workspace"),
        ("sub/deeper/far/secret.txt", "outside_workspace"),
        ("/etc/passwd", "outside_workspace"),
        ("/proc/self/environ", "outside_workspace"),
        ("proc/etc/passwd", "outside_workspace"),
        ("fd/0", "outside_workspace"),
        ("abs_in/b.txt", "outside_workspace"),
        ("self", "not_found"),
        ("loop_a", "not_found"),
        ("gone", "not_found"),
        ("pipe", "not_a_file"),
        ("socket", "not_a_file"),
        ("x" * 300, "invalid_arguments"),
        ("a\0b", "invalid_arguments"),
        ("\ud800", "invalid_arguments"),
    ],
)
def test_each_trap_is_refused_with_its_reason(maze: Bench, opener: Opener, path: str, code: str) -> None:
    assert maze.error("Read", path=path)[0] == code
    if code != "not_found":
        assert maze.error("Write", path=path, content="x")[0] == code


@pytest.mark.parametrize(
    "path",
    [
        "in/c.txt",
        "in_file",
        "sub/../a.txt",
        "sub/up/a.txt",
        "./sub//b.txt",
        "sub/deeper/../b.txt",
        "in/../b.txt",
    ],
)
def test_links_and_dots_that_stay_inside_are_followed(maze: Bench, opener: Opener, path: str) -> None:
    assert "fine" in maze.data("Read", path=path)["content"]
    assert "fine" in maze.data("Read", path=f"{maze.root}/{path}")["content"]
    maze.data("Write", path=path, content="fine\n")


@pytest.mark.skipif(safe_open.open_beneath is not by_kernel, reason="this kernel has no openat2")
def test_the_kernel_and_the_walk_open_the_same(maze: Bench) -> None:
    chance = random.Random(3)
    folder = maze.place.workspace.descriptor
    same = 0
    for _ in range(2_000):
        path = "/".join(
            chance.choices([word for word in WORDS if word and "\0" not in word], k=chance.randint(1, 5))
        )
        found = [opened(opener, folder, path) for opener in OPENERS.values()]
        assert found[0] == found[1], path
        same += found[0] is not None
    assert same > 20


def opened(opener: Opener, folder: int, path: str) -> tuple[int, int] | None:
    try:
        descriptor = opener(folder, path, safe_open.PATH_ONLY)
    except (OSError, UnicodeError):
        return None
    status = os.fstat(descriptor)
    os.close(descriptor)
    return status.st_dev, status.st_ino


def test_a_device_is_not_opened() -> None:
    workspace = Workspace("/dev")
    try:
        with pytest.raises(ToolRefused, match="`zero` is a device"):
            workspace.open("zero")
        with pytest.raises(ToolRefused):
            workspace.write("zero", b"x")
    finally:
        workspace.close()


def test_proc_is_refused_even_where_the_workspace_is_everything() -> None:
    workspace = Workspace("/")
    try:
        for path in ("/proc/self/environ", "/proc/1/cmdline", "/sys/kernel/uevent_seqnum"):
            with pytest.raises(ToolRefused):
                workspace.open(path)
        with pytest.raises(ToolRefused):
            workspace.write("/proc/self/comm", b"x")
        with pytest.raises(ToolRefused):
            workspace.open("/dev/null")
    finally:
        workspace.close()


# ── races ───────────────────────────────────────────────────────────────────────────────────────

SWAPPER = """
import os, sys
os.chdir(sys.argv[1])
def put(link, target, place):
    os.symlink(target, link)
    os.rename(link, place)
parent = os.getppid()
print("ready", flush=True)
while os.getppid() == parent:
    os.rename("dir", "dir.real")
    os.symlink("../outside", "dir")
    os.unlink("dir")
    os.rename("dir.real", "dir")
    put("l1", "../outside/secret.txt", "file")
    with open("f1", "w") as f:
        f.write("fine")
    os.rename("f1", "file")
    put("l2", "../outside", "link")
    put("l2", "dir", "link")
"""


def raced(bench: Bench, count: int) -> int:
    """So many operations while another process swaps folders, files and links; how many of them succeeded."""
    bench.write("dir/secret.txt", "fine")
    bench.write("file", "fine")
    (bench.root / "link").symlink_to("dir")
    before, workspace, succeeded = state(bench.outside), bench.place.workspace, 0
    with subprocess.Popen(
        [sys.executable, "-S", "-c", SWAPPER, bench.root], stdout=subprocess.PIPE
    ) as swapper:
        try:
            assert swapper.stdout and swapper.stdout.readline() == b"ready\n"
            for number in range(count):
                name = ("dir/secret.txt", "file", "link/secret.txt", "dir/../link/secret.txt")[number % 4]
                try:
                    if number % 3 == 0:
                        workspace.write(name, b"fine")
                    elif number % 3 == 1:
                        with workspace.open(name) as file:
                            assert b"SECRET" not in file.read(), name
                    else:
                        folder = workspace.folder(name.rpartition("/")[0] or ".")
                        with os.scandir(folder) as found:
                            assert "HIDDEN" not in [entry.name for entry in found]
                        os.close(folder)
                    succeeded += 1
                except ToolRefused:
                    continue
        finally:
            swapper.kill()
    assert state(bench.outside) == before
    return succeeded


@pytest.mark.slow
def test_races_do_not_open_a_way_out(bench: Bench, opener: Opener) -> None:
    (bench.outside / "HIDDEN").mkdir()
    assert 50 < raced(bench, 400) < 400


@pytest.mark.parametrize("swapped", ["dir", "secret.txt"])
def test_what_becomes_a_link_after_it_was_looked_at_is_not_followed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    """The worst moment for the walk, every time."""
    look = safe_open._link

    def look_then_swap(name: str, folder: int) -> str | None:
        found = look(name, folder)
        if name == swapped and found is None:
            os.rename(name, "real", src_dir_fd=folder, dst_dir_fd=folder)
            target = bench.outside if swapped == "dir" else bench.outside / "secret.txt"
            os.symlink(target, name, dir_fd=folder)
        return found

    bench.write("dir/secret.txt", "fine")
    monkeypatch.setattr(safe_open, "open_beneath", by_walking)
    monkeypatch.setattr(safe_open, "_link", look_then_swap)
    with pytest.raises(ToolRefused):
        bench.place.workspace.open("dir/secret.txt")


@pytest.mark.torture
def test_ten_thousand_races_each_do_not_open_a_way_out(bench: Bench, opener: Opener) -> None:
    """With both ways to open: 20,000."""
    (bench.outside / "HIDDEN").mkdir()
    assert raced(bench, 10_000) > 1_000
