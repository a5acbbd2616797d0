"""LS and Glob: the relevant files of a workspace, and name patterns.

In a git repository these are the files that git does not ignore; elsewhere everything but folders that
programs fill. Links are listed and never followed.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import msgspec

from refold.tools.base import Envelope, ToolContext, success, tool
from refold.tools.safe_open import open_beneath
from refold.tools.workspace import ToolRefused, Workspace

MAX_LISTED_FILES = 200_000
MAX_ENTRIES, MAX_PATHS = 1_000, 500
"""Maximum number of entries that LS and Glob show."""
DEEPEST = 100
SKIPPED = frozenset(
    [".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox", ".gradle",
     ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".terraform"]
)  # fmt: skip
_SECONDS = 30
_BELOW = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
       "-c", "core.quotePath=false")  # fmt: skip
"""git command that changes nothing and runs nothing from a repository."""


class ListedEntry(NamedTuple):
    name: str
    mode: int


class Folder(msgspec.Struct, frozen=True):
    path: Annotated[str, msgspec.Meta(description="The folder (default: the working folder).")] = "."


@tool("LS", "read")
def ls_tool(arguments: Folder, place: ToolContext) -> Envelope:
    """List a folder: folders (with a / at the end) come first, then files."""
    folder = place.workspace.folder(arguments.path)
    try:
        found = sorted(entries(folder), key=lambda entry: not stat.S_ISDIR(entry.mode))
        rows = [_row(entry, folder) for entry in found[:MAX_ENTRIES]]
    finally:
        os.close(folder)
    folders = sum(stat.S_ISDIR(entry.mode) for entry in found)
    data: dict[str, Any] = {
        "path": place.workspace.name(arguments.path),
        "entries": rows,
        "total_files": len(found) - folders,
        "total_folders": folders,
        **({"truncated": True} if len(found) > MAX_ENTRIES else {}),
    }
    return success(data, "" if found else "The folder is empty.")


def _row(entry: ListedEntry, folder: int) -> str:
    """`name/` is a folder, `name -> target` a link."""
    if stat.S_ISDIR(entry.mode):
        return f"{entry.name}/"
    if stat.S_ISLNK(entry.mode):
        with suppress(OSError):  # it is no link any more
            return f"{entry.name} -> {os.readlink(entry.name, dir_fd=folder)}"
    return entry.name


class GlobArguments(msgspec.Struct, frozen=True):
    pattern: Annotated[
        str,
        msgspec.Meta(description="Such as `src/**/*.py` or `*.{ts,tsx}`; without a / it is about the name."),
    ]
    path: Annotated[str, msgspec.Meta(description="Folder to look in (default: the working folder).")] = "."


@tool("Glob", "read")
def glob_tool(arguments: GlobArguments, place: ToolContext) -> Envelope:
    """Find files by name. `*` is anything within a name, `**` any folders, `{a,b}` one of them. Files that
    git ignores are left out."""
    wanted = pattern(arguments.pattern)
    folder = place.workspace.name(arguments.path)
    prefix = 0 if folder == "." else len(folder) + 1
    hits = [name for name in files(place.workspace, arguments.path) if wanted.match(name, prefix)]
    data: dict[str, Any] = {
        "pattern": arguments.pattern,
        "paths": hits[:MAX_PATHS],
        "total_files": len(hits),
        **({"truncated": True} if len(hits) > MAX_PATHS else {}),
    }
    return success(data, "" if hits else "No file matches. Files that git ignores are not looked at.")


# ── files ───────────────────────────────────────────────────────────────────────────────────────


def files(workspace: Workspace, path: str = ".") -> list[str]:
    """The files below a folder, relative to the root, sorted; a file is the only one."""
    if is_file(workspace, path):
        return [workspace.name(path)]
    inner = workspace.name(path)
    found = _from_git(workspace, path)
    # Nothing there that git does not ignore: a folder that is named is listed all the same.
    names = found or [inner_name(inner, name) for name in _walked(workspace, path)]
    return sorted(names)


def inner_name(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder}/{name}"


def is_file(workspace: Workspace, path: str) -> bool:
    try:
        workspace.open(path).close()
    except ToolRefused as refused:
        if refused.code != "not_a_file":
            raise
        return False
    return True


def entries(folder: int) -> list[ListedEntry]:
    """The entries of a folder, sorted by name, links not followed."""
    with os.scandir(folder) as found:
        names = sorted(entry.name for entry in found)
    result: list[ListedEntry] = []
    for name in names[:MAX_LISTED_FILES]:
        with suppress(OSError):  # gone since
            result.append(ListedEntry(name, os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode))
    return result


def _from_git(workspace: Workspace, path: str) -> list[str]:
    folder = workspace.folder(path)
    try:
        done = subprocess.run(
            [*GIT, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"],
            cwd=f"/proc/self/fd/{folder}",
            pass_fds=(folder,),
            capture_output=True,
            timeout=_SECONDS,
            check=True,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_CEILING_DIRECTORIES": ""},
        )
    except (OSError, subprocess.SubprocessError):
        return []  # no git, or no repository
    finally:
        os.close(folder)
    names = [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]
    return [
        inner_name(workspace.name(path), name) for name in names[:MAX_LISTED_FILES] if not name.endswith("/")
    ]


def _walked(workspace: Workspace, path: str) -> Iterator[str]:
    """Depth first; every folder is opened from its parent."""
    top = workspace.folder(path)
    left = [(top, "")]
    count = 0
    try:
        while left:
            folder, prefix = left.pop()
            try:
                found = entries(folder)
                for name, mode in found:
                    if stat.S_ISREG(mode) and count < MAX_LISTED_FILES:
                        count += 1
                        yield prefix + name
                    elif stat.S_ISDIR(mode) and name not in SKIPPED and prefix.count("/") < DEEPEST:
                        left.append((open_beneath(folder, name, _BELOW), f"{prefix}{name}/"))
            except OSError:
                continue
            finally:
                os.close(folder)
    finally:
        for folder, _ in left:
            os.close(folder)


# ── patterns ────────────────────────────────────────────────────────────────────────────────────


MAX_PATTERN_CHARS = 500
WAYS = 64
"""Limits of a pattern: characters, and alternatives of its braces."""


@lru_cache(maxsize=64)
def pattern(glob: str) -> re.Pattern[str]:
    """A regular expression for `*`, `?`, `[a-z]`, `{a,b}`, `**`; without a slash for the name alone."""
    bare = glob.removeprefix("./").lstrip("/")
    try:
        ways = [f"**/{way}" if "/" not in way else way for way in _ways(bare)]
        return re.compile("(?:" + "|".join(map(_path, ways)) + r")\Z", re.S)
    except (re.error, ValueError) as error:
        raise ToolRefused("invalid_arguments", f"`{glob}` is no pattern of file names: {error}.") from None


_BRACES = re.compile(r"\{([^{}]{0,500})\}")


def _ways(glob: str) -> list[str]:
    """The pattern once for each alternative of its braces."""
    if len(glob) > MAX_PATTERN_CHARS:
        raise ValueError("it is too long")
    done: list[str] = []
    left = [glob]
    while left:
        one = left.pop()
        found = _BRACES.search(one)
        if found is None:
            done.append(one)
        else:
            left += [one[: found.start()] + choice + one[found.end() :] for choice in found[1].split(",")]
        if len(done) + len(left) > WAYS:
            raise ValueError("its braces say too much")
    return done


def _path(glob: str) -> str:
    """Matches the part between two `**` at its first occurrence: what follows can match the rest, so
    nothing is missed and matching is fast."""
    chunks: list[list[str]] = [[]]
    for segment in glob.split("/"):
        if segment != "**":
            chunks[-1].append(_segment(segment))
        elif chunks[-1] or len(chunks) == 1:
            chunks.append([])
    first, *inner = ("/".join(chunk) for chunk in chunks)
    if not inner:
        return first
    *between, last = inner
    middle = "".join(f"(?>(?:[^/]+/)*?{chunk}/)" for chunk in between)
    return (f"{first}/" if first else "") + middle + (f"(?:[^/]+/)*{last}" if last else ".+")


_PIECE = re.compile(r"\*+|\?|\[[!^]?\]?[^\]/]{0,100}\]|\\.|.", re.S)


def _segment(glob: str) -> str:
    """Matches a name; the part between two stars at its first occurrence."""
    fixed = [""]
    for piece in _PIECE.findall(glob):
        if piece[0] == "*":
            fixed.append("")
        elif piece == "?":
            fixed[-1] += "[^/]"
        elif piece[0] == "[" and len(piece) > 2:
            negated = piece[1] in "!^"
            inside = re.escape(piece[2 if negated else 1 : -1]).replace(r"\-", "-")
            fixed[-1] += f"[^/{inside}]" if negated else f"[{inside}]"
        else:
            fixed[-1] += re.escape(piece[-1])
    first, *inner = fixed
    if not inner:
        return first
    *between, last = inner
    return first + "".join(f"(?>[^/]*?{each})" for each in between) + f"[^/]*{last}"
