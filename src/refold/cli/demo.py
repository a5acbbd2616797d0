"""`refold demo`: folds the bundled sample session with the embedded default, and writes the report."""

from __future__ import annotations

import gzip
from importlib.resources import files
from pathlib import Path

import click

from refold import presets
from refold.cli.compare import print_tables, run_comparison, write_report
from refold.cli.console import Screen
from refold.cli.options import json_option
from refold.cli.output import console, first_line, indented, print_answer, program, styled, write_private
from refold.compaction.path_index import path_index
from refold.compare.budgets import parse_budget
from refold.compare.run import Cell, Comparison, ComparisonPlan, row
from refold.facts.state_text import verdict_text
from refold.text.plural import counted
from refold.text.truncate import one_line

DEMO_BUDGET = "10k"
DEMO_FORMS = {
    "whole": ("whole", "word for word"),
    "clipped": ("clipped", "clipped"),
    "lines": ("as lines", "one line each, in a record"),
    "gone": ("not shown", "`refold recall` finds them"),
}


@click.command("demo")
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    default="out",
    show_default=True,
    help="Folder for the results.",
)
@json_option
def command(out: str, as_json: bool) -> None:
    """Fold a bundled coding session of 100k tokens to 10k, and compare all presets on it."""
    session = unpack(Path(out) / "sample.jsonl")
    screen = console()
    if not as_json:
        idea = ": long agent conversations, inside the window, with nothing lost.\n"
        screen.print(styled(("refold", "bold"), idea))
        screen.print(f"The sample is a bug hunt in a small web service: {session}")
    done = run_comparison([(str(session), True)], ComparisonPlan(presets.NAMES, [parse_budget(DEMO_BUDGET)]))
    report = Path(out) / "report.html"
    write_report(done, str(report))
    value = {"session": str(session), "report": str(report), "rows": [row(cell) for cell in done.cells]}
    print_answer(value, lambda: _tell(screen, done, session, report), as_json)


def _tell(screen: Screen, done: Comparison, session: Path, report: Path) -> None:
    _tell_kept(screen, next(cell for cell in done.cells if cell.preset == "refold"), done)
    screen.print("\nAll presets on the same session", style="bold")
    print_tables(screen, done)
    said = " (open it in a browser; it needs no network):"
    screen.print(styled(("\nThe report", "bold green"), said))
    screen.print(str(report.resolve()), soft_wrap=True)
    screen.print(styled(("\nNext, ", "bold"), "to explore it, and to fold a session of your own:"))
    for arguments in (f"show {session} --trail", "compact YOUR-SESSION.jsonl --budget 20k -o folded.jsonl"):
        screen.print(f"  {program()} {arguments}", soft_wrap=True)


def unpack(path: Path) -> Path:
    """Writes the sample session to a file."""
    packed = files("refold.data").joinpath("sample.jsonl.gz").read_bytes()
    write_private(path, gzip.decompress(packed))
    return path


def _tell_kept(screen: Screen, cell: Cell, done: Comparison) -> None:
    if cell.done is None:
        raise click.ClickException(cell.error or "The sample could not be folded")
    whole = done.transcripts[0].tokens
    known = path_index(cell.done.session)
    files = known.state.files()
    took = f"in {cell.seconds:.1f} s, no model"
    screen.print(styled((f"\n{whole:,} → {cell.tokens:,} tokens", "bold"), f" {took}:\n"))
    _bars(screen, whole, cell)
    screen.print(f"\nthe user's own words ({_percent(cell.share('words'))} verbatim):")
    for saying in known.sayings:
        screen.print(indented(f"• {one_line(saying.text, 800)}", 2))
    changed = (
        *(f"created {path}" for path in files.created),
        *(f"changed {path}" for path in files.modified),
    )
    screen.print(f"\n{counted(len(changed), 'changed file')} ({_percent(cell.share('files'))} named):")
    for line in changed:
        screen.print(f"  • {first_line(line, 120)}")
    if known.state.checks:
        check = known.state.checks[-1]
        text = f"{first_line(check.command, 60)}: {first_line(verdict_text(check), 80)}"
        screen.print(f"  last build or test: {text}")


def _bars(screen: Screen, whole: int, cell: Cell) -> None:
    """Bars of the context before and after, and of the forms of its messages."""
    width = min(screen.columns, 100) - 30
    for name, size, style in (("before", whole, "red"), ("after", cell.tokens or 0, "green")):
        bar = "█" * max(round(size * width / max(whole, 1)), 1)
        screen.print(styled(f"{name:7} ", (f"{bar:{width}}", style), f" {size:7,} tokens"))
    screen.print()
    for form, part in (cell.forms or {}).items():
        size = f"{part.messages:4} messages of {part.tokens:6,} tokens"
        screen.print(styled((f"  {DEMO_FORMS[form][0]:10}", "bold"), f" {size}: {DEMO_FORMS[form][1]}"))


def _percent(share: float | None) -> str:
    return "none to keep" if share is None else f"{share:.0%}"
