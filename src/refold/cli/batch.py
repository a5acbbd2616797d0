"""Shared parts of commands with many jobs: executor, stored results, progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout

import click
import msgspec

from refold.batch import Ending, Executor, StoredResults, open_executor
from refold.batch.results import forget_old
from refold.cli.options import combined_options
from refold.cli.output import console, echo, progress_bar
from refold.errors import StorageError
from refold.stores import default_database, open_store
from refold.text.plural import counted

IN_PROCESS_FILES = 8
"""Number of files up to which no worker process is started."""

batch_options = combined_options(
    click.option(
        "--on",
        metavar="WHERE",
        help="Where jobs run: processes, processes:4, ray, ray://HOST:PORT [default: processes].",
    ),
    click.option(
        "--kept", metavar="STORE", help="Store for finished results [default: batch.db beside your database]."
    ),
    click.option("--anew", is_flag=True, help="Redo everything, ignoring cached results."),
)


class BatchTally(msgspec.Struct):
    on: str
    jobs: int = 0
    kept: int = 0
    """Jobs whose results were stored before."""
    failed: int = 0
    repeated: int = 0
    """Jobs that were restarted because their worker died."""
    seconds: float = 0.0

    def count(self, ending: Ending, failed: bool) -> None:
        self.jobs += 1
        self.kept += not ending.tries
        self.failed += failed
        self.repeated += max(ending.tries - 1, 0)

    def sentence(self) -> str:
        parts = {"from the cache": self.kept, "failed": self.failed, "restarted": self.repeated}
        told = "".join(f", {number:,} {what}" for what, number in parts.items() if number)
        return f"{counted(self.jobs, 'file')} on {self.on} in {self.seconds:,.0f} s{told}"


@contextmanager
def working(on: str) -> Generator[Executor]:
    """The executor. Messages of others (Ray, about dead workers) are kept off standard output."""
    with redirect_stdout(console(stderr=True).file), open_executor(on) as executor:
        yield executor


def usual_executor(files: int) -> str:
    """The default executor: a few files are read faster than worker processes start."""
    return "processes" if files > IN_PROCESS_FILES else "here"


@contextmanager
def keeping(id: str, spec: str | None, *, anew: bool) -> Generator[StoredResults | None]:
    """Stored results under that id. If none can be stored, a warning is printed and the work continues."""
    try:
        store = open_store(spec or f"sqlite:{default_database().with_name('batch.db')}").store
        forget_old(store, time.time())
        kept = StoredResults(store, id, anew=anew)
    except (StorageError, OSError) as error:
        if spec:
            raise
        echo(f"refold: results are not saved: {error}", err=True)
        yield None
        return
    try:
        yield kept
    finally:
        store.close()
        if kept.failure:
            echo(f"refold: some results were not saved: {kept.failure}", err=True)


def followed(
    what: str, endings: Iterable[Ending], total: int, tally: BatchTally, failed: Callable[[Ending], bool]
) -> Iterator[Ending]:
    """The endings, counted and shown with a progress bar."""
    began = time.monotonic()
    with progress_bar(what, total) as tell:
        for ending in endings:
            tally.count(ending, failed(ending))
            tally.seconds = round(time.monotonic() - began, 3)
            bad = f", {tally.failed:,} failed" if tally.failed else ""
            tell(tally.jobs, f"{tally.jobs}/{total}{bad}")
            yield ending
