"""Many independent pieces of work, done elsewhere: by processes of this machine or by Ray.

    with batch.open_executor("processes:4") as on:
        for ending in Batch(work).run(jobs, on, kept):
            print(ending.number, ending.value, ending.error)

`EXECUTORS` is the table: a new way to do work is a module and a row. What can go wrong in one job (it raises,
it kills its worker) is an ending like others. Nothing heavy is imported before an executor is opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from refold.batch.results import StoredResults
from refold.errors import RefoldError, UnknownName, UsageError

__all__ = [
    "EXECUTORS", "Batch", "Ending", "Executor", "Job", "Return", "StoredResults", "attempt_job", "cores",
    "open_executor",
]  # fmt: skip

MAX_ATTEMPTS = 3
"""Attempts for a job whose worker dies (the job itself need not be the reason)."""
AHEAD = 4
"""Ordered batch: started jobs per running one while an earlier job is unfinished."""

Work = Callable[[Any], Any]
"""A module-level function (workers import it); its argument and result can be pickled."""


class Job(NamedTuple):
    argument: Any
    key: str | None = None
    """Identifies the result; jobs with the same key share it. None: the result is not stored."""


class Return(NamedTuple):
    """A worker's answer."""

    value: Any = None
    error: str | None = None
    died: bool = False
    """The worker process died; `error` says how."""


class Ending(NamedTuple):
    """The outcome of a job."""

    number: int
    """Index of the job."""
    job: Job
    value: Any = None
    error: str | None = None
    """Why there is no value."""
    tries: int = 0
    """Attempts made; 0: the value was stored before."""


class Executor(Protocol):
    """Runs calls elsewhere."""

    @property
    def room(self) -> int:
        """Calls that may run at once."""
        ...

    def start(self, work: Work, argument: Any) -> Hashable:
        """Start a call; returns its handle, which `ended` reports."""
        ...

    def ended(self) -> Iterable[tuple[Hashable, Return]]:
        """Wait until at least one call has ended; yields all that have."""
        ...

    def close(self) -> None:
        """Stop everything that was started."""
        ...


def attempt_job(work: Work, argument: Any) -> Return:
    """Run the job in the worker; an exception becomes an error."""
    try:
        return Return(work(argument))
    except RefoldError as error:
        return Return(error=str(error))
    except (Exception, SystemExit) as error:
        return Return(error=f"{type(error).__name__}: {error}")


@dataclass(frozen=True)
class Batch:
    """How to run jobs of one kind."""

    work: Work
    finish: Callable[[Job, Any], Any] = lambda _, value: value
    """Runs in this process on a worker's value; its result is what the job ends with and what is stored."""
    keeps: Callable[[Any], bool] = lambda _: True
    """Whether to store a value (another attempt would not give a different one)."""
    trusts: Callable[[Any], bool] = lambda _: True
    """Whether a stored value is still valid."""
    ordered: bool = False
    """Finish and report jobs in the order given; otherwise as they complete."""

    def run(self, jobs: Iterable[Job], on: Executor, kept: StoredResults | None = None) -> Iterator[Ending]:
        """Run every job once. `jobs` is read as workers become free, so it may be a generator."""
        source = enumerate(jobs)
        running: dict[Hashable, Ending] = {}
        held: dict[int, Ending] = {}
        told, more = 0, True
        while more or running:
            while more and len(running) < on.room and len(running) + len(held) < AHEAD * on.room:
                begun = next(source, None)
                if begun is None:
                    more = False
                elif (known := self._known(*begun, kept)) is not None:
                    held[known.number] = known
                    break
                else:
                    running[on.start(self.work, begun[1].argument)] = Ending(*begun, tries=1)
            else:
                for place, found in on.ended() if running else ():
                    ending = running.pop(place)
                    if found.died and ending.tries < MAX_ATTEMPTS:
                        again = on.start(self.work, ending.job.argument)
                        running[again] = ending._replace(tries=ending.tries + 1)
                    else:
                        held[ending.number] = _ended(ending, found)
            for number in self._next(held, told):
                told += 1
                yield self._finished(held.pop(number), kept)

    def _next(self, held: Iterable[int], told: int) -> Iterator[int]:
        """Indices of the outcomes that can be reported now."""
        if not self.ordered:
            yield from sorted(held)
            return
        while told in held:
            yield told
            told += 1

    def _known(self, number: int, job: Job, kept: StoredResults | None) -> Ending | None:
        if kept is None or job.key is None or job.key not in kept:
            return None
        value = kept[job.key]
        return Ending(number, job, value) if self.trusts(value) else None

    def _finished(self, ending: Ending, kept: StoredResults | None) -> Ending:
        if not ending.tries or ending.error is not None:
            return ending
        value = self.finish(ending.job, ending.value)
        if kept is not None and ending.job.key is not None and self.keeps(value):
            kept.put(ending.job.key, value)
        return ending._replace(value=value)


def _ended(ending: Ending, found: Return) -> Ending:
    error = found.error
    if found.died:
        error = f"its worker died {ending.tries} times: {error}"
    return ending._replace(value=found.value, error=error)


# ── executors ───────────────────────────────────────────────────────────────────────────────────

EXECUTORS: dict[str, str] = {
    "here": "refold.batch.in_process",
    "processes": "refold.batch.processes",
    "ray": "refold.batch.ray_cluster",
}
"""Name → module with `open_executor(rest) -> Executor`; `rest` is the part after the colon of `NAME:…`."""


@contextmanager
def open_executor(spec: str = "processes") -> Generator[Executor]:
    """`here` (this process, one job at a time), `processes` (one per core), `processes:4`, `ray` (this
    machine), `ray://HOST:PORT` (a cluster)."""
    name, _, rest = spec.partition(":")
    if name not in EXECUTORS:
        raise UnknownName("executor", name, tuple(EXECUTORS))
    on: Executor = import_module(EXECUTORS[name]).open_executor(rest)
    try:
        yield on
    finally:
        on.close()


def workers(rest: str) -> int:
    """The number of workers in `rest`; by default one per core that this process may use."""
    if not rest:
        return cores()
    if not rest.isdecimal() or not 1 <= int(rest) <= 1_024:
        raise UsageError(f"{rest!r} is not a number of processes: use 1 to 1024")
    return int(rest)


def cores() -> int:
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1
