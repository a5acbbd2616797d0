"""`refold compact`."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from refold.cli.opening import open_session, tell_problems
from refold.cli.options import (
    file_argument,
    force_option,
    json_option,
    named_model,
    preset_options,
    refuse_existing,
)
from refold.cli.output import bar, console, emit, say, say_next, styled, table, waiting, write_private
from refold.cli.show import about_fold, view_dict

if TYPE_CHECKING:
    from refold.compaction.preset import Preset
    from refold.compare.replay import Replayed
    from refold.registry.engine import Engine
    from refold.registry.installed import InPlace, Written
    from refold.session import Session, View


PROGRAMS = {"claude": "claude-code", "codex": "codex", "opencode": "opencode"}
"""What a user calls a program that a fold is resumed in, and its format."""


@click.command("compact")
@file_argument
@preset_options
@click.option(
    "--passes",
    type=click.IntRange(1),
    help="Feed the transcript anew and fold it this many times at growing prefixes.",
)
@click.option("--model", help="Who writes the summaries, e.g. openai:gpt-…; default: the embedded digest.")
@click.option("--focus", help="What the summary should pay attention to.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), help="Write the session (log and folds) here."
)
@force_option
@click.option("--in-place", is_flag=True, help="Fold the file of Claude Code or Codex in place.")
@click.option(
    "--resume",
    type=click.Choice(tuple(PROGRAMS)),
    help="Write the fold as a new session of that program, and print the command that resumes it.",
)
@click.option("--run", is_flag=True, help="With --resume: run that command instead of printing it.")
@json_option
def command(
    file: str,
    preset: Preset,
    passes: int | None,
    model: str | None,
    focus: str | None,
    output: str | None,
    force: bool,
    in_place: bool,
    resume: str | None,
    run: bool,
    as_json: bool,
) -> None:
    """Fold a transcript until its view fits.

    A session of refold is folded in place (`refold undo` takes it back). Transcripts of other programs are
    only read; -o saves the outcome as a session of refold. Nothing is ever lost: the log stays whole. Exit
    code 1 where the view does not fit.

    With --in-place, Claude Code or Codex goes on from the fold when the session is resumed: the file is
    backed up, what was in it stays, and a session in use is left alone.
    """
    from refold import loop
    from refold.hooks import Hooks
    from refold.registry.engine import Engine
    from refold.registry.sessions import save

    if resume and in_place:
        raise click.UsageError("--in-place folds the file itself, --resume makes a new one: give one of them")
    if run and (resume is None or as_json):
        raise click.UsageError("--run starts the program of --resume PROGRAM, and does not go with --json")
    refuse_existing(output, force)
    place = _in_place(file, passes) if in_place else None
    session = place.session if place else open_session(file)
    writer = named_model(model or preset.settings.summary_model)
    engine = Engine(preset, model=writer, summariser="same", hooks=Hooks.installed())
    done = loop.run(_perform(engine, session, passes, focus))
    if output:
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        save(done.session, output, replace=force)
    written = place.write() if place else None
    view = engine.view(done.session)
    limit = preset.budget
    fits, why = done.verdict(engine, view, limit)
    new = _exported(done.session, resume) if resume and fits else None
    if as_json:
        more = {"in_place": written and _fields(written), "resume": new}
        emit({**as_dict(done, view, limit, passes or 1, fits, why), **more})
    else:
        tell_problems(session)
        _print(done, view, limit, output, fits, why)
        if written is not None:
            say(f"{written.file} is folded; as it was: {written.backup}\nnext: {written.command}")
        elif new is not None:
            say(f"written to {new['file']}\nnext: {new['command']}")
        elif place is not None:
            say(f"{file} is left as it was")
        elif not output and session.store is None:
            choices = "|".join(PROGRAMS)
            say(f"nothing was written: -o FILE saves it, --resume {choices} goes on with it there")
        elif done.folds:
            say_next(f"show {quote(output or file)} --full")
    if not fits:
        raise SystemExit(1)
    if run and new is not None:
        say()
        os.execvp("sh", ("sh", "-c", new["command"]))  # the program has the terminal for itself


def _in_place(file: str, passes: int | None) -> InPlace:
    from refold.registry.installed import InPlace

    if passes is not None:
        raise click.UsageError("--passes feeds the transcript anew: it cannot be combined with --in-place")
    return InPlace(file)


def _exported(session: Session, program: str) -> dict[str, str]:
    """A new session of the program, where it looks for its own."""
    from refold.registry.installed import install
    from refold.stores import data_folder
    from refold.transcripts.export import export
    from refold.transcripts.opencode_write import Importable
    from refold.transcripts.resumable import resumable

    if program == "opencode":  # its database is its own: a command of its own takes the file
        made = export(session, program)
        assert isinstance(made, Importable)
        file = data_folder() / "exported" / f"{made.id}.json"
        write_private(file, made.data)
        folder = os.path.realpath(session.info.cwd or Path.cwd())
        command = made.command.replace("FILE", quote(str(file)), 1)
        return {"id": made.id, "file": str(file), "command": f"cd {quote(folder)} && {command}"}
    made = resumable(session, PROGRAMS[program])
    return {"id": made.id, "file": str(install(made)), "command": made.command}


def _fields(written: Written) -> dict[str, Any]:
    return {**asdict(written), "file": str(written.file), "backup": str(written.backup)}


async def _perform(engine: Engine, session: Session, passes: int | None, focus: str | None) -> Replayed:
    from msgspec.structs import replace

    from refold.compare.replay import one_pass, replay
    from refold.engine.maintenance import maintain
    from refold.entries import Fold

    if passes is None:
        with waiting("summarising …" if engine.model else "folding …"):
            known = len(session.annotations(Fold))
            await maintain(engine.planner, session, hooks=engine.hooks)
            passed = await one_pass(engine, session, instructions=focus)
        return replace(passed, folds=tuple(session.annotations(Fold)[known:]))
    with bar("folding", 1.0) as tell:
        return await replay(
            engine, session, passes=passes, progress=lambda part: tell(part, ""), instructions=focus
        )


def as_dict(
    done: Replayed, view: View, limit: int, passes: int, fits: bool, why: str | None
) -> dict[str, Any]:
    from refold.compaction.details import Check, LayeredDetails

    return {
        "view": view_dict(view),
        "fits": fits,
        "why": why,
        "budget": limit,
        "folds": [
            {
                **about_fold(fold),
                "verified": report.verified if (report := Check.of(fold)) else None,
                "requests": fold.requests,
                "author": fold.author,
                "notice": LayeredDetails.of(fold).notice or None,
            }
            for fold in done.folds
        ],
        "failures": list(done.failures),
        "passes": passes,
    }


def _print(done: Replayed, view: View, limit: int, output: str | None, fits: bool, why: str | None) -> None:
    from refold.compaction.details import LayeredDetails

    out = console()
    if done.folds:
        rows = (
            (fold.id, fold.rung, f"{fold.tokens_before:,}", f"{fold.tokens_after:,}", fold.author,
             sum(one.entries for one in fold.left))
            for fold in done.folds
        )  # fmt: skip
        right = ("before", "after", "left the view")
        out.print(table(("fold", "strategy", "before", "after", "by", "left the view"), rows, right=right))
    for failed in done.failures:
        if (failed.rung or not fits) and failed.text not in (why or ""):  # said below
            where = f"strategy {failed.rung} failed" if failed.rung else "no further fold"
            out.print(styled((where, "yellow"), f": {failed.text}"))
    for notice in filter(None, (LayeredDetails.of(fold).notice for fold in done.folds)):
        out.print(notice, style="yellow")
    verdict = ("fits", "green") if fits else (f"does not fit, {_last_rung(done)}", "red")
    messages = "1 message" if len(view) == 1 else f"{len(view)} messages"
    out.print(styled(f"view: {messages}, {view.tokens:,} tokens of {limit:,}: ", verdict))
    if why is not None:
        out.print(why.removeprefix("does not fit; "))  # the line above says so
    if output:
        out.print(f"written to {output}")


def _last_rung(done: Replayed) -> str:
    """How far down its ladder the design went."""
    tried = [failed.rung for failed in done.failures if failed.rung] or [fold.rung for fold in done.folds]
    return f"after strategy {tried[-1]}" if tried else "and nothing is left to fold"
