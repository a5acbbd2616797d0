"""Folders under the temporary directory go with their process, also where that is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from refold.tools import temp_folders

HOLDS = """
import sys, time
from refold.tools import temp_folders
class Owner: pass
owner = Owner()
path = temp_folders.folder_for(owner)
(path / "left").write_text("secret")
print(path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


def holder() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str]) -> None:
    process.communicate()


def test_what_a_killed_process_left_goes_with_the_next_one_and_what_lives_stays(temporary: Path) -> None:
    dead, left = holder()
    living, kept = holder()
    dead.kill()
    end(dead)
    assert (left / "left").exists()
    with temp_folders.scratch_folder() as own:
        assert sorted(temporary.iterdir()) == sorted([kept, own])
    assert (kept / "left").exists()
    end(living)
    assert not list(temporary.iterdir()), "a process that ends takes its folder along"


def test_links_and_files_of_such_names_are_left_alone_and_never_followed(
    temporary: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    (temporary / f"{temp_folders.SCRATCH_PREFIX}link").symlink_to(outside)
    (temporary / f"{temp_folders.SCRATCH_PREFIX}file").write_text("not a folder")
    inner = temporary / f"{temp_folders.SCRATCH_PREFIX}dead"
    inner.mkdir()
    (inner / "link").symlink_to(outside)
    with temp_folders.scratch_folder():
        pass
    assert (outside / "precious").read_text() == "mine"
    assert not inner.exists()
    assert sorted(path.name for path in temporary.iterdir()) == [
        f"{temp_folders.SCRATCH_PREFIX}file",
        f"{temp_folders.SCRATCH_PREFIX}link",
    ]


def test_folders_of_other_users_are_left_alone(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = temporary / f"{temp_folders.SCRATCH_PREFIX}other"
    other.mkdir()
    inode, fstat = other.stat().st_ino, os.fstat

    def of_another(descriptor: int) -> os.stat_result:
        about = fstat(descriptor)
        return os.stat_result((*about[:4], about.st_uid + 1, *about[5:])) if about.st_ino == inode else about

    monkeypatch.setattr(os, "fstat", of_another)
    with temp_folders.scratch_folder():
        pass
    assert other.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_that_ends_leaves_the_folder_of_its_parent(temporary: Path) -> None:
    code = HOLDS.replace(
        "sys.stdin.read()", "import os\nif os.fork() == 0: sys.exit()\nos.wait()\nprint(path.exists())"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[1] == "True"
    assert not list(temporary.iterdir())
