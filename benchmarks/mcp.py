"""What `recall` of the MCP server costs over a thousand sessions.

`python -m benchmarks.mcp [--quick]`. Sessions are made up: 15 turns each of a prompt, a reply with a call, a
result; words of a vocabulary of 20,000, of which some are common, as in any language (Zipf).
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from refold import messages as m
from refold.mcp.collections import Collection, Collections
from refold.mcp.tools import answer_tool_call
from refold.protocols import SessionInfo, Store
from refold.session import Session
from refold.stores import open_store
from refold.stores.memory_file import MemoryFile

VOCABULARY, SESSIONS, TURNS, ASKED = 20_000, 1_000, 15, 200


class Words:
    def __init__(self, seed: int = 1) -> None:
        self.random = random.Random(seed)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self.all = [
            "".join(self.random.choices(letters, k=self.random.randint(4, 9))) for _ in range(VOCABULARY)
        ]
        self.weights = [1 / (rank + 30) for rank in range(VOCABULARY)]

    def __call__(self, count: int) -> str:
        return " ".join(self.random.choices(self.all, self.weights, k=count))

    def path(self) -> str:
        return f"src/{self.random.choice(self.all)}/{self.random.choice(self.all[:200])}.py"


def fill(store: Store, words: Words, sessions: int) -> list[str]:
    paths: list[str] = []
    for number in range(sessions):
        session = Session(id=f"session-{number}")
        for turn in range(TURNS):
            paths.append(words.path())
            session.append(m.user(words(30)))
            session.append(m.assistant(words(60), m.call(f"c{turn}", "Read", path=paths[-1])))
            session.append(m.result(f"c{turn}", words(200), name="Read"))
        store.create(SessionInfo(id=session.id))
        store.append(session.id, session.entries, after=None)
    return paths


def run(*, quick: bool = False) -> dict[str, Any]:
    words = Words()
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:{folder}/sessions.db").store
        paths = fill(store, words, SESSIONS // 10 if quick else SESSIONS)
        collections = Collections([Collection("refold", store)], MemoryFile(Path(folder) / "memory.md"))
        asked = {
            "one word": lambda: {"query": words(1)},
            "three words": lambda: {"query": words(3)},
            "a path": lambda: {"query": words.random.choice(paths)},
            "a file": lambda: {"file": words.random.choice(paths)},
        }
        found: dict[str, Any] = {"sessions": SESSIONS // 10 if quick else SESSIONS}
        for kind, question in asked.items():
            answer_tool_call(collections, "recall", question())
            times: list[float] = []
            worked: list[float] = []
            for _ in range(ASKED // 10 if quick else ASKED):
                arguments = question()
                began, work = time.perf_counter(), time.process_time()
                answer_tool_call(collections, "recall", arguments)
                times.append(1000 * (time.perf_counter() - began))
                worked.append(1000 * (time.process_time() - work))
            found[kind] = {
                "median_ms": round(statistics.median(times), 1),
                "p95_ms": round(statistics.quantiles(times, n=20)[18], 1),
                "p95_ms_of_the_processor": round(statistics.quantiles(worked, n=20)[18], 1),
            }
        store.close()
    return found


if __name__ == "__main__":
    print(json.dumps(run(quick="--quick" in sys.argv), indent=1))
