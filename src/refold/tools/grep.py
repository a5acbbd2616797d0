"""Grep: lines that match a pattern, by ripgrep if it is installed and treats the pattern like Python.

The searching program gets open descriptors (`/dev/fd/N`), so that no path is resolved twice and none
leaves the workspace. Patterns are Python's; ripgrep only makes them faster.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from refold.text.plural import counted
from refold.text.truncate import middle
from refold.tools import grep_process
from refold.tools.base import Envelope, ToolContext, as_word, success, tool
from refold.tools.listing import files, pattern
from refold.tools.workspace import ToolRefused, Workspace

MAX_MATCHES = 200
COUNTED = 20_000
"""Number of matches after which counting stops."""
MATCH_LINE_CHARS = 300
MAX_SEARCHED_BYTES = 50_000_000
SEARCH_SECONDS = 20.0
_TOGETHER = 200
"""Number of files open at a time."""
_PLAIN = re.compile(
    r"""(?:\(\?i\))? (?: [^\\\[\](){}] | \\[wWdDsSb.*+?()\[\]{}|^$/"'-] | \((?:\?:)?(?!\?) | \)
    | \[\^?(?:\w-\w|[\w .,/:;=@"'+*?])+\] | \{\d+(?:,\d*)?\} )*""",
    re.X | re.A,
)
"""Patterns that mean the same in ripgrep and Python."""


class GrepArguments(msgspec.Struct, frozen=True):
    pattern: Annotated[str, msgspec.Meta(description="Regular expression, matched against each line.")]
    path: Annotated[
        str, msgspec.Meta(description="Folder or file to search (default: the working folder).")
    ] = "."
    glob: Annotated[str, msgspec.Meta(description="Only files such as `*.py` or `src/**/*.ts`.")] = ""


class Match(NamedTuple):
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{middle(self.text, MATCH_LINE_CHARS)}"


@tool("Grep", "read")
def grep_tool(arguments: GrepArguments, place: ToolContext) -> Envelope:
    """Search the contents of files for a regular expression, line by line. Gives `file:line:text`. Use (?i)
    to ignore case. Files that git ignores and files that are no text are left out."""
    check_pattern(as_word(arguments.pattern))
    names = files(place.workspace, arguments.path)
    if arguments.glob:
        wanted = pattern(arguments.glob)
        names = [name for name in names if wanted.match(name)]
    search = _Search(place.workspace, arguments.pattern, time.monotonic() + SEARCH_SECONDS)
    matches = list(islice(search.matches(names), COUNTED))
    data: dict[str, Any] = {
        "pattern": arguments.pattern,
        "matches": [str(match) for match in matches[:MAX_MATCHES]],
        "total_matches": len(matches),
        "total_files": len({match.file for match in matches}),
        **({"truncated": True} if len(matches) > MAX_MATCHES or search.stopped else {}),
        **({"timed_out": True} if search.stopped else {}),
    }
    remarks = [
        ""
        if matches
        else f"No match in {counted(len(names), 'file')}. Files that git ignores are not searched.",
        f"{search.large} files are larger than {MAX_SEARCHED_BYTES} bytes and were left out."
        if search.large
        else "",
        "Stopped after the time limit: narrow path or glob, or simplify the pattern."
        if search.stopped
        else "",
    ]
    return success(data, " ".join(filter(None, remarks)))


def check_pattern(text: str) -> None:
    if re.search(r"\[\^?\[:\w+:\]", text):
        raise ToolRefused(
            "invalid_arguments", r"Classes such as [[:alpha:]] are not known here: write \w, \d or \s."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ToolRefused(
            "invalid_arguments",
            f"`{text}` is no regular expression: {error}. Put a \\ before what stands for itself.",
        ) from None


class _Search:
    """One pattern in many files until a deadline; `stopped` is set when it passes."""

    def __init__(self, workspace: Workspace, wanted: str, until: float) -> None:
        self._workspace = workspace
        self._commands = commands(wanted)
        self._until = until
        self.stopped = False
        self.large = 0

    def matches(self, names: Sequence[str]) -> Iterator[Match]:
        """Matches by file, in the order of names, then by line."""
        for batch in (names[i : i + _TOGETHER] for i in range(0, len(names), _TOGETHER)):
            yield from self._among(batch)
            if self.stopped:
                return

    def _among(self, names: Sequence[str]) -> list[Match]:
        with ExitStack() as stack:
            opened = {f"/dev/fd/{fd}": name for name in names if (fd := self._open(name, stack)) is not None}
            if not opened:
                return []
            place = {name: index for index, name in enumerate(names)}
            found = [
                Match(opened[path], int(number), text)
                for path, number, text in _rows(self._run(list(opened)))
                if path in opened
            ]
            return sorted(found, key=lambda match: (place[match.file], match.line))

    def _open(self, name: str, stack: ExitStack) -> int | None:
        try:
            file = stack.enter_context(self._workspace.open(name))
        except ToolRefused:
            return None  # a link out, a pipe, gone: no file to search
        descriptor = file.fileno()
        if os.fstat(descriptor).st_size > MAX_SEARCHED_BYTES:
            self.large += 1
            return None
        return None if b"\0" in os.pread(descriptor, 8192, 0) else descriptor

    def _run(self, paths: list[str]) -> bytes:
        said = b""
        for command in self._commands:
            try:
                done = subprocess.run(
                    [*command, *paths],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    pass_fds=[int(path.rpartition("/")[2]) for path in paths],
                    timeout=max(self._until - time.monotonic(), 0.01),
                    check=False,
                )
            except subprocess.TimeoutExpired as late:
                self.stopped = True
                return late.stdout or b""
            if done.returncode in (0, 1):  # found something, or nothing
                return done.stdout
            said = done.stderr
        raise ToolRefused("io", f"The search failed: {said.decode(errors='replace')[:300]}")


def commands(wanted: str) -> list[list[str]]:
    """Programs that can search, in order of preference."""
    python = [sys.executable, "-I", "-S", "-W", "ignore", str(Path(grep_process.__file__)), wanted]
    ripgrep = shutil.which("rg")
    if ripgrep is None or not _PLAIN.fullmatch(wanted):
        return [python]
    options = "--no-config --null --line-number --with-filename --no-heading --color=never --text --crlf"
    return [[ripgrep, *options.split(), "--encoding=none", "--regexp", wanted, "--"], python]


def _rows(output: bytes) -> Iterator[tuple[str, str, str]]:
    for row in output.split(b"\n"):
        path, _, rest = row.partition(b"\0")
        number, _, text = rest.partition(b":")
        if number.isdigit():
            yield path.decode(), number.decode(), text.removesuffix(b"\r").decode(errors="replace")
