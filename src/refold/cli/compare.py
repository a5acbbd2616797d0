"""`refold compare`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from refold.cli.batch import Tally, batch_options, followed, keeping, working
from refold.cli.opening import open_session, tell_problems
from refold.cli.options import (
    force_option,
    json_option,
    named_model,
    preset_names,
    refuse_existing,
    session_names,
)
from refold.cli.output import bar, console, emit, first_line, say, waiting, write_private
from refold.errors import UnknownName

if TYPE_CHECKING:
    from rich.console import Console

    from refold.batch import Ending
    from refold.compare.many import Opened
    from refold.compare.run import About, Cell, Compared, Comparison, Plan

SHOWN = 20
"""Transcripts that have a table of their own, where there are no more; files that are named as unread."""
REPORTED = 100
"""Files that a report shows; all folded sessions are in memory then."""


@click.command("compare")
@click.argument("files", metavar="FILE|DIR…", nargs=-1, required=True, shell_complete=session_names)
@click.option(
    "--presets",
    "names",
    default="all",
    show_default=True,
    shell_complete=preset_names,
    help="Designs, by commas; with settings: NAME:K=V.",
)
@click.option(
    "--budgets", default="20k", show_default=True, help="What a fold may leave: 8k, 20000, 20% …, by commas."
)
@click.option("--passes", default="1", show_default=True, help="Folds at growing prefixes: 1,3,10.")
@click.option("--model", help="Who writes the summaries, e.g. openai:gpt-…; default: the embedded digest.")
@click.option("--prices", help="Whose prices count; default: the model that the transcript names.")
@click.option(
    "-o",
    "--html",
    type=click.Path(dir_okay=False),
    help="Write the report here: one page that needs no network.",
)
@force_option
@batch_options
@json_option
def command(
    files: tuple[str, ...],
    names: str,
    budgets: str,
    passes: str,
    model: str | None,
    prices: str | None,
    html: str | None,
    force: bool,
    on: str | None,
    kept: str | None,
    anew: bool,
    as_json: bool,
) -> None:
    """What each design would do to your transcripts, side by side.

    Every transcript is fed to every design anew and folded until it fits the budget; of a folder, all
    transcripts in it. Columns: size of the view; share of the user's typed words that it holds verbatim and
    of the changed files that it names; share of the messages that stand in it whole, clipped, as a line of a
    summary, or not at all; dollars for the whole transcript; seconds; requests to a summariser.
    """
    from refold.compare.many import files_of
    from refold.compare.run import row

    plan = _plan(names, budgets, passes, model, prices)
    refuse_existing(html, force)
    found = files_of(files)
    if not found:
        raise click.ClickException(f"there are no transcripts in {', '.join(files)}")
    tally: Tally | None = None
    if html or (on is None and len(found) == 1):
        if html and (on or len(found) > REPORTED):
            raise click.UsageError(
                f"--html shows every fold and is made in this process, of {REPORTED} files at most: "
                "leave out --on, and name fewer"
            )
        done = perform(found, plan)
        if html:
            write(done, html)
    else:
        tally = Tally(on or "processes")
        done = many(found, plan, tally, kept, anew=anew)
    if as_json:
        emit({"rows": [row(cell) for cell in done.cells], "skipped": done.skipped, "batch": tally})
    else:
        out = console()
        print_tables(out, done)
        if html:
            out.print(f"report: {html}")
        if tally:
            out.print(f"\n{tally.sentence()}", style="dim")
    if all(cell.failed for cell in done.cells):
        raise SystemExit(1)


def _plan(names: str, budgets: str, passes: str, model: str | None, prices: str | None) -> Plan:
    from refold.compare.budgets import parse_list
    from refold.compare.run import Plan, priced

    named_model(model)  # a wrong name is said before the work
    if prices:
        priced(prices)
    plan = Plan(_presets(names), parse_list(budgets), _passes(passes), model, prices)
    if not plan.budgets:
        raise click.UsageError("--budgets names no budget")
    return plan


def many(
    files: Sequence[tuple[str, bool]], plan: Plan, tally: Tally, kept: str | None, *, anew: bool
) -> Compared:
    """The files by whoever does the work, each as it comes; the result is in their order."""
    from refold.compare.many import endings, fingerprint, jobs, joined

    def failed(ending: Ending) -> bool:
        return bool(ending.value.unread)

    with keeping(f"compare-{fingerprint(plan)}", kept, anew=anew) as done, working(tally.on) as on:
        ended = endings(jobs(files, plan), plan, on, done)
        found = list(followed("comparing", ended, len(files), tally, failed))
    compared = joined(ending.value for ending in sorted(found, key=lambda ending: ending.number))
    for file, note in compared.notes:
        say(f"refold: {file}: {note}", err=True)
    return compared


def perform(files: Sequence[tuple[str, bool]], plan: Plan) -> Comparison:
    """In this process, one after the other, with the folded sessions."""
    from refold import loop
    from refold.compare.run import compare

    with bar("comparing", 1.0) as tell:
        return loop.run(compare(_opened(files), plan, tell))


def write(done: Comparison, path: str) -> None:
    """Write the report, for its owner alone; the folder is made."""
    from refold.compare.report import page

    with waiting("writing the report …"):
        document = page(done).encode()
    write_private(Path(path), document)


def print_tables(out: Console, done: Compared) -> None:
    """A table for every transcript, where they are few, one of means, where they are several; the verdict."""
    from refold.compare.verdict import verdict

    for file, error in done.unread[:SHOWN]:
        out.print(f"{file}: {first_line(error, 300)}")
    if len(done.unread) > SHOWN:
        out.print(f"… and {len(done.unread) - SHOWN} more; --json lists all", style="dim")
    for about in done.transcripts if len(done.transcripts) <= SHOWN else ():
        _print_transcript(out, about, done.of(about.file))
    if len(done.transcripts) > 1:
        out.print(f"\nmeans over {len(done.transcripts):,} transcripts", style="bold")
        print_table(out, done.cells)
    if done.skipped:
        out.print(f"{done.skipped:,} files are no transcripts", style="dim")
    found = verdict(done.cells, [about.tokens for about in done.transcripts])
    out.print(f"\n{found.title}", style="bold")
    for line in found.text:
        out.print(f"  {line}")


def _print_transcript(out: Console, about: About, cells: Sequence[Cell]) -> None:
    out.print()
    out.print(f"{first_line(about.file, 120)}", style="bold")
    out.print(
        f"{about.messages:,} messages, {about.tokens:,} tokens, "
        f"{about.requests:,} requests; prices of {about.prices}",
        style="dim",
    )
    print_table(out, cells)
    for line in money_lines(about.dollars, cells):
        out.print(line, style="dim")
    for cell in cells:
        if cell.error:
            out.print(f"{_title(cell)}: {first_line(cell.error, 300)}", style="yellow")


def print_table(out: Console, cells: Sequence[Cell]) -> None:
    """One row per design, budget and number of passes; of several transcripts the means."""
    from rich.table import Table
    from rich.text import Text

    from refold.compare.forms import FORMS
    from refold.compare.verdict import groups

    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("design", "budget", "×", "view", "words", "files", *FORMS, "cost", "s", "calls"):
        table.add_column(heading, justify="left" if heading == "design" else "right", no_wrap=True)
    for group in groups(cells):
        fits = all(cell.fits for cell in group.cells)
        style = "" if fits else "yellow" if group.good else "red"
        tokens = group.mean(lambda cell: cell.tokens)
        table.add_row(
            Text(group.preset, style),
            group.asked,
            str(group.passes),
            Text("failed" if tokens is None else f"{tokens:,.0f}", style),
            _percent(group.mean(lambda cell: cell.constraints)),
            _percent(group.mean(lambda cell: cell.artifacts)),
            *(_percent(group.mean(lambda cell, form=form: cell.share(form))) for form in FORMS),
            _shown(group.mean(lambda cell: cell.cost), "${:,.2f}"),
            _shown(group.mean(lambda cell: cell.seconds), "{:.1f}"),
            _shown(group.mean(lambda cell: cell.requests), "{:.0f}"),
        )
    out.print(table)


def _shown(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def money_lines(none: float, cells: Sequence[Cell]) -> Iterator[str]:
    """Whether folding pays, in a sentence or two."""
    priced = [cell for cell in cells if cell.paid and cell.paid.usual.folds]
    yield f"without folding it costs ${none:,.2f}"
    losing = [cell for cell in priced if cell.paid and cell.paid.saved < 0]
    if losing:
        listed = ", ".join(dict.fromkeys(f"{_title(cell)}" for cell in losing))
        yield f"folding loses money here (the cache made keeping everything cheaper): {listed}"


def _title(cell: Cell) -> str:
    return f"{cell.preset} at {cell.budget:,}" + (f", {cell.passes} passes" if cell.passes > 1 else "")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def _presets(text: str) -> tuple[str, ...]:
    from refold import presets
    from refold.compare.run import VARIANTS, variant

    chosen = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    known = presets.names()
    if chosen == ("all",):
        return (*known, *VARIANTS)
    for name in chosen:
        if variant(name)[0] not in known:
            raise UnknownName("preset", name, known)
    if not chosen:
        raise click.UsageError("--presets names no design")
    return chosen


def _passes(text: str) -> tuple[int, ...]:
    try:
        chosen = tuple(dict.fromkeys(int(part) for part in text.split(",") if part.strip()))
    except ValueError:
        raise click.UsageError(f"--passes takes numbers separated by commas, not {text!r}") from None
    if not chosen or min(chosen) < 1 or max(chosen) > 1_000:
        raise click.UsageError("--passes takes numbers between 1 and 1000")
    return chosen


def _opened(files: Sequence[tuple[str, bool]]) -> Iterator[tuple[str, Opened]]:
    from refold.compare.many import sessions

    for file, named in files:
        for name, session in sessions(file, named, open_session):
            if not isinstance(session, Exception):
                tell_problems(session)
            yield name, session
