"""`refold completion`."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from refold.cli import CommandGroup, main
from refold.cli.options import json_option
from refold.cli.output import print_answer, write_private
from refold.stores import data_folder

STARTUP = {"bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "~/.config/fish/config.fish"}
"""Shell → its startup file."""


@click.group("completion", cls=CommandGroup)
def command() -> None:
    """Complete commands, options and sessions with Tab."""


@command.command("install")
@click.argument("shell", required=False, type=click.Choice(tuple(STARTUP)))
@json_option
def install(shell: str | None, as_json: bool) -> None:
    """Set up Tab completion for `refold`. SHELL defaults to yours ($SHELL).

    One line is added to the startup file of the shell; running it again changes nothing.
    """
    shell = shell or Path(os.environ.get("SHELL") or "").name
    found = get_completion_class(shell) if shell in STARTUP else None
    if found is None:
        raise click.UsageError(f"unknown shell; name yours: {', '.join(STARTUP)}")
    made = found(main, {}, "refold", "_REFOLD_COMPLETE")
    script, startup = data_folder() / f"completion.{shell}", Path(STARTUP[shell]).expanduser()
    write_private(script, (made.source_template % made.source_vars()).encode())
    line = f"source '{script}'  # completion of refold"
    there = startup.read_text("utf-8") if startup.exists() else ""
    if line not in there.splitlines():
        startup.parent.mkdir(parents=True, exist_ok=True)
        with startup.open("a", encoding="utf-8") as file:
            file.write(f"{'' if not there or there.endswith(chr(10)) else chr(10)}{line}\n")
    told = f"{startup} now loads {script}\nnext: open a new {shell}, type refold and press Tab"
    print_answer({"shell": shell, "startup": str(startup), "script": str(script)}, told, as_json)
