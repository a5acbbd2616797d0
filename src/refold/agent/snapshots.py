"""The workspace as it was before each request, and the way back.

    snapshots = Snapshots.of(root, data_folder() / "snapshots")     # None: there is no git program
    id = snapshots.take(session_id, request_id)
    restored = snapshots.restore(id)

A snapshot is a commit that no branch knows; one ref of ours (`refs/refold/SESSION`) keeps it from being
collected. What git ignores, nested repositories and very large files are not recorded and never touched; a
snapshot lists them, so that nothing is removed later that was there and is not recorded.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from refold.agent.private_git import PrivateGit, Repository
from refold.text.plural import counted
from refold.tools.safe_open import PATH_ONLY, open_beneath
from refold.tools.sandbox import is_folder

MAX_FILE_BYTES = 20_000_000
"""Size limit of a recorded file."""
MAX_UNRECORDED_NAMES = 50_000
"""Maximum number of unrecorded names in a snapshot; with more, restoring it deletes nothing."""
_SUBJECT = "refold snapshot"
_ANYTHING = "/"


class Bounds(NamedTuple):
    """Limits of what one snapshot may add."""

    files: int
    bytes: int


IN_REPOSITORY = Bounds(100_000, 2_000_000_000)
ELSEWHERE = Bounds(20_000, 200_000_000)
"""Limits outside version control, where a folder may be anything: a home directory, a disk."""


class Restored(NamedTuple):
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    """Files that were not restored, because something unrecorded is in their place."""


class _State(NamedTuple):
    tree: str
    unrecorded: tuple[str, ...]
    """Unrecorded files; a folder ends with `/`."""


class Snapshots:
    def __init__(self, root: Path, folder: Path, repository: Repository | None) -> None:
        self.root = root
        own = folder.resolve() / hashlib.sha256(os.fsencode(root)).hexdigest()[:20]
        self._git = PrivateGit(root, own, repository)
        self._bounds = IN_REPOSITORY if repository else ELSEWHERE
        self._last: dict[str, tuple[_State, str]] = {}
        """Ref → what was recorded last, and its id."""
        self._too_large = False
        self._failure = ""

    @classmethod
    def of(cls, root: str | Path, folder: Path) -> Snapshots | None:
        """Snapshots of a workspace, kept under `folder`; None if git is not installed."""
        if shutil.which("git") is None:
            return None
        resolved = Path(root).resolve()
        return cls(resolved, folder, Repository.around(resolved))

    # ── taking ──────────────────────────────────────────────────────────────────────────────────

    def take(self, session: str, request: str = "") -> str | None:
        """Records the workspace and returns the id of the snapshot, or of the last one if nothing changed.
        Raises `OSError` on failure; returns None while the same reason persists."""
        if self._too_large:
            return None
        try:
            with self._git.alone():
                id = self._commit(session, request)
        except OSError as error:
            if str(error) == self._failure:
                return None
            self._failure = str(error)
            raise
        self._failure = ""
        return id

    def _commit(self, session: str, request: str) -> str:
        ref = "refs/refold/" + (re.sub(r"[^\w-]+", "-", session, flags=re.A).strip("-") or "session")
        state = self._record()
        last = self._last.get(ref)
        if last and last[0] == state:
            return last[1]
        parent = last[1] if last else self._tip(ref)
        message = "\n\n".join((_SUBJECT, f"request {request}", "\n".join(map(_quoted, state.unrecorded))))
        words = ("commit-tree", state.tree, *(("-p", parent) if parent else ()))
        id = self._git(*words, stdin=message).strip()
        self._git.keep(ref, id)
        self._last[ref] = (state, id)
        return id

    def _tip(self, ref: str) -> str:
        with suppress(OSError):
            return self._git.of_user("rev-parse", "--verify", "--quiet", ref).strip()
        return ""

    def _record(self) -> _State:
        """Updates the private index from the workspace."""
        git = self._git
        found = git.names("--others", "--modified", "--exclude-standard")
        names, left, gone = self._sorted_out(dict.fromkeys([*found, *git.tracked_though_ignored()]))
        if left or gone:
            git("update-index", "-z", "--force-remove", "--stdin", stdin=_joined([*left, *gone]))
        if names:
            git("update-index", "-z", "--add", "--remove", "--replace", "--stdin", stdin=_joined(names))
        ignored = git.names("--others", "--ignored", "--exclude-standard", "--directory")
        nested = [name for name in found if name.endswith("/")]
        others = [name for name in left if not is_folder(self.root / name)]
        beside = sorted({*ignored, *nested, *others})
        return _State(
            git("write-tree").strip(), tuple(beside) if len(beside) <= MAX_UNRECORDED_NAMES else (_ANYTHING,)
        )

    def _sorted_out(self, names: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
        """Names that are recorded; those that are something else, too large or unreadable; those that are
        gone. Nothing behind a link is recorded there."""
        kept: list[str] = []
        left: list[str] = []
        gone: list[str] = []
        size = 0

        @cache
        def is_real(folder: str) -> bool:
            return not folder or (is_real(folder.rpartition("/")[0]) and is_folder(self.root / folder))

        for name in names:
            status = _status(self.root / name) if is_real(name.rstrip("/").rpartition("/")[0]) else None
            if status is None:
                gone.append(name)
            elif self._is_recorded(name, status):
                kept.append(name)
                size += status.st_size
            elif not name.endswith("/"):
                left.append(name)
        if len(kept) > self._bounds.files or size > self._bounds.bytes:
            self._too_large = True
            raise OSError(
                f"the folder is too large for snapshots ({counted(len(kept), 'file')}, {size:,} bytes)"
            )
        return kept, left, gone

    def _is_recorded(self, name: str, status: os.stat_result) -> bool:
        if ".git" in name.casefold().split("/"):
            return False
        if stat.S_ISLNK(status.st_mode):
            return True
        regular = stat.S_ISREG(status.st_mode) and status.st_size <= MAX_FILE_BYTES
        return regular and os.access(self.root / name, os.R_OK)

    # ── restoring ───────────────────────────────────────────────────────────────────────────────

    def restore(self, id: str) -> Restored:
        """Restores all recorded files. A file is deleted only if the snapshot knows that it did not exist;
        unrecorded files are left alone. Raises `OSError` on failure."""
        with self._git.alone():
            then = self._read(id)
            there = frozenset(then.unrecorded)
            changes = self._changes(self._record().tree, then.tree)
            removed, kept = self._remove([path for path, status in changes.items() if status == "D"], there)
            wanted = {path: self._is_free(path, status) for path, status in changes.items() if status != "D"}
            free = [path for path, is_free in wanted.items() if is_free]
            kept += [path for path, is_free in wanted.items() if not is_free]
            self._check_out(then.tree, free)
            return Restored(tuple(free), tuple(removed), tuple(kept))

    def difference(self, id: str) -> str:
        """Changes since a snapshot, as a unified diff; raises `OSError` on failure."""
        with self._git.alone():
            options = ("-r", "-p", "--no-renames", "--no-ext-diff", "--no-textconv", "--relative")
            return self._git("diff-tree", *options, self._read(id).tree, self._record().tree)

    def _read(self, id: str) -> _State:
        if not re.fullmatch(r"[0-9a-f]{40,64}", id):
            raise OSError(f"{id!r} is not a snapshot")
        head, _, message = self._git("cat-file", "commit", id).partition("\n\n")
        subject, _, rest = message.partition("\n\n")
        if subject != _SUBJECT:
            raise OSError(f"{id} is a commit, not a snapshot")
        rows = rest.partition("\n\n")[2].split("\n")
        return _State(head.split()[1], tuple(_unquoted(row) for row in rows if row))

    def _changes(self, now: str, then: str) -> dict[str, str]:
        """The necessary changes: git status by path relative to the workspace."""
        options = ("-r", "-z", "--no-renames", "--name-status", "--relative")
        parts = self._git("diff-tree", *options, now, then).split("\0")
        return dict(zip(parts[1::2], parts[::2], strict=False))

    def _remove(self, paths: Sequence[str], unrecorded: frozenset[str]) -> tuple[list[str], list[str]]:
        """Deletes files that did not exist then."""
        folders = tuple(name for name in unrecorded if name.endswith("/"))
        anything = _ANYTHING in unrecorded
        removed: list[str] = []
        kept: list[str] = []
        for path in paths:
            was_there = anything or path in unrecorded or path.startswith(folders)
            (kept if was_there or not self._unlink(path) else removed).append(path)
        return removed, kept

    def _unlink(self, path: str) -> bool:
        """Deletes a file and the folders that become empty."""
        root = os.open(self.root, PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        folder, _, name = path.rpartition("/")
        try:
            parent = open_beneath(root, folder or ".", PATH_ONLY | os.O_DIRECTORY)
            try:
                os.unlink(name, dir_fd=parent)
            finally:
                os.close(parent)
            with suppress(OSError):
                while folder:
                    os.rmdir(folder, dir_fd=root)
                    folder = folder.rpartition("/")[0]
        except OSError:
            return False
        finally:
            os.close(root)
        return True

    def _is_free(self, name: str, status: str) -> bool:
        """True if nothing unrecorded is where a file has to go: git would delete it."""
        path = self.root / name
        around = [self.root / folder for folder in Path(name).parents]
        if not all(is_folder(folder) for folder in around if os.path.lexists(folder)):
            return False
        if is_folder(path) and _is_hollow(path):
            for folder, _, _ in os.walk(path, topdown=False):
                Path(folder).rmdir()
        return not is_folder(path) and (status != "A" or not os.path.lexists(path))

    def _check_out(self, tree: str, paths: Sequence[str]) -> None:
        """Writes files; permissions of existing ones are kept."""
        if not paths:
            return
        before = {path: _mode(self.root / path) for path in paths}
        self._git("read-tree", tree, index="restoring")
        self._git("checkout-index", "-f", "-q", "-z", "--stdin", stdin=_joined(paths), index="restoring")
        for path, old in before.items():
            new = _mode(self.root / path)
            if old is not None and new is not None:
                runs = (old & 0o444) >> 2 if new & 0o100 else 0
                (self.root / path).chmod(old & ~0o111 | runs)


def _status(path: Path) -> os.stat_result | None:
    with suppress(OSError):
        return path.lstat()
    return None


def _is_hollow(path: Path) -> bool:
    """True if a folder contains only folders, which are not recorded."""
    return all(
        is_folder(Path(folder, name)) for folder, inner, files in os.walk(path) for name in (*inner, *files)
    )


def _mode(path: Path) -> int | None:
    """The mode of a regular file."""
    with suppress(OSError):
        status = path.lstat()
        return stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else None
    return None


def _joined(names: Iterable[str]) -> str:
    return "".join(f"{name}\0" for name in names)


def _quoted(name: str) -> str:
    """A name as one line of plain text."""
    return name.encode("utf-8", "surrogateescape").decode("latin-1").encode("unicode_escape").decode()


def _unquoted(row: str) -> str:
    return row.encode().decode("unicode_escape").encode("latin-1").decode("utf-8", "surrogateescape")
