"""Snapshots of the workspace, with real git: everything comes back, and nothing of the user's moves."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from refold.agent import snapshots as module
from refold.agent.snapshots import Bounds, Snapshots

IDENTITY = ("-c", "user.name=x", "-c", "user.email=x@x", "-c", "protocol.file.allow=always")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *IDENTITY, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Project:
    def __init__(self, folder: Path, *, repository: bool, inside: str = ".") -> None:
        self.top = folder / "project"
        self.root = self.top / inside
        self.root.mkdir(parents=True)
        self.store = folder / "store"
        if repository:
            git(self.top, "init", "-q", "-b", "main")
        taken = Snapshots.of(self.root, self.store)
        assert taken is not None
        self.snapshots = taken

    def again(self) -> None:
        """As another process would see it."""
        taken = Snapshots.of(self.root, self.store)
        assert taken is not None
        self.snapshots = taken

    def take(self, request: str = "r") -> str:
        id = self.snapshots.take("s1", request)
        assert id is not None
        return id

    def write(self, name: str, data: str | bytes = "x\n", mode: int | None = None) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        if mode is not None:
            path.chmod(mode)
        return path

    def files(self) -> dict[str, Any]:
        """Everything in the workspace but what git keeps for itself."""
        found: dict[str, Any] = {}
        for path in sorted(self.root.rglob("*")):
            if ".git" in path.relative_to(self.root).parts or (path.is_dir() and not path.is_symlink()):
                continue
            runs = bool(path.lstat().st_mode & 0o100)
            found[str(path.relative_to(self.root))] = (
                str(path.readlink()) if path.is_symlink() else (path.read_bytes(), runs)
            )
        return found

    def users(self) -> dict[str, str]:
        """What is the user's in a repository."""
        own = ["status --porcelain=v2 --branch", "for-each-ref refs/heads refs/tags refs/stash refs/remotes"]
        own += ["stash list", "reflog --all", "config --local --list", "ls-files --stage"]
        return {words: git(self.top, "--no-optional-locks", *words.split()) for words in own} | {
            "index": (self.top / ".git/index").read_bytes().hex()
            if (self.top / ".git/index").exists()
            else ""
        }


@pytest.fixture(params=["repository", "subfolder", "no repository"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    inside = "sub/folder" if request.param == "subfolder" else "."
    return Project(tmp_path, repository=request.param != "no repository", inside=inside)


@pytest.fixture
def repository(tmp_path: Path) -> Project:
    return Project(tmp_path, repository=True)


@pytest.mark.sample(1)
def test_every_point_comes_back(project: Project) -> None:
    points: list[tuple[str, dict[str, Any]]] = []
    chance = random.Random(5)
    for step in range(5):
        for _ in range(4):
            name = chance.choice(["a.txt", "b/c.txt", "b/d/e.bin", "f g.txt", "é.txt", "-n", "x*y", "h/i\nj"])
            path = project.root / name
            if path.exists() and chance.random() < 0.4:
                path.unlink()
            elif not any(parent.is_file() for parent in path.parents) and not path.is_dir():
                project.write(name, chance.randbytes(50), mode=chance.choice([0o644, 0o755]))
        points.append((project.take(str(step)), project.files()))
    chance.shuffle(points)
    for id, files in points:
        project.again()
        project.snapshots.restore(id)
        assert project.files() == files
    assert project.snapshots.restore(points[-1][0]) == ((), (), ())


def test_bytes_links_and_modes_come_back(project: Project) -> None:
    project.write("crlf.txt", b"a\r\nb\r\n")
    project.write(".gitattributes", "* text=auto eol=lf\n*.bin filter=missing\n*.id ident\n")
    project.write("raw.bin", bytes(range(256)))
    project.write("v.id", "$Id$\n")
    project.write("run.sh", "#!/bin/sh\n", mode=0o755)
    project.write("private.txt", "p\n", mode=0o600)
    (project.root / "link").symlink_to("run.sh")
    (project.root / "broken").symlink_to("nowhere")
    (project.root / "out").symlink_to("/etc")
    before, id = project.files(), project.take()
    for name in before:
        (project.root / name).unlink()
        project.write(name, "other\n", mode=0o600)
    project.snapshots.restore(id)
    assert project.files() == before
    assert (project.root / "private.txt").stat().st_mode & 0o777 == 0o600
    assert (project.root / "run.sh").stat().st_mode & 0o777 == 0o700


def test_a_file_becomes_a_folder_and_back(project: Project) -> None:
    project.write("a", "file\n")
    project.write("b/c", "inner\n")
    first, before = project.take(), project.files()
    (project.root / "a").unlink()
    project.write("a/x/y", "deep\n")
    shutil.rmtree(project.root / "b")
    project.write("b", "file now\n")
    second, after = project.take(), project.files()
    project.snapshots.restore(first)
    assert project.files() == before
    project.snapshots.restore(second)
    assert project.files() == after


def test_what_is_ignored_is_never_touched(project: Project) -> None:
    project.write(".gitignore", "build/\n*.log\n")
    project.write("a.txt", "one\n")
    id = project.take()
    project.write("build/out.o", "made\n")
    project.write("x.log", "log\n")
    project.write("a.txt", "two\n")
    project.write("new.txt", "new\n")
    restored = project.snapshots.restore(id)
    assert (restored.changed, restored.removed) == (("a.txt",), ("new.txt",))
    assert (project.root / "build/out.o").read_text() == "made\n"
    assert (project.root / "x.log").read_text() == "log\n"


def test_a_file_that_was_ignored_then_is_not_removed_now(project: Project) -> None:
    """It was there, and the snapshot does not hold it."""
    project.write(".gitignore", "secret.txt\nbuild/\n")
    project.write("secret.txt", "precious\n")
    project.write("build/deep/out.o", "precious\n")
    id = project.take()
    project.write(".gitignore", "")
    project.write("new.txt")
    restored = project.snapshots.restore(id)
    assert (project.root / "secret.txt").read_text() == "precious\n"
    assert (project.root / "build/deep/out.o").read_text() == "precious\n"
    assert restored.removed == ("new.txt",)
    assert restored.kept == ("build/deep/out.o", "secret.txt")


def test_what_appeared_ignored_between_two_equal_points_is_not_removed(project: Project) -> None:
    project.write(".gitignore", "build/\n")
    first = project.take()
    project.write("build/out.o", "precious\n")
    second = project.take()
    assert first != second, "the same files, but not the same folder"
    project.write(".gitignore", "")
    project.snapshots.restore(second)
    assert (project.root / "build/out.o").exists()


def test_what_is_ignored_now_is_not_overwritten(project: Project) -> None:
    project.write("a.txt", "then\n")
    project.write("b", "then\n")
    id = project.take()
    project.write(".gitignore", "a.txt\nb/\n")
    project.write("a.txt", "now\n")
    (project.root / "b").unlink()
    project.write("b/c", "now\n")
    assert "a.txt" in project.files()
    restored = project.snapshots.restore(id)
    if "a.txt" in restored.kept:  # our index does not know it any more
        assert (project.root / "a.txt").read_text() == "now\n"
    assert (project.root / "b/c").read_text() == "now\n"
    assert "b" in restored.kept


def test_the_user_notices_nothing(repository: Project) -> None:
    p = repository
    p.write("a.txt", "one\n")
    p.write("gone.txt", "one\n")
    p.write("kept.log", "forced\n")
    p.write(".gitignore", "*.log\n")
    git(p.root, "add", "-f", ".")
    git(p.root, "commit", "-qm", "first")
    git(p.root, "branch", "other")
    p.write("stashed.txt", "s\n")
    git(p.root, "stash", "-u")
    # A dirty index: staged, changed again, removed, renamed, intended.
    p.write("a.txt", "staged\n")
    git(p.root, "add", "a.txt")
    p.write("a.txt", "and changed\n")
    (p.root / "gone.txt").unlink()
    p.write("intended.txt", "i\n")
    git(p.root, "add", "-N", "intended.txt")
    p.write("untracked.txt", "u\n")
    users = p.users()
    id, files = p.take(), p.files()
    assert p.users() == users
    p.write("a.txt", "later\n")
    p.write("gone.txt", "back\n")
    p.write("kept.log", "changed though ignored\n")
    (p.root / "untracked.txt").unlink()
    p.take()
    p.snapshots.restore(id)
    assert p.files() == files
    assert p.users() == users
    assert git(p.root, "for-each-ref", "--format=%(refname)", "refs/refold") == "refs/refold/s1\n"


def test_a_conflict_stays_a_conflict(repository: Project) -> None:
    p = repository
    p.write("a.txt", "base\n")
    git(p.root, "add", ".")
    git(p.root, "commit", "-qm", "base")
    git(p.root, "checkout", "-qb", "theirs")
    p.write("a.txt", "theirs\n")
    git(p.root, "commit", "-qam", "theirs")
    git(p.root, "checkout", "-q", "main")
    p.write("a.txt", "ours\n")
    git(p.root, "commit", "-qam", "ours")
    subprocess.run(["git", *IDENTITY, "merge", "theirs"], cwd=p.root, capture_output=True, check=False)
    users, files, id = p.users(), p.files(), p.take()
    assert "UU" in git(p.root, "status", "--short")
    p.write("a.txt", "resolved\n")
    p.snapshots.restore(id)
    assert (p.files(), p.users()) == (files, users)


def test_an_empty_repository_and_an_empty_folder(project: Project) -> None:
    id = project.take()
    project.write("a.txt")
    assert project.snapshots.restore(id).removed == ("a.txt",)
    assert project.files() == {}


def test_submodules_and_nested_repositories_are_left_alone(repository: Project, tmp_path: Path) -> None:
    p = repository
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q")
    (library / "l.txt").write_text("l\n")
    git(library, "add", ".")
    git(library, "commit", "-qm", "l")
    git(p.root, "submodule", "add", "-q", str(library), "module")
    git(p.root, "commit", "-qm", "module")
    git(p.root, "init", "-q", "nested")  # without a commit
    p.write("nested/n.txt", "n\n")
    p.write("a.txt", "one\n")
    users, id = p.users(), p.take()
    p.write("module/l.txt", "changed\n")
    p.write("nested/n.txt", "changed\n")
    p.write("a.txt", "two\n")
    assert p.snapshots.restore(id).changed == ("a.txt",)
    assert (p.root / "module/l.txt").read_text() == "changed\n"
    assert (p.root / "nested/n.txt").read_text() == "changed\n"
    git(p.root / "module", "checkout", "-q", ".")
    assert p.users() == users


def test_a_linked_worktree_and_another_object_format(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    git(top, "init", "-q", "--object-format=sha256")
    (top / "a.txt").write_text("one\n")
    git(top, "add", ".")
    git(top, "commit", "-qm", "a")
    git(top, "worktree", "add", "-q", str(tmp_path / "linked"))
    snapshots = Snapshots.of(tmp_path / "linked", tmp_path / "store")
    assert snapshots is not None
    id = snapshots.take("s")
    assert id is not None and len(id) == 64
    (tmp_path / "linked" / "a.txt").write_text("two\n")
    snapshots.restore(id)
    assert (tmp_path / "linked" / "a.txt").read_text() == "one\n"


def test_snapshots_survive_the_users_garbage_collection(repository: Project) -> None:
    p = repository
    p.write("a.txt", "only in a snapshot\n")
    first = p.take()
    p.write("a.txt", "later\n")
    p.take()
    git(p.root, "reflog", "expire", "--expire=now", "--all")
    git(p.root, "gc", "-q", "--prune=now")
    p.again()
    p.take()
    p.snapshots.restore(first)
    assert (p.root / "a.txt").read_text() == "only in a snapshot\n"


def test_nothing_new_is_the_same_snapshot_and_writes_nothing(project: Project) -> None:
    for i in range(200):
        project.write(f"d{i % 10}/f{i}.txt", f"{i}\n")
    id = project.take("1")
    before = sum(1 for _ in project.top.parent.rglob("*"))
    assert project.take("2") == id
    assert sum(1 for _ in project.top.parent.rglob("*")) == before


def test_no_program_of_a_repository_runs(repository: Project) -> None:
    p = repository
    trap = p.write("trap.sh", f"#!/bin/sh\ntouch {p.top.parent}/sprung\ncat\n", mode=0o755)
    for name in (
        "core.fsmonitor",
        "filter.evil.clean",
        "filter.evil.smudge",
        "core.sshCommand",
        "diff.external",
    ):
        git(p.root, "config", name, str(trap))
    for hook in ("post-index-change", "reference-transaction", "post-checkout", "pre-commit"):
        p.write(f".git/hooks/{hook}", trap.read_bytes(), mode=0o755)
    p.write(".gitattributes", "*.txt filter=evil diff=evil\n")
    p.write("a.txt", "one\n")
    id = p.take()
    p.write("a.txt", "two\n")
    p.snapshots.restore(id)
    assert (p.root / "a.txt").read_text() == "one\n"
    assert not (p.top.parent / "sprung").exists()


# ── odd and huge ────────────────────────────────────────────────────────────────────────────────


def test_odd_files_do_not_disturb(project: Project) -> None:
    project.write("a.txt", "one\n")
    project.write("was_file", "w\n")
    os.mkfifo(project.root / "pipe")
    (project.root / "empty").mkdir()
    project.write(os.fsdecode(b"latin-\xe9.txt"), "bytes\n")
    id = project.take()
    (project.root / "was_file").unlink()
    os.mkfifo(project.root / "was_file")
    project.take()
    (project.root / os.fsdecode(b"latin-\xe9.txt")).write_text("changed\n")
    restored = project.snapshots.restore(id)
    assert (project.root / os.fsdecode(b"latin-\xe9.txt")).read_text() == "bytes\n"
    assert "was_file" in restored.kept, "a pipe stands there now"
    assert (project.root / "pipe").is_fifo()


def test_large_files_are_left_out_and_left_alone(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 1_000)
    project.write("big.bin", b"x" * 2_000)
    project.write("grows.bin", b"x" * 10)
    id = project.take()
    project.write("grows.bin", b"y" * 2_000)
    project.take()
    (project.root / "big.bin").write_bytes(b"z" * 5)
    restored = project.snapshots.restore(id)
    assert (project.root / "big.bin").read_bytes() == b"z" * 5, "it was there, and is not recorded"
    assert (project.root / "grows.bin").read_bytes() == b"y" * 2_000
    assert restored.kept == ("big.bin", "grows.bin")


def test_a_workspace_that_is_too_large_is_told_once(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.snapshots._bounds = Bounds(5, 10_000)
    for i in range(9):
        project.write(f"{i}.txt")
    with pytest.raises(OSError, match="too large for snapshots"):
        project.take()
    assert project.snapshots.take("s1") is None


def test_a_list_that_is_too_long_means_that_nothing_is_removed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_UNRECORDED_NAMES", 2)
    project.write(".gitignore", "*.log\n")
    for i in range(5):
        project.write(f"{i}.log")
    id = project.take()
    project.write("new.txt")
    assert project.snapshots.restore(id) == ((), (), ("new.txt",))


def test_what_a_killed_git_left_locked_disturbs_nobody(project: Project) -> None:
    id = project.take()
    own = next(project.store.iterdir())
    for lock in (own / "index.lock", own / "restoring.lock"):
        lock.write_bytes(b"")
    if (project.top / ".git").exists():
        (project.top / ".git/refs/refold/s1.lock").write_bytes(b"")
    project.write("a.txt")
    assert project.take() != id
    assert project.snapshots.restore(id).removed == ("a.txt",)


def test_only_snapshots_are_restored(repository: Project) -> None:
    p = repository
    p.write("a.txt", "one\n")
    git(p.root, "add", ".")
    git(p.root, "commit", "-qm", "refold something")
    commit = git(p.root, "rev-parse", "HEAD").strip()
    p.write("a.txt", "mine\n")
    for id in (commit, "0" * 40, "HEAD", "--help", "refs/refold/s1", ""):
        with pytest.raises(OSError):
            p.snapshots.restore(id)
    assert (p.root / "a.txt").read_text() == "mine\n"


def test_the_folder_of_snapshots_may_lie_in_the_workspace(tmp_path: Path) -> None:
    root = tmp_path / "home"
    root.mkdir()
    snapshots = Snapshots.of(root, root / ".local/share/refold/snapshots")
    assert snapshots is not None
    (root / "a.txt").write_text("one\n")
    first = snapshots.take("s")
    assert snapshots.take("s") == first
    (root / "a.txt").write_text("two\n")
    assert first is not None
    assert snapshots.restore(first) == (("a.txt",), (), ())


def test_without_git_there_are_no_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Snapshots.of(tmp_path, tmp_path / "store") is None
