"""`refold config`."""

from __future__ import annotations

from importlib.resources import files

import click

from refold.cli import Group
from refold.cli.options import json_option
from refold.cli.output import answer, write_private
from refold.registry import configuration


@click.group("config", cls=Group)
def command() -> None:
    """The configuration file."""


@command.command("init")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@json_option
def init(force: bool, as_json: bool) -> None:
    """Write a configuration file in which everything is explained and nothing is set yet."""
    path = configuration.path()
    if path.exists() and not force:
        raise click.UsageError(f"{path} exists already: edit it, or --force writes over it")
    write_private(path, files("refold.data").joinpath("config.toml").read_bytes())
    answer({"written": str(path)}, f"written to {path}; every line is a comment until you change it", as_json,
           next="models --all")  # fmt: skip
