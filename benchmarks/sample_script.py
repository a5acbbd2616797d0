"""A session under construction: what the chapters of the sample are written with."""

from __future__ import annotations

import random
from typing import Any

from benchmarks import sample_outputs as outputs
from benchmarks import sample_repo as repo
from refold import entries as e
from refold import messages as m

MODEL = "anthropic:claude-sonnet-5"
START = 1_773_303_000.0
"""A Thursday morning in March 2026."""


class Script:
    """A session under construction, and the repository it works on."""

    def __init__(self) -> None:
        self.rng = random.Random(20_260_312)
        self.files = repo.build()
        self.entries: list[e.MessageEntry] = []
        self.time = START
        self.calls = 0

    def _append(self, message: m.Message, seconds: float, model: str | None = None) -> None:
        self.time += seconds
        parent = self.entries[-1].id if self.entries else None
        id = f"s{len(self.entries):03d}"
        self.entries.append(
            e.MessageEntry(id=id, time=round(self.time, 1), parent=parent, message=message, model=model)
        )

    def system(self, text: str) -> None:
        self._append(m.system(text), 0)

    def user(self, text: str, after: float = 90) -> None:
        self._append(m.user(text), after + self.rng.uniform(0, after / 3))

    def say(self, text: str) -> None:
        self._append(m.assistant(text), self.rng.uniform(4, 14), MODEL)

    def tool(self, name: str, output: str, why: str = "", error: bool = False, **arguments: Any) -> None:
        self.calls += 1
        id = f"call_{self.calls:03d}"
        self._append(m.assistant(why, m.call(id, name, arguments)), self.rng.uniform(3, 12), MODEL)
        self._append(m.result(id, output, name=name, is_error=error), self.rng.uniform(0.2, 6))

    def read(self, path: str, why: str = "") -> None:
        self.tool("Read", outputs.numbered(self.files[path]), why, path=path)

    def grep(self, pattern: str, why: str = "", folder: str = ".") -> None:
        hits = [
            f"{path}:{number}:{line.strip()}"
            for path, text in self.files.items()
            for number, line in enumerate(text.splitlines(), 1)
            if pattern in line
        ]
        self.tool("Grep", "\n".join(hits[:120]) or "no matches", why, pattern=pattern, path=folder)

    def edit(self, path: str, old: str, new: str, why: str = "") -> None:
        if self.files[path].count(old) != 1:
            raise AssertionError(f"{path} has {self.files[path].count(old)} places like {old!r}")
        self.files[path] = self.files[path].replace(old, new)
        self.tool("Edit", f"{path} was changed in 1 place", why, path=path, old_string=old, new_string=new)

    def write(self, path: str, text: str, why: str = "") -> None:
        self.files[path] = text
        self.tool("Write", f"{path} written, {len(text.splitlines())} lines", why, path=path, content=text)

    def bash(self, command: str, output: str, why: str = "", error: bool = False) -> None:
        self.tool("Bash", output, why, error, command=command)

    def pytest(self, why: str = "", **failing: str) -> None:
        out = outputs.pytest_run(self.files, failing, self.rng.uniform(17, 23))
        self.bash("python -m pytest -v", f"{out}\n(exit {1 if failing else 0})", why, bool(failing))

    def todo(self, *items: tuple[str, str]) -> None:
        listed = [{"content": text, "status": status} for text, status in items]
        self.tool("TodoWrite", "ok", todos=listed)
