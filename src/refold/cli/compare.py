"""`refold compare`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from refold import loop, presets, registry
from refold.cli.batch import BatchTally, batch_options, followed, keeping, working
from refold.cli.options import (
    force_option,
    json_option,
    named_model,
    preset_names,
    refuse_existing,
    session_names,
    warned,
)
from refold.cli.output import (
    console,
    drop_columns,
    echo,
    emit,
    first_line,
    progress_bar,
    waiting,
    write_private,
)
from refold.cli.session_argument import open_session, tell_problems
from refold.compare.budgets import parse_budgets
from refold.compare.forms import FORM_WORDS
from refold.compare.jobs import (
    SessionOrError,
    endings,
    fingerprint,
    jobs,
    merge_compared,
    sessions,
    transcript_files,
)
from refold.compare.measures import MEASURES
from refold.compare.money import priced
from refold.compare.report import page
from refold.compare.run import (
    VARIANTS,
    About,
    Cell,
    Compared,
    Comparison,
    ComparisonPlan,
    compare,
    row,
    variant,
)
from refold.compare.verdict import PresetGroup, budget, change, dollars, percent, preset_groups, verdicts
from refold.errors import UnknownName
from refold.text.plural import counted

if TYPE_CHECKING:
    from refold.cli.console import Screen

MAX_SHOWN_FILES = 20
"""Number of transcripts up to which each has its own table, and of unread files that are listed."""
MAX_REPORTED_FILES = 100
"""Number of files in a report, since all their folded sessions are in memory."""


@click.command("compare")
@click.argument("files", metavar="FILE|DIR…", nargs=-1, required=True, shell_complete=session_names)
@click.option(
    "--presets",
    "names",
    default="all",
    show_default=True,
    shell_complete=preset_names,
    help="Comma-separated presets; with settings: NAME:K=V.",
)
@click.option(
    "--budgets",
    default="20k",
    show_default=True,
    help="Comma-separated budgets: tokens (8k, 20000) or a share of the transcript (20%).",
)
@click.option(
    "--passes", default="1", show_default=True, help="How many folds, as the transcript grows: 1,3,10."
)
@click.option("--model", help="Model that writes the summaries, e.g. openai:gpt-…; default: none.")
@click.option("--prices", help="Model to take prices from; default: the one in the transcript.")
@click.option(
    "-o",
    "--html",
    type=click.Path(dir_okay=False),
    help="Write an HTML report here; it needs no network.",
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
    """What each preset would do to your transcripts, side by side.

    Every preset folds every transcript, or every transcript in a folder, until it fits the budget. Columns:
    size of the view; shares of the words you typed, changed files, names needed later, calls and numbers that
    it keeps verbatim; shares of messages that are whole or gone; cost of the whole transcript, and the
    difference to not folding.
    """
    plan = _plan(names, budgets, passes, model, prices)
    refuse_existing(html, force)
    found = transcript_files(files)
    if not found:
        raise click.ClickException(f"no transcripts in {', '.join(files)}")
    tally: BatchTally | None = None
    if html or (on is None and len(found) == 1):
        if html and (on or len(found) > MAX_REPORTED_FILES):
            raise click.UsageError(
                f"--html takes at most {MAX_REPORTED_FILES:,} files and does not run on workers: "
                "name fewer files and leave out --on"
            )
        done = run_comparison(found, plan)
        if html:
            write_report(done, html)
    else:
        tally = BatchTally(on or "processes")
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


def _plan(names: str, budgets: str, passes: str, model: str | None, prices: str | None) -> ComparisonPlan:
    named_model(model)  # a wrong name is reported before the work
    if prices:
        priced(prices)
    plan = ComparisonPlan(_presets(names), parse_budgets(budgets), _passes(passes), model, prices)
    if not plan.budgets:
        raise click.UsageError("--budgets names no budget")
    return plan


def many(
    files: Sequence[tuple[str, bool]],
    plan: ComparisonPlan,
    tally: BatchTally,
    kept: str | None,
    *,
    anew: bool,
) -> Compared:
    """Compares the files with several workers; results are in the order of the files."""
    with keeping(f"compare-{fingerprint(plan)}", kept, anew=anew) as done, working(tally.on) as on:
        ended = endings(jobs(files, plan), plan, on, done)
        found = list(
            followed("comparing", ended, len(files), tally, lambda ending: bool(ending.value.unread))
        )
    compared = merge_compared(ending.value for ending in sorted(found, key=lambda ending: ending.number))
    for file, note in compared.notes:
        echo(f"refold: {file}: {note}", err=True)
    return compared


def run_comparison(files: Sequence[tuple[str, bool]], plan: ComparisonPlan) -> Comparison:
    """Compares the files one by one in this process, and keeps the folded sessions."""
    with progress_bar("comparing", 1.0) as tell:
        return loop.run(compare(_opened(files), plan, tell))


def write_report(done: Comparison, path: str) -> None:
    """Writes the report, readable only by its owner; the folder is created."""
    with waiting("writing the report …"):
        document = page(done).encode()
    write_private(Path(path), document)


def print_tables(out: Screen, done: Compared) -> None:
    """Prints a table per transcript if there are few, the totals if there are several, and the verdict."""
    for file, error in done.unread[:MAX_SHOWN_FILES]:
        named = error if error.startswith(str(file)) else f"{file}: {error}"
        out.print(first_line(named, 300))
    if len(done.unread) > MAX_SHOWN_FILES:
        out.print(f"… and {len(done.unread) - MAX_SHOWN_FILES} more; --json lists all", style="dim")
    for about in done.transcripts if len(done.transcripts) <= MAX_SHOWN_FILES else ():
        _print_transcript(out, about, done.of(about.file))
    if len(done.transcripts) > 1:
        out.print(f"\n{len(done.transcripts):,} transcripts", style="bold")
        _print_groups(out, done.cells)
    if done.skipped:
        are = "is not a transcript" if done.skipped == 1 else "are not transcripts"
        out.print(f"{counted(done.skipped, 'file')} {are}", style="dim")
    for verdict in verdicts(done.cells):
        out.print(f"\n{verdict.title}", style="bold")
        for line in verdict.lines:
            out.print(f"  {line}")


def _print_transcript(out: Screen, about: About, cells: Sequence[Cell]) -> None:
    holds = [f"{about.holds[name]:,} {words}" for name, (_, words) in MEASURES.items() if about.holds[name]]
    out.print(f"\n{first_line(about.file, 120)}", style="bold")
    told = (
        f"{about.messages:,} messages, {about.tokens:,} tokens; {dollars(about.dollars)} without folding "
        f"({about.requests:,} requests, prices of {about.prices})"
    )
    out.print(told, style="dim")
    out.print(f"to preserve: {', '.join(holds) or 'nothing that can be counted'}", style="dim")
    _print_groups(out, cells)


def _fitting_as_is(cells: Sequence[Cell], asked: str, rows: Sequence[PresetGroup]) -> str:
    """How many transcripts are not folded, because they fit the budget as they are."""
    if not rows:
        return ": fits as it is"
    small = {cell.file for cell in cells if cell.asked == asked and not cell.needs_folding}
    return f"; {len(small):,} {'fits as it is' if len(small) == 1 else 'fit as they are'}" if small else ""


def _print_groups(out: Screen, cells: Sequence[Cell]) -> None:
    """A table for each budget and number of passes."""
    listed = preset_groups(cells)
    for asked, passes in dict.fromkeys((cell.asked, cell.passes) for cell in cells):
        rows = [group for group in listed if group.kind == (asked, passes)]
        times = f", {passes} times" if passes > 1 else ""
        fits = _fitting_as_is(cells, asked, rows)
        out.print(f"\nfolded to {budget(asked)}{times}{fits}")
        if rows:
            _print_table(out, rows)
        for group in rows:
            for name in group.same:
                out.print(f"{name}: the same as {group.preset}", style="dim")
            errors = Counter(cell.error for cell in group.cells if cell.error)
            for error, count in errors.most_common(1):
                where = f" ({count:,} of {len(group.cells):,} transcripts)" if len(group.cells) > 1 else ""
                out.print(f"{group.preset}{where}: {first_line(error, 300)}", style="yellow")


def _print_table(out: Screen, rows: Sequence[PresetGroup]) -> None:
    """One row per preset, best first; presets that do not fit have no shares."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 1, 0, 0))
    names = [name for name in MEASURES if name not in ("paths", "identifiers")]
    shares = [name for name in names if any(group.total(name).of for group in rows)]
    many = len(rows[0].cells) > 1
    for heading in (
        "preset",
        "fits" if many else "view",
        *(MEASURES[name][0] for name in shares),
        "whole",
        "gone",
        "cost",
        "",
    ):
        is_name = heading == "preset"
        table.add_column(heading, justify="left" if is_name else "right", no_wrap=not is_name)
    for group in rows:
        style = "" if len(group.fitting) == len(group.cells) else "yellow" if group.good else "red"
        size = f"{len(group.fitting)} of {len(group.cells)}" if many else f"{group.tokens:,}"
        counts = [group.total(name).share if group.fitting else None for name in shares]
        messages = sum(group.form(form) for form in FORM_WORDS) if group.fitting else 0
        table.add_row(
            Text(group.preset, style),
            Text(size if group.good else "failed", style),
            *map(_percent, counts),
            *(_percent(group.form(form) / messages if messages else None) for form in ("whole", "gone")),
            dollars(group.cost) if group.good else "–",
            change(group.cost, group.cost_unfolded) if group.good else "",
        )
    drop_columns(table, out, ("numbers", "calls", "gone", "whole", "", "names", "files", "words", "cost"))
    out.print(table)


def _percent(share: float | None) -> str:
    return "–" if share is None else percent(share)


def _presets(text: str) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    known = presets.names()
    if chosen == ("all",):
        return (*known, *VARIANTS)
    for name in chosen:
        preset, settings = variant(name)
        if preset not in known:
            raise UnknownName("preset", name, known)
        if settings:
            warned(lambda preset=preset, settings=settings: registry.preset(preset, settings))
    if not chosen:
        raise click.UsageError("--presets names no preset")
    return chosen


def _passes(text: str) -> tuple[int, ...]:
    try:
        chosen = tuple(dict.fromkeys(int(part) for part in text.split(",") if part.strip()))
    except ValueError:
        raise click.UsageError(f"--passes takes numbers separated by commas, not {text!r}") from None
    if not chosen or min(chosen) < 1 or max(chosen) > 1_000:
        raise click.UsageError("--passes takes numbers between 1 and 1000")
    return chosen


def _opened(files: Sequence[tuple[str, bool]]) -> Iterator[tuple[str, SessionOrError]]:
    for file, named in files:
        for name, session in sessions(file, named, open_session):
            if not isinstance(session, Exception):
                tell_problems(session)
            yield name, session
