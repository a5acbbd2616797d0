"""`refold import`."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refold.cli.common import console, emit, json_option, progress, table

if TYPE_CHECKING:
    from refold.transcripts.importing import Outcome

_SHOWN = 20
_STATES = ("imported", "grown", "unchanged", "skipped", "failed")


@click.command("import")
@click.argument("paths", metavar="FILE|DIR…", nargs=-1, required=True, type=click.Path())
@click.option(
    "--to", "store", default="sqlite:", metavar="STORE", help="sqlite:FILE, jsonl:FOLDER/ [default: yours]"
)
@click.option("--format", "format", metavar="NAME", help="Instead of telling it from the content.")
@json_option
def command(paths: tuple[str, ...], store: str, format: str | None, as_json: bool) -> None:
    """Read transcripts of other agents into a store.

    A folder is read with everything in it, for example ~/.claude/projects or ~/.codex/sessions. Do it again
    whenever you like: what is there is left alone, what grew gets the rest. Sources are never changed.
    """
    from refold.protocols import Placed
    from refold.stores import open_store, shown
    from refold.transcripts.importing import Importer, find

    files = find(paths)
    target = open_store(store).store
    outcomes: list[Outcome] = []
    with ExitStack() as stack:
        stack.callback(target.close)
        importer = Importer(target)
        for path, named in progress("reading", files, show=not as_json):
            outcomes.extend(importer.take(path, named=named, format=format))
    counts = Counter(outcome.state for outcome in outcomes)
    summary: dict[str, Any] = {state: counts[state] for state in _STATES}
    if as_json:
        emit({"store": shown(store), "files": len(files), **summary, "sessions": outcomes})
    else:
        _print(outcomes, summary, str(target.path) if isinstance(target, Placed) else shown(store))
    if counts["failed"] or not files:
        raise SystemExit(1)


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
