"""Forks and threads together: no store hangs, in the parent or in the child."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BEGIN = """
import os, sys, threading, time
from pathlib import Path
from tests.stores import kit
from refold.stores.disk import Disk
from refold.stores.memory import MemoryStore
from refold.protocols import SessionInfo
kind, place = sys.argv[1], Path(sys.argv[2])
if kind == "memory":
    store = MemoryStore()
    store.create(SessionInfo(id=kit.S))
else:
    store = kit.begin(kind, place)
def add(id):
    loaded = store.load(kit.S).entries
    after = loaded[-1].id if loaded else None
    store.append(kit.S, [kit.said(id, after)], after=after)
def forked(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(3)
        os._exit(0)
    return os.waitpid(pid, 0)[1]
add("first")
"""
TWO_THREADS_FORK = """
codes = []
def often():
    for _ in range(25):
        codes.append(forked(lambda: store.load(kit.S)))
threads = [threading.Thread(target=often, daemon=True) for _ in range(3)]
[t.start() for t in threads]
[t.join(120) for t in threads]
assert not any(t.is_alive() for t in threads), "stuck"
assert codes == [0] * 75, codes
add("last")
"""
FORK_WHILE_WRITING = """
stop = threading.Event()
def write():
    n = 0
    while not stop.is_set():
        add(f"w{n}")
        n += 1
writer = threading.Thread(target=write, daemon=True)
writer.start()
codes = [forked(lambda: store.load(kit.S)) for _ in range(30)]
stop.set()
writer.join(120)
assert not writer.is_alive() and codes == [0] * 30, codes
add("last")
"""
INSIDE_A_CALL = """
# A thread is in the middle of a call, holding the lock of the store, when another one forks.
inside, go_on = threading.Event(), threading.Event()
class Slow(Disk):
    def sync(self, fd):
        inside.set()
        go_on.wait(120)
store._disk = Slow()
writer = threading.Thread(target=add, args=("slow",), daemon=True)
writer.start()
inside.wait(120)
def work():
    store._disk = Disk()
    store.timeout = 0.2
    try:
        store.load(kit.S)
    except Exception as error:      # the file is still locked by the parent: an error of ours, and soon
        assert "locked" in str(error), error
assert forked(work) == 0
go_on.set()
writer.join(120)
assert [e.id for e in store.load(kit.S).entries] == ["first", "slow"]
"""
BOTH_INSIDE = """
# Two threads fork in the middle of a transaction, each waiting for the other to leave SQLite.
both = threading.Barrier(2)
codes = []
def work():
    with store.reading():
        both.wait(120)
        codes.append(forked(lambda: None))
threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
[t.start() for t in threads]
[t.join(120) for t in threads]
assert codes == [0, 0] and not any(t.is_alive() for t in threads), "stuck"
add("last")
"""


@pytest.mark.sample(3)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize(
    ("kind", "script"),
    [
        ("sqlite", TWO_THREADS_FORK),
        ("jsonl", TWO_THREADS_FORK),
        ("memory", TWO_THREADS_FORK),
        ("sqlite", FORK_WHILE_WRITING),
        ("jsonl", FORK_WHILE_WRITING),
        ("jsonl", INSIDE_A_CALL),
        ("sqlite", BOTH_INSIDE),
    ],
    ids=["sqlite-two", "jsonl-two", "memory-two", "sqlite-writing", "jsonl-writing", "jsonl-in", "sqlite-in"],
)
def test_forks_and_threads_do_not_hang(tmp_path: Path, kind: str, script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BEGIN + script, kind, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
