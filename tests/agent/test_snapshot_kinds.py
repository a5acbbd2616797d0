"""Restoring where files, folders and links took each other's places."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from refold.agent.snapshots import Snapshots

NAMES = ("a", "b", "c")
TARGETS = (
    "a",
    "b",
    "../a",
    "c/a",
    ".",
    "nowhere",
    "../outside",
    "../../outside",
    "/etc",
    "../outside/secret.txt",
)


def grown(root: Path, dice: random.Random, depth: int = 0) -> None:
    """Put something else under every name."""
    for name in NAMES:
        path = root / name
        what = dice.choice(("same", "file", "folder", "folder", "link", "nothing"))
        if what == "same":
            if path.is_dir() and not path.is_symlink() and depth < 3:
                grown(path, dice, depth + 1)
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        if what == "file":
            path.write_text(dice.choice(("one", "two\n", "")))
            path.chmod(dice.choice((0o644, 0o755)))
        elif what == "link":
            path.symlink_to(dice.choice(TARGETS))
        elif what == "folder" and depth < 3:
            path.mkdir()
            grown(path, dice, depth + 1)


def tree(root: Path) -> dict[str, str]:
    """All that a snapshot records: contents, executable bits, targets of links."""
    found: dict[str, str] = {}
    for path in root.iterdir():
        if path.is_symlink():
            found[path.name] = f"-> {path.readlink()}"
        elif path.is_dir():
            inner = {} if path.name == ".git" else tree(path)
            found |= {f"{path.name}/{name}": text for name, text in inner.items()}
        else:
            found[path.name] = f"{path.stat().st_mode & 0o100} {path.read_text()}"
    return found


def play(folder: Path, seed: int, restores: int, *, repository: bool) -> None:
    dice = random.Random(seed)
    root, outside = folder / "work", folder / "outside"
    for each in (root, outside):
        each.mkdir()
    (outside / "secret.txt").write_text("SECRET")
    (outside / "a").write_text("theirs")
    if repository:
        subprocess.run(["git", "init", "-q", root], check=True)
    snapshots = Snapshots.of(root, folder / "data")
    assert snapshots is not None
    taken: list[tuple[str, dict[str, str]]] = []
    for turn in range(restores):
        grown(root, dice)
        id = snapshots.take("session", f"r{turn}")
        assert id is not None
        taken.append((id, tree(root)))
        if dice.random() < 0.5:
            grown(root, dice)
        wanted, then = dice.choice(taken)
        restored = snapshots.restore(wanted)
        assert restored.kept == ()
        assert tree(root) == then
    assert tree(outside) == {"secret.txt": "0 SECRET", "a": "0 theirs"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("repository", [True, False], ids=["repository", "folder"])
def test_restoring_is_exact_where_things_change_their_kind(tmp_path: Path, repository: bool) -> None:
    play(tmp_path, 1, 15, repository=repository)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_two_hundred_restores_are_exact(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed + 100, 50, repository=seed % 2 == 0)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(4, 24))
def test_a_thousand_restores_are_exact(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed + 100, 50, repository=seed % 2 == 0)
