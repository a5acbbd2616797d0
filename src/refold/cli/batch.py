"""What commands share that do many pieces of work: who does it, where it is kept, how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

import click
import msgspec

from refold.cli.options import together
from refold.cli.output import bar, console, say
from refold.errors import StorageError

if TYPE_CHECKING:
    from refold.batch import Ending, Executor, Kept


batch_options = together(
    click.option(
        "--on",
        metavar="WHERE",
        help="Who does the work: processes, processes:4, ray, ray://HOST:PORT [default: processes].",
    ),
    click.option(
        "--kept", metavar="STORE", help="Where what is done is kept [default: batch.db beside your database]."
    ),
    click.option("--anew", is_flag=True, help="Redo everything, ignoring cached results."),
)


class Tally(msgspec.Struct):
    """How a batch went."""

    on: str
    jobs: int = 0
    kept: int = 0
    """Done before."""
    failed: int = 0
    repeated: int = 0
    """Begun again, since their worker died."""
    seconds: float = 0.0

    def count(self, ending: Ending, failed: bool) -> None:
        self.jobs += 1
        self.kept += not ending.tries
        self.failed += failed
        self.repeated += max(ending.tries - 1, 0)

    def sentence(self) -> str:
        parts = {"done before": self.kept, "failed": self.failed, "begun again": self.repeated}
        told = "".join(f", {number:,} {what}" for what, number in parts.items() if number)
        return f"{self.jobs:,} files on {self.on} in {self.seconds:,.0f} s{told}"


@contextmanager
def working(on: str) -> Generator[Executor]:
    """Who does the work. What others print meanwhile (Ray, of dead workers) is not for standard output."""
    from refold import batch

    with redirect_stdout(console(stderr=True).file), batch.opened(on) as executor:
        yield executor


@contextmanager
def keeping(id: str, spec: str | None, *, anew: bool) -> Generator[Kept | None]:
    """What was done before under that id. Where nothing can be kept, that is said, and work goes on."""
    from refold.batch.kept import Kept, forget_old
    from refold.stores import default_database, open_store

    try:
        store = open_store(spec or f"sqlite:{default_database().with_name('batch.db')}").store
        forget_old(store, time.time())
        kept = Kept(store, id, anew=anew)
    except (StorageError, OSError) as error:
        if spec:
            raise
        say(f"refold: what is done is not kept: {error}", err=True)
        yield None
        return
    try:
        yield kept
    finally:
        store.close()
        if kept.failure:
            say(f"refold: not all that was done is kept: {kept.failure}", err=True)


def followed(
    what: str, endings: Iterable[Ending], total: int, tally: Tally, failed: Callable[[Ending], bool]
) -> Iterator[Ending]:
    """The endings, counted; with a bar."""
    began = time.monotonic()
    with bar(what, total) as tell:
        for ending in endings:
            tally.count(ending, failed(ending))
            tally.seconds = round(time.monotonic() - began, 3)
            bad = f", {tally.failed} failed" if tally.failed else ""
            tell(tally.jobs, f"{tally.jobs}/{total}{bad}")
            yield ending
