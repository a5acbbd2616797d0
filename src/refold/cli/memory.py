"""`refold memory`."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from msgspec.structs import asdict, replace

from refold import registry
from refold.cli import CommandGroup
from refold.cli.options import WholeNumber, json_option
from refold.cli.output import console, echo, emit, print_answer, say_next, styled, text_table
from refold.engine.maintenance import asker
from refold.loop import run
from refold.memory import Compressed, MemoryNote, check, note, parse_notes
from refold.memory.notes import note_lines
from refold.presets.parameters import memory_params
from refold.stores import data_folder
from refold.stores.memory_file import MemoryFile
from refold.text.plural import counted


def default_path() -> Path:
    """`$REFOLD_MEMORY`, or `memory.md` beside the default database."""
    named = os.environ.get("REFOLD_MEMORY")
    return Path(named) if named else data_folder() / "memory.md"


@click.group("memory", cls=CommandGroup)
@click.option("--file", "path", type=click.Path(dir_okay=False), help="The memory file.")
@click.pass_context
def command(ctx: click.Context, path: str | None) -> None:
    """Long-term notes across sessions: one a line, with date and source."""
    ctx.obj = MemoryFile(path or default_path())


@command.command("add")
@click.argument("text", nargs=-1, required=True)
@click.option("--source", default="user", show_default=True, help="Who said it; anything but user is quoted.")
@click.option("--date", help="YYYY-MM-DD; default: today.")
@json_option
@click.pass_obj
def add(file: MemoryFile, text: tuple[str, ...], source: str, date: str | None, as_json: bool) -> None:
    """Add a note. Secrets are removed before it is written."""
    try:
        made = note(" ".join(text), date=_day(date), source=source)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    count = len(parse_notes(file.add(made.line)))
    print_answer(
        {"added": made, "notes": count},
        f"Noted: {made.line} ({counted(count, 'note')})",
        as_json,
        next="memory list",
    )


@command.command("list")
@click.argument("words", nargs=-1)
@json_option
@click.pass_obj
def list_notes(file: MemoryFile, words: tuple[str, ...], as_json: bool) -> None:
    """List the notes with their numbers, oldest first; with WORDS only those that contain all of them."""
    wanted = [word.lower() for word in words]
    numbered = [
        (number, each)
        for number, each in enumerate(parse_notes(file.read()), 1)
        if all(word in each.line.lower() for word in wanted)
    ]
    if as_json:
        about = ({"number": number, **asdict(each), "quoted": each.is_quoted} for number, each in numbered)
        emit({"notes": list(about)})
        return
    rows = (
        (
            styled((str(number), "bold")),
            styled((each.date, "dim")),
            styled((each.source, "yellow" if each.is_quoted else "cyan")),
            f"“{each.text}”" if each.is_quoted else each.text,
        )
        for number, each in numbered
    )
    console().print(text_table((), rows) if numbered else "no notes")


@command.command("forget")
@click.argument("numbers", nargs=-1, type=WholeNumber(1))
@click.option("--match", help="Delete every note that contains exactly this text.")
@json_option
@click.pass_obj
def forget(file: MemoryFile, numbers: tuple[int, ...], match: str | None, as_json: bool) -> None:
    """Delete notes, by number or by text."""
    if not numbers and not match:
        raise click.UsageError("nothing to delete: give note numbers, or --match TEXT")
    gone: list[MemoryNote] = []

    def without(text: str) -> str:
        kept: list[str] = []
        for number, line in enumerate(note_lines(text), 1):
            if number in numbers or (match and match.lower() in line.lower()):
                gone.extend(parse_notes(line))
            else:
                kept.append(f"{line}\n")
        return "".join(kept)

    count = len(parse_notes(file.read()))
    file.update(without)
    if as_json:
        emit({"forgotten": gone, "notes": len(parse_notes(file.read()))})
    else:
        _tell_forgotten(len(gone), [number for number in numbers if number > count], match, count)
    if not gone:
        raise SystemExit(1)


def _tell_forgotten(gone: int, absent: list[int], match: str | None, count: int) -> None:
    for number in absent:
        echo(
            f"refold: no note {number}; the memory has {counted(count, 'note')} (`refold memory list`)",
            err=True,
        )
    if match and not gone:
        echo(f"refold: no note contains {match!r}", err=True)
    if gone:
        echo(f"Deleted {counted(gone, 'note')}")
        say_next("memory list")


@command.command("compress")
@click.option("--model", help="Model that rewrites the notes; default: none.")
@click.option("--target", "compression_target", type=WholeNumber(1), help="Target number of notes (50).")
@click.option(
    "--keep", "num_recent_memories_to_keep", type=WholeNumber(0), help="Newest notes kept verbatim (10)."
)
@click.option("--max-lines", type=WholeNumber(0), help="Compress only above this many notes (100).")
@click.option("--prompt", "compression_prompt", help="Prompt for the model; blank: do nothing.")
@click.option("--params", type=click.File("r"), help="All of these as a JSON object, or feature flags.")
@click.option("--force", is_flag=True, help="Compress even if there are fewer notes.")
@json_option
@click.pass_obj
def compress(
    file: MemoryFile, model: str | None, params: Any, force: bool, as_json: bool, **given: int | str | None
) -> None:
    """Merge notes until fewer say the same. If anything fails, the memory stays as it was."""
    shipped = memory_params(params.read() if params else "")
    params = replace(shipped, **{name: value for name, value in given.items() if value is not None})
    for warning in () if as_json else check(params):
        echo(f"refold: {warning}", err=True)
    outcome = run(file.compress(params, asker(registry.model(model)) if model else None, force=force))
    done = isinstance(outcome, Compressed)
    told = f"{outcome.before:,} → {counted(outcome.after, 'note')}" if done else outcome.text
    more = {"before": outcome.before, "dropped": outcome.dropped} if done else {"reason": outcome.code}
    print_answer(
        {"compressed": done, "notes": len(parse_notes(file.read())), **more},
        told,
        as_json,
        next="memory list",
    )
    if not done and outcome.code not in ("few", "pointless"):
        raise SystemExit(1)


def _day(given: str | None) -> str:
    if given is None:
        return datetime.now(UTC).date().isoformat()
    try:
        return datetime.strptime(given, "%Y-%m-%d").date().isoformat()
    except ValueError as error:
        raise click.UsageError(f"--date takes YYYY-MM-DD, not {given!r}") from error
