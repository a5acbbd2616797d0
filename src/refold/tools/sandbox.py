"""What a command may access, and the program that enforces it: bubblewrap, else Landlock, else none.

A command sees system programs and libraries, and may change the workspace and a scratch folder that is
its `/tmp`, nothing else: no keys, no other projects or processes, no network unless allowed. If nothing
on this machine can enforce that, `find()` says so and the caller asks the user.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from refold.tools import supervisor, temp_folders
from refold.tools.workspace import read_regular

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/snap", "/etc")
_SECRETS = frozenset(
    ["shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "ssh", "krb5.keytab", "wireguard",
     "docker", "kubernetes", "rancher", "ppp", "NetworkManager"]
)  # fmt: skip
"""Names in `/etc` that a command does not need."""
_HOME = (
    ".gitconfig", ".config/git", ".local/bin", ".local/lib", ".local/share/uv", ".local/share/mise",
    ".cargo/bin", ".cargo/registry", ".rustup", ".nvm", ".pyenv", ".rbenv", ".asdf", ".sdkman", ".bun/bin",
    ".deno/bin", ".volta", "go/bin", "go/pkg",
)  # fmt: skip
"""Parts of a home directory that are tools; the rest is the user's."""
_PRIVATE = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/gh", ".netrc",
            ".git-credentials", ".npmrc", ".pypirc", ".password-store", ".local/share/keyrings")  # fmt: skip
"""Hidden even if the home directory is the workspace."""
_VARIABLES = frozenset(
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "COLUMNS", "LINES", "CI",
     "CC", "CXX", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "PYENV_VERSION",
     "PYTHONPATH", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED",
     "NVM_DIR", "NVM_BIN", "NODE_PATH", "NODE_ENV", "VOLTA_HOME", "BUN_INSTALL", "GOPATH", "GOROOT",
     "GOFLAGS", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "JAVA_HOME", "SDKMAN_DIR", "GEM_HOME",
     "GEM_PATH", "RBENV_ROOT", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH"]
)  # fmt: skip
"""Variables of the user that a command sees, besides `LC_…`: paths and language. A list of secret ones
would never be complete."""
_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))
"""A command has no terminal that `tty` could be, unless it creates one."""
_KERNEL = tuple(
    f"/proc/{name}" for name in ("meminfo", "cpuinfo", "stat", "loadavg", "uptime", "version", "sys")
)
"""Information on the machine that a command may read; `/proc` also has the variables of other processes."""


class Ground(msgspec.Struct, frozen=True):
    """What one command may access."""

    root: Path
    scratch: Path
    network: bool = False
    git: bool = False
    """True if it may change git's data."""
    variables: tuple[str, ...] = ()
    """Further variables of the user that it sees."""


Sandbox: TypeAlias = Callable[[Sequence[str], Ground], list[str]]
"""Makes the command line that runs a command confined."""


def find_sandbox(root: Path | None = None) -> Sandbox | None:
    """The best sandbox here, tested once; None if there is none, or the workspace is everything."""
    if root == Path("/"):
        return None
    return next((box for name, box in BOXES.items() if works(name)), None)


@cache
def works(name: str) -> bool:
    """True if it not only runs but also confines."""
    with temp_folders.scratch_folder() as inside, temp_folders.scratch_folder() as outside:
        probe = f"touch {inside}/ours && ! touch {outside}/others 2>/dev/null"
        words = BOXES[name](["sh", "-c", probe], Ground(inside, inside))
        try:
            done = subprocess.run(
                words, capture_output=True, timeout=20, check=False, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.SubprocessError):
            return False
        return done.returncode == 0 and not any(outside.iterdir())


def supervised(words: Sequence[str], rules: Mapping[str, object] | None = None) -> list[str]:
    """A command line that leaves no process running, confined by Landlock if there are rules."""
    if platform.system() != "Linux":
        return list(words)
    return [sys.executable, "-I", "-S", supervisor.__file__, json.dumps(rules), *words]


def command_environment(ground: Ground) -> dict[str, str]:
    """The variables a command sees: no colours, no prompts, and only harmless ones of the user."""
    seen = _VARIABLES.union(ground.variables)
    kept = {name: value for name, value in os.environ.items() if name in seen or name.startswith("LC_")}
    return kept | {
        "TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0",
        "DEBIAN_FRONTEND": "noninteractive", "PWD": str(ground.root), "TMPDIR": "/tmp",
    }  # fmt: skip


def bubblewrap(words: Sequence[str], ground: Ground) -> list[str]:
    """Runs in separate namespaces for files, processes and network."""
    options = ["--unshare-all", "--cap-drop", "ALL", "--die-with-parent"]
    options += ["--proc", "/proc", "--dev", "/dev"]
    options += ["--share-net"] if ground.network else []
    options += ["--bind", command_folder(ground, "home"), str(user_home())]
    for path in readable_paths():
        options += ["--ro-bind-try", path, path]
    for name in sorted(_SECRETS):
        if (path := Path("/etc", name)).is_dir():
            options += ["--tmpfs", str(path)]
        elif path.exists():
            options += ["--ro-bind", "/dev/null", str(path)]
    options += ["--bind", command_folder(ground, "tmp"), "/tmp"]
    versions = repository(ground.root)
    for path in (*environments(ground.root), *(versions.looked_at if versions else ())):
        options += ["--ro-bind", path, path]
    options += ["--bind", str(ground.root), str(ground.root)]
    # What git keeps is mounted by itself, so that it cannot be moved away and made anew.
    for folder_of_git in versions.git if versions else ():
        options += ["--bind" if ground.git else "--ro-bind", str(folder_of_git), str(folder_of_git)]
    if (pointer := ground.root / ".git").is_file() and not pointer.is_symlink():
        options += ["--ro-bind", str(pointer), str(pointer)]
    for path in hidden(ground.root):
        options += ["--tmpfs", path] if Path(path).is_dir() else ["--ro-bind", "/dev/null", path]
    return ["bwrap", *options, "--remount-ro", "/", "--chdir", str(ground.root), "--", *words]


def landlock(words: Sequence[str], ground: Ground) -> list[str]:
    """Kernel rules for the process and its children, and a scratch folder instead of `/tmp`. A kernel
    that does not know all of them (before 6.12) refuses them, and nothing is run."""
    system = [*(path for path in readable_paths() if path != "/etc"), *environments(ground.root)]
    settings = [str(path) for path in sorted(Path("/etc").iterdir()) if path.name not in _SECRETS]
    versions = repository(ground.root) or Versions([], [])
    git = [str(path) for path in versions.git]
    rules = {
        "read": [*system, *settings, *versions.looked_at, *git, *_KERNEL, "/proc/self"],
        "write": [str(ground.root), str(ground.scratch), *(git if ground.git else ()), *_DEVICES],
        "network": ground.network,
    }
    own = {"TMPDIR": command_folder(ground, "tmp"), "XDG_CACHE_HOME": command_folder(ground, "home")}
    return supervised(["env", *(f"{name}={value}" for name, value in own.items()), *words], rules)


BOXES: dict[str, Sandbox] = {"bubblewrap": bubblewrap, "landlock": landlock}


def command_folder(ground: Ground, name: str) -> str:
    """A private folder of a command: its `/tmp`, its home directory."""
    path = ground.scratch / name
    path.mkdir(exist_ok=True)
    return str(path)


def user_home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user unknown to this machine
        return Path("/nonexistent")


def readable_paths() -> list[str]:
    """Programs, libraries and settings: the system's, the running Python's, tools in the home directory."""
    home = user_home()
    found = [*_SYSTEM, sys.prefix, sys.base_prefix, os.environ.get("VIRTUAL_ENV", "")]
    found += [str(home / name) for name in _HOME]
    found += [path for path in os.environ.get("PATH", "").split(os.pathsep) if path.startswith("/")]
    found += [str(Path("/etc/resolv.conf").resolve())]  # a link into /run on many machines
    # A directory on the PATH that may not be looked into counts as missing.
    paths = [Path(os.path.normpath(path)) for path in found if path and os.access(path, os.F_OK)]
    return list(_outermost(path for path in paths if not home.is_relative_to(path)))


def _outermost(paths: Iterable[Path]) -> Iterable[str]:
    """The paths without duplicates and those inside others."""
    kept: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(outer) for outer in kept):
            kept.append(path)
            yield str(path)


class Versions(NamedTuple):
    """What git needs of the workspace's repository."""

    looked_at: list[str]
    """The rest of the working tree, if the workspace is part of it."""
    git: list[Path]
    """Git's own data."""


def repository(root: Path) -> Versions | None:
    """The repository, found by looking at files, because git itself would obey the workspace."""
    top = next((folder for folder in (root, *root.parents) if os.path.lexists(folder / ".git")), None)
    if top is None or (top != root and user_home().resolve().is_relative_to(top)):
        return None  # a repository of the home directory holds more than a project
    place = _git_folder(top / ".git", root)
    return None if place is None else Versions([] if top == root else [str(top)], [place])


def _git_folder(git: Path, root: Path) -> Path | None:
    """The repository of a working tree. A file or link that names it is trusted only inside the
    workspace, or if the repository refers back to it."""
    if is_folder(git):
        return git
    try:
        said = str(git.readlink()) if git.is_symlink() else _line(git).removeprefix("gitdir:").strip()
        own = (git.parent / said).resolve(strict=True)
        if own.is_relative_to(root) and own != root and own.is_dir():
            return own
        common = (own / _line(own / "commondir")).resolve()
        known = Path(_line(own / "gitdir")) == git and own.parent == common / "worktrees"
    except (OSError, UnicodeDecodeError, ValueError):
        return None
    return common if known and not git.is_symlink() else None


def _line(path: Path) -> str:
    return read_regular(path, 4096).decode().strip()


def is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def environments(root: Path) -> list[str]:
    """Virtual environments that a workspace links to."""
    links = [root / name for name in (".venv", "venv") if (root / name).is_symlink()]
    return [str(link.resolve()) for link in links if (link / "pyvenv.cfg").is_file()]


def hidden(root: Path) -> list[str]:
    """The user's keys inside a workspace that contains the home directory."""
    home = user_home().resolve()
    if not home.is_relative_to(root):
        return []
    return [str(path) for name in _PRIVATE if (path := home / name).exists()]
