"""Writers in processes of their own, as a program: the same appends whatever happens between.

    python -m tests.postgres.processes URL SESSION WRITER COUNT TIMEOUT

Every acknowledged entry is a line of its output.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from refold.errors import Conflict, StorageError
from refold.stores.postgres.store import PostgresStore
from tests.stores import kit

ROOT = Path(__file__).resolve().parents[2]


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.postgres.processes", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def acknowledged(writers: list[subprocess.Popen[str]], timeout: float = 600) -> list[str]:
    """What they wrote, once all of them have ended well."""
    told: list[str] = []
    for writer in writers:
        out, errors = writer.communicate(timeout=timeout)
        assert writer.returncode == 0, errors
        told += out.split()
    return told


class Writer:
    """Appends in turn with others. After an error it looks, as the error says, before it appends again."""

    def __init__(self, store: PostgresStore, session: str) -> None:
        self.store, self.session = store, session
        self.tip: str | None = None
        self.seen = 0
        self.errors = 0

    def add(self, id: str) -> None:
        while True:
            try:
                self.store.append(self.session, [kit.said(id, self.tip)], after=self.tip)
            except (Conflict, StorageError) as error:
                self.errors += not isinstance(error, Conflict)
                if id in self.look():
                    return
                continue
            self.tip, self.seen = id, self.seen + 1
            return

    def look(self) -> list[str]:
        while True:
            try:
                loaded = self.store.load(self.session, self.seen)
            except StorageError:
                self.errors += 1
                continue
            self.seen += len(loaded.entries)
            self.tip = loaded.tip if isinstance(loaded.tip, str) else None
            return [entry.id for entry in loaded.entries]


def wrong(url: str, session: str, promised: list[str]) -> dict[str, Any]:
    """What is not as it should be."""
    store = PostgresStore(url)
    loaded = store.load(session)
    store.close()
    ids = [entry.id for entry in loaded.entries]
    parents = [getattr(entry, "parent", None) for entry in loaded.entries]
    found = {
        "lost": sorted(set(promised) - set(ids)),
        "doubled": len(ids) - len(set(ids)),
        "forks": sum(a != b for a, b in zip(parents, [None, *ids], strict=False)),
        "changed": sum(not kit.is_intact(entry) for entry in loaded.entries),
        "problems": [problem.text for problem in loaded.problems],
    }
    return {name: value for name, value in found.items() if value}


def write(url: str, sessions: str, name: str, count: int, timeout: float) -> None:
    """`count` entries into each of the sessions, which are numbered where there are several."""
    store = PostgresStore(url, timeout=timeout)
    first, _, many = sessions.partition("*")
    names = [first] if not many else [f"{first}{n}" for n in range(int(many))]
    writers = [Writer(store, session) for session in names]
    for number in range(count):
        for writer in writers:
            writer.add(f"{name}.{number}")
            print(f"{name}.{number}", flush=True)
    store.close()


if __name__ == "__main__":
    url, session, name, count, timeout = sys.argv[1:]
    write(url, session, name, int(count), float(timeout))
