"""`refold import`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from shlex import quote
from typing import Any

import click
import msgspec

from refold.batch import Batch, Ending, Job, StoredResults
from refold.batch.results import file_key, release, short_digest
from refold.cli.batch import BatchTally, batch_options, followed, keeping, usual_executor, working
from refold.cli.options import json_option
from refold.cli.output import console, print_answer, text_table
from refold.protocols import Placed, Store
from refold.registry.client_sessions import folders
from refold.stores import open_store, without_password
from refold.text.plural import counted
from refold.transcripts import format_of
from refold.transcripts.importing import (
    Importer,
    ImportJob,
    ImportOutcome,
    Parcel,
    find_transcripts,
    read_for_import,
)

_SHOWN = 20
_STATES = ("imported", "grown", "unchanged", "skipped", "failed")


@click.command("import")
@click.argument("paths", metavar="FILE|DIR…", nargs=-1, type=click.Path())
@click.option(
    "--to",
    "store",
    default="sqlite:",
    metavar="STORE",
    help="Target store: sqlite:FILE, jsonl:FOLDER/ or postgres://… [default: yours]",
)
@click.option("--format", "format", metavar="NAME", help="Format of the files [default: detected].")
@batch_options
@json_option
def command(
    paths: tuple[str, ...],
    store: str,
    format: str | None,
    on: str | None,
    kept: str | None,
    anew: bool,
    as_json: bool,
) -> None:
    """Import transcripts of other agents into a store.

    Without FILE or DIR: the sessions of Claude Code, Codex, pi, Gemini CLI, opencode and Copilot CLI on this
    machine. Folders are read recursively. Run it again at any time: known sessions are skipped, and
    those that grew get the rest. Sources are never changed. Workers read; this process alone writes.
    """
    if format is not None:
        format_of(format)  # a wrong name is reported before the work
    for path in paths:
        if not Path(path).exists():
            raise click.UsageError(f"{path}: no such file or folder")
    files = find_transcripts(paths or _found())
    target = open_store(store).store
    tally = BatchTally(on or usual_executor(len(files)))
    with ExitStack() as stack:
        stack.callback(target.close)
        place = str(target.path) if isinstance(target, Placed) else without_password(store)
        done = None
        if kept or tally.on != "here":
            id = f"import-{short_digest(release(), place, format)}"
            done = stack.enter_context(keeping(id, kept, anew=anew))
        outcomes = _imported(files, target, format, tally, done)
    counts = Counter(outcome.state for outcome in outcomes)
    summary: dict[str, Any] = {state: counts[state] for state in _STATES}
    value = {
        "store": without_password(store),
        "files": len(files),
        **summary,
        "sessions": outcomes,
        "batch": tally,
    }
    listing = "sessions" if store == "sqlite:" else f"sessions --store {quote(store)}"
    print_answer(
        value, lambda: _print(outcomes, summary, place), as_json, next=listing if summary["imported"] else ""
    )
    if counts["failed"] or not files:
        raise SystemExit(1)


def _found() -> list[Path]:
    """Folders in which programs keep sessions on this machine."""
    places = folders()
    there = [path for path in places.values() if path.exists()]
    if not there:
        looked = "\n".join(f"  {path}" for path in places.values())
        raise click.UsageError(f"no sessions found; name a file or a folder. Searched:\n{looked}")
    return there


def _imported(
    files: Sequence[tuple[Path, bool]],
    target: Store,
    format: str | None,
    tally: BatchTally,
    kept: StoredResults | None,
) -> list[ImportOutcome]:
    """Workers read the files; this process stores them in order: of two with the same id the first wins."""
    importer = Importer(target)

    def finish(job: Job, found: Any) -> Any:
        file = job.argument.file
        read = [_of_that_format(file, one) if format else one for one in found]
        return msgspec.to_builtins(list(importer.put(file, read)))

    def outcomes(value: Any) -> list[ImportOutcome]:
        return msgspec.convert(value, list[ImportOutcome])

    def failed(ending: Ending) -> bool:
        return ending.error is not None or any(one.state == "failed" for one in outcomes(ending.value))

    many = Batch(
        read_for_import,
        finish,
        keeps=lambda value: all(one.state != "failed" for one in outcomes(value)),
        trusts=lambda value: all(map(importer.has, outcomes(value))),
        ordered=True,
    )
    jobs = (Job(ImportJob(path, named, format), file_key(path, named)) for path, named in files)
    told: list[ImportOutcome] = []
    with working(tally.on) as on:
        ended = many.run(jobs, on, kept)
        for ending in followed("reading", ended, len(files), tally, failed):
            if ending.error is not None:
                told.append(
                    ImportOutcome(file=str(ending.job.argument.file), state="failed", text=ending.error)
                )
            elif ending.tries:
                told += outcomes(ending.value)
            else:
                told += map(_as_it_was, outcomes(ending.value))
    return told


def _of_that_format(file: Path, one: Parcel | ImportOutcome) -> Parcel | ImportOutcome:
    """A failure for a file that can hardly be read in the format that the user named."""
    if isinstance(one, ImportOutcome) or 2 * one.problems < len(one.lines):
        return one
    text = f"{file} is not in the format {one.format}: {counted(one.problems, 'problem')} while reading"
    return ImportOutcome(file=str(file), state="failed", text=text)


def _as_it_was(then: ImportOutcome) -> ImportOutcome:
    state = "skipped" if then.state == "skipped" else "unchanged"
    return msgspec.structs.replace(then, state=state, added=0)


def _print(outcomes: list[ImportOutcome], summary: dict[str, Any], store: str) -> None:
    out = console()
    told = [one for one in outcomes if one.state in ("imported", "grown")]
    if told:
        rows = (
            (one.state, one.format or "", f"{one.added:,}", one.id or "", Path(one.file).name)
            for one in told[:_SHOWN]
        )
        out.print(text_table(("", "format", "entries", "session", "file"), rows, right=("entries",)))
    if len(told) > _SHOWN:
        out.print(f"… and {len(told) - _SHOWN} more; --json lists all", style="dim")
    for one in outcomes:
        if one.state == "failed":
            out.print(f"failed: {one.text}", style="red")
    parts = [f"{n} {state}" for state, n in summary.items() if n]
    out.print((", ".join(parts) or "no transcripts found") + (f" → {store}" if told else ""), style="bold")
    remarks = [f"{Path(one.file).name}: {one.text}" for one in told if one.text]
    for remark in remarks[:_SHOWN]:
        out.print(remark, style="yellow")
    if len(remarks) > _SHOWN:
        out.print(f"… and {len(remarks) - _SHOWN:,} more; --json lists all", style="dim")
