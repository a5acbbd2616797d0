"""Two processes talk into one stored session while a third folds it. Nobody's words are lost, nothing forks.

    python examples/multi_process.py agent.db --messages 20

An append is durable on return and compare-and-swap: whoever was overtaken gets `Conflict`, takes over what
the other wrote (`refresh`) and decides again. Here that means to append after it; a chat might read it
first.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import refold
from refold import Engine, Session, presets
from refold import messages as m
from refold.entries import MessageEntry
from refold.errors import Conflict, StalePlan

ID = "shared"
WINDOW = 4000


def say(session: Session, message: m.Message) -> int:
    """Append at the end, wherever that is by now. Returns how often others were first."""
    overtaken = 0
    while True:
        try:
            session.append(message)
            return overtaken
        except Conflict:
            overtaken += 1
            session.refresh()


def worker(path: str, name: str, messages: int, ready: Barrier) -> None:
    session = refold.open(f"sqlite:{path}", id=ID)
    ready.wait()
    overtaken = 0
    for number in range(messages):
        overtaken += say(session, m.user(f"{name} {number}: " + "a line of the log, " * 20))
    print(f"{name}: {messages} messages, overtaken {overtaken} times")


def fold(session: Session, engine: Engine) -> bool:
    """Fold if that is due. A fold that was overtaken by a message simply did not happen."""
    session.refresh()
    plan = engine.plan(session)
    try:
        return bool(plan and refold.run(engine.apply(session, plan)))
    except (Conflict, StalePlan):
        return False


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("database", type=Path)
    options.add_argument("--messages", type=int, default=20)
    given = options.parse_args()
    path = str(given.database)
    session = refold.open(f"sqlite:{path}", id=ID)  # made before the others look for it
    engine = Engine(presets.get("refold", window=WINDOW))

    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Barrier(2)
    workers = [
        spawn.Process(target=worker, args=(path, name, given.messages, ready)) for name in ("left", "right")
    ]
    for process in workers:
        process.start()
    folds = 0
    while any(process.is_alive() for process in workers):
        folds += fold(session, engine)
        time.sleep(0.01)
    folds += fold(session, engine)

    said = sum(isinstance(entry, MessageEntry) for entry in session.path)
    print(f"{said} messages on one path; {folds} folds; the model sees {engine.view(session).tokens} tokens")


if __name__ == "__main__":
    main()
