"""A private git repository over a workspace: its own index, configuration and attributes.

The user's index, branches, stash and settings are neither read for content nor written; no filter, hook or
monitor of a repository runs. Files are recorded byte by byte. In a repository, objects are stored beside the
user's, which has most of them already.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from refold.tools.listing import GIT, SKIPPED
from refold.tools.workspace import TEMPORARY, read_regular

_SECONDS = 60
_ATTRIBUTES = "* -text !eol !filter !ident !working-tree-encoding\n"
_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_LITERAL_PATHSPECS": "1", "LC_ALL": "C",
    "GIT_AUTHOR_NAME": "refold", "GIT_AUTHOR_EMAIL": "refold@localhost", "GIT_TERMINAL_PROMPT": "0",
    "GIT_COMMITTER_NAME": "refold", "GIT_COMMITTER_EMAIL": "refold@localhost",
}  # fmt: skip
_SETTINGS = (
    "core.bare=false", "core.autocrlf=false", "core.fileMode=true", "core.symlinks=true", "gc.auto=0",
    "core.looseCompression=1", "core.fsync=none", "core.protectNTFS=false", "core.protectHFS=false",
)  # fmt: skip
_OPTIONS = tuple(word for setting in _SETTINGS for word in ("-c", setting))


class Repository(NamedTuple):
    """The user's repository."""

    top: Path
    common: Path
    format: str

    @classmethod
    def around(cls, folder: Path) -> Repository | None:
        """The repository of a folder; None if there is none that git trusts."""
        asked = ("--show-toplevel", "--git-common-dir", "--show-object-format")
        try:
            said = run_git((*GIT, "rev-parse", "--path-format=absolute", *asked), folder, {})
            top, common, format = said.splitlines()
        except (OSError, ValueError):
            return None
        return cls(Path(top), Path(common), format)


class PrivateGit:
    def __init__(self, root: Path, folder: Path, repository: Repository | None) -> None:
        self.root = root
        self.repository = repository
        self._folder = folder
        self._ready = False

    def __call__(self, *words: str, stdin: str = "", index: str = "index") -> str:
        """Runs a git command on the workspace with the private settings."""
        user = self.repository
        own = {
            **_ENVIRONMENT,
            "GIT_DIR": str(self._folder),
            "GIT_WORK_TREE": str(user.top if user else self.root),
            "GIT_INDEX_FILE": str(self._folder / index),
            **({"GIT_OBJECT_DIRECTORY": str(user.common / "objects")} if user else {}),
        }
        return run_git((*GIT, *_OPTIONS, *words), self.root, own, stdin)

    def names(self, *options: str) -> list[str]:
        """Paths of `ls-files`, relative to the workspace, without the snapshots' own folder."""
        ours = self._folder.parent
        own = f"{ours.relative_to(self.root)}/" if ours.is_relative_to(self.root) else "\0"
        found = self("ls-files", "-z", *options).split("\0")
        return [name for name in found if name and not f"{name}/".startswith(own)]

    def of_user(self, *words: str) -> str:
        """Runs a command in the user's repository, or in the private one if there is none."""
        if self.repository is None:
            return self(*words)
        options = ("-c", "core.logAllRefUpdates=false", f"--git-dir={self.repository.common}")
        return run_git((*GIT, *options, *words), self.root, {})

    def keep(self, ref: str, id: str) -> None:
        """Points a private ref to a commit, so that it is not garbage-collected."""
        if self.repository is not None:
            (self.repository.common / f"{ref}.lock").unlink(missing_ok=True)  # of a git that was killed
        self.of_user("update-ref", "--no-deref", ref, id)

    def tracked_though_ignored(self) -> list[str]:
        """Files of the user's index that a rule would ignore."""
        if self.repository is None:
            return []
        words = (*GIT, "ls-files", "-z", "--cached", "--ignored", "--exclude-standard")
        return [name for name in run_git(words, self.root, {}).split("\0") if name]

    @contextmanager
    def alone(self) -> Generator[None]:
        """Serialises access, also between processes."""
        if not self._ready:
            self._prepare()
        with open(self._folder / "refold.lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            for stale in self._folder.glob("*.lock"):  # of a git that was killed: no other one runs here
                if stale.name != "refold.lock":
                    stale.unlink(missing_ok=True)
            yield

    def _prepare(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (self._folder / "HEAD").exists():
            format = self.repository.format if self.repository else "sha1"
            words = ("git", "init", "-q", "--bare", f"--object-format={format}", str(self._folder))
            run_git(words, self._folder, _ENVIRONMENT)
        info = self._folder / "info"
        info.mkdir(exist_ok=True)
        (info / "attributes").write_text(_ATTRIBUTES)
        (info / "exclude").write_bytes(b"\n".join(self._rules()))
        self._ready = True

    def _rules(self) -> Generator[bytes]:
        """Ignore rules for a workspace without its own."""
        yield f"{TEMPORARY}*".encode()
        if self.repository is None:
            yield from (f"{name}/".encode() for name in sorted(SKIPPED))
            return
        for path in (self.repository.common / "info" / "exclude", _excludes_file(self.root)):
            with suppress(OSError):
                yield read_regular(path, 1_000_000)


def _excludes_file(root: Path) -> Path:
    """The user's global ignore file."""
    with suppress(OSError):
        return Path(run_git((*GIT, "config", "--path", "core.excludesFile"), root, {}).strip())
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "git", "ignore")


def run_git(words: Iterable[str], cwd: Path, own: Mapping[str, str], stdin: str = "") -> str:
    """The output of git; raises `OSError` with its message on failure or timeout. Names need not be UTF-8."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            list(words),
            cwd=cwd,
            env={**inherited, **own},
            input=stdin.encode("utf-8", "surrogateescape"),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise OSError("git takes too long in this folder") from None
    if done.returncode:
        raise OSError(done.stderr.decode(errors="replace").strip()[:300] or f"git failed ({done.returncode})")
    return done.stdout.decode("utf-8", "surrogateescape")
