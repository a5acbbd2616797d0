"""`refold export`."""

from __future__ import annotations

from pathlib import Path

import click

from refold.cli.common import (
    Names,
    emit,
    escaped,
    file_argument,
    json_option,
    open_session,
    say,
    tell_problems,
    write_private,
)


def _targets() -> tuple[str, ...]:
    from refold.transcripts.export import targets

    return targets()


@click.command("export")
@file_argument
@click.option("--to", "target", required=True, type=Names(_targets), help="Which format.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Where to write it; else printed.")
@click.option("--view", is_flag=True, help="What the model sees now, with folds, instead of everything said.")
@click.option("--redact", is_flag=True, help="Take secrets out; Markdown never has any.")
@json_option
def command(file: str, target: str, output: str | None, view: bool, redact: bool, as_json: bool) -> None:
    """Write a session in another format. What that format cannot hold is listed."""
    from refold.transcripts.export import export

    if output and Path(output).exists() and Path(file).exists() and Path(output).samefile(file):
        raise click.UsageError(f"{output} is the source itself: choose another file")
    session = open_session(file)
    exported = export(session, target, view=view, redact=redact)
    if output:
        write_private(Path(output), exported.data)
    if as_json:
        said = {} if output else {"data": exported.data.decode("utf-8", "replace")}
        emit({"to": target, "output": output, "bytes": len(exported.data), "lost": exported.lost, **said})
        return
    if not output:
        click.echo(_shown(target, exported.data), nl=False)
    tell_problems(session)
    for sentence in exported.lost:
        say(f"refold: {sentence}", err=True)


def _shown(target: str, data: bytes) -> bytes:
    """What is printed may reach a terminal: Markdown comes without what moves one, in JSON it is escaped."""
    return data if target == "markdown" else escaped(data.decode("utf-8", "surrogatepass")).encode()
