"""`refold compare`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from refold.cli.common import (
    console,
    emit,
    first_line,
    force_option,
    json_option,
    named_model,
    open_session,
    refuse_existing,
    tell_problems,
    waiting,
    write_private,
)

if TYPE_CHECKING:
    from rich.console import Console

    from refold.compare.run import Cell, Comparison, Plan
    from refold.errors import RefoldError
    from refold.session import Session

FORMS = ("whole", "clipped", "lines", "gone")


@click.command("compare")
@click.argument("files", metavar="FILE…", nargs=-1, required=True)
@click.option(
    "--presets",
    "names",
    default="all",
    show_default=True,
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
    as_json: bool,
) -> None:
    """What each design would do to your transcripts, side by side.

    Every transcript is fed to every design anew and folded until it fits the budget. Columns: size of the
    view; share of the user's typed words that it holds verbatim and of the changed files that it names; share
    of the messages that stand in it whole, clipped, as a line of a summary, or not at all; dollars for the
    whole transcript; seconds; requests to a summariser.
    """
    from refold.compare.budgets import parse_list
    from refold.compare.run import Plan, row

    plan = Plan(_presets(names), parse_list(budgets), _passes(passes), named_model(model), prices)
    if not plan.budgets:
        raise click.UsageError("--budgets names no budget")
    refuse_existing(html, force)
    done = perform(files, plan, show=not as_json)
    if html:
        write(done, html)
    if as_json:
        emit({"rows": [row(cell) for cell in done.cells]})
    else:
        out = console()
        print_tables(out, done)
        if html:
            out.print(f"report: {html}")
    if all(cell.failed for cell in done.cells):
        raise SystemExit(1)


def perform(files: Sequence[str], plan: Plan, *, show: bool) -> Comparison:
    from refold import loop
    from refold.compare.run import compare

    if not show:
        return loop.run(compare(_opened(files), plan))
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    what = TextColumn("{task.description}", markup=False)
    columns = (TextColumn("comparing"), BarColumn(), what, TimeElapsedColumn())
    with Progress(*columns, transient=True, console=console(stderr=True)) as bar:
        task = bar.add_task("", total=1.0)

        def tell(part: float, what: str) -> None:
            bar.update(task, completed=part, description=first_line(what, 40))

        return loop.run(compare(_opened(files), plan, tell))


def write(done: Comparison, path: str) -> None:
    """Write the report, for its owner alone; the folder is made."""
    from refold.compare.report import page

    with waiting("writing the report …"):
        document = page(done).encode()
    write_private(Path(path), document)


def print_tables(out: Console, done: Comparison) -> None:
    """A table for every transcript and, where there are several, one of means."""
    for file, error in done.unread:
        out.print(f"{file}: {first_line(error, 300)}")
    for transcript in done.transcripts:
        cells = done.of(transcript.file)
        out.print()
        out.print(f"{first_line(transcript.file, 120)}", style="bold")
        out.print(
            f"{len(transcript.steps.sums) - 1:,} messages, {transcript.tokens:,} tokens, "
            f"{len(transcript.steps.steps):,} requests; prices of {transcript.prices.name}",
            style="dim",
        )
        print_table(out, cells)
        for line in money_lines(transcript.none.dollars, cells):
            out.print(line, style="dim")
        for cell in cells:
            if cell.error:
                out.print(f"{_title(cell)}: {first_line(cell.error, 300)}", style="yellow")
    if len(done.transcripts) > 1:
        out.print(f"\nmeans over {len(done.transcripts)} transcripts", style="bold")
        print_table(out, done.cells)
    print_verdict(out, done)


def print_verdict(out: Console, done: Comparison) -> None:
    from refold.compare.verdict import verdict

    found = verdict(done)
    out.print(f"\n{found.title}", style="bold")
    for line in found.text:
        out.print(f"  {line}")


def print_table(out: Console, cells: Sequence[Cell]) -> None:
    """One row per design, budget and number of passes; of several transcripts the means."""
    from rich.table import Table
    from rich.text import Text

    from refold.compare.groups import groups

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
    from refold.errors import UnknownName

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


def _opened(files: Sequence[str]) -> Iterator[tuple[str, Session | RefoldError | OSError]]:
    from refold.errors import RefoldError

    for file in files:
        try:
            session = open_session(file)
        except (RefoldError, OSError) as error:
            yield file, error
            continue
        tell_problems(session)
        yield file, session
