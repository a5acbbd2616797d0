"""`refold plugin`. Hooks start through it, so imports are deferred."""

from __future__ import annotations

import json
import sys

import click


@click.group("plugin")
def command() -> None:
    """Install refold in Claude Code, Codex or opencode, without a gateway."""


_program = click.argument("program", type=click.Choice(("claude-code", "codex", "opencode")))


@command.command("install")
@_program
@click.option("--status-line/--no-status-line", default=None, help="In Claude Code.  [default: asks]")
def install(program: str, status_line: bool | None) -> None:
    """Install the plug-in for a program."""
    import shutil
    from importlib.util import find_spec

    from refold.cli.output import echo
    from refold.cli.session_argument import is_interactive
    from refold.plugins import install as installing

    installing.install_plugin(program)
    plugin = installing.PLUGINS[program]
    echo(f"installed for {plugin.program}: {plugin.place()}")
    if program == "claude-code":
        if installing.has_status_line():
            echo("your settings already have a status line; it was not changed")
        elif status_line or (status_line is None and is_interactive() and _wants_status_line()):
            installing.put_status_line()
            echo("added the status line to your settings")
    if shutil.which("refold") is None:
        echo("refold is not on the PATH; the plug-in does nothing until it is", err=True)
    if program != "opencode" and find_spec("mcp") is None:
        echo('the recall tool needs `pip install "refold[mcp]"`', err=True)
    for sentence in plugin.next:
        echo(sentence)
    echo(f"To uninstall: refold plugin remove {program}")


def _wants_status_line() -> bool:
    shown = "46k of 200k tokens (23 %) · last fold 167k → 21k · $0.41 saved net of cache"
    return click.confirm(f"Add a status line such as\n  {shown}\nto your settings?", default=False)


@command.command("remove")
@_program
def remove(program: str) -> None:
    """Uninstall the plug-in and restore the settings byte for byte. Sessions stay in your store."""
    from refold.cli.output import echo
    from refold.plugins import install as installing

    installing.remove_plugin(program)
    echo(f"removed from {installing.PLUGINS[program].program}")


@command.command("list")
def list_() -> None:
    """List the plug-ins and where they are installed."""
    from refold.cli.output import echo
    from refold.plugins.install import PLUGINS

    for name, plugin in PLUGINS.items():
        echo(f"{name:12} {plugin.place() if plugin.place().exists() else 'not installed'}")


@command.command("hook", hidden=True)
@click.argument("name")
def hook(name: str) -> None:
    """Run by the hooks of a plug-in; the event comes on standard input."""
    from refold.plugins.hook import run_hook

    run_hook(name)


@command.command("status", hidden=True)
def status() -> None:
    """Run by Claude Code's status line."""
    from refold.cli.output import echo
    from refold.plugins.hook import status_line

    echo(status_line(json.load(sys.stdin)))


@command.command("ask", hidden=True)
@click.argument("what", type=click.Choice(("recall", "pin", "ledger", "undo")))
@click.argument("session")
def ask(what: str, session: str) -> None:
    """Run by Claude Code's slash commands; their arguments come on standard input. Errors are printed as
    answers, because Claude Code shows nothing of a failed command."""
    from refold.cli.output import echo
    from refold.errors import RefoldError
    from refold.plugins.commands import SLASH_COMMANDS

    given = sys.stdin.read().strip() if what in ("recall", "pin") else ""
    try:
        echo(SLASH_COMMANDS[what](session, given))
    except (RefoldError, OSError) as error:
        echo(f"refold: {error}")


@command.command("live", hidden=True)
def live() -> None:
    """Serves opencode's plug-in with lines of JSON."""
    from refold.plugins.opencode import serve_views

    serve_views()
