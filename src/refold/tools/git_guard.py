"""Compares what git would run at the user's next git command, before and after a command of the agent.

Git runs what its own folders say: hooks, programs named by a configuration, steps of a rebase. A
sandboxed command may be able to write there, or to create such a folder. So everything in folders that
git would consider its own is compared, except what git only stores (objects, refs, logs, index,
messages); of that only links count, because git writes through them. A change is shown to the user, and
undone without consent.

The previous state is kept on disk until the user has decided, so that it survives if the agent is killed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from difflib import unified_diff
from pathlib import Path
from textwrap import indent
from typing import BinaryIO, NamedTuple, TypeVar

import msgspec

from refold.text.frames import visible
from refold.text.truncate import head, middle
from refold.tools.safe_open import PATH_ONLY
from refold.tools.sandbox import is_folder, repository, user_home
from refold.tools.workspace import ToolRefused, read_regular

MAX_FOLDERS = 200_000
"""Number of folders examined, those near the root first."""
MAX_RESTORED_BYTES = 1_000_000
"""Size limit of a file that can be restored."""
_SETTLED = 100_000_000
"""Nanoseconds after which another change of a file certainly has another time stamp."""
_KEPT_FOLDERS = frozenset(["objects", "refs", "logs", "rr-cache", "lfs"])
_KEPT_FILE = re.compile(r"[A-Z_]+|index|sharedindex\.[0-9a-f]+|packed-refs|shallow|gc\.(?:log|pid)")
_SETTING = re.compile(r"^[ \t]*+(?:\[[^\]\n]*+\][ \t]*+)?([A-Za-z][\w-]*+)[ \t]*+=[ \t]*+(.*)", re.MULTILINE)
_HOOKS = 200
"""Files of a folder of hooks."""
_SHOWN, _SHOWN_EACH = 2_000, 400
_FOLDER = PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

Stamp = tuple[int, int, int, int]


class GitEntry(msgspec.Struct, frozen=True, array_like=True):
    """A file, a link (its target) or anything else that is not a folder."""

    kind: int
    mode: int
    content: bytes = b""
    stamp: Stamp | None = None
    """Identifies the content of a file that is too large to keep."""


_CLOSED, _NONE = GitEntry(stat.S_IFDIR, 0), GitEntry(0, 0)


class Fingerprint(NamedTuple):
    """Everything that could make git run something."""

    folders: dict[str, int]
    """Folders that git would consider its own, with their inodes."""
    files: dict[str, GitEntry]
    """Their content, and pointers to such folders. A folder listed here could not be read."""


class GitChange(NamedTuple):
    path: str
    what: str
    text: str = ""


class _Listing(NamedTuple):
    changed: int
    looked: int
    inode: int
    folders: list[str]
    files: list[str]
    others: list[str]
    """Links, pipes, sockets, devices."""
    is_git: bool


class _Saved(msgspec.Struct, array_like=True):
    command: str
    folders: dict[bytes, int]
    files: dict[bytes, GitEntry]


class Scanner:
    """Scans a workspace repeatedly; unchanged files are not reread."""

    def __init__(self) -> None:
        self._listings: dict[tuple[str, bool], _Listing] = {}
        self._entries: dict[str, tuple[Stamp, int, GitEntry]] = {}

    def fingerprint(self, *tops: Path) -> Fingerprint:
        found = Fingerprint({}, {})
        waiting = deque((str(top), False, False) for top in tops)
        for _ in range(MAX_FOLDERS):
            if not waiting:
                break
            path, inside, kept = waiting.popleft()
            try:
                listing = self._listing(path, inside)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                found.files[path] = _CLOSED
                continue
            named = path.endswith("/.git")
            kept = kept and not named
            is_git = named or (listing.is_git and not kept)
            if is_git:
                found.folders[path] = listing.inode
            for name in listing.folders:
                below = (f"{path}/{name}", inside or is_git, kept or (is_git and name in _KEPT_FOLDERS))
                (waiting.appendleft if below[1] else waiting.append)(below)
            for name in listing.files:
                if name == ".git" or not (kept or _is_kept(path, name, is_git)):
                    self._add(f"{path}/{name}", found.files)
            for name in listing.others:
                self._add(f"{path}/{name}", found.files)
        else:
            found.files[f"{tops[-1]}/*"] = _CLOSED  # more than can be looked at
        return found

    def add_named(self, root: Path, found: Fingerprint) -> None:
        """Files of the workspace named by a git configuration: hooks among the sources, further
        configurations, filter programs."""
        own = [user_home() / ".gitconfig", user_home() / ".config/git/config"]
        texts = [(path.parent, _content(path)) for path in own]
        for path, entry in found.files.items():
            if os.path.basename(path) in ("config", "config.worktree"):  # noqa: PTH119  (many paths)
                texts.append((Path(path).parent, entry.content))
        for folder, text in texts:  # grows
            for key, value in _SETTING.findall(text.decode(errors="replace")):
                for path in _named(root, folder, value):
                    files = [path]
                    if key.lower() == "hookspath" and is_folder(path):
                        files = sorted(path.iterdir())[:_HOOKS]
                    for file in files:
                        if str(file) not in found.files and not is_folder(file):
                            self._add(str(file), found.files)
                            texts.append((file.parent, _content(file) if key.lower() == "path" else b""))

    def _listing(self, path: str, inside: bool) -> _Listing:
        status = os.lstat(path)
        old = self._listings.get((path, inside))
        if old and old.changed == status.st_ctime_ns and old.looked - old.changed > _SETTLED:
            return old
        self._listings[path, inside] = listing = _listed(path, inside, status)
        return listing

    def _add(self, path: str, files: dict[str, GitEntry]) -> None:
        with suppress(FileNotFoundError):
            status = os.lstat(path)
            stamp = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            old = self._entries.get(path)
            if old is None or old[0] != stamp or old[1] - status.st_ctime_ns <= _SETTLED:
                self._entries[path] = old = (stamp, time.time_ns(), _entry(path, status, stamp))
            files[path] = old[2]


def _named(root: Path, folder: Path, value: str) -> list[Path]:
    """Paths in the workspace that a setting may mean, relative to the root or the configuration."""
    words = {word for word in re.split(r"[\s\"';&|=]+", value) if word and not word.startswith("-")}
    paths = {Path(os.path.normpath(base / word)) for word in words for base in (root, folder)}
    return [path for path in paths if path != root and path.is_relative_to(root) and ".git" not in path.parts]


def _content(path: Path) -> bytes:
    try:
        return read_regular(path, MAX_RESTORED_BYTES)
    except (OSError, ToolRefused):
        return b""


def _listed(path: str, inside: bool, status: os.stat_result) -> _Listing:
    """What is needed of a folder to find git's folders in it."""
    looked = time.time_ns()
    folders: list[str] = []
    files: list[str] = []
    others: list[str] = []
    with os.scandir(path) as entries:
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            rest = files if entry.is_file(follow_symlinks=False) else others
            (folders if is_folder else rest).append(entry.name)
    is_git = "HEAD" in (*files, *others) and (
        "commondir" in (*files, *others) or {"objects", "refs"} <= {*folders, *others}
    )
    if not inside and not is_git and not path.endswith("/.git"):
        files, others = ([".git"] if ".git" in each else [] for each in (files, others))
    return _Listing(status.st_ctime_ns, looked, status.st_ino, folders, files, others, is_git)


def _is_kept(folder: str, name: str, is_git: bool) -> bool:
    """True if git only stores a file and runs nothing because of it."""
    if is_git:
        return _KEPT_FILE.fullmatch(name) is not None
    return name == "refs" and folder.endswith("/info")


def _entry(path: str, status: os.stat_result, stamp: Stamp) -> GitEntry:
    kind, mode = stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode)
    if kind == stat.S_IFLNK:
        return GitEntry(kind, 0, os.fsencode(Path(path).readlink()))
    if kind != stat.S_IFREG:
        return GitEntry(kind, mode)
    if status.st_size > MAX_RESTORED_BYTES:
        return GitEntry(kind, mode, b"", stamp)
    try:
        with open(os.open(path, _READ), "rb") as file:
            return GitEntry(kind, mode, file.read(MAX_RESTORED_BYTES))
    except PermissionError:
        return GitEntry(kind, mode, b"", stamp)


def compare_fingerprints(before: Fingerprint, now: Fingerprint) -> list[GitChange]:
    """The differences. Files of a new git folder are not listed one by one."""
    changes: list[GitChange] = []
    new = [path for path in now.folders if path not in before.folders]
    for path in new:
        origin = next((old for old, inode in before.folders.items() if inode == now.folders[path]), None)
        moved = origin is not None and now.folders.get(origin) != now.folders[path]
        changes.append(GitChange(path, f"moved here from {origin}" if moved else "a new repository"))
    gone = [path for path in before.folders if path not in now.folders and not _has(path, now.files)]
    moved_from = {now.folders[path] for path in new}
    changes += [GitChange(path, "gone") for path in gone if before.folders[path] not in moved_from]
    hidden = tuple(f"{path}/" for path in (*new, *gone))
    for path in sorted({*before.files, *now.files}):
        old, found = before.files.get(path), now.files.get(path)
        if old != found and not path.startswith(hidden):
            what = "new" if old is None else "gone" if found is None else "changed"
            changes.append(GitChange(path, what, _shown(old, found)))
    return changes


def _has(folder: str, files: Mapping[str, GitEntry]) -> bool:
    return any(path.startswith(f"{folder}/") for path in files)


def _shown(old: GitEntry | None, new: GitEntry | None) -> str:
    if new is None:
        return ""
    if new.kind == stat.S_IFLNK:
        return f"a link to {os.fsdecode(new.content)}"
    if new.kind != stat.S_IFREG:
        return "cannot be looked into" if new == _CLOSED else "not a file"
    before, after = (each.content.decode(errors="replace").splitlines() for each in (old or _NONE, new))
    difference = list(unified_diff(before, after, n=0, lineterm=""))[2:]
    rows = [row for row in difference if not row.startswith("@@")]
    if not rows:
        return "is executable" if new.mode & 0o111 else ""
    return head("\n".join(rows), _SHOWN_EACH)


class GitGuard:
    """Shared by all commands in a workspace, including sub-agents'. `saved` is a folder for what must
    outlive the agent; None: nothing does."""

    def __init__(self, root: Path, saved: Path | None = None) -> None:
        self.root = root
        self.tell: Callable[[str], None] = lambda _: None
        """Called with what was undone."""
        self._name = hashlib.sha256(os.fsencode(root)).hexdigest()[:20]
        self._saved = saved
        self._scanner = Scanner()
        self._before = Fingerprint({}, {})
        self._outside: list[Path] = []
        """The repository of the workspace, if it is elsewhere."""
        self._running = 0
        self._lock = threading.Lock()
        self._held: BinaryIO | None = None

    # ── a command ───────────────────────────────────────────────────────────────────────────────

    def begin(self, command: str = "") -> None:
        """Called before a command. If other commands are running, the state before them counts."""
        with self._lock:
            self._running += 1
            if self._running > 1:
                return
            self._hold()
            if left := self._read():
                self._before = Fingerprint(_decoded(left.folders), _decoded(left.files))
                self._outside = self._outermost(map(Path, self._before.folders))
                return
            found = repository(self.root)
            self._outside = self._outermost(found.git if found else ())
            self._before = self._look()
            self._write(command)

    def changes(self) -> list[GitChange]:
        with self._lock:
            return compare_fingerprints(self._before, self._look())

    def accept(self) -> None:
        """Keeps the changes."""
        with self._lock:
            self._before = self._look()
            self._write("")

    def end(self) -> None:
        """Called after a command, when its changes are decided on."""
        with self._lock:
            self._running -= 1
            if self._running == 0 and self._held is not None:
                if _locked(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    self._path().unlink(missing_ok=True)
                self._held.close()
                self._held = None

    def left_over(self) -> str | None:
        """The command of a killed agent whose changes are undecided; None if there is none."""
        if self._saved is None or not self._path().exists():
            return None
        with suppress(OSError), open(self._path(".lock"), "ab") as file:
            if _locked(file, fcntl.LOCK_EX | fcntl.LOCK_NB) and (saved := self._read()):
                return saved.command
        return None

    def put_back(self) -> list[GitChange]:
        """Undoes the changes; returns what could not be undone."""
        with self._lock:
            changes = compare_fingerprints(self._before, self._look())
            if not changes:
                return []
            _Repair([self.root, *self._outside], self._before, self._look).run()
            left = compare_fingerprints(self._before, self._look())
            self.tell(f"undone, because git would run it later: {', '.join(self._names(changes))}")
            if left:
                self.tell(f"could NOT be undone, look before you use git: {', '.join(self._names(left))}")
            return left

    def describe(self, changes: list[GitChange]) -> str:
        """The changes as text, one per line."""
        names = self._names(changes)
        rows = [
            f"{name}: {visible(change.what)}"
            + (f"\n{indent(visible(change.text), '    ')}" if change.text else "")
            for name, change in zip(names, changes, strict=True)
        ]
        return middle("\n".join(rows), _SHOWN)

    def _names(self, changes: list[GitChange]) -> list[str]:
        return [visible(change.path.removeprefix(f"{self.root}/")) for change in changes]

    # ── what there is ───────────────────────────────────────────────────────────────────────────

    def _look(self) -> Fingerprint:
        found = self._scanner.fingerprint(*self._outside, self.root)
        self._scanner.add_named(self.root, found)
        return found

    def _outermost(self, folders: Iterable[Path]) -> list[Path]:
        outside = sorted(path for path in folders if not path.is_relative_to(self.root))
        return [path for path in outside if not any(path.is_relative_to(o) for o in outside if o != path)]

    # ── on the disk ─────────────────────────────────────────────────────────────────────────────

    def _path(self, ending: str = "") -> Path:
        assert self._saved is not None
        return self._saved / f"{self._name}{ending}"

    def _hold(self) -> None:
        """Registers a running command. Only the first one records what was there before."""
        if self._saved is None:
            return
        with suppress(OSError):
            self._saved.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._held = open(self._path(".lock"), "ab")  # noqa: SIM115 (held while a command runs)
            _locked(self._held, fcntl.LOCK_SH)

    def _read(self) -> _Saved | None:
        with suppress(OSError, msgspec.DecodeError):
            return self._saved and msgspec.msgpack.decode(self._path().read_bytes(), type=_Saved)
        return None

    def _write(self, command: str) -> None:
        if self._saved is None:
            return
        said = command.encode(errors="replace").decode()
        saved = _Saved(said, _encoded(self._before.folders), _encoded(self._before.files))
        with suppress(OSError):
            new = self._path(f".{secrets.token_hex(8)}")
            with open(os.open(new, _NEW, 0o600), "wb") as file:
                file.write(msgspec.msgpack.encode(saved))
            new.replace(self._path())


class _Repair:
    """Restores files without following links. Possible user data is not deleted: a new repository loses
    its HEAD, without which it is none, and the name `.git`."""

    def __init__(self, anchors: list[Path], before: Fingerprint, look: Callable[[], Fingerprint]) -> None:
        """`anchors` are folders that no command can replace, because it cannot write to their parents."""
        self._anchors, self._before, self._look = anchors, before, look

    def run(self) -> None:
        self._move_back(self._look().folders)
        now = self._look()
        new = [path for path in now.folders if path not in self._before.folders]
        for path in new:
            self._unlink(f"{path}/HEAD")
        for path in new:
            if path.endswith("/.git"):
                with suppress(OSError), self._parent(path) as (folder, name):
                    _make_room(name, folder)
        now = self._look()
        for path in now.files:
            if path not in self._before.files:
                self._unlink(path)
        lost = tuple(f"{path}/" for path in self._before.folders if path not in now.folders)
        for path, entry in self._before.files.items():
            if now.files.get(path) != entry and not path.startswith(lost):
                self._restore(path, entry)

    def _move_back(self, now: Mapping[str, int]) -> None:
        for path, inode in self._before.folders.items():
            place = next((place for place, other in now.items() if other == inode), path)
            if place == path or now.get(path) == inode:
                continue
            with (
                suppress(OSError),
                self._parent(place) as (source, old),
                self._parent(path) as (target, name),
            ):
                _make_room(name, target)
                os.rename(old, name, src_dir_fd=source, dst_dir_fd=target)

    def _unlink(self, path: str) -> None:
        with suppress(OSError), self._parent(path) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def _restore(self, path: str, entry: GitEntry) -> None:
        if entry.stamp is not None or entry.kind not in (stat.S_IFREG, stat.S_IFLNK):
            return
        temporary = f".refold-{secrets.token_hex(8)}"
        with suppress(OSError), self._parent(path, make=True) as (folder, name):
            if entry.kind == stat.S_IFLNK:
                os.symlink(entry.content, temporary, dir_fd=folder)
            else:
                with open(os.open(temporary, _NEW, 0o600, dir_fd=folder), "wb") as file:
                    file.write(entry.content)
                    os.fchmod(file.fileno(), entry.mode)
            try:
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except IsADirectoryError:
                _make_room(name, folder)
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Generator[tuple[int, str]]:
        """The folder of a path, and its name there."""
        whole = Path(path)
        anchor = next(anchor for anchor in self._anchors if whole.is_relative_to(anchor))
        *parts, name = whole.relative_to(anchor).parts
        folder = os.open(anchor, _FOLDER)
        try:
            for part in parts:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=folder)
                inner = os.open(part, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder, name
        finally:
            os.close(folder)


def _make_room(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        os.rename(name, f"{name}.refused-{secrets.token_hex(4)}", src_dir_fd=folder, dst_dir_fd=folder)


T = TypeVar("T")


def _encoded(values: Mapping[str, T]) -> dict[bytes, T]:
    return {os.fsencode(name): value for name, value in values.items()}


def _decoded(values: Mapping[bytes, T]) -> dict[str, T]:
    return {os.fsdecode(name): value for name, value in values.items()}


def _locked(file: BinaryIO, how: int) -> bool:
    try:
        fcntl.flock(file, how)
    except OSError:
        return False
    return True
