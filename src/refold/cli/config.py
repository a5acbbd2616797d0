"""`refold config`."""

from __future__ import annotations

from importlib.resources import files

import click

from refold.cli import CommandGroup
from refold.cli.options import json_option
from refold.cli.output import print_answer, write_private
from refold.registry import configuration


@click.group("config", cls=CommandGroup)
def command() -> None:
    """The configuration file."""


@command.command("init")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@json_option
def init(force: bool, as_json: bool) -> None:
    """Write a configuration file that explains every setting and sets none."""
    path = configuration.configuration_path()
    if path.exists() and not force:
        raise click.UsageError(f"{path} already exists; edit it, or overwrite it with --force")
    write_private(path, files("refold.data").joinpath("config.toml").read_bytes())
    print_answer({"written": str(path)}, f"written to {path}; uncomment the lines you need", as_json,
           next="models --all")  # fmt: skip
