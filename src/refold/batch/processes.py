"""Runs jobs in worker processes on this machine.

Each worker has one job at a time and its own pipe: when one dies, only its job is affected, and it is known
which. (`concurrent.futures` gives up the whole pool and does not say which job was the cause.)
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple, cast

from refold.batch import Return, Work, attempt_job, workers

WORKER_END_SECONDS = 5.0
"""Seconds a worker has to exit before it is killed."""


class _Worker(NamedTuple):
    process: SpawnProcess
    line: Connection


class Processes:
    def __init__(self, room: int) -> None:
        self.room = room
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, _Worker] = {}

    def start(self, work: Work, argument: Any) -> Connection:
        worker = self._idle.pop() if self._idle else _hired()
        self._busy[worker.line] = worker
        try:
            worker.line.send((work, argument))
        except OSError:
            pass  # it died while it was idle: `ended` finds out
        return worker.line

    def ended(self) -> Iterable[tuple[Connection, Return]]:
        for line in cast("list[Connection]", wait(list(self._busy))):
            worker = self._busy.pop(line)
            try:
                found = cast("Return", line.recv())
            except (EOFError, OSError):
                found = Return(error=_last_words(worker), died=True)
            except Exception as error:  # a value that can be pickled and not be unpickled
                found = Return(error=f"{type(error).__name__}: {error}")
            if not found.died:
                self._idle.append(worker)
            yield line, found

    def close(self) -> None:
        everyone = [*self._idle, *self._busy.values()]
        for worker in everyone:
            worker.process.terminate()
        for worker in everyone:
            _buried(worker)
        self._idle, self._busy = [], {}


def open_executor(rest: str) -> Processes:
    return Processes(workers(rest))


def _hired() -> _Worker:
    # A new interpreter: a copy of this one (fork) would have its locks without the threads that hold them.
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), name="refold-worker", daemon=True)
    process.start()
    theirs.close()  # the other end is the worker's alone: it is closed when the worker is gone
    return _Worker(process, cast("Connection", ours))


def _last_words(worker: _Worker) -> str:
    _buried(worker)
    code = worker.process.exitcode or 0
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"it ended with code {code}"


def _buried(worker: _Worker) -> None:
    worker.process.join(WORKER_END_SECONDS)
    if worker.process.exitcode is None:
        worker.process.kill()
        worker.process.join()
    worker.line.close()


# ── in the worker ───────────────────────────────────────────────────────────────────────────────


def _serve(line: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is meant for the parent process
    sys.stdout = sys.stderr  # what that one prints may be JSON
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    while True:
        try:
            work, argument = line.recv()
        except EOFError:
            return
        except Exception as error:  # what is not installed here, or cannot be unpickled
            line.send(Return(error=f"{type(error).__name__}: {error}"))
            continue
        found = attempt_job(work, argument)
        try:
            line.send(found)
        except OSError:
            return
        except Exception as error:
            line.send(Return(error=f"{type(error).__name__}: {error}"))


def _leave_with_parent() -> None:
    """Exit when the parent process is gone; a killed parent cannot stop its workers."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
