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

from refold.batch import Batch, Ending, Job, Kept
from refold.batch.kept import digest, file_key, release
from refold.cli.batch import Tally, batch_options, followed, keeping, working
from refold.cli.options import json_option
from refold.cli.output import answer, console, table
from refold.protocols import Placed, Store
from refold.registry.installed import folders
from refold.stores import open_store, shown
from refold.transcripts.importing import Asked, Importer, Outcome, find, reading

_SHOWN = 20
FEW = 8
"""So many files are read sooner than others are started to read them."""
_STATES = ("imported", "grown", "unchanged", "skipped", "failed")


@click.command("import")
@click.argument("paths", metavar="FILE|DIR…", nargs=-1, type=click.Path())
@click.option(
    "--to", "store", default="sqlite:", metavar="STORE", help="sqlite:FILE, jsonl:FOLDER/ [default: yours]"
)
@click.option("--format", "format", metavar="NAME", help="Instead of telling it from the content.")
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
    """Read transcripts of other agents into a store.

    Without FILE or DIR: the sessions of Claude Code, Codex, pi, Gemini CLI, opencode and Copilot CLI on this
    machine. A folder is read with everything in it. Do it again whenever you like: what is there is left
    alone, what grew gets the rest. Sources are never changed. Workers read; this process alone writes.
    """
    files = find(paths or _found())
    target = open_store(store).store
    tally = Tally(on or ("processes" if len(files) > FEW else "here"))
    with ExitStack() as stack:
        stack.callback(target.close)
        place = str(target.path) if isinstance(target, Placed) else shown(store)
        done = None
        if kept or tally.on != "here":
            id = f"import-{digest(release(), place, format)}"
            done = stack.enter_context(keeping(id, kept, anew=anew))
        outcomes = _imported(files, target, format, tally, done)
    counts = Counter(outcome.state for outcome in outcomes)
    summary: dict[str, Any] = {state: counts[state] for state in _STATES}
    value = {"store": shown(store), "files": len(files), **summary, "sessions": outcomes, "batch": tally}
    listing = "sessions" if store == "sqlite:" else f"sessions --store {quote(store)}"
    answer(
        value, lambda: _print(outcomes, summary, place), as_json, next=listing if summary["imported"] else ""
    )
    if counts["failed"] or not files:
        raise SystemExit(1)


def _found() -> list[Path]:
    """Where programs keep sessions on this machine."""
    places = folders()
    there = [path for path in places.values() if path.exists()]
    if not there:
        looked = "\n".join(f"  {path}" for path in places.values())
        raise click.UsageError(f"no sessions were found; name a file or a folder. Looked for:\n{looked}")
    return there


def _imported(
    files: Sequence[tuple[Path, bool]], target: Store, format: str | None, tally: Tally, kept: Kept | None
) -> list[Outcome]:
    """Files are read by whoever does the work, and put into the store here, in their order: of two that claim
    one id the first has it, however long it took to read."""
    importer = Importer(target)

    def finish(job: Job, found: Any) -> Any:
        return msgspec.to_builtins(list(importer.put(job.argument.file, found)))

    def outcomes(value: Any) -> list[Outcome]:
        return msgspec.convert(value, list[Outcome])

    def failed(ending: Ending) -> bool:
        return ending.error is not None or any(one.state == "failed" for one in outcomes(ending.value))

    many = Batch(
        reading,
        finish,
        keeps=lambda value: all(one.state != "failed" for one in outcomes(value)),
        trusts=lambda value: all(map(importer.has, outcomes(value))),
        ordered=True,
    )
    jobs = (Job(Asked(path, named, format), file_key(path, named)) for path, named in files)
    told: list[Outcome] = []
    with working(tally.on) as on:
        ended = many.run(jobs, on, kept)
        for ending in followed("reading", ended, len(files), tally, failed):
            if ending.error is not None:
                told.append(Outcome(file=str(ending.job.argument.file), state="failed", text=ending.error))
            elif ending.tries:
                told += outcomes(ending.value)
            else:
                told += map(_as_it_was, outcomes(ending.value))
    return told


def _as_it_was(then: Outcome) -> Outcome:
    state = "skipped" if then.state == "skipped" else "unchanged"
    return msgspec.structs.replace(then, state=state, added=0)


def _print(outcomes: list[Outcome], summary: dict[str, Any], store: str) -> None:
    out = console()
    told = [one for one in outcomes if one.state in ("imported", "grown")]
    if told:
        rows = (
            (one.state, one.format or "", f"{one.added:,}", one.id or "", Path(one.file).name)
            for one in told[:_SHOWN]
        )
        out.print(table(("", "format", "entries", "session", "file"), rows, right=("entries",)))
    if len(told) > _SHOWN:
        out.print(f"… and {len(told) - _SHOWN} more; --json lists all", style="dim")
    for one in outcomes:
        if one.state == "failed":
            out.print(f"failed: {one.text}", style="red")
    problems = sum(one.problems for one in outcomes)
    parts = [f"{n} {state}" for state, n in summary.items() if n]
    out.print(f"{', '.join(parts) or 'no transcripts found'} → {store}", style="bold")
    if problems:
        out.print(f"{problems} part(s) could not be understood; `refold show` names them", style="yellow")
