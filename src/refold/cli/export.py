"""`refold export`."""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from refold.cli.options import NameChoice, file_argument, force_option, json_option, refuse_existing
from refold.cli.output import echo, emit, waiting, write_private
from refold.cli.session_argument import open_session, tell_problems
from refold.registry.client_sessions import install_session
from refold.text.terminal import escaped
from refold.transcripts.export import export, targets
from refold.transcripts.opencode_write import Importable
from refold.transcripts.resume import Resumable


@click.command("export")
@file_argument
@click.option(
    "--to",
    "target",
    required=True,
    type=NameChoice(targets),
    help="Target format.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    help="Output file; default: standard output (claude-code, codex: that program's own folder).",
)
@force_option
@click.option("--view", is_flag=True, help="Export the folded view instead of all messages.")
@click.option("--redact", is_flag=True, help="Remove secrets (always done for Markdown).")
@click.option(
    "--cwd",
    type=click.Path(file_okay=False, exists=True),
    help="Folder in which the program will resume it; default: the session's own.",
)
@click.option(
    "--with-mcp",
    is_flag=True,
    help="Claude Code, Codex: set up `refold mcp` there, so that its model can read folded messages again.",
)
@json_option
def command(
    file: str,
    target: str,
    output: str | None,
    force: bool,
    view: bool,
    redact: bool,
    cwd: str | None,
    with_mcp: bool,
    as_json: bool,
) -> None:
    """Write a session in another format. What that format cannot hold is reported.

    For Claude Code, Codex and opencode it is a new session that they can resume: all messages, their own
    record of a compaction, and the current view. opencode imports the file with a command.
    """
    if output and Path(output).exists() and Path(file).exists() and Path(output).samefile(file):
        raise click.UsageError(f"{output} is the source file; choose another name")
    refuse_existing(output, force)
    installed = None
    session = open_session(file)
    with waiting("writing …"):
        server = _server() if with_mcp else ()
        exported = export(session, target, view=view, redact=redact, cwd=cwd, server=server)
    if output:
        write_private(Path(output), exported.data)
    elif isinstance(exported, Resumable):
        installed = output = str(install_session(exported))
    if as_json:
        said: dict[str, object] = {} if output else {"data": exported.data.decode("utf-8", "replace")}
        if isinstance(exported, Importable):
            said |= {"id": exported.id, "command": exported.command}
        if isinstance(exported, Resumable):
            said |= {"id": exported.id, "place": str(exported.place), "command": exported.command}
        emit({"to": target, "output": output, "bytes": len(exported.data), "lost": exported.lost, **said})
        return
    if not output:
        click.echo(_shown(target, exported.data), nl=False)
    tell_problems(session)
    if exported.lost:
        number = f"{len(exported.lost)} notes: " if len(exported.lost) > 1 else ""
        echo(f"refold: {number}{'; '.join(exported.lost)}", err=True)
    if output:
        echo(f"written to {output}")
    if isinstance(exported, Resumable):
        if installed and Path(exported.folder).is_dir():
            echo(f"next: {exported.command}")
        elif installed:
            echo(
                f"cannot be resumed here: there is no folder {exported.folder}; choose another with --cwd DIR"
            )
    elif isinstance(exported, Importable):
        file = shlex.quote(output or "FILE")
        echo(f"next: {exported.command.replace('FILE', file, 1)}", err=not output)


def _server() -> tuple[str, ...]:
    """The command of the MCP server, usable in any folder."""
    if find_spec("mcp") is None:
        raise click.UsageError('--with-mcp needs `pip install "refold[mcp]"` (mcp is missing)')
    return (shutil.which("refold") or str(Path(sys.executable).with_name("refold")), "mcp")


def _shown(target: str, data: bytes) -> bytes:
    """The output for a terminal: Markdown without control characters; JSON is escaped anyway."""
    return data if target == "markdown" else escaped(data.decode("utf-8", "surrogatepass")).encode()
