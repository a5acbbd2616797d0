"""The trail as text within a token budget: changed files first, then what fits."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from refold.preserve.trail import Command, Test, Todo, Trail
from refold.protocols import TokenCounter
from refold.text.truncate import head
from refold.tokens.fitting import largest


def render(trail: Trail, budget: int, counter: TokenCounter) -> str:
    """Created and modified files before everything else: in full, or grouped by folder where that is too
    long, or by folder with the number left out where even that is."""
    trail = trail.settled()
    files = trail.files()
    sheet = _Sheet(budget, counter)
    sheet.changed((("Files created", files.created), ("Files modified", files.modified)))
    sheet.paths("Files deleted", files.deleted)
    failed = [path for path, known in trail.states.items() if known.state == "failed"]
    sheet.items("Last error", [trail.error] if trail.error else [])
    sheet.items("Tests, last result", [_test(t) for t in reversed(trail.tests)])
    sheet.items("Open todos", [_todo(t) for t in trail.open_todos])
    sheet.paths("Tried to change, without success", failed)
    sheet.items(
        "Commands, newest first", [_command(c) for c in reversed(trail.commands) if not _looks(c)][:20]
    )
    sheet.paths("Files read", files.read)
    return sheet.text()


def _looks(command: Command) -> bool:
    """Commands that only look around are many and say nothing of the state of things."""
    return command.ok is not False and command.command.startswith(_LOOKING) and ">" not in command.command


_LOOKING = (
    "cat ", "ls", "sed -n", "head ", "tail ", "grep ", "rg ", "find ", "pwd", "nl ", "wc ", "which ",
    "find_file ", "search_",
)  # fmt: skip


def _test(test: Test) -> str:
    word = {True: "passed", False: "FAILED", None: "result unknown"}[test.passed]
    return f"`{test.command}`: {word}" + (f" ({test.summary})" if test.summary else "")


def _todo(todo: Todo) -> str:
    return todo.text if todo.status == "pending" else f"{todo.text} [{todo.status.replace('_', ' ')}]"


def _command(command: Command) -> str:
    times = f" ×{command.times}" if command.times > 1 else ""
    if command.exit is not None:
        return f"`{command.command}` → exit {command.exit}{times}"
    return f"`{command.command}`" + (" → failed" if command.ok is False else "") + times


class _Sheet:
    """Text that grows only while it fits. Sizes are added up with a reserve for the joints."""

    def __init__(self, budget: int, counter: TokenCounter) -> None:
        self.left = budget
        self.counter = counter
        self.sections: list[str] = []

    def text(self) -> str:
        return "\n".join(self.sections)

    def put(self, section: str) -> bool:
        size = self.counter.text(section) + 1
        if size > self.left:
            return False
        self.left -= size
        self.sections.append(section)
        return True

    def changed(self, lists: Sequence[tuple[str, Sequence[str]]]) -> None:
        lists = [(title, paths) for title, paths in lists if paths]
        for form in (listed, grouped):
            section = "\n".join(form(title, paths) for title, paths in lists)
            if not section or self.put(section):
                return
        total = sum(len(paths) for _, paths in lists)
        for title, paths in lists:
            self.paths(title, paths, self.left * len(paths) // max(total, 1))
            total -= len(paths)

    def paths(self, title: str, paths: Sequence[str], limit: int | None = None) -> None:
        """As many as fit, newest kept; grouped as soon as the plain list is too long."""
        room = self.left if limit is None else min(limit, self.left)
        if not paths:
            return
        if self.counter.text(listed(title, paths)) + 1 <= room:
            self.put(listed(title, paths))
            return
        count = largest(len(paths), lambda n: self._size(grouped(title, paths[-n:], len(paths) - n)) <= room)
        if count:
            self.put(grouped(title, paths[-count:], len(paths) - count))

    def items(self, title: str, items: Sequence[str]) -> None:
        if not items:
            return
        count = largest(
            len(items), lambda n: self._size(_bullets(title, items[:n], len(items) - n)) <= self.left
        )
        if count:
            self.put(_bullets(title, items[:count], len(items) - count))

    def _size(self, text: str) -> int:
        return self.counter.text(text) + 1


def _bullets(title: str, items: Sequence[str], more: int) -> str:
    tail = [f"- (and {more} more)"] if more else []
    return "\n".join([f"{title}:", *(f"- {item}" for item in items), *tail])


def listed(title: str, paths: Sequence[str]) -> str:
    return "\n".join([f"{title} ({len(paths)}):", *(f"- {path}" for path in paths)])


def grouped(title: str, paths: Sequence[str], more: int = 0) -> str:
    """One line per folder, below the folder they all share."""
    root = shared_root(paths)
    folders: dict[str, list[str]] = {}
    for path in paths:
        folder, name = posixpath.split(path[len(root) :])
        folders.setdefault(folder, []).append(head(name, 200))
    first = f"{title} ({len(paths) + more}" + (f", below {root}" if root else "") + "):"
    rows = [
        f"- {folder + '/' if folder else ''}: {', '.join(names)}" if folder else f"- {', '.join(names)}"
        for folder, names in folders.items()
    ]
    return "\n".join([first, *rows, *([f"- (and {more} more)"] if more else [])])


def shared_root(paths: Sequence[str]) -> str:
    """The longest folder, with its slash, that all paths begin with."""
    if len(paths) < 2:
        return ""
    low, high = min(paths), max(paths)
    same = 0
    while same < min(len(low), len(high)) and low[same] == high[same]:
        same += 1
    return low[: low.rfind("/", 0, same) + 1]
