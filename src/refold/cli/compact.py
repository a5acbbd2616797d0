"""`refold compact`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Any

import click
from msgspec.structs import asdict, replace

from refold import loop
from refold.cli.options import (
    WholeNumber,
    file_argument,
    force_option,
    json_option,
    named_model,
    preset_options,
    refuse_existing,
)
from refold.cli.output import (
    console,
    echo,
    emit,
    progress_bar,
    say_next,
    styled,
    text_table,
    waiting,
    write_private,
)
from refold.cli.session_argument import open_session, tell_problems
from refold.cli.show import about_fold, view_dict
from refold.compaction.details import LayeredDetails, VerificationReport
from refold.compaction.preset import Preset
from refold.compare.forms import MessageForm, forms_sentence, message_forms
from refold.compare.replay import Replayed, one_pass, replay
from refold.engine.maintenance import maintain
from refold.entries import Fold
from refold.hooks import Hooks
from refold.registry.client_sessions import RESUMABLE_CLIENTS, InPlace, install_session
from refold.registry.engine import Engine
from refold.registry.sessions import save
from refold.session import Session, View
from refold.stores import data_folder
from refold.transcripts.export import export
from refold.transcripts.opencode_write import Importable
from refold.transcripts.resume import resumable

RESUME_FORMATS = {name: format for format, name in RESUMABLE_CLIENTS.items()}
"""Name of a program on the command line → its format."""


@click.command("compact")
@file_argument
@preset_options
@click.option(
    "--passes",
    type=WholeNumber(1),
    help="Replay the transcript and fold it this many times as it grows.",
)
@click.option("--model", help="Model that writes the summaries, e.g. openai:gpt-…; default: none.")
@click.option("--focus", help="What the summary should focus on.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), help="Save the session (log and folds) to this file."
)
@force_option
@click.option("--in-place", is_flag=True, help="Fold the file of Claude Code or Codex in place.")
@click.option(
    "--resume",
    type=click.Choice(tuple(RESUME_FORMATS)),
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
    only read; -o saves the result as a session of refold. Nothing is lost: the log stays complete. The exit
    code is 1 if the view does not fit.

    With --in-place, Claude Code or Codex continues from the fold when the session is resumed: the file is
    backed up, its content stays, and a session that is in use is not changed.
    """
    if resume and in_place:
        raise click.UsageError("--in-place and --resume cannot be combined: choose one")
    if run and (resume is None or as_json):
        raise click.UsageError("--run needs --resume PROGRAM and cannot be combined with --json")
    refuse_existing(output, force)
    place = _in_place(file, passes) if in_place else None
    session = place.session if place else open_session(file)
    folder = session.info.cwd
    here = not resume or not folder or Path(folder).is_dir()
    if run and not here:
        raise click.UsageError(f"there is no folder {folder}, where this session goes on: leave out --run")
    writer = named_model(model or preset.settings.summary_model)
    engine = Engine(preset, model=writer, summariser="same", hooks=Hooks.installed())
    done = loop.run(fold_to_fit(engine, session, passes, focus))
    if output:
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        save(done.session, output, replace=force)
    written = place.write() if place else None
    view = engine.view(done.session)
    limit = preset.budget
    fits, why = done.verdict(engine, view, limit)
    forms = Counter(message_forms(done.session, preset.accepts).values())
    new = _exported(done.session, resume) if resume and fits else None
    if as_json:
        paths = {"file": str(written.file), "backup": str(written.backup)} if written else {}
        more = {"forms": forms, "in_place": written and {**asdict(written), **paths}, "resume": new}
        emit({**fold_json(done, view, limit, passes or 1, fits, why), **more})
    else:
        tell_problems(session)
        _print(engine, done, view, forms, limit, output, fits, why)
        if written is not None:
            echo(f"folded {written.file}; backup: {written.backup}\nnext: {written.command}")
        elif new is not None:
            echo(f"written to {new['file']}\nnext: {new['command']}")
            if not here:
                echo(f"there is no folder {folder} on this machine", err=True)
        elif place is not None:
            echo(f"{file} was not changed")
        elif not output and session.store is None:
            choices = "|".join(RESUME_FORMATS)
            echo(f"not saved: -o FILE saves the session, --resume {choices} continues in that program")
        elif done.folds:
            say_next(f"show {quote(output or file)} --full")
    if not fits:
        raise SystemExit(1)
    if run and new is not None:
        echo()
        os.execvp("sh", ("sh", "-c", new["command"]))  # the program has the terminal for itself


def _in_place(file: str, passes: int | None) -> InPlace:
    if passes is not None:
        raise click.UsageError("--passes replays the transcript and cannot be combined with --in-place")
    if not Path(file).expanduser().exists():
        open_session(file)  # an error where there is none of that name either
        raise click.UsageError(
            f"session {file} is in refold's store; --in-place is for files of Claude Code or Codex"
        )
    return InPlace(file)


def _exported(session: Session, program: str) -> dict[str, str]:
    """Writes a new session of the program into its own folder."""
    if program == "opencode":  # its database is its own: a command of its own takes the file
        made = export(session, program)
        assert isinstance(made, Importable)
        file = data_folder() / "exported" / f"{made.id}.json"
        write_private(file, made.data)
        folder = os.path.realpath(session.info.cwd or Path.cwd())
        command = made.command.replace("FILE", quote(str(file)), 1)
        return {"id": made.id, "file": str(file), "command": f"cd {quote(folder)} && {command}"}
    made = resumable(session, RESUME_FORMATS[program])
    return {"id": made.id, "file": str(install_session(made)), "command": made.command}


async def fold_to_fit(engine: Engine, session: Session, passes: int | None, focus: str | None) -> Replayed:
    if passes is None:
        with waiting("summarising …" if engine.model else "folding …"):
            known = len(session.annotations(Fold))
            await maintain(engine.planner, session)
            passed = await one_pass(engine, session, instructions=focus)
        return replace(passed, folds=tuple(session.annotations(Fold)[known:]))
    with progress_bar("folding", 1.0) as tell:
        return await replay(
            engine, session, passes=passes, progress=lambda part: tell(part, ""), instructions=focus
        )


def fold_json(
    done: Replayed, view: View, limit: int, passes: int, fits: bool, why: str | None
) -> dict[str, Any]:
    return {
        "view": view_dict(view),
        "fits": fits,
        "why": why,
        "budget": limit,
        "folds": [
            {
                **about_fold(fold),
                "verified": report.verified if (report := VerificationReport.of(fold)) else None,
                "requests": fold.requests,
                "author": fold.author,
                "notice": LayeredDetails.of(fold).notice or None,
            }
            for fold in done.folds
        ],
        "failures": [{**asdict(failed), "rung": failed.strategy} for failed in done.failures],  # its old name
        "passes": passes,
    }


def _sizes_before(engine: Engine, done: Replayed) -> Iterator[int]:
    """Tokens of the view before each fold, as the view counts; a preset may store its own measure."""
    entries = done.session.entries
    numbers = {entry.id: number for number, entry in enumerate(entries)}
    for fold in done.folds:
        earlier = Session(entries[: numbers[fold.id]])
        earlier.share_counts(done.session)
        yield engine.view(earlier).tokens


def _print(
    engine: Engine,
    done: Replayed,
    view: View,
    forms: Counter[MessageForm],
    limit: int,
    output: str | None,
    fits: bool,
    why: str | None,
) -> None:
    out = console()
    if done.folds:
        rows = (
            (fold.id, fold.strategy, f"{before:,}", f"{fold.tokens_after:,}",
             "no model" if fold.author == "rule" else fold.author)
            for fold, before in zip(done.folds, _sizes_before(engine, done), strict=True)
        )  # fmt: skip
        right = ("before", "after")
        out.print(text_table(("fold", "strategy", "before", "after", "by"), rows, right=right))
    for failed in done.failures:
        if (failed.strategy or not fits) and failed.text not in (why or ""):  # said below
            where = f"strategy {failed.strategy} failed" if failed.strategy else "no further fold"
            out.print(styled((where, "yellow"), f": {failed.text}"))
    for notice in filter(None, (LayeredDetails.of(fold).notice for fold in done.folds)):
        out.print(notice, style="yellow")
    verdict = ("fits", "green") if fits else (f"does not fit{_last_strategy(done)}", "red")
    if forms["whole"] < sum(forms.values()):
        out.print(forms_sentence(forms))
    out.print(styled(f"view: {view.tokens:,} tokens of {limit:,}: ", verdict))
    if why is not None:
        out.print(why.removeprefix("does not fit; "))  # the line above says so
    if output:
        out.print(f"written to {output}")


def _last_strategy(done: Replayed) -> str:
    tried = [failed.strategy for failed in done.failures if failed.strategy] or [
        fold.strategy for fold in done.folds
    ]
    if tried:
        return f", after strategy {tried[-1]}"
    return "" if done.failures else ", and nothing is left to fold"
